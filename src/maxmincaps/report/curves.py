"""Figures of accuracies: against iterations, bounds, ablations, epochs, training accuracy and polarisation."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from maxmincaps.analysis.measures import final_accuracy, polarization
from maxmincaps.analysis.runs import Measure, RunTable
from maxmincaps.report.style import FAINT, FULL_WIDTH, INK, LINE_STYLES, letters, line_style, panel_title, styled
from maxmincaps.training.run import RunSummary

COLUMNS = 3
SMALLEST_RANGE = 0.5
"""Percentage points that an axis of accuracies spans at least, so that noise does not look like an effect."""
OFFSET = 0.12  # horizontal distance between curves, so that equal ones do not hide each other
HEIGHTS = (0, 4, -4, 8, -8, 12, -12, 18, -18, 24, -24)
"""How far above its point a label may stand, in points; the first place that is free is chosen."""
Curves = Mapping[str, Mapping[float, RunTable]]
"""For each normalization or line, its runs at each place of the horizontal axis."""
Histories = Mapping[str, Sequence[Sequence[float]]]  # for each normalization or line, one number per epoch of each run
Paths = Mapping[str, Sequence[Sequence[tuple[float, float]]]]
"""For each normalization or line, one point per epoch of each run."""


@styled
def against_iterations(panels: Sequence[tuple[str, Curves, RunTable]], measure: Measure, label: str) -> Figure:
    """Draw a measure against the number of routing iterations; each panel has a title, curves and uniform controls."""
    figure, grid = _grid([title for title, *_ in panels], label, "routing iterations")
    style = line_style("uniform")
    for axes, (_, curves, controls) in zip(grid.flat, panels, strict=False):
        values, level = _draw_curves(axes, curves, measure, OFFSET), [*controls.measured(measure).values()]
        if level and values:
            axes.axhline(fmean(level), linestyle=style.line, color=style.colour, label=f"{style.label} (no routing)")
            axes.scatter([0.97] * len(level), level, s=4, color=style.colour, transform=axes.get_yaxis_transform())
        if values:
            axes.set_ylim(_limits([*values, *level]))
            axes.set_xlim(axes.get_xticks()[0] - 0.6, axes.get_xticks()[-1] + 0.6)
    return _with_legend(figure, grid)


@styled
def against_bound(panels: Sequence[tuple[str, Curves]], measure: Measure, label: str) -> Figure:
    """Draw accuracy against the value of a setting on a logarithmic axis, one panel per setting, one vertical axis."""
    figure, grid = _grid([""] * len(panels), label, "")
    values: list[float] = []
    for axes, (name, curves) in zip(grid.flat, panels, strict=False):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{name} (log scale)")
        values += _draw_curves(axes, curves, measure)
    for axes in grid.flat:
        axes.set_ylim(_limits(values))
    return _with_legend(figure, grid)


@styled
def ablations(reference: str, lines: Sequence[tuple[str, Sequence[float] | str]], label: str) -> Figure:
    """Draw the difference of each line from a reference: one dot per matched pair, their mean as a diamond.

    A line has its label, and differences of matched pairs or the reason why there are none.
    """
    figure = Figure(figsize=(FULL_WIDTH, 0.75 + 0.3 * (len(lines) + 1)))
    axes = figure.subplots()
    colour = LINE_STYLES["max-min"].colour
    axes.plot([0], [0], "^", color=colour)
    axes.axvline(0, color=colour, linewidth=0.7, linestyle=":")
    drawn = [0.0]
    for row, (_, found) in enumerate(lines, 1):
        if isinstance(found, str):
            axes.text(0.01, row, found, transform=axes.get_yaxis_transform(), va="center", color=FAINT)
            continue
        axes.plot([fmean(found)], [row], "D", color=INK, markersize=7, markerfacecolor="none", markeredgewidth=0.8)
        axes.scatter(found, [row] * len(found), s=7, color=INK, linewidths=0)
        drawn += found
    axes.set_xlim(_limits(drawn))
    axes.set_yticks(range(len(lines) + 1), [reference, *(name for name, _ in lines)])
    axes.set_ylim(len(lines) + 0.6, -0.6)
    axes.set_xlabel(label)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


@styled
def by_epoch(
    panels: Sequence[tuple[str, Histories]], label: str, skip: int = 0, limits: tuple[float, float] | None = None
) -> Figure:
    """Draw a measure by epoch: each run as a thin line, and the mean of several runs as a thick one.

    The first `skip` epochs may lie below the panel, so that later differences can be seen.
    """
    numbered = [
        (title, {name: [list(enumerate(run, 1)) for run in runs] for name, runs in histories.items()})
        for title, histories in panels
    ]
    figure, grid = _run_panels(numbered, label, "epoch", skip)
    for axes in grid.flat:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if limits:
            axes.set_ylim(limits)
    return figure


@styled
def against_training(panels: Sequence[tuple[str, Paths]], label: str, skip: int = 0) -> Figure:
    """Draw test accuracy against training accuracy, epoch after epoch; the first `skip` epochs may lie outside."""
    figure, grid = _run_panels(panels, label, "training accuracy (%)", skip)
    for axes, (_, lines) in zip(grid.flat, panels, strict=False):
        seen = [training for runs in lines.values() for run in runs for training, _ in run[skip:] or run]
        room = max(0.05 * (max(seen) - min(seen)), 0.01)
        axes.set_xlim(min(seen) - room, max(seen) + room)
    return figure


@styled
def against_polarization(panels: Sequence[tuple[str, RunTable]]) -> Figure:
    """Draw final test error on a logarithmic axis against the polarisation of the coefficients, one marker per run.

    Where a normalization was run with several numbers of iterations or logit gains, they stand beside the markers.
    """
    titles, across = [title for title, _ in panels], "polarisation of the coefficients"
    figure, grid = _grid(titles, "final test error (%)", across, columns=2, height=2.6)
    labels = [_draw_polarization(axes, runs) for axes, (_, runs) in zip(grid.flat, panels, strict=False)]
    _with_legend(figure, grid).draw_without_rendering()  # labels are placed in the final layout
    for axes, own in zip(grid.flat, labels, strict=False):
        _label_points(axes, own, figure.dpi)
    return figure


def _draw_polarization(axes: Axes, runs: RunTable) -> list[tuple[str, np.ndarray, str]]:
    """Draw the runs of a panel; return the routing setting, the middle and the colour of markers that need a label."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.1, y=0.1)
    labels = []
    for name, own in runs.by(lambda run: run.recipe.normalization).items():
        style, settings = line_style(name), own.by(_routing_setting)
        for words, alike in settings.items():
            both = [(x, 100 - final_accuracy(run)) for run, x in alike.measured(polarization).items()]
            points = np.array([(x, error) for x, error in both if error > 0])
            if len(points):
                axes.plot(*points.T, style.marker, color=style.colour, label=style.label, alpha=0.8)
                labels += [(words, points.mean(axis=0), style.colour)] if len(settings) > 1 else []
    return labels


