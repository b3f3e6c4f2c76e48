"""Figures 5 and 6: lengths of the class capsules, image by image and class by class."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from maxmincaps.analysis.responses import shown_images
from maxmincaps.analysis.responses import tuning as tuning_curves
from maxmincaps.report.style import (
    FAINT,
    FULL_WIDTH,
    INK,
    LONGEST_NAME,
    PAPER,
    LineStyle,
    letters,
    line_style,
    panel_title,
    styled,
    text_colour_on,
)
from maxmincaps.training.responses import Responses

Panels = Sequence[tuple[str, Mapping[str, Responses]]]
"""For each dataset, its title and the responses of one network per normalization to its test images."""
MOST_IMAGES, MOST_NUMBERS = 12, 12
"""More images are not drawn; with more classes, the cells of the heat map have no numbers."""
TALLEST = 0.86  # part of a row that a bar of length 1 takes


@styled
def outputs(panels: Panels) -> Figure:
    """Draw the lengths of all class capsules for the first test image of each class; the true class in full colour."""
    count = max(len(shown_images(found)) for _, networks in panels for found in networks.values())
    figure, grid = _grid(panels, 0.95 + 0.25 * min(count, MOST_IMAGES))
    for axes, style, found in _each(panels, grid):
        images, places = shown_images(found)[:MOST_IMAGES], np.arange(len(found.classes))
        for row, image in enumerate(images):
            heights = -TALLEST * found.lengths[image].numpy()
            colours = [to_rgba(style.colour, 1.0 if place == found.labels[image] else 0.4) for place in places]
            axes.axhline(row, color=FAINT, linewidth=0.4)
            axes.bar(places, heights, bottom=row, color=colours, width=0.72, linewidth=0)
        scale = len(places) - 0.45
        axes.plot([scale, scale], [0, -TALLEST], color=INK, linewidth=0.8, marker="_", markersize=3)
        axes.text(scale + 0.12, -TALLEST / 2, "1", va="center", fontsize="small")
        names = [f"{found.classes[int(found.labels[image])]}  (#{image})" for image in images]
        axes.set_yticks(np.arange(len(names)) - 0.3, names)
        axes.set_ylim(len(names) - 0.95, -1.0)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return figure


@styled
def tuning(panels: Panels) -> Figure:
    """Draw a heat map: the mean length of every class capsule (column) over the test images of each class (row)."""
    figure, grid = _grid(panels, 3.2)
    colours = LinearSegmentedColormap.from_list("lengths", [PAPER, INK])
    picture = None
    for axes, _, found in _each(panels, grid):
        means = tuning_curves(found).numpy()
        picture = axes.imshow(means, cmap=colours, vmin=0, vmax=1, aspect="auto")
        for (label, parent), mean in np.ndenumerate(means) if len(means) <= MOST_NUMBERS else ():
            colour = text_colour_on(picture.to_rgba(mean))
            axes.text(parent, label, f"{mean:.2f}"[-3:], ha="center", va="center", fontsize=5, color=colour)
        axes.set_yticks(np.arange(len(found.classes)), found.classes)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    for line in grid:
        line[0].set_ylabel("true class")
    if picture is not None:
        figure.colorbar(picture, ax=grid, shrink=0.6, label="mean length", pad=0.01)
    return figure


def _grid(panels: Panels, height: float) -> tuple[Figure, np.ndarray]:
    columns = max(len(networks) for _, networks in panels)
    figure = Figure(figsize=(FULL_WIDTH, height * len(panels)))
    return figure, figure.subplots(len(panels), columns, squeeze=False, sharey="row")


def _each(panels: Panels, grid: np.ndarray) -> Iterator[tuple[Axes, LineStyle, Responses]]:
    """Yield titled axes, style and responses of each panel, row by row; hide axes that stay empty."""
    names = letters()
    for (title, networks), line in zip(panels, grid, strict=True):
        for axes, (name, found) in zip(line, networks.items(), strict=False):
            style = line_style(name)
            panel_title(axes, next(names), f"{title}, {style.label}", style.colour)
            yield axes, style, found
            axes.set_xlabel("class capsule")
            axes.set_xticks(np.arange(len(found.classes)), found.classes)
            if max(map(len, found.classes)) > LONGEST_NAME:
                for label in axes.get_xticklabels():
                    label.set(rotation=45, ha="right", rotation_mode="anchor", fontsize=6)
        for axes in line[len(networks) :]:
            axes.set_visible(False)
