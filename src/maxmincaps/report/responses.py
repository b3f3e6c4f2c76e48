"""Figures 5 and 6: what the class capsules answer, image by image and class by class."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from maxmincaps.analysis.responses import shown_images, tuning_of
from maxmincaps.report.style import FAINT, FULL_WIDTH, INK, Look, letters, look, panel_title, shades, styled
from maxmincaps.training.responses import Responses

Panels = Sequence[tuple[str, Mapping[str, Responses]]]
"""A dataset's title, and the responses of a network of each normalization to its test images."""
LONGEST_NAME = 3
"""Class names longer than this are written slanted."""
MOST_IMAGES = 12
TALLEST = 0.86
"""How much of its row a bar of length 1 takes."""


@styled
def outputs(panels: Panels) -> Figure:
    """Draw the lengths of all class capsules for the first test image of each class; the true one's in full colour."""
    count = max(len(shown_images(found.labels, len(found.classes))) for _, nets in panels for found in nets.values())
    figure, grid = _grid(panels, 0.95 + 0.25 * min(count, MOST_IMAGES))
    for axes, letter, title, this, found in _each(panels, grid):
        _output_rows(axes, this, found)
        panel_title(axes, letter, f"{title}, {this.label}", this.colour)
    return figure


def _output_rows(axes: Axes, this: Look, found: Responses) -> None:
    images = shown_images(found.labels, len(found.classes))[:MOST_IMAGES]
    places = np.arange(len(found.classes))
    for row, image in enumerate(images):
        colours = [to_rgba(this.colour, 1.0 if place == found.labels[image] else 0.4) for place in places]
        axes.axhline(row, color=FAINT, linewidth=0.4)
        axes.bar(places, -TALLEST * found.lengths[image].numpy(), bottom=row, color=colours, width=0.72, linewidth=0)
    scale = len(places) - 0.45
    axes.plot([scale, scale], [0, -TALLEST], color=INK, linewidth=0.8, marker="_", markersize=3)
    axes.text(scale + 0.12, -TALLEST / 2, "1", va="center", fontsize="small")
    names = [f"{found.classes[int(found.labels[image])]}  (#{image})" for image in images]
    axes.set_yticks(np.arange(len(names)) - 0.3, names)
    axes.set_ylim(len(names) - 0.95, -1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _class_ticks(axes, found.classes)
    axes.set_xlabel("class capsule")


@styled
def tuning(panels: Panels) -> Figure:
    """Draw one tuning curve a true class: the mean length of every class capsule over its test images.

    On each curve, the class's own capsule is marked larger.
    """
    figure, grid = _grid(panels, 2.4)
    for axes, letter, title, this, found in _each(panels, grid):
        _tuning_curves(axes, this, found)
        panel_title(axes, letter, f"{title}, {this.label}", this.colour)
    for line in grid:
        line[0].set_ylabel("mean length")
    return figure


def _tuning_curves(axes: Axes, this: Look, found: Responses) -> None:
    places = np.arange(len(found.classes))
    scale = shades(this.colour, lightest=0.45)
    for label, means in enumerate(tuning_of(found).numpy()):
        colour = scale(label / max(len(places) - 1, 1))
        style = {"linestyle": this.line, "marker": this.marker, "color": colour}
        axes.plot(places, means, clip_on=False, linewidth=0.9, markersize=3, **style)
        axes.plot(label, means[label], clip_on=False, markersize=5.5, markeredgecolor=INK, markeredgewidth=0.6, **style)
    axes.set_ylim(0, 1.05)
    axes.grid(axis="y")
    _class_ticks(axes, found.classes)
    axes.set_xlabel("class capsule")


def _grid(panels: Panels, height: float) -> tuple[Figure, np.ndarray]:
    columns = max(len(networks) for _, networks in panels)
    figure = Figure(figsize=(FULL_WIDTH, height * len(panels)))
    return figure, figure.subplots(len(panels), columns, squeeze=False, sharey="row")


def _each(panels: Panels, grid: np.ndarray) -> Iterator[tuple[Axes, str, str, Look, Responses]]:
    """Give axes, letter, title, look and responses of each panel, row by row; hide the axes that stay empty."""
    names = letters()
    for (title, networks), line in zip(panels, grid, strict=True):
        for axes, (name, found) in zip(line, networks.items(), strict=False):
            yield axes, next(names), title, look(name), found
        for axes in line[len(networks) :]:
            axes.set_visible(False)


def _class_ticks(axes: Axes, classes: Sequence[str]) -> None:
    axes.set_xticks(np.arange(len(classes)), classes)
    if max(map(len, classes)) > LONGEST_NAME:
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor", fontsize=6)
