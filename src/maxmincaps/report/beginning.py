"""The first hundred steps: what becomes of sums, lengths, gradients and couplings, setting by setting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from maxmincaps.report.style import FAINT, FULL_WIDTH, letters, look, panel_title, powers_of_ten, styled
from maxmincaps.training.schema import WatchedStep

Steps = Sequence[WatchedStep]
"""The lines of a record's steps.jsonl."""


@dataclass(frozen=True)
class Curve:
    """One run: its normalization, the value of what is changed, and its steps."""

    normalization: str
    value: str
    steps: Steps
    default: bool = False


@dataclass(frozen=True)
class Quantity:
    """Something that is drawn against the step."""

    name: str
    of: Callable[[WatchedStep], float]
    logarithmic: bool = False


QUANTITIES = (
    Quantity("sum ‖s‖", lambda step: step.sum_length, logarithmic=True),
    Quantity("class length", lambda step: step.class_length),
    Quantity("part length", lambda step: step.part_length),
    Quantity("gradient of W", lambda step: step.gradients["votes"], logarithmic=True),
    Quantity("… of PrimaryCaps", lambda step: step.gradients["primary"], logarithmic=True),
    Quantity("… of Conv1", lambda step: step.gradients["conv1"], logarithmic=True),
    Quantity("couplings,\n90 % − 10 %", lambda step: step.couplings[-1] - step.couplings[0]),
    Quantity("loss", lambda step: step.loss, logarithmic=True),
)
COLUMNS = 4
"""How many changed settings one figure shows."""
DASHES = ("--", ":", "-.")
"""How the changed values are drawn, one after the other; the default is the thick line."""


@styled
def first_steps(columns: Sequence[tuple[str, Sequence[Curve]]]) -> Figure:
    """Draw a column for each changed setting and a row for each quantity."""
    figure = Figure(figsize=(FULL_WIDTH, 0.5 + 1.05 * len(QUANTITIES)))
    grid = figure.subplots(len(QUANTITIES), len(columns), squeeze=False, sharex=True, sharey="row")
    for column, (letter, (title, curves)) in enumerate(zip(letters(), columns, strict=False)):
        panel_title(grid[0, column], letter, title)
        for row, quantity in enumerate(QUANTITIES):
            _panel(grid[row, column], quantity, curves)
        grid[-1, column].set_xlabel("step")
        _legend(grid[0, column], curves)
    for row, quantity in enumerate(QUANTITIES):
        grid[row, 0].set_ylabel(quantity.name)
    figure.align_ylabels()
    drawn = dict.fromkeys(look(curve.normalization) for _, curves in columns for curve in curves)
    colours = [Line2D([], [], color=this.colour, linewidth=1.8, label=this.label) for this in drawn]
    figure.legend(handles=colours, loc="outside upper right", ncols=len(colours))
    return figure


def _panel(axes: Axes, quantity: Quantity, curves: Sequence[Curve]) -> None:
    if quantity.logarithmic:
        axes.set_yscale("log")
        powers_of_ten(axes.yaxis)
    axes.grid(axis="y")
    dashes = _dashes(curves)
    for curve in curves:
        axes.plot(
            [step.step for step in curve.steps],
            [quantity.of(step) for step in curve.steps],
            color=look(curve.normalization).colour,
            linestyle=dashes.get(curve.value, "-"),
            linewidth=1.8 if curve.default else 1.0,
            alpha=0.45 if curve.default else 1.0,
        )


def _dashes(curves: Sequence[Curve]) -> dict[str, str]:
    return dict(zip(dict.fromkeys(curve.value for curve in curves if not curve.default), DASHES, strict=False))


def _legend(axes: Axes, curves: Sequence[Curve]) -> None:
    dashes = _dashes(curves)
    for value, dash in dashes.items():
        axes.plot([], [], color=FAINT, linewidth=1.0, linestyle=dash, label=value)
    if dashes:
        axes.legend(loc="upper right", handlelength=1.6, fontsize=6, borderpad=0.1, labelspacing=0.2)
