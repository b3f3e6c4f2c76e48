"""Figures 9 and A.1 to A.3: misclassified images, and the confusion matrix."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from maxmincaps.analysis.responses import confusion as counts_of_confusion
from maxmincaps.analysis.responses import misclassified as rows_of_mistakes
from maxmincaps.report.style import FULL_WIDTH, INK, PAPER, line_style, styled
from maxmincaps.training.responses import Responses

COLUMNS = 10
MOST_SHOWN = 40
"""More images than this are counted, not drawn."""


@styled
def misclassified(found: Responses, images: UInt8[Tensor, "image channel height width"]) -> Figure:
    """Draw misclassified test images; above each its index, the prediction and the true label.

    Args:
        found: Responses to all test images.
        images: All test images, uint8.
    """
    wrong = rows_of_mistakes(found)
    shown = wrong[:MOST_SHOWN]
    if not shown:
        return _no_mistakes()
    title = (
        "#{image}\n{prediction} (true {label})"
        if _are_short(found.classes)
        else "#{image}\n{prediction}\n(true {label})"
    )
    columns = min(COLUMNS, max(len(shown), 5))
    lines = math.ceil(len(shown) / columns)
    left_out = len(wrong) - len(shown)
    line_height = FULL_WIDTH / columns + 0.12 * (1 + title.count("\n"))
    figure = Figure(figsize=(FULL_WIDTH, lines * line_height + (0.3 if left_out else 0.05)))
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, mistake in zip(grid.flat, shown, strict=False):
        names = {name: found.classes[getattr(mistake, name)] for name in ("prediction", "label")}
        axes.imshow(_pixels(images[mistake.image]), cmap="gray_r", vmin=0, vmax=255)
        axes.set_title(title.format(image=mistake.image, **names), fontsize=6, linespacing=1.2, pad=2)
    if left_out:
        figure.suptitle(f"the first {len(shown)} of {len(wrong):,}", fontsize=7)
    return figure


@styled
def confusion(found: Responses, normalization: str = "max-min") -> Figure:
    """Draw how often each true class is classified as each class. Only errors are shaded."""
    counts, classes, colour = counts_of_confusion(found), found.classes, line_style(normalization).colour
    size = min(FULL_WIDTH, max(3.6, 1.4 + 0.36 * len(classes)))
    figure = Figure(figsize=(size, size * 0.92))
    axes = figure.subplots()
    errors = counts.numpy().astype(float)
    np.fill_diagonal(errors, 0)
    most = max(errors.max(), 1)
    colours = LinearSegmentedColormap.from_list("errors", [(colour, 0.0), (colour, 1.0)])
    axes.imshow(errors, cmap=colours, vmin=0, vmax=most)
    for label, prediction in zip(*counts.nonzero(as_tuple=True), strict=True):
        axes.text(
            prediction,
            label,
            str(int(counts[label, prediction])),
            ha="center",
            va="center",
            fontsize=6.5,
            color=PAPER if errors[label, prediction] > 0.55 * most else INK,
            fontweight="bold" if label == prediction else "normal",
        )
    places = np.arange(len(classes))
    axes.set_xticks(places, classes, rotation=0 if _are_short(classes) else 90)
    axes.set_yticks(places, classes)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    return figure


def _are_short(classes: Sequence[str]) -> bool:
    return max(map(len, classes)) <= 3


def _pixels(image: UInt8[Tensor, "channel height width"]) -> np.ndarray:
    """Return (height, width) for grey images and (height, width, 3) for colour."""
    return (image[0] if len(image) == 1 else image.permute(1, 2, 0)).numpy()


def _no_mistakes() -> Figure:
    figure = Figure(figsize=(FULL_WIDTH, 0.6))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.text(0.5, 0.5, "no image was misclassified", ha="center", va="center", color=INK)
    return figure
