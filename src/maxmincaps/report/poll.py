"""Table 3 and figure 10: people and networks on the same images."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from maxmincaps.analysis.poll import Poll, Question, Side
from maxmincaps.analysis.poll_results import PollRow, agreement, paper_rows
from maxmincaps.analysis.poll_results import table_3 as rows_of_poll
from maxmincaps.report.style import FULL_WIDTH, LINE_STYLES, letters, panel_title, styled
from maxmincaps.report.table import DAGGER, NOT_PAPER, Table
from maxmincaps.studies.study import title_of
from maxmincaps.training.responses import Responses
from maxmincaps.wording import pluralize

PEOPLE = "#6b7280"


def table_3(asked: Poll | None, voted: Responses | None = None, below_paper: bool = True) -> Table:
    """Return Table 3: the paper's six images, and those of our poll or the votes of our networks on the paper's six.

    Numbers of networks that were trained with another budget than the paper's are marked.
    """
    mark = DAGGER if below_paper else ""
    paper = [("the paper's", row, "") for row in paper_rows()]
    ours = []
    if asked:
        # The paper's six images are of MNIST; others are named with their dataset.
        whose = "ours" if asked.dataset == "mnist" else f"ours, {title_of(asked.dataset)}"
        ours = [(whose, row, mark) for row in rows_of_poll(asked)]
    elif voted:
        ours = [_by_our_networks(row, voted, mark) for row in paper_rows()]
    return Table(
        name="table-3",
        caption="Table 3. People / networks on misclassified MNIST images: share of people, mean length.",
        columns=("Image", "Whose", "Label", "On the label", "Prediction", "On the prediction", "People agree with"),
        rows=tuple(_poll_row(*line) for line in (*paper, *ours)),
        notes=(
            *((f"Of all that were asked about, {agreement(asked)}.",) if asked else ()),
            *((f"{DAGGER} {NOT_PAPER}.",) if ours and mark else ()),
        ),
    )


def _poll_row(whose: str, row: PollRow, mark: str) -> tuple[str, ...]:
    def both(people: float | None, network: float) -> str:
        return f"{'not asked' if people is None else format(people, '.2f')} / {network:.2f}{mark}"

    on_label = both(row.people_on_label, row.network_on_label)
    on_prediction = both(row.people_on_prediction, row.network_on_prediction)
    side = "not asked" if row.people_on_label is None and mark else str(row.people_agree_with)
    return f"#{row.image}", whose, f"{row.label}", on_label, f"{row.prediction}", on_prediction, side


def _by_our_networks(row: PollRow, voted: Responses, mark: str) -> tuple[str, PollRow, str]:
    """Return the paper's row with the lengths of our networks, for the same image and classes, and no people."""
    lengths = voted.lengths[row.image]
    nobody = {"people_on_label": None, "people_on_prediction": None, "people_agree_with": Side.NOBODY}
    on_label, on_prediction = lengths[row.label].item(), lengths[row.prediction].item()
    ours = row._replace(network_on_label=on_label, network_on_prediction=on_prediction, **nobody)
    return f"ours (no poll; the vote predicts {voted.predictions[row.image].item()})", ours, mark


@styled
def human_or_network(examples: Sequence[tuple[str, Question]], classes: Sequence[str], models: int) -> Figure:
    """Draw one bar chart per titled question: people beside the mean of the networks, class by class, and the image."""
    figure = Figure(figsize=(FULL_WIDTH * 0.75, 1.75 * len(examples) + 0.3))
    grid = figure.subplots(len(examples), 1, squeeze=False, sharey=True)[:, 0]
    places, colour = np.arange(len(classes)), LINE_STYLES["max-min"].colour
    hatched = {"color": PEOPLE, "hatch": "////", "edgecolor": "white"}
    for axes, letter, (title, question) in zip(grid, letters(), examples, strict=False):
        axes.bar(places - 0.2, question.people, width=0.38, label="people", **hatched)
        axes.bar(places + 0.2, question.network, width=0.38, color=colour, linewidth=0, label="network")
        axes.set_ylim(0, 1)
        axes.set_ylabel("share of people,\ncapsule length")
        axes.set_xticks(places, classes)
        axes.get_xticklabels()[question.label].set(fontweight="bold")
        axes.grid(axis="y")
        inset = axes.inset_axes((1.02, 0.1, 0.2, 0.8))
        inset.imshow(question.pixels.transpose(1, 2, 0), cmap="gray_r", vmin=0, vmax=255)
        inset.set_axis_off()
        asked = pluralize(question.answers, "answer")
        panel_title(axes, letter, f"{title} (#{question.image}, true class {classes[question.label]}, {asked})")
    grid[-1].set_xlabel("class")
    handles, _ = grid[0].get_legend_handles_labels()
    words = ["people", f"network (mean of {pluralize(models, 'model')})"]
    figure.legend(handles, words, loc="outside upper right", ncols=2)
    return figure
