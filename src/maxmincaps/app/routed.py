"""Trained networks and images routed by them, as plain values for the explorer: no page, no browser.

A `RoutedImage` is one image routed by one network under one normalization, with every iteration kept. An iteration does
not depend on how many follow, so each is also the answer of a network that stops there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.normalizations import NORMALIZATIONS, normalization_of
from maxmincaps.capsules.routing import routing_steps
from maxmincaps.data.augment import for_testing
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.predict import Picture
from maxmincaps.training.run import Run

AS_TRAINED = "as trained"
NORMALIZATION_CHOICES = (AS_TRAINED, *NORMALIZATIONS)
FEWEST_SHOWN = 5  # iterations that are shown at least, also of a network that was trained with fewer
NAME_PARTS = {"normalization": "{}", "dataset": "{}", "iterations": "r = {}", "seed": "seed {}"}
"""The settings by which runs are named, and their form."""
BINS = 40


@dataclass(frozen=True, eq=False)
class Model:
    """The network of a run, under the name that the page shows."""

    name: str
    network: CapsNet
    recipe: Recipe
    classes: tuple[str, ...]

    @classmethod
    def load(cls, folder: Path, name: str, weights: Literal["best", "last"]) -> Self:
        """Load the network of a run folder; one that does not route, as with a linear head, is an `InputError`."""
        run = Run(folder)
        if run.recipe.head != "capsules":
            raise InputError(f"{folder}: expected a network with routed capsules, found the head {run.recipe.head!r}")
        return cls(name, load_network(folder, weights), run.recipe, tuple(run.data.classes))

    @property
    def shown_iterations(self) -> int:
        """The number of iterations that the page shows."""
        return max(self.recipe.iterations, FEWEST_SHOWN)


def load_models(folders: Sequence[Path], weights: Literal["best", "last"] = "best") -> list[Model]:
    """Load runs that can be shown together, because they take the same images and have the same classes."""
    models = [Model.load(folder, name, weights) for folder, name in zip(folders, _names(folders), strict=True)]
    shapes = (model.network.image_shape for model in models)
    sizes = (f"{height}×{width}×{channels}" for channels, height, width in shapes)
    shown = [f"{size} of {', '.join(model.classes)}" for size, model in zip(sizes, models, strict=True)]
    for folder, found in zip(folders, shown, strict=True):
        if found != shown[0]:
            raise InputError(f"{folder}: expected images as in {folders[0]}, {shown[0]}, found {found}")
    return models


def _names(folders: Sequence[Path]) -> list[str]:
    """Build names from the normalization and the settings in which runs differ, or else from their folders."""
    recipes = [Run(folder).recipe for folder in folders]
    differing = [field for field in NAME_PARTS if len({getattr(recipe, field) for recipe in recipes}) > 1]
    fields = dict.fromkeys(["normalization", *differing])
    short = [", ".join(NAME_PARTS[field].format(getattr(recipe, field)) for field in fields) for recipe in recipes]
    if len(set(short)) == len(short):
        return short
    plain = [folder.resolve().name for folder in folders]
    return [
        name if plain.count(name) == 1 else f"{name} ({plain[: place + 1].count(name)})"
        for place, name in enumerate(plain)
    ]


class ReceptiveField(NamedTuple):
    """The window of the image that a child sees, in pixels. With padding it may reach beyond the image."""

    top: int
    left: int
    size: int


class Child(NamedTuple):
    """A capsule of PrimaryCaps: where it is, what it sees, and its coefficient and contribution for one parent."""

    index: int
    type: int
    row: int
    column: int
    field: ReceptiveField
    coupling: float
    contribution: float


@dataclass(frozen=True, eq=False)
class RoutedImage:
    """One image routed by one network: logits, routing coefficients (couplings) and poses of every iteration."""

    model: Model
    normalization: str
    image: Picture
    logits: Float[Tensor, "iteration child parent"]
    couplings: Float[Tensor, "iteration child parent"]
    poses: Float[Tensor, "iteration parent pose"]
    agreements: Float[Tensor, "iteration child parent"]  # û_ij · v_j, with the poses of the same iteration

    @cached_property
    def lengths(self) -> Float[Tensor, "iteration parent"]:
        """The length of each class capsule."""
        return self.poses.norm(dim=-1)

    @cached_property
    def contributions(self) -> Float[Tensor, "iteration child parent"]:
        """How far each child moves each parent's sum s_j in the parent's direction: c_ij û_ij · v_j / ‖v_j‖.

        Over all children they sum to ‖s_j‖ (minus the bias, where there is one).
        """
        return self.couplings * self.agreements / self.lengths.clamp(min=1e-12)[:, None, :]

    def contributions_on_grid(self, iteration: int) -> Float[Tensor, "type row column parent"]:
        """Return the contributions of an iteration by type and position of the children."""
        return self.contributions[iteration].unflatten(0, self.model.network.grid)

    def predicted(self, iteration: int) -> int:
        """Return the class with the longest capsule."""
        return int(self.lengths[iteration].argmax())

    def present(self, iteration: int) -> list[int]:
        """Return the classes with the longest capsules: as many as an image of the training has objects."""
        return self.lengths[iteration].topk(1 + self.model.recipe.overlap).indices.tolist()

    def active_children(self, iteration: int) -> Tensor:
        """Return a mask of the children whose prediction vectors are not all zero."""
        return self.agreements[iteration].abs().amax(dim=1) > 0


@torch.inference_mode()
def route(image: Picture, model: Model, normalization: str, iterations: int) -> RoutedImage:
    """Route an image, pixels in 0…1, with one of `NORMALIZATION_CHOICES`."""
    digits, trained = model.network.digits, normalization == AS_TRAINED
    votes = digits.votes(model.network.parts(for_testing(model.recipe.with_changes(crop=0))(image.unsqueeze(0))))
    normalize = digits.normalization if trained else normalization_of(normalization)
    steps = list(routing_steps(votes, normalize, iterations, logit_gain=digits.logit_gain, bias=digits.bias))
    return RoutedImage(
        model=model,
        normalization=model.recipe.normalization if trained else normalization,
        image=image,
        logits=torch.cat([step.logits for step in steps]),
        couplings=torch.cat([step.couplings for step in steps]),
        poses=torch.cat([step.poses for step in steps]),
        agreements=torch.cat([votes.agreement(step.poses) for step in steps]),
    )


class Histogram(NamedTuple):
    """Counts in bins between `low` and `high`, over all parents and for one of them, and where the values lie."""

    low: float
    high: float
    least: float
    most: float
    commonest: float  # the middle of the fullest bin
    all_parents: list[float]
    one_parent: list[float]


def histogram(routed: RoutedImage, iteration: int, quantity: Literal["logits", "couplings"], parent: int) -> Histogram:
    """Count logits or couplings in bins that all iterations share, so that they can be compared."""
    values = getattr(routed, quantity)
    low, high = values.min().item(), values.max().item()
    if quantity == "couplings":
        low, high = min(low, 0.0), max(high, 1.0)
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    shown = values[iteration]
    every, one = (torch.histc(some, BINS, low, high) for some in (shown, shown[:, parent]))
    commonest = low + (int(every.argmax()) + 0.5) * (high - low) / BINS
    return Histogram(low, high, shown.min().item(), shown.max().item(), commonest, every.tolist(), one.tolist())


def receptive_field(model: Model, row: int, column: int) -> ReceptiveField:
    """Return the window of the image that the children at a position see."""
    network = model.network
    layers = [network.conv1 if network.stem is None else network.stem, network.primary]
    step, outside, size = 1, 0, 1
    for layer in (module for part in layers for module in part.modules() if isinstance(module, nn.Conv2d)):
        kernel, stride, padding = (int(values[0]) for values in (layer.kernel_size, layer.stride, layer.padding))
        outside += padding * step
        size += (kernel - 1) * step
        step *= stride
    return ReceptiveField(row * step - outside, column * step - outside, size)


def child_at(routed: RoutedImage, iteration: int, index: int, parent: int) -> Child:
    """Return the position of a child, and its coefficient and contribution for a parent."""
    _, rows, columns = routed.model.network.grid
    kind, place = divmod(index, rows * columns)
    row, column = divmod(place, columns)
    values = routed.couplings[iteration, index, parent], routed.contributions[iteration, index, parent]
    field = receptive_field(routed.model, row, column)
    return Child(index, kind, row, column, field, *(value.item() for value in values))


def child_index(model: Model, kind: int, row: int, column: int) -> int:
    """Return the index of the child of a type at a position; values beyond the last one mean the last one."""
    types, rows, columns = model.network.grid
    kind, row, column = min(kind, types - 1), min(row, rows - 1), min(column, columns - 1)
    return (kind * rows + row) * columns + column


def strongest_children(routed: RoutedImage, iteration: int, parent: int, count: int = 6) -> list[Child]:
    """Return the active children with the largest coefficients for a parent; among equals, the largest contributions.

    Inactive children are left out: their prediction vectors are zero, whatever their coefficients.
    """
    active = routed.active_children(iteration)
    couplings = routed.couplings[iteration, :, parent].masked_fill(~active, -torch.inf)
    by_contribution = routed.contributions[iteration, :, parent].argsort(descending=True, stable=True)
    # Rounded, because coefficients that differ by less than the page shows count as equal.
    order = by_contribution[couplings[by_contribution].mul(1e4).round().argsort(descending=True, stable=True)]
    chosen = order[: min(count, int(active.sum()))].tolist()
    return [child_at(routed, iteration, index, parent) for index in chosen]


def reconstruction(routed: RoutedImage, iteration: int, pose: Sequence[float] | None = None) -> Picture:
    """Decode the predicted class's capsule, with the values `pose` in it if they are given."""
    return _decode(routed, iteration, pose, torch.zeros(1, 1))[0]