def _routing_setting(run: RunSummary) -> str:
    gain = run.recipe.logit_gain
    return f"{run.recipe.iterations}" + (f", gain {gain:g}" if gain != 1 else "")


def _label_points(axes: Axes, labels: Sequence[tuple[str, np.ndarray, str]], dpi: float) -> None:
    """Write words near points, each in the nearest place in which they cover neither a marker nor other words."""
    scale = 72 / dpi  # from pixels to points
    markers = [scale * axes.transData.transform(line.get_xydata()) for line in axes.lines]
    taken = [(place, np.array([4.0, 4.0])) for line in markers for place in line]  # middle, half of width and height
    for words, point, colour in labels:
        half = np.array([2.1 * len(words), 3.6])
        middle = scale * axes.transData.transform(point)
        nearby = [middle + np.array([side * (half[0] + 6), up]) for up in HEIGHTS for side in (1, -1)]
        free = (place for place in nearby if all((abs(place - other) > half + size).any() for other, size in taken))
        chosen = next(free, nearby[0])
        taken.append((chosen, half))
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": colour, "shrinkA": 0, "shrinkB": 2}
        style = {"color": colour, "fontsize": 6.5, "ha": "center", "va": "center"}
        offset = tuple(chosen - middle)
        axes.annotate(words, tuple(point), offset, textcoords="offset points", arrowprops=line, **style)


