"""The explorer's panels about one routed image. This module computes what `assets/panels.html` draws."""

import base64
import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from jinja2 import Environment
from torch import Tensor
from torch.nn import functional

from maxmincaps.app import asset, encode_png, routed
from maxmincaps.app.routed import RoutedImage
from maxmincaps.data.images import OVERLAP_COLOURS
from maxmincaps.training.predict import Picture, recognised
from maxmincaps.wording import pluralize

COLOURS = {"softmax": "var(--softmax)", "max-min": "var(--max-min)"}
_draw: Any = Environment(autoescape=True).from_string(asset("panels.html"), globals={"log10": math.log10}).module


def side_colours(left: RoutedImage, right: RoutedImage) -> tuple[str, str]:
    """Return a colour for each side: that of its normalization, and another one if both have the same."""
    first, second = (COLOURS.get(one.normalization, "var(--other)") for one in (left, right))
    return first, second if second != first else "var(--second)"


def answer(found: RoutedImage, colour: str, iteration: int) -> str:
    """Show the predicted class, or the two of overlapping images, all lengths, and the reconstruction of each."""
    recipe, present = found.model.recipe, sorted(found.present(iteration))
    values = found.lengths[iteration].tolist()
    trained = [recipe.normalization] * (found.normalization != recipe.normalization)
    trained += [pluralize(recipe.iterations, "iteration")] * (iteration + 1 != recipe.iterations)
    after = pluralize(iteration + 1, "iteration") + (f"; trained with {' and '.join(trained)}" if trained else "")
    decoded = _in_two_colours(routed.reconstructions(found, iteration, present))
    seen = [number for number in present if recognised(values[number], recipe)]
    return _draw.answer(found, colour, values, present, seen, _png_url(found.image), map(_png_url, decoded), after)


def histograms(found: RoutedImage, colour: str, iteration: int, parent: int) -> str:
    """Show histograms of logits and routing coefficients."""
    return _draw.histograms(
        {
            "Logits": routed.histogram(found, iteration, "logits", parent),
            "Routing coefficients": routed.histogram(found, iteration, "couplings", parent),
        },
        *(iteration, found.model.classes[parent], colour, _ticks),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return two to four round numbers in a range."""
    rough = (high - low) / 3
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) + 0.0 for number in range(first, math.floor(high / step + 1e-9) + 1)]


def support(found: RoutedImage, colour: str, iteration: int, parent: int) -> str:
    """Show which positions and types of children support which class, and the largest coefficients for one class."""
    classes, contributions = found.model.classes, found.contributions_on_grid(iteration)
    strongest, parents = contributions.sum(dim=0).max(dim=-1)
    shares = (strongest / strongest.max().clamp(min=1e-9)).clamp(min=0).sqrt().tolist()
    marks = [
        (routed.receptive_field(found.model, row, column), int(parents[row, column]), share)
        for row, line in enumerate(shares)
        for column, share in enumerate(line)
        if share > 0
    ]
    counted = parents.flatten().bincount(minlength=len(classes))
    commonest = counted.argsort(descending=True)[:3].tolist()
    in_words = ", ".join(f"{classes[parent]} {int(counted[parent])}" for parent in commonest)
    by_type = contributions.sum(dim=(1, 2))
    largest = divmod(int(by_type.argmax()), len(classes))
    by_class = (by_type / by_type.max().clamp(min=1e-9)).clamp(min=0).T.tolist()
    children = routed.strongest_children(found, iteration, parent)
    return _draw.support(
        *(found, colour, classes[parent], _darkened(found), _spacing(found), marks, in_words),
        *(children, by_class, largest),
    )


def _spacing(found: RoutedImage) -> float:
    """Return the distance of neighbouring receptive fields in pixels."""
    first, second = (routed.receptive_field(found.model, 0, column) for column in range(2))
    return second.left - first.left if found.model.network.grid[2] > 1 else max(1.0, first.size / 4)


def one_child(found: RoutedImage, colour: str, iteration: int, index: int) -> str:
    """Show one child's receptive field, and its logits and routing coefficients for every class."""
    couplings = found.couplings[iteration, index]
    parent = int(couplings.argmax())
    name = found.model.classes[parent]
    if not found.active_children(iteration)[index]:
        state = "is inactive: its prediction vectors are zero"
    elif couplings.max() == couplings.min():
        state = "has the same coefficient for every class"
    else:
        state = f"has its largest coefficient for {name}"
    child, logits = routed.child_at(found, iteration, index, parent), found.logits[iteration, index]
    return _draw.one_child(found, colour, _darkened(found), child, state, logits.tolist(), couplings.tolist(), name)


def capsule(found: RoutedImage, iteration: int, pose: Sequence[float]) -> str:
    """Show the reconstruction from the predicted class's capsule, as routed and with the values of the sliders."""
    predicted = found.predicted(iteration)
    moved = (found.poses[iteration, predicted] - torch.tensor(pose)).abs().max().item() > 5e-3
    pictures = (_png_url(routed.reconstruction(found, iteration, values)) for values in (None, pose))
    return _draw.capsule(found.model.classes[predicted], *pictures, moved)


def perturbed(found: RoutedImage, iteration: int, pose: Sequence[float]) -> str:
    """Show each value of the predicted class's capsule moved from −0.25 to 0.25."""
    pictures = functional.pad(routed.perturbations(found, iteration, pose), (0, 1, 0, 1))  # a gap of one pixel
    sheet = pictures.permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
    return _draw.perturbed(_png_url(sheet[:, :-1, :-1]), len(pose))


def _in_two_colours(objects: Float[Tensor, "object channel height width"]) -> Sequence[Picture]:
    """Return grey reconstructions of overlapping objects each in its colour; others as they are."""
    if len(objects) == 1 or objects.shape[1] > 1:
        return list(objects)
    return [one * torch.tensor(colour)[:, None, None] for one, colour in zip(objects, OVERLAP_COLOURS, strict=True)]


def _darkened(found: RoutedImage) -> str:
    return _png_url(found.image * 0.75)


def _png_url(picture: Picture) -> str:
    """Return an image as a data URL."""
    pixels = picture.detach().clamp(0, 1).mul(255).round().to(torch.uint8)
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels.numpy())).decode()}"
