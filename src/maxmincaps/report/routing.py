"""Figures 2 to 4: how routing went for one training image."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator
from torch import Tensor

from maxmincaps.analysis.traces import Histogram, Trace, chosen_children
from maxmincaps.errors import check_name
from maxmincaps.report.style import FAINT, FULL_WIDTH, Look, letters, look, powers_of_ten, styled

COLUMNS = ("true class", "all")
SILENT = "#c9ced6"
"""Children whose vote is zero."""
QUANTITIES = {"logits": "logits $b_{ij}$", "couplings": "couplings $c_{ij}$"}


@styled
def evolution(histograms: Mapping[str, Sequence[Histogram]], column: str = "true class") -> Figure:
    """Draw histograms of logits and couplings: a row for each iteration, a pair of columns for each normalization.

    `column` takes the true class's column of each, as the paper's figures do, or all of them.
    """
    check_name(column, COLUMNS, "column")
    shown = {name: [panel for panel in panels if panel.column == column] for name, panels in histograms.items()}
    rows = 1 + max(panel.iteration for panels in shown.values() for panel in panels)
    most = max(panel.counts.max().item() for panels in shown.values() for panel in panels)
    figure = Figure(figsize=(FULL_WIDTH, 0.75 + 1.1 * rows))
    for letter, part, name in zip(letters(), figure.subfigures(1, len(shown), squeeze=False)[0], shown, strict=False):
        grid = part.subplots(rows, 2, squeeze=False, sharex="col", sharey=True)
        part.suptitle(f"({letter}) {look(name).label}", color=look(name).colour, fontweight="bold", fontsize=9)
        for panel in shown[name]:
            axes = grid[panel.iteration][list(QUANTITIES).index(panel.quantity)]
            _histogram(axes, panel, look(name), most)
        for axes, words in zip(grid[-1], QUANTITIES.values(), strict=True):
            axes.set_xlabel(words, parse_math=True)
        for iteration, axes in enumerate(grid[:, 0]):
            axes.set_ylabel(f"iteration {iteration + 1}\ncount")
    silent = Patch(color=SILENT, label="children whose vote is zero")
    beside_the_titles = "upper center" if len(shown) % 2 == 0 else "upper right"
    figure.legend(handles=[silent], loc=beside_the_titles, borderaxespad=0, fontsize=7)
    return figure


def _histogram(axes: Axes, panel: Histogram, this: Look, most: float) -> None:
    # An outline, too, as a bin of Softmax's couplings is narrower than a hair where the axis goes from 0 to 1.
    for counts, colour in ((panel.counts, SILENT), (panel.voting, this.colour)):
        shape = {"fill": True, "facecolor": colour, "edgecolor": colour, "linewidth": 0.8}
        axes.stairs(counts.numpy(), panel.edges.numpy(), baseline=0.1, **shape)
    axes.set_yscale("log")
    powers_of_ten(axes.yaxis)
    axes.set_ylim(0.5, 2 * most)
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="y")
    if panel.quantity == "couplings":
        low, high = panel.edges[0].item(), panel.edges[-1].item()
        axes.set_xlim(min(low, 0.0) - 0.03, max(high, 1.0) + 0.03)
        axes.xaxis.set_major_locator(MultipleLocator(0.5) if high - low <= 2 else MaxNLocator(3))


@styled
def rows(panels: Sequence[tuple[str, Mapping[str, Trace]]], children: int = 3) -> Figure:
    """Draw the logits and couplings of a few children over the parents, at the last iteration.

    A panel is a dataset's title and a trace of each normalization. The true class's bar is in full colour.
    """
    figure = Figure(figsize=(FULL_WIDTH, (0.8 + 0.75 * children) * len(panels)))
    names = letters()
    columns = max(len(traces) for _, traces in panels)
    for (title, traces), line in zip(panels, figure.subfigures(len(panels), columns, squeeze=False), strict=True):
        for part, (name, trace) in zip(line, traces.items(), strict=False):
            words = f"({next(names)}) {title}, {look(name).label}"
            part.suptitle(words, color=look(name).colour, fontweight="bold", fontsize=9)
            _rows_of(part, look(name), trace, chosen_children(trace, children))
    return figure


def _rows_of(part: SubFigure, this: Look, trace: Trace, children: Sequence[int]) -> None:
    grid = part.subplots(len(children), 2, squeeze=False, sharex=True, sharey="col")
    couplings = trace.couplings[-1, children]
    for line, child in zip(grid, children, strict=True):
        _bars(line[0], trace.logits[-1, child], trace.label, this)
        _bars(line[1], trace.couplings[-1, child], trace.label, this)
        line[0].set_ylabel(f"child {child}")
        line[1].set_ylim(min(0.0, couplings.min().item()), max(1.0, couplings.max().item()))
        line[1].yaxis.set_major_locator(MaxNLocator(2))
    for axes, words in zip(grid[0], QUANTITIES.values(), strict=True):
        axes.set_title(words, parse_math=True)
    for axes in grid[-1]:
        axes.set_xlabel("parent")


def _bars(axes: Axes, values: Float[Tensor, "parent"], label: int, this: Look) -> None:
    parents = np.arange(len(values))
    drawn = axes.bar(parents, values.numpy(), color=this.colour, alpha=0.45, width=0.75, linewidth=0)
    drawn[label].set_alpha(1.0)
    axes.axhline(0, color=FAINT, linewidth=0.5)
    axes.set_xticks(parents if len(parents) <= 10 else parents[:: len(parents) // 5])
    axes.yaxis.set_major_locator(MaxNLocator(3))