def _grid(
    titles: Sequence[str], label: str, across: str, columns: int = COLUMNS, height: float = 2.0
) -> tuple[Figure, np.ndarray]:
    """Return a figure with titled axes, at most `columns` beside each other; axes that are not needed are off."""
    columns = min(columns, len(titles))
    lines = -(-len(titles) // columns)
    figure = Figure(figsize=(FULL_WIDTH if columns > 1 else 0.6 * FULL_WIDTH, 0.35 + height * lines))
    grid = figure.subplots(lines, columns, squeeze=False)
    for number, (axes, letter, title) in enumerate(zip(grid.flat, letters(), titles, strict=False)):
        panel_title(axes, letter, title)
        axes.set_xlabel(across)
        axes.set_ylabel(label if number % columns == 0 else "")
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    for axes in grid.flat[len(titles) :]:
        axes.set_axis_off()
    return figure, grid


def _draw_curves(axes: Axes, curves: Curves, measure: Measure, offset: float = 0.0) -> list[float]:
    """Draw the mean of the runs at each place and each run as a dot; return all values."""
    every: list[float] = []
    for number, (name, points) in enumerate(curves.items()):
        style, aside = line_style(name), offset * (number - (len(curves) - 1) / 2)
        found = {place: [*runs.measured(measure).values()] for place, runs in points.items()}
        means = [fmean(values) if values else float("nan") for values in found.values()]
        places = [place + aside for place in found]
        axes.plot(places, means, style.line, marker=style.marker, color=style.colour, label=style.label)
        for place, values, runs in zip(places, found.values(), points.values(), strict=True):
            axes.scatter([place] * len(values), values, s=4, color=style.colour, alpha=0.5, linewidths=0)
            if runs.diverged:
                where = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center"}
                words = f"{len(runs.diverged)} diverged"
                axes.text(place, 0.03 + 0.3 * number, words, color=style.colour, fontsize=6, **where)
            every += values
    places = sorted({place for points in curves.values() for place in points})
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.margins(x=0.08)
    return every


def _limits(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis of accuracies or differences: not too narrow, and not above 100 %."""
    found = list(values)
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    short = max(0.0, SMALLEST_RANGE - (high - low)) / 2
    room = short + 0.08 * (high - low + 2 * short)
    return low - room, min(high + room, 100.0) if 50 < high < 100 else high + room


def _with_legend(figure: Figure, grid: np.ndarray) -> Figure:
    """Draw one legend for all panels, in the first empty cell or in the first panel. A single line needs none."""
    drawn = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in grid.flat)
    found = {label: handle for own in drawn for handle, label in own}
    order = [*(style.label for style in LINE_STYLES.values()), *found]
    named = {label: found[label] for label in sorted(found, key=order.index)}
    empty = [axes for axes in grid.flat if not axes.axison]
    if len(named) > 1:
        axes, place = (empty[0], "center") if empty else (grid.flat[0], "best")
        axes.legend(named.values(), named.keys(), loc=place, handlelength=3.2)
    return figure


def _run_panels(panels: Sequence[tuple[str, Paths]], label: str, across: str, skip: int) -> tuple[Figure, np.ndarray]:
    titles = []
    for title, lines in panels:
        counts = sorted({len(runs) for runs in lines.values()} or {0})
        titles.append(f"{title} (n = {' to '.join(map(str, counts[:1] + counts[1:][-1:]))})")
    figure, grid = _grid(titles, label, across)
    for axes, (_, lines) in zip(grid.flat, panels, strict=False):
        for name, runs in lines.items():
            _draw_runs(axes, name, runs)
        later = [value for runs in lines.values() for run in runs for _, value in run[skip:]]
        if skip and later:
            axes.set_ylim(bottom=min(later) - max(0.05 * (max(later) - min(later)), 0.01))
    return _with_legend(figure, grid), grid


def _draw_runs(axes: Axes, name: str, runs: Sequence[Sequence[tuple[float, float]]]) -> None:
    """Draw a single run, or each run thin and their mean thick as far as all of them go."""
    style, several = line_style(name), len(runs) > 1
    for run in runs if several else ():
        axes.plot(*np.transpose(run), style.line, color=style.colour, linewidth=0.5, alpha=0.5)
    shortest = min(map(len, runs))
    middle = np.mean([run[:shortest] for run in runs], axis=0)
    marks = {"marker": style.marker, "markevery": max(1, shortest // 12), "markersize": 5 if several else 4}
    width = 1.4 if several else 0.9
    axes.plot(*middle.T, style.line, linewidth=width, color=style.colour, label=style.label, **marks)
