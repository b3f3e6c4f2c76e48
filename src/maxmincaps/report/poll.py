"""Figure 10: what people and the network say of the same image."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxmincaps.analysis.poll import Question
from maxmincaps.report.style import FULL_WIDTH, LOOKS, letters, panel_title, styled
from maxmincaps.training.words import counted

PEOPLE = "#6b7280"


@styled
def human_or_network(examples: Sequence[tuple[str, Question]], classes: Sequence[str], models: int) -> Figure:
    """Draw one bar chart an image: people beside the networks, class by class, and the image itself.

    An example is a question of the poll and what it is an example of.
    """
    figure = Figure(figsize=(FULL_WIDTH * 0.75, 1.75 * len(examples) + 0.3))
    grid = figure.subplots(len(examples), 1, squeeze=False, sharey=True)[:, 0]
    for axes, letter, (title, question) in zip(grid, letters(), examples, strict=False):
        _pair_of_bars(axes, question, classes)
        asked = counted(int(question.counts.sum()), "answer")
        panel_title(axes, letter, f"{title} (#{question.image}, true class {classes[question.label]}, {asked})")
    grid[-1].set_xlabel("class")
    handles, _ = grid[0].get_legend_handles_labels()
    words = ["people", f"network (mean of {counted(models, 'model')})"]
    figure.legend(handles, words, loc="outside upper right", ncols=2)
    return figure


def _pair_of_bars(axes: Axes, question: Question, classes: Sequence[str]) -> None:
    places = np.arange(len(classes))
    axes.bar(places - 0.2, question.people, width=0.38, color=PEOPLE, hatch="////", edgecolor="white", label="people")
    axes.bar(places + 0.2, question.network, width=0.38, color=LOOKS["max-min"].colour, linewidth=0, label="network")
    axes.set_ylim(0, 1)
    axes.set_ylabel("probability")
    axes.set_xticks(places, classes)
    axes.get_xticklabels()[question.label].set(fontweight="bold")
    axes.grid(axis="y")
    inset = axes.inset_axes((1.02, 0.1, 0.2, 0.8))
    pixels = question.pixels[0] if len(question.pixels) == 1 else question.pixels.transpose(1, 2, 0)
    inset.imshow(pixels, cmap="gray_r", vmin=0, vmax=255)
    inset.set_axis_off()