@torch.inference_mode()
def reconstructions(
    routed: RoutedImage, iteration: int, classes: Sequence[int]
) -> Float[Tensor, "object channel height width"]:
    """Decode the capsules of some classes, each on its own."""
    return routed.model.network.decoder(routed.poses[iteration][None], torch.tensor([classes]))[0]


def perturbations(
    routed: RoutedImage, iteration: int, pose: Sequence[float] | None = None
) -> Float[Tensor, "value step channel height width"]:
    """Decode the predicted class's capsule with each of its values moved from −0.25 to 0.25, one at a time."""
    moves = torch.linspace(-0.25, 0.25, 11)[:, None] * torch.eye(routed.poses.shape[2])[:, None]
    return _decode(routed, iteration, pose, moves.flatten(0, 1)).unflatten(0, moves.shape[:2])


@torch.inference_mode()
def _decode(routed: RoutedImage, iteration: int, pose: Sequence[float] | None, moves: Tensor) -> Tensor:
    """Decode the predicted class's capsule, or another `pose` of it, after each of many moves (many, pose)."""
    predicted = routed.predicted(iteration)
    poses = routed.poses[iteration].repeat(len(moves), 1, 1)
    poses[:, predicted] = (poses[0, predicted] if pose is None else torch.tensor(pose)) + moves
    return routed.model.network.decoder(poses, torch.full((len(moves),), predicted))
