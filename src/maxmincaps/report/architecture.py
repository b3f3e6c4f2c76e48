"""Figure 1: the network, drawn from its own shapes."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
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
SLANT = (0.42, 0.28)  # horizontal and vertical length of one unit of depth
TALLEST = 13.0
MATRIX_WIDTH, BAR_WIDTH, MARGIN = 14.0, 1.6, 6.0
UPPER, LOWER = 37.5, 12.5  # heights of the two rows
MOST_LINES = 40  # a matrix with more rows or columns than this is drawn without lines between them


class Part(NamedTuple):
    """A layer: its width, what draws it at a left edge and middle height, words below it and on the arrow after it."""

    width: float
    draw: Callable[[Axes, float, float], None]
    name: str
    size: str
    arrow: str = ""


def parts_of(network: CapsNet) -> tuple[list[Part], list[Part]]:
    """Return the capsule layers and the decoder of a network; Conv1 is measured with an empty image."""
    weights = network.digits.weights  # on the device "meta" if they are not loaded
    with torch.inference_mode():
        features = network.features(torch.zeros(1, *network.image_shape, device=weights.device)).shape[1:]
    types, *places = network.grid
    _, classes, class_pose, part_pose = weights.shape
    scale = TALLEST / max(network.image_shape[1:]) ** 0.5
    capsules = f"{_times(*places, types, part_pose)}\n= {prod(network.grid):,} capsules of {part_pose}"
    length = f"{_times(classes, class_pose)}\nlength = presence of the class"
    first = _kernel(network.conv1, "ReLU") if network.stem is None else "stem"
    second = _kernel(network.primary.convolution, "ReLU" if network.primary.relu else "")
    routing = f"dynamic routing\n{pluralize(network.digits.iterations, 'iteration')}"
    matrix = partial(_draw_matrix, classes, class_pose)
    widths = [layer.out_features for layer in network.decoder.layers if isinstance(layer, nn.Linear)]
    heights = [TALLEST * (0.3 + 0.7 * (width / max(widths)) ** 0.5) for width in widths]
    activations = ["ReLU"] * (len(widths) - 1) + ["sigmoid"]
    layers = [
        _block(network.image_shape, scale, GREY, "Image", arrow=first),
        _block(features, scale, TEAL, "Conv1", arrow=second),
        _block((types * part_pose, *places), scale, PLUM, "PrimaryCaps", capsules, routing),
        Part(MATRIX_WIDTH, partial(matrix, None), "DigitCaps", length),
    ]
    decoder = [
        Part(MATRIX_WIDTH, partial(matrix, min(3, classes - 1)), "Masked DigitCaps", "all rows but one are zero"),
        *(
            Part(BAR_WIDTH, partial(_draw_bar, high), f"{width:,}", activation)
            for width, high, activation in zip(widths, heights, activations, strict=True)
        ),
        _block(network.image_shape, 0.75 * scale, GREY, "Reconstruction"),
    ]
    return layers, decoder


@styled
def architecture(network: CapsNet) -> Figure:
    """Draw the three capsule layers above and the decoder below, with the sizes of this network."""
    figure = Figure(figsize=(FULL_WIDTH, 3.5))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 100)
    axes.set_ylim(-2, 47)
    axes.set_aspect("equal")
    for middle, parts in zip((UPPER, LOWER), parts_of(network), strict=True):
        _draw_row(axes, middle, parts)
    return figure


def _draw_row(axes: Axes, middle: float, parts: Sequence[Part]) -> None:
    """Draw parts from left to right with equal gaps, words below each of them, and arrows with words between them."""
    gap = (100 - 2 * MARGIN - sum(part.width for part in parts)) / (len(parts) - 1)
    left, top = MARGIN, middle - 0.72 * TALLEST
    for part in parts:
        part.draw(axes, left, middle)
        centre, right = left + part.width / 2, left + part.width
        axes.text(centre, top, part.name, ha="center", va="top", fontsize=8, fontweight="bold")
        axes.text(centre, top - 2.6, part.size, ha="center", va="top", fontsize=7, linespacing=1.3)
        left = right + gap
        if part is not parts[-1]:
            ends = (right + 0.8, middle), (left - 0.8, middle)
            axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=7, color=INK, linewidth=0.8))
            place = {"ha": "center", "va": "bottom", "fontsize": 6.5, "linespacing": 1.25}
            axes.text((right + left) / 2, middle + 1, part.arrow, **place)


def _block(shape: Sequence[int], scale: float, colour: str, name: str, size: str = "", arrow: str = "") -> Part:
    """Return a block of these (channels, height, width); square roots keep 1 and 256 channels both visible."""
    channels, height, width = shape
    thick, high, deep = 0.5 + 0.5 * channels**0.5, scale * height**0.5, scale * width**0.5
    draw = partial(_draw_block, thick, high, deep, colour)
    return Part(thick + SLANT[0] * deep, draw, name, size or _times(height, width, channels), arrow)


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
    corner = (left, middle - high / 2)
    axes.add_patch(Rectangle(corner, BAR_WIDTH, high, facecolor=to_rgba(TEAL, 0.6), edgecolor=INK, linewidth=0.6))


def _kernel(convolution: nn.Conv2d, activation: str) -> str:
    stride = f"stride {convolution.stride[0]}"
    return f"{_times(*convolution.kernel_size)} kernels\n" + (f"{stride}, {activation}" if activation else stride)


def _times(*sizes: int) -> str:
    return "×".join(map(str, sizes))
