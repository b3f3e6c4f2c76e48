"""Figure 1: the network, drawn from its own shapes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle
from torch import nn

from maxmincaps.capsules.network import CapsNet
from maxmincaps.report.style import FULL_WIDTH, INK, styled
from maxmincaps.wording import pluralize

GREY, TEAL, PLUM, ROSE = "#9aa4ae", "#3a9a8c", "#7a68a6", "#b0596e"
"""Colours of layers, different from those of the normalizations."""
SLANT = (0.42, 0.28)
"""Horizontal and vertical length of one unit of depth."""
TALLEST = 13.0
MATRIX_WIDTH, BAR_WIDTH, MARGIN = 14.0, 1.6, 6.0
UPPER, LOWER = 37.5, 12.5
"""Heights of the two rows."""
MOST_LINES = 40
"""A matrix with more rows or columns than this is drawn without lines between them."""


class Shapes(NamedTuple):
    """Sizes to draw: (channels, height, width) of each block, the widths of the decoder, and words for the arrows."""

    image: tuple[int, int, int]
    features: tuple[int, int, int]
    types: int
    places: tuple[int, int]
    part_pose: int
    classes: int
    class_pose: int
    decoder: tuple[int, ...]
    arrows: tuple[str, str, str]


class _Part(NamedTuple):
    """A layer to draw: its width, what draws it at a left edge and a middle height, its name, and its size in words."""

    width: float
    draw: Callable[[Axes, float, float], None]
    name: str
    size: str


def shapes_of(network: CapsNet) -> Shapes:
    """Return the shapes of a network; Conv1 is measured with an empty image."""
    weights = network.digits.weights  # on the device "meta" if they are not loaded
    with torch.inference_mode():
        empty = torch.zeros(1, *network.image_shape, device=weights.device)
        channels, height, width = network.features(empty).shape[1:]
    types, *places = network.grid
    _, classes, class_pose, part_pose = weights.shape
    linear = tuple(layer.out_features for layer in network.decoder.layers if isinstance(layer, nn.Linear))
    arrows = (
        _kernel(network.conv1, "ReLU") if network.stem is None else "stem",
        _kernel(network.primary.convolution, "ReLU" if network.primary.relu else ""),
        f"dynamic routing\n{pluralize(network.digits.iterations, 'iteration')}",
    )
    features = (channels, height, width)
    return Shapes(
        network.image_shape, features, types, (places[0], places[1]), part_pose, classes, class_pose, linear, arrows
    )


@styled
def architecture(network: CapsNet) -> Figure:
    """Draw the three capsule layers above and the decoder below, with the sizes of this network."""
    shapes = shapes_of(network)
    figure = Figure(figsize=(FULL_WIDTH, 3.5))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 100)
    axes.set_ylim(-2, 47)
    axes.set_aspect("equal")
    _draw_row(axes, UPPER, _layers(shapes), shapes.arrows)
    decoder = _decoder(shapes)
    _draw_row(axes, LOWER, decoder, [""] * (len(decoder) - 1))
    return figure


def _layers(shapes: Shapes) -> list[_Part]:
    scale = TALLEST / max(shapes.image[1:]) ** 0.5
    children = shapes.types * shapes.places[0] * shapes.places[1]
    capsules = (
        f"{_times(*shapes.places, shapes.types, shapes.part_pose)}\n= {children:,} capsules of {shapes.part_pose}"
    )
    length = f"{_times(shapes.classes, shapes.class_pose)}\nlength = presence of the class"
    return [
        _block(shapes.image, scale, GREY, "Image"),
        _block(shapes.features, scale, TEAL, "Conv1"),
        _block((shapes.types * shapes.part_pose, *shapes.places), scale, PLUM, "PrimaryCaps", capsules),
        _Part(MATRIX_WIDTH, partial(_draw_matrix, shapes.classes, shapes.class_pose, None), "DigitCaps", length),
    ]


def _decoder(shapes: Shapes) -> list[_Part]:
    kept = min(3, shapes.classes - 1)
    masked = partial(_draw_matrix, shapes.classes, shapes.class_pose, kept)
    heights = [TALLEST * (0.3 + 0.7 * (width / max(shapes.decoder)) ** 0.5) for width in shapes.decoder]
    activations = ["ReLU"] * (len(shapes.decoder) - 1) + ["sigmoid"]
    return [
        _Part(MATRIX_WIDTH, masked, "Masked DigitCaps", "all rows but one are zero"),
        *(
            _Part(BAR_WIDTH, partial(_draw_bar, high), f"{width:,}", activation)
            for width, high, activation in zip(shapes.decoder, heights, activations, strict=True)
        ),
        _block(shapes.image, 0.75 * TALLEST / max(shapes.image[1:]) ** 0.5, GREY, "Reconstruction"),
    ]


def _draw_row(axes: Axes, middle: float, parts: Sequence[_Part], arrows: Sequence[str]) -> None:
    """Draw parts from left to right with equal gaps, words below each of them, and arrows with words between them."""
    gap = (100 - 2 * MARGIN - sum(part.width for part in parts)) / (len(parts) - 1)
    left, top = MARGIN, middle - 0.72 * TALLEST
    for part, words in zip(parts, [*arrows, None], strict=True):
        part.draw(axes, left, middle)
        centre, right = left + part.width / 2, left + part.width
        axes.text(centre, top, part.name, ha="center", va="top", fontsize=8, fontweight="bold")
        axes.text(centre, top - 2.6, part.size, ha="center", va="top", fontsize=7, linespacing=1.3)
        left = right + gap
        if words is not None:
            ends = (right + 0.8, middle), (left - 0.8, middle)
            axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=7, color=INK, linewidth=0.8))
            place = {"ha": "center", "va": "bottom", "fontsize": 6.5, "linespacing": 1.25}
            axes.text((right + left) / 2, middle + 1, words, **place)


def _block(shape: Sequence[int], scale: float, colour: str, name: str, size: str = "") -> _Part:
    """Return a block of these (channels, height, width); square roots keep 1 and 256 channels both visible."""
    channels, height, width = shape
    thick, high, deep = 0.5 + 0.5 * channels**0.5, scale * height**0.5, scale * width**0.5
    draw = partial(_draw_block, thick, high, deep, colour)
    return _Part(thick + SLANT[0] * deep, draw, name, size or _times(height, width, channels))


def _draw_block(thick: float, high: float, deep: float, colour: str, axes: Axes, left: float, middle: float) -> None:
    """Draw a box: channels to the right, height up, width into the page."""
    right, up = SLANT[0] * deep, SLANT[1] * deep
    bottom = middle - (high + up) / 2
    front = [(left, bottom), (left + thick, bottom), (left + thick, bottom + high), (left, bottom + high)]
    back = [(x + right, y + up) for x, y in front]
    side = [front[1], back[1], back[2], front[2]]
    top = [front[3], front[2], back[2], back[3]]
    for corners, strength in ((front, 0.75), (side, 0.45), (top, 0.25)):
        axes.add_patch(Polygon(corners, facecolor=to_rgba(colour, strength), edgecolor=INK, linewidth=0.6))


def _draw_matrix(rows: int, columns: int, only: int | None, axes: Axes, left: float, middle: float) -> None:
    """Draw a matrix with all its rows filled, or with one."""
    height, bottom = TALLEST / rows, middle - TALLEST / 2
    edge = INK if rows <= MOST_LINES else "none"
    for row in range(rows):
        colour = to_rgba(ROSE, 0.7) if only in (None, row) else "none"
        corner = (left, bottom + TALLEST - (row + 1) * height)
        axes.add_patch(Rectangle(corner, MATRIX_WIDTH, height, facecolor=colour, edgecolor=edge, linewidth=0.4))
    if columns <= MOST_LINES:
        inner = [left + MATRIX_WIDTH * column / columns for column in range(1, columns)]
        axes.vlines(inner, bottom, bottom + TALLEST, color=INK, linewidth=0.25)
    axes.add_patch(Rectangle((left, bottom), MATRIX_WIDTH, TALLEST, fill=False, edgecolor=INK, linewidth=0.6))


def _draw_bar(high: float, axes: Axes, left: float, middle: float) -> None:
    """Draw a fully connected layer."""
    corner = (left, middle - high / 2)
    axes.add_patch(Rectangle(corner, BAR_WIDTH, high, facecolor=to_rgba(TEAL, 0.6), edgecolor=INK, linewidth=0.6))


def _kernel(convolution: nn.Conv2d, activation: str) -> str:
    stride = f"stride {convolution.stride[0]}"
    return f"{_times(*convolution.kernel_size)} kernels\n" + (f"{stride}, {activation}" if activation else stride)


def _times(*sizes: int) -> str:
    return "×".join(map(str, sizes))
