"""Table 3 and figure 10: what people and the network say of the same image."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.analysis.poll_results import agreement, paper_rows
from maxmincaps.analysis.poll_results import table_3 as rows_of_poll
from maxmincaps.report.cells import DAGGER
from maxmincaps.report.selection import NOT_PAPER
from maxmincaps.report.style import FULL_WIDTH, LOOKS, letters, panel_title, styled
from maxmincaps.report.table import Table
from maxmincaps.studies.study import title_of
from maxmincaps.training.responses import Responses
from maxmincaps.wording import pluralize

PEOPLE = "#6b7280"


Row = dict[str, Any]


def table_3(asked: Poll | None, voted: Responses | None = None, below_paper: bool = True) -> Table:
    """Compare people and networks: the paper's six images and those of our poll, or our networks on the paper's six.

    `voted` has the answers of our three networks to MNIST's test images.
    """
    mark = DAGGER if below_paper else ""
    paper = [("the paper's", row, "") for row in paper_rows()]
    ours = []
    if asked:
        # An image's number means nothing without its dataset, and the paper's six are of MNIST.
        whose = "ours" if asked.dataset == "mnist" else f"ours, {title_of(asked.dataset)}"
        ours = [(whose, row, mark) for row in rows_of_poll(asked)]
    elif voted:
        ours = [(_told(row, voted), _by_our_networks(row, voted), mark) for row in paper_rows()]
    return Table(
        name="table-3",
        caption="Table 3. People / networks on misclassified MNIST images: share of people, mean length.",
        columns=("Image", "Whose", "Label", "On the label", "Prediction", "On the prediction", "People agree with"),
        rows=tuple(_poll_row(*line) for line in (*paper, *ours)),
        notes=(
            *((f"Of all that were asked about, {agreement(asked)}.",) if asked else ()),
            *((f"{DAGGER} {NOT_PAPER}.",) if ours and mark else ()),
        ),
        words=("Whose", "People agree with"),
    )


def _poll_row(whose: str, row: Row, mark: str) -> tuple[str, ...]:
    on_label, on_prediction = (
        f"{'not asked' if row[f'people_on_{place}'] is None else format(row[f'people_on_{place}'], '.2f')} / "
        f"{row[f'network_on_{place}']:.2f}{mark}"
        for place in ("label", "prediction")
    )
    label, prediction = f"{row['label']}", f"{row['prediction']}"
    return f"#{row['image']}", whose, label, on_label, prediction, on_prediction, row["people_agree_with"]


def _told(row: Row, voted: Responses) -> str:
    """Say whose numbers stand beside the paper's two classes, and which class our networks choose."""
    return f"ours (no poll; the vote says {voted.predictions[row['image']].item()})"


def _by_our_networks(row: Row, voted: Responses) -> Row:
    """Put our networks' lengths in the place of the paper's, for the same image and the same two classes."""
    lengths = {place: voted.lengths[row["image"], row[place]].item() for place in ("label", "prediction")}
    networks = {f"network_on_{place}": length for place, length in lengths.items()}
    return {**row, **networks, "people_on_label": None, "people_on_prediction": None, "people_agree_with": "not asked"}


@styled
def human_or_network(examples: Sequence[tuple[str, Question]], classes: Sequence[str], models: int) -> Figure:
    """Draw one bar chart an image: people beside the networks, class by class, and the image itself.

    An example is a question of the poll and what it is an example of.
    """
    figure = Figure(figsize=(FULL_WIDTH * 0.75, 1.75 * len(examples) + 0.3))
    grid = figure.subplots(len(examples), 1, squeeze=False, sharey=True)[:, 0]
    for axes, letter, (title, question) in zip(grid, letters(), examples, strict=False):
        _pair_of_bars(axes, question, classes)
        asked = pluralize(question.answers, "answer")
        panel_title(axes, letter, f"{title} (#{question.image}, true class {classes[question.label]}, {asked})")
    grid[-1].set_xlabel("class")
    handles, _ = grid[0].get_legend_handles_labels()
    words = ["people", f"network (mean of {pluralize(models, 'model')})"]
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
