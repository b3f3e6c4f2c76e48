"""Figure 1: the network, drawn from its own shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass(frozen=True)
class Shapes:
    """Sizes to draw: (channels, height, width) of each block, and the widths of the decoder."""

    image: tuple[int, int, int]
    features: tuple[int, int, int]
    types: int
    places: tuple[int, int]
    part_pose: int
    classes: int
    class_pose: int
    decoder: tuple[int, ...]
    conv: str
    primary: str
    routing: str


def shapes_of(network: CapsNet) -> Shapes:
    """Return the shapes of a network; Conv1 is measured with an empty image."""
    with torch.inference_mode():
        channels, height, width = network.features(torch.zeros(1, *network.image_shape)).shape[1:]
    types, *places = network.grid
    _, classes, class_pose, part_pose = network.digits.weights.shape
    linear = [layer.out_features for layer in network.decoder.layers if isinstance(layer, nn.Linear)]
    return Shapes(
        image=network.image_shape,
        features=(channels, height, width),
        types=types,
        places=(places[0], places[1]),
        part_pose=part_pose,
        classes=classes,
        class_pose=class_pose,
        decoder=tuple(linear),
        conv=_kernel(network.conv1, "ReLU") if network.stem is None else "stem",
        primary=_kernel(network.primary.convolution, "ReLU" if network.primary.relu else ""),
        routing=f"dynamic routing\n{pluralize(network.digits.iterations, 'iteration')}",
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
    _draw_layers(axes, shapes)
    _draw_decoder(axes, shapes)
    return figure


def _draw_layers(axes: Axes, shapes: Shapes) -> None:
    scale = TALLEST / max(shapes.image[1:]) ** 0.5
    primary_shape = (shapes.types * shapes.part_pose, *shapes.places)
    sizes = [_sizes(shape, scale) for shape in (shapes.image, shapes.features, primary_shape)]
    lefts = _spread([*map(_drawn_width, sizes), MATRIX_WIDTH])
    blocks = [
        _block(axes, left, UPPER, size, colour)
        for left, size, colour in zip(lefts[:3], sizes, (GREY, TEAL, PLUM), strict=True)
    ]
    boxes = [*blocks, _matrix(axes, lefts[3], UPPER, shapes.classes, shapes.class_pose)]
    for (before, after), words in zip(pairwise(boxes), (shapes.conv, shapes.primary, shapes.routing), strict=True):
        _arrow(axes, before, after, UPPER, words)
    children = shapes.types * shapes.places[0] * shapes.places[1]
    labels = [
        ("Image", _times(*shapes.image[1:], shapes.image[0])),
        ("Conv1", _times(*shapes.features[1:], shapes.features[0])),
        (
            "PrimaryCaps",
            f"{_times(*shapes.places, shapes.types, shapes.part_pose)}\n= {children:,} capsules of {shapes.part_pose}",
        ),
        ("DigitCaps", f"{_times(shapes.classes, shapes.class_pose)}\nlength = presence of the class"),
    ]
    for box, label in zip(boxes, labels, strict=True):
        _label(axes, box, UPPER, *label)


def _draw_decoder(axes: Axes, shapes: Shapes) -> None:
    size = _sizes(shapes.image, 0.75 * TALLEST / max(shapes.image[1:]) ** 0.5)
    digits, *lefts, right = _spread([MATRIX_WIDTH, *[BAR_WIDTH] * len(shapes.decoder), _drawn_width(size)])
    kept = min(3, shapes.classes - 1)
    longest = max(shapes.decoder)
    boxes = [
        _matrix(axes, digits, LOWER, shapes.classes, shapes.class_pose, only=kept),
        *(
            _bar(axes, left, LOWER, TALLEST * (0.3 + 0.7 * (width / longest) ** 0.5))
            for left, width in zip(lefts, shapes.decoder, strict=True)
        ),
        _block(axes, right, LOWER, size, GREY),
    ]
    for before, after in pairwise(boxes):
        _arrow(axes, before, after, LOWER)
    labels = [
        ("Masked DigitCaps", "all rows but one are zero"),
        *((f"{width:,}", "ReLU") for width in shapes.decoder[:-1]),
        (f"{shapes.decoder[-1]:,}", "sigmoid"),
        ("Reconstruction", _times(*shapes.image[1:], shapes.image[0])),
    ]
    for box, label in zip(boxes, labels, strict=True):
        _label(axes, box, LOWER, *label)


def _spread(widths: Sequence[float]) -> list[float]:
    """Return the left edges of blocks of these widths, with equal gaps between the margins."""
    gap = (100 - 2 * MARGIN - sum(widths)) / (len(widths) - 1)
    return [MARGIN + sum(widths[:index]) + index * gap for index in range(len(widths))]


@dataclass(frozen=True)
class _Box:
    """The position of a drawn block."""

    left: float
    right: float

    @property
    def centre(self) -> float:
        return (self.left + self.right) / 2


def _sizes(shape: Sequence[int], scale: float) -> tuple[float, float, float]:
    """Return thickness, height and depth of a block; square roots keep 1 and 256 channels both visible."""
    channels, height, width = shape
    return 0.5 + 0.5 * channels**0.5, scale * height**0.5, scale * width**0.5


def _block(axes: Axes, left: float, middle: float, sizes: tuple[float, float, float], colour: str) -> _Box:
    """Draw a box: channels to the right, height up, width into the page."""
    thick, high, deep = sizes
    right, up = SLANT[0] * deep, SLANT[1] * deep
    bottom = middle - (high + up) / 2
    front = [(left, bottom), (left + thick, bottom), (left + thick, bottom + high), (left, bottom + high)]
    side = [front[1], _moved(front[1], right, up), _moved(front[2], right, up), front[2]]
    top = [front[3], front[2], side[2], _moved(front[3], right, up)]
    for corners, strength in ((front, 0.75), (side, 0.45), (top, 0.25)):
        axes.add_patch(Polygon(corners, facecolor=to_rgba(colour, strength), edgecolor=INK, linewidth=0.6))
    return _Box(left, left + thick + right)


def _drawn_width(sizes: tuple[float, float, float]) -> float:
    return sizes[0] + SLANT[0] * sizes[2]


def _matrix(axes: Axes, left: float, middle: float, rows: int, columns: int, only: int | None = None) -> _Box:
    """Draw a matrix with all its rows, or with one row filled and the others empty."""
    row_high, bottom = TALLEST / rows, middle - TALLEST / 2
    for row in range(rows):
        axes.add_patch(
            Rectangle(
                (left, bottom + TALLEST - (row + 1) * row_high),
                MATRIX_WIDTH,
                row_high,
                facecolor=to_rgba(ROSE, 0.7) if only in (None, row) else "none",
                edgecolor=INK if rows <= MOST_LINES else "none",
                linewidth=0.4,
            )
        )
    if columns <= MOST_LINES:
        inner = [left + MATRIX_WIDTH * column / columns for column in range(1, columns)]
        axes.vlines(inner, bottom, bottom + TALLEST, color=INK, linewidth=0.25)
    axes.add_patch(Rectangle((left, bottom), MATRIX_WIDTH, TALLEST, fill=False, edgecolor=INK, linewidth=0.6))
    return _Box(left, left + MATRIX_WIDTH)


def _bar(axes: Axes, left: float, middle: float, high: float) -> _Box:
    """Draw a fully connected layer."""
    corner = (left, middle - high / 2)
    axes.add_patch(Rectangle(corner, BAR_WIDTH, high, facecolor=to_rgba(TEAL, 0.6), edgecolor=INK, linewidth=0.6))
    return _Box(left, left + BAR_WIDTH)


def _arrow(axes: Axes, before: _Box, after: _Box, height: float, words: str = "") -> None:
    start, end = before.right + 0.8, after.left - 0.8
    axes.add_patch(
        FancyArrowPatch((start, height), (end, height), arrowstyle="-|>", mutation_scale=7, color=INK, linewidth=0.8)
    )
    axes.text((start + end) / 2, height + 1, words, ha="center", va="bottom", fontsize=6.5, linespacing=1.25)


def _label(axes: Axes, box: _Box, middle: float, name: str, size: str) -> None:
    top = middle - 0.72 * TALLEST
    axes.text(box.centre, top, name, ha="center", va="top", fontsize=8, fontweight="bold")
    axes.text(box.centre, top - 2.6, size, ha="center", va="top", fontsize=7, linespacing=1.3)


def _moved(point: tuple[float, float], right: float, up: float) -> tuple[float, float]:
    return point[0] + right, point[1] + up


def _kernel(convolution: nn.Conv2d, activation: str) -> str:
    size = _times(*convolution.kernel_size)
    return "\n".join([f"{size} kernels", ", ".join(filter(None, [f"stride {convolution.stride[0]}", activation]))])


def _times(*sizes: int) -> str:
    return "×".join(map(str, sizes))
