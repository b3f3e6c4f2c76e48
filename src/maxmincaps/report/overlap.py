"""The chapter on overlapping digits: accuracies, whom the lower-level capsules serve, and digits taken apart."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from maxmincaps.analysis import measures
from maxmincaps.analysis.runs import RunTable, Tables, interval
from maxmincaps.analysis.verdicts import Bound
from maxmincaps.data.images import OVERLAP_COLOURS
from maxmincaps.report.items import COMPARED, PageItem, ReportData, matched_pair
from maxmincaps.report.style import FULL_WIDTH, line_style, styled
from maxmincaps.report.table import BEST_NOTE, NONE, OURS, SD_NOTE, Table, best_and_final, with_interval, with_sd
from maxmincaps.studies.study import Study
from maxmincaps.studies.table import network_in_words
from maxmincaps.training.separation import SHOWN, SHOWN_WRONG, Separation, read_separation

COLUMNS = {
    "Parents, one digit": measures.parents_under_one,
    "Parents, both": measures.parents_under_both,
    "Entropy, both": measures.entropy_under_both,
    "Owner strongest": measures.owner_strongest_percent,
    "Other strongest": measures.other_strongest_percent,
    "Both strongest": measures.both_strongest_percent,
    "Order follows": measures.order_follows_percent,
}
NOTE = (
    "Parents, entropy: of the coefficients of lower-level capsules with one digit or both in their receptive field; a "
    "parent is served if its coefficient is above half of the largest. Owner, other: of capsules over one digit, those "
    "whose strongest parent is this digit, or the other one of the image (%). Both strongest: of capsules over both, "
    "those whose two strongest parents are these (%). Order follows: of the same, those whose coefficients are in the "
    "order of the digits' bright pixels (%; chance is 50)."
)


def overlapping(data: ReportData) -> list[PageItem]:
    """Return table, verdicts and figure of the study `overlap`, if it has runs."""
    study, found, runs, command = data.of_study("overlap")
    if not runs.complete:
        return []
    shown = [lines(study, found), compared(study, found)]
    items = [data.item(table.name, table, command, runs) for table in shown]
    with_files = runs.complete.filter(lambda run: run.has("separation.safetensors"))
    pair = matched_pair(with_files)
    if len(pair) == len(COMPARED):
        figure = taken_apart({name: read_separation(run.folder) for name, run in pair.items()})
        recipe = pair[COMPARED[0]].recipe
        words = {"iterations": recipe.iterations, "seed": recipe.seed}
        items.insert(0, data.item("overlap-taken-apart", figure, command, [*pair.values()], **words))
    return items


def lines(study: Study, tables: Tables) -> Table:
    """Return accuracies and measures of the capsules for every line of the study."""
    rows = []
    for runs in tables:
        for line in study.lines:
            own = runs.where(line=line.label, value=line.value)
            if not own:
                continue
            best, final, n, budget = best_and_final(own)
            routes = line.settings["iterations"] > 1  # equal coefficients have no strongest one
            cells = (with_sd(own.mean(measure) if routes else None, otherwise=NONE) for measure in COLUMNS.values())
            rows.append((line.label, f"{line.value:g}", best, final, *cells, n, budget))
    return Table(
        name="overlap",
        caption=f"{study.title}. Test accuracy (%, both digits right), and whom lower-level capsules serve.",
        columns=("Line", "r", "Best", "Final", *COLUMNS, "n", "Budget"),
        rows=tuple(rows),
        notes=(BEST_NOTE, SD_NOTE, NOTE),
    )


def compared(study: Study, tables: Tables) -> Table:
    """Return the verdicts on the study's claim by the rule that is stated in its description."""
    rows = []
    for runs in tables:
        for value in sorted({line.value for line in study.lines if line.label == "Max-Min" and line.value}):
            here = runs.where(value=value)
            found = {
                "better test accuracy than Softmax (percentage points)": here.differences(
                    measures.best_accuracy, "Max-Min", "Softmax"
                ),
                "capsules over both digits serve more parents than over one": [
                    *here.where(line="Max-Min").measured(measures.more_parents_under_both).values()
                ],
                "capsules over both digits: these are the two strongest parents more often than with Softmax "
                "(percentage points)": here.differences(measures.both_strongest_percent, "Max-Min", "Softmax"),
            }
            rows += [_verdict(here, words, f"{value:g}", numbers) for words, numbers in found.items() if numbers]
    return Table(
        name="overlap-compared",
        caption=f"{study.title}. What Max-Min is claimed to do, and what the runs say.",
        columns=("Max-Min", "Network", "r", OURS, "Verdict"),
        rows=tuple(rows),
        notes=("A feature belongs to several objects under Max-Min if the last two claims of an r are supported.",),
    )


def _verdict(runs: RunTable, words: str, value: str, numbers: list[float]) -> tuple[str, ...]:
    found = interval(numbers)
    verdict = Bound().verdict(found) if not runs.diverged else "inconclusive: a run diverged"
    return words, network_in_words(runs[0]), value, with_interval(found), str(verdict)


