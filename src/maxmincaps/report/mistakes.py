"""Figures 9 and A.1 to A.3: misclassified images, and the confusion matrix."""

import math

import numpy as np
from jaxtyping import UInt8
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from maxmincaps.analysis.responses import confusion as counts_of_confusion
from maxmincaps.analysis.responses import misclassified as rows_of_mistakes
from maxmincaps.report.style import FULL_WIDTH, INK, LONGEST_NAME, PAPER, line_style, styled
from maxmincaps.training.responses import Responses

COLUMNS = 10
MOST_SHOWN = 40  # more images than this are counted, not drawn


@styled
def misclassified(found: Responses, images: UInt8[Tensor, "image channel height width"]) -> Figure:
    """Draw misclassified images among all test images; above each its index, the prediction and the true label."""
    wrong = rows_of_mistakes(found)
    shown = wrong[:MOST_SHOWN]
    between = " " if max(map(len, found.classes)) <= LONGEST_NAME else "\n"
    columns = min(COLUMNS, max(len(shown), 5))
    lines = max(1, math.ceil(len(shown) / columns))
    line_height = FULL_WIDTH / columns + 0.12 * (2 + (between == "\n")) if shown else 0.55
    figure = Figure(figsize=(FULL_WIDTH, lines * line_height + (0.3 if len(wrong) > len(shown) else 0.05)))
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, mistake in zip(grid.flat, shown, strict=False):
        prediction, label = found.classes[mistake.prediction], found.classes[mistake.label]
        axes.imshow(images[mistake.image].permute(1, 2, 0).numpy(), cmap="gray_r", vmin=0, vmax=255)
        title = f"#{mistake.image}\n{prediction}{between}(true {label})"
        axes.set_title(title, fontsize=6, linespacing=1.2, pad=2)
    if not shown:
        figure.text(0.5, 0.5, "no image was misclassified", ha="center", va="center")
    if len(wrong) > len(shown):
        figure.suptitle(f"the first {len(shown)} of {len(wrong):,}", fontsize=7)
    return figure


@styled
def confusion(found: Responses, normalization: str = "max-min") -> Figure:
    """Draw how often each true class is classified as each class. Only errors are shaded."""
    counts, classes, colour = counts_of_confusion(found).numpy(), found.classes, line_style(normalization).colour
    size = min(FULL_WIDTH, max(3.6, 1.4 + 0.36 * len(classes)))
    figure = Figure(figsize=(size, size * 0.92))
    axes = figure.subplots()
    errors = counts.astype(float)
    np.fill_diagonal(errors, 0)
    most = max(errors.max(), 1)
    colours = LinearSegmentedColormap.from_list("errors", [(colour, 0.0), (colour, 1.0)])
    axes.imshow(errors, cmap=colours, vmin=0, vmax=most)
    for label, prediction in np.argwhere(counts):
        ink = PAPER if errors[label, prediction] > 0.55 * most else INK
        weight = "bold" if label == prediction else "normal"
        place = {"ha": "center", "va": "center", "fontsize": 6.5}
        axes.text(prediction, label, str(counts[label, prediction]), color=ink, fontweight=weight, **place)
    places = np.arange(len(classes))
    axes.set_xticks(places, classes, rotation=0 if max(map(len, classes)) <= LONGEST_NAME else 90)
    axes.set_yticks(places, classes)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    return figure
