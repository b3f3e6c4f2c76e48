"""Figures 2 to 4: how routing proceeds for one training image."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import log10

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator
from torch import Tensor

from maxmincaps.analysis.traces import HistogramBin, Trace, chosen_children
from maxmincaps.report.style import FAINT, FULL_WIDTH, INK, LineStyle, letters, line_style, styled

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
QUANTITIES = {"logits": "logits $b_{ij}$", "couplings": "routing coefficients $c_{ij}$"}


@styled
def evolution(histograms: Mapping[str, Sequence[HistogramBin]]) -> Figure:
    """Draw all logits and all coefficients of the active capsules for each normalization, iteration by iteration."""
    shown = {name: [one for one in bins if one.column == "all"] for name, bins in histograms.items()}
    rows = max(one.iteration for bins in shown.values() for one in bins)
    most = max(one.of_active for bins in shown.values() for one in bins)
    figure = Figure(figsize=(FULL_WIDTH, 0.75 + 1.1 * rows))
    for letter, part, name in zip(letters(), figure.subfigures(1, len(shown), squeeze=False)[0], shown, strict=False):
        style = line_style(name)
        grid = part.subplots(rows, 2, squeeze=False, sharex="col", sharey=True)
        part.suptitle(f"({letter}) {style.label}", color=style.colour, fontweight="bold", fontsize=9)
        for (iteration, quantity), bins in groupby(shown[name], lambda one: (one.iteration, one.quantity)):
            _histogram(grid[iteration - 1][list(QUANTITIES).index(quantity)], [*bins], style, most)
        for axes, words in zip(grid[-1], QUANTITIES.values(), strict=True):
            axes.set_xlabel(words, parse_math=True)
        for iteration, axes in enumerate(grid[:, 0]):
            axes.set_ylabel("count")
            axes.set_title(f"iteration {iteration + 1}", loc="left", fontsize=7, color=INK, pad=2)
    return figure


def _histogram(axes: Axes, bins: Sequence[HistogramBin], style: LineStyle, most: int) -> None:
    low, high = bins[0].low, bins[-1].high
    # The outline makes a bin visible that is narrower than a pixel.
    shape = {"fill": True, "facecolor": style.colour, "edgecolor": style.colour, "linewidth": 0.8}
    axes.stairs([one.of_active for one in bins], [*(one.low for one in bins), high], baseline=0.1, **shape)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: "10" + str(round(log10(value))).translate(RAISED))
    axes.set_ylim(0.5, 2 * max(most, 1))
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="y")
    if bins[0].quantity == "couplings":
        axes.set_xlim(min(low, 0.0) - 0.03, max(high, 1.0) + 0.03)
        axes.xaxis.set_major_locator(MultipleLocator(0.5) if high - low <= 2 else MaxNLocator(3))


@styled
def rows(panels: Sequence[tuple[str, Mapping[str, Trace]]], children: int = 3) -> Figure:
    """Draw logits and routing coefficients of a few children at the last iteration, for each dataset and normalization.

    Logits have an axis of their own, as their ranges differ by orders of magnitude.
    """
    figure = Figure(figsize=(FULL_WIDTH, (0.8 + 0.75 * children) * len(panels)))
    names = letters()
    columns = max(len(traces) for _, traces in panels)
    for (title, traces), line in zip(panels, figure.subfigures(len(panels), columns, squeeze=False), strict=True):
        for part, (name, trace) in zip(line, traces.items(), strict=False):
            style = line_style(name)
            words = f"({next(names)}) {title}, {style.label}"
            part.suptitle(words, color=style.colour, fontweight="bold", fontsize=9)
            _rows_of(part, style, trace, chosen_children(trace, children))
    return figure


def _rows_of(part: SubFigure, style: LineStyle, trace: Trace, children: Sequence[int]) -> None:
    grid = part.subplots(len(children), 2, squeeze=False, sharex=True)
    coefficients = trace.couplings[-1, children]
    for line, child in zip(grid, children, strict=True):
        logits = trace.logits[-1, child]
        _bars(line[0], logits, trace.label, style)
        _bars(line[1], trace.couplings[-1, child], trace.label, style)
        line[0].set_ylabel(f"capsule {child}")
        span = logits.max().item() - logits.min().item()
        place = {"transform": line[0].transAxes, "ha": "right", "va": "bottom", "fontsize": 6, "color": INK}
        line[0].text(1.0, 1.0, f"range {span:.2g}", **place)
        line[1].set_ylim(min(0.0, coefficients.min().item()), max(1.0, coefficients.max().item()))
        line[1].yaxis.set_major_locator(MaxNLocator(2))
    for axes, words in zip(grid[0], QUANTITIES.values(), strict=True):
        axes.set_title(words, parse_math=True, pad=9)
    for axes in grid[-1]:
        axes.set_xlabel("parent (class)")


def _bars(axes: Axes, values: Float[Tensor, "parent"], label: int, style: LineStyle) -> None:
    parents = np.arange(len(values))
    drawn = axes.bar(parents, values.numpy(), color=style.colour, alpha=0.45, width=0.75, linewidth=0)
    drawn[label].set_alpha(1.0)
    axes.axhline(0, color=FAINT, linewidth=0.5)
    axes.set_xticks(parents if len(parents) <= 10 else parents[:: len(parents) // 5])
    axes.yaxis.set_major_locator(MaxNLocator(3))
