"""Figures 7 and 8, and those the paper has only in words: accuracy against iterations, bounds, choices and epochs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, MaxNLocator, NullLocator

from maxmincaps.report.style import FAINT, FULL_WIDTH, INK, LOOKS, letters, look, panel_title, styled

COLUMNS = 3
NARROWEST = 0.5
"""Points of accuracy that an axis spans at least: less would make much of nothing."""
FARTHEST = 2.0
"""Points that a choice may lie from the default and still be drawn to scale: more would squeeze all others."""
APART = 0.12
"""How far curves are moved from each other along the axis, so that none hides another."""
RUNS_IN_WORDS = "Small dots are runs, the line joins their means."
PAIRS_IN_WORDS = "Small dots are pairs of runs with the same seed, diamonds their means."


@dataclass(frozen=True)
class Point:
    """The runs at one place of the horizontal axis."""

    place: float
    values: Sequence[float]
    """Of each run that came to a result, in percent."""
    diverged: int = 0

    @property
    def mean(self) -> float:
        """The mean over the runs; nan, which breaks a line, if none came to a result."""
        return fmean(self.values) if self.values else math.nan


Curves = Mapping[str, Sequence[Point]]
"""For each normalization, its points from left to right."""


@styled
def against_iterations(panels: Sequence[tuple[str, Curves]], measure: str) -> Figure:
    """Draw one panel a dataset: the measure against the number of routing iterations."""
    figure, grid = _grid([title for title, _ in panels], measure, "routing iterations")
    for axes, (_, curves) in zip(grid.flat, panels, strict=False):
        _curves(axes, curves, APART)
        if axes.has_data():
            axes.set_xlim(axes.get_xticks()[0] - 0.6, axes.get_xticks()[-1] + 0.6)
    _one_legend(grid)
    return figure


@styled
def against_bound(panels: Sequence[tuple[str, Curves]], measure: str) -> Figure:
    """Draw one panel a varied setting: accuracy against its value, on a logarithmic axis."""
    figure, grid = _grid([title for title, _ in panels], measure, "value")
    for axes, (_, curves) in zip(grid.flat, panels, strict=False):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        _curves(axes, curves)
    # One accuracy in all panels, so one axis: what makes no difference must not look as steep as what does.
    lows, highs = zip(*(axes.get_ylim() for axes in grid.flat if axes.has_data()), strict=True)
    for axes in grid.flat:
        axes.set_ylim(min(lows), max(highs))
    _one_legend(grid)
    return figure


def _grid(titles: Sequence[str], measure: str, across: str) -> tuple[Figure, np.ndarray]:
    """Lay out titled axes, at most three beside each other; those that are not needed are off."""
    columns = min(COLUMNS, len(titles))
    lines = -(-len(titles) // columns)
    figure = Figure(figsize=(FULL_WIDTH if columns > 1 else 0.6 * FULL_WIDTH, 0.35 + 2.0 * lines))
    grid = figure.subplots(lines, columns, squeeze=False)
    for number, (axes, letter, title) in enumerate(zip(grid.flat, letters(), titles, strict=False)):
        panel_title(axes, letter, title)
        axes.set_xlabel(across)
        axes.set_ylabel(measure if number % columns == 0 else "")
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    for axes in grid.flat[len(titles) :]:
        axes.set_axis_off()
    return figure, grid


def _curves(axes: Axes, curves: Curves, apart: float = 0.0) -> None:
    """Draw the mean of the runs at each place, and each run beside it as a dot."""
    if not any(curves.values()):
        _not_run(axes)
        return
    for number, (name, points) in enumerate(curves.items()):
        this, aside = look(name), apart * (number - (len(curves) - 1) / 2)
        places, means = [point.place + aside for point in points], [point.mean for point in points]
        axes.plot(places, means, this.line, marker=this.marker, color=this.colour, label=this.label)
        for place, point in zip(places, points, strict=True):
            axes.scatter([place] * len(point.values), point.values, s=4, color=this.colour, alpha=0.5, linewidths=0)
            if point.diverged:
                words, height = f"{point.diverged} diverged", 0.03 + 0.3 * number
                where = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center"}
                axes.text(place, height, words, color=this.colour, fontsize=6, **where)
    places = sorted({point.place for points in curves.values() for point in points})
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.margins(x=0.08)
    axes.set_ylim(_room([value for points in curves.values() for point in points for value in point.values]))


def _room(values: Sequence[float]) -> tuple[float, float] | None:
    """Give where an axis of these values begins and ends: not too narrow, and not above 100 %."""
    if not values:
        return None
    low, high = min(values), max(values)
    short = max(0.0, NARROWEST - (high - low)) / 2
    room = short + 0.08 * (high - low + 2 * short)
    return low - room, min(high + room, 100.0) if high < 100 else high + room


def _not_run(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    axes.set_xticks([])
    axes.set_yticks([])


def _one_legend(grid: np.ndarray) -> None:
    """Name each line once, in the same order whichever panels have it: in the first empty cell, or the first panel.

    A line that is alone in all of them needs no name.
    """
    found = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    order = [*(this.label for this in LOOKS.values()), *found]
    named = {label: found[label] for label in sorted(found, key=order.index)}
    empty = [axes for axes in grid.flat if not axes.axison]
    if len(named) > 1:
        axes, place = (empty[0], "center") if empty else (grid.flat[0], "best")
        axes.legend(named.values(), named.keys(), loc=place, handlelength=3.2)


@styled
def beside(reference: str, lines: Sequence[tuple[str, Sequence[float] | str]], measure: str) -> Figure:
    """Draw how far each line lies from a reference: each pair of runs a dot, their mean a diamond, or why it has none.

    What lies so far off that it would squeeze the others stands in words at its side.
    """
    figure = Figure(figsize=(FULL_WIDTH, 0.75 + 0.3 * (len(lines) + 1)))
    axes = figure.subplots()
    colour = LOOKS["max-min"].colour
    axes.plot([0], [0], "^", color=colour)
    axes.axvline(0, color=colour, linewidth=0.7, linestyle=":")
    drawn = [0.0]
    for row, (_, found) in enumerate(lines, 1):
        if isinstance(found, str) or abs(fmean(found)) > FARTHEST:
            words = found if isinstance(found, str) else f"{fmean(found):+.2f}, outside"
            axes.text(0.01, row, words, transform=axes.get_yaxis_transform(), va="center", color=FAINT)
            continue
        axes.plot([fmean(found)], [row], "D", color=INK, markersize=7, markerfacecolor="none", markeredgewidth=0.8)
        axes.scatter(found, [row] * len(found), s=7, color=INK, linewidths=0)
        drawn += found
    low, high = _room(drawn) or (0.0, 0.0)
    axes.set_xlim(low - 0.14 * (high - low), high)  # room for words, which no guide may cross
    axes.set_yticks(range(len(lines) + 1), [reference, *(name for name, _ in lines)])
    axes.set_ylim(len(lines) + 0.6, -0.6)
    axes.set_xlabel(measure)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


EpochPoints = Sequence[tuple[float, float]]
"""One run: where it stood on both axes after each epoch."""
ALL_RIGHT = 0.01
"""Percent of the images that are added to the wrong ones on a logarithmic axis, so that none wrong has a place too."""


@styled
def by_epoch(
    panels: Sequence[tuple[str, Mapping[str, Sequence[Sequence[float]]]]],
    measure: str = "test accuracy (%)",
    steep: int = 0,
) -> Figure:
    """Draw titled panels of a measure by epoch: each run thin, their mean thick.

    The first `steep` epochs may begin below a panel, so that what comes after them can be told apart.
    """
    numbered = [
        (title, {name: [list(enumerate(history, 1)) for history in own] for name, own in runs.items()})
        for title, runs in panels
    ]
    figure, grid = _run_panels(numbered, measure, "epoch", steep)
    for axes in grid.flat:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


@styled
def against_training(
    panels: Sequence[tuple[str, Mapping[str, Sequence[EpochPoints]]]],
    measure: str = "test accuracy (%)",
    steep: int = 0,
) -> Figure:
    """Draw titled panels of a measure against training accuracy, epoch by epoch; the first `steep` may lie outside.

    The axis is stretched towards 100 %: most epochs lie where hardly an image is wrong.
    """
    figure, grid = _run_panels(panels, measure, "training accuracy (%)", steep)
    for axes, (_, lines) in zip(grid.flat, panels, strict=False):
        axes.set_xscale("function", functions=(_nines, _from_nines))
        seen = [_nines(training) for runs in lines.values() for run in runs for training, _ in run[steep:] or run]
        room = max(0.05 * (max(seen) - min(seen)), 0.01)  # runs that know all images have but one training accuracy
        low, high = min(seen) - room, max(seen) + room
        axes.set_xlim(_from_nines(low), _from_nines(high))
        axes.set_xticks(_ticks_of_nines(low, high))
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    return figure


def _nines(percent: float) -> float:
    """Tell how near to 100 % an accuracy is: 0 for 99 %, 1 for 99.9 %, nearly 2 for 99.99 %, 2 for all images."""
    return -np.log10(np.maximum(100 - percent + ALL_RIGHT, 1e-9))


def _from_nines(nines: float) -> float:
    return 100 + ALL_RIGHT - 10.0**-nines


def _ticks_of_nines(low: float, high: float) -> list[float]:
    """Choose accuracies that do not crowd, the roundest first."""
    found: list[float] = []
    for percent in (100, 99.9, 99, 90, 50, *range(95, 0, -5), 98, 99.5, 99.8, 99.95, 99.98, *range(97, 90, -1)):
        place = _nines(percent)
        if low <= place <= high and all(abs(place - _nines(other)) > (high - low) / 6 for other in found):
            found.append(percent)
    return sorted(found)


def _run_panels(
    panels: Sequence[tuple[str, Mapping[str, Sequence[EpochPoints]]]], measure: str, across: str, steep: int
) -> tuple[Figure, np.ndarray]:
    figure, grid = _grid([title for title, _ in panels], measure, across)
    for axes, (_, lines) in zip(grid.flat, panels, strict=False):
        for name, runs in lines.items():
            _run_lines(axes, name, runs)
        later = [value for runs in lines.values() for run in runs for _, value in run[steep:]]
        if steep and later:
            axes.set_ylim(bottom=min(later) - max(0.05 * (max(later) - min(later)), 0.01))
    _one_legend(grid)
    return figure, grid


def _run_lines(axes: Axes, name: str, runs: Sequence[EpochPoints]) -> None:
    """Draw each run thin, and their mean thick as far as all of them go."""
    this = look(name)
    for run in runs if len(runs) > 1 else []:
        axes.plot(*np.transpose(run), this.line, color=this.colour, linewidth=0.5, alpha=0.5)
    shortest = min(map(len, runs))
    mean = np.mean([run[:shortest] for run in runs], axis=0)
    every = max(1, shortest // 12)
    axes.plot(*mean.T, this.line, marker=this.marker, markevery=every, color=this.colour, label=this.label)