@styled
def taken_apart(networks: Mapping[str, Separation]) -> Figure:
    """Draw pairs of digits, both reconstructions, the coefficients in the overlap, and misclassified pairs.

    Args:
        networks: What the runs of two normalizations stored, by the name of the normalization.
    """
    figure = Figure(figsize=(FULL_WIDTH, 6.3))
    grid = figure.subplots(6, SHOWN + 1 + SHOWN_WRONG, width_ratios=[*[1] * SHOWN, 0.35, *[1] * SHOWN_WRONG])
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    first = next(iter(networks.values()))
    for column in range(min(SHOWN, len(first.labels))):
        _draw_input(grid[:2, column], first, column)
        for row, found in enumerate(networks.values()):
            _draw_reconstruction(grid[2 + 2 * row, column], found, column)
            _draw_couplings(grid[3 + 2 * row, column], found, column)
    labels = ["input", "true digits"]
    for name in networks:
        labels += [f"{line_style(name).label}:\nreconstructed", f"{line_style(name).label}:\ncoefficients"]
    for axes, words in zip(grid[:, 0], labels, strict=True):
        axes.set_ylabel(words)
    for row, (name, found) in enumerate(networks.items()):
        block = grid[3 * row : 3 * row + 3, SHOWN + 1 :]
        wrong = range(SHOWN, len(found.labels))
        for place, column in enumerate(wrong):
            _draw_input(block[:2, place], found, column)
            _draw_reconstruction(block[2, place], found, column)
        for axes, words in zip(block[:, 0], ("input", "true digits", "reconstructed"), strict=True):
            axes.set_ylabel(words if len(wrong) else "")
        style = line_style(name)
        words = f"Misclassified by {style.label}" if len(wrong) else f"None misclassified by {style.label}"
        block[0, 0].set_title(words, loc="left", color=style.colour, fontweight="bold")
    grid[0, 0].set_title("The first test pairs", loc="left", fontweight="bold")
    return figure


def _draw_input(two: list[Axes], found: Separation, image: int) -> None:
    """Draw the sum of two digits, and below it each digit in its colour."""
    objects = found.objects[image].float() / 255
    two[0].imshow(objects.sum(dim=0).clamp(max=1).amax(dim=0).numpy(), cmap="gray", vmin=0, vmax=1)
    two[1].imshow(_coloured(objects))
    _write_classes(two[1], [str(label) for label in found.labels[image].tolist()])


def _draw_reconstruction(axes: Axes, found: Separation, image: int) -> None:
    """Draw both reconstructions over each other with the outline of the input; wrong classes are marked."""
    labels, predictions = found.labels[image].tolist(), found.predictions[image].tolist()
    swapped = predictions[0] == labels[1] or predictions[1] == labels[0]
    order = [1, 0] if swapped else [0, 1]  # a digit has its colour of the row above
    axes.imshow(_coloured(found.reconstructions[image, order].float() / 255))
    outline = found.objects[image].float().sum(dim=0).clamp(max=255).amax(dim=0)
    axes.contour(outline.numpy(), [127], colors="white", linewidths=0.4)
    classes = [predictions[place] for place in order]
    _write_classes(axes, [str(name) if name in labels else f"{name} ✗" for name in classes])


def _draw_couplings(axes: Axes, found: Separation, image: int) -> None:
    """Draw the coefficients of the capsule types in the overlap, each as a share of the capsule's largest."""
    couplings = found.couplings[image].abs()
    shares = couplings / couplings.amax(dim=1, keepdim=True).clamp(min=1e-12)
    axes.imshow(shares.numpy(), cmap="gray_r", vmin=0, vmax=1, aspect="auto")
    axes.set_box_aspect(1)
    axes.spines[:].set_visible(True)
    parents, labels = range(shares.shape[1]), found.labels[image].tolist()
    if len(parents) <= 10:
        axes.set_xticks([*parents], [str(parent) for parent in parents], fontsize=5.5)
        axes.tick_params(length=0, pad=1)
        for colour, label in zip(OVERLAP_COLOURS, labels, strict=True):
            text = axes.get_xticklabels()[label]
            text.set(color=_dark(colour), fontweight="bold", fontsize=7)


def _coloured(objects: Float[Tensor, "several channel height width"]) -> Float[np.ndarray, "height width 3"]:
    colours = torch.tensor(OVERLAP_COLOURS)
    return torch.einsum("shw,sc->hwc", objects.amax(dim=1), colours).clamp(max=1).numpy()


def _write_classes(axes: Axes, names: list[str]) -> None:
    """Write the names of two classes below an image, each in its colour."""
    for name, colour, place in zip(names, OVERLAP_COLOURS, (0.02, 0.98), strict=True):
        axes.text(
            place, -0.03, name, transform=axes.transAxes, color=_dark(colour), fontsize=6.5, fontweight="bold",
            ha="left" if place < 0.5 else "right", va="top",
        )  # fmt: skip


def _dark(colour: tuple[float, ...]) -> tuple[float, ...]:
    """Return a colour that can be read as text on white."""
    return tuple(0.7 * part for part in colour)
