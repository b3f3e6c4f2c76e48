"""The chapter on the MNIST record: Table 2, misclassified images with precision and recall, and the poll."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxtyping import UInt8
from torch import Tensor

from maxmincaps.analysis.poll_results import examples
from maxmincaps.analysis.runs import RunTable
from maxmincaps.analysis.vote import vote
from maxmincaps.analysis.voters import MODELS, models_a_b_c
from maxmincaps.errors import InputError
from maxmincaps.report import mistakes, run_tables, tables
from maxmincaps.report.items import PageItem, ReportData, matched_networks
from maxmincaps.report.poll import human_or_network, table_3
from maxmincaps.report.style import line_style
from maxmincaps.studies.study import title_of
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.training.run_images import images_seen

GRID = "Above each image: its index in the test set, the prediction, and the true label. "


def mnist_record(data: ReportData) -> list[PageItem]:
    """Return tables 2 and 3, figures 9, 10 and A.1 to A.3, the confusion matrix and the scores of each class."""
    study, found = data.studies["mnist-record"], data.by_network("mnist-record")
    runs = RunTable(tuple(run for own in found for run in own), study)
    voters = models_a_b_c(found[0]) if found else []
    models = [responses(run.folder) for run in voters]
    voted = vote(models) if len(models) == len(MODELS) else None
    items = _misclassified(data, voters, models, voted) if models else _of_one_dataset(data)
    if runs:
        words = "Test errors of single networks and of majority votes, the paper's beside ours."
        command = data.study_command(study, runs.scales)
        table = tables.table_2(study, found)
        items.insert(0, data.item("table-2", "Table 2", words, table, command, runs, paper_number=True))
    else:
        items.append(data.not_run("table-2", "Table 2, figures 9, A.1 to A.3", "mnist-record"))
    return [*items, *_people(data, voted, voters)]


def _misclassified(
    data: ReportData, voters: Sequence[RunSummary], models: Sequence[Responses], voted: Responses | None
) -> list[PageItem]:
    study = data.studies["misclassified"]
    command = data.study_command(study, (run.scale for run in voters))
    reported = {measure.measure: int(measure.value) for measure in study.paper}
    items = []
    if voted:
        caption = (
            f"The {len(voted.wrong):,} images that the majority vote of three networks, with their final weights, "
            f"misclassifies (the paper's vote: {reported['vote_misclassified']}). "
        )
        items.append(_wrong_images(data, "figure-9", "Figure 9", caption, voted, command, voters))
    for run, model in zip(voters, models, strict=True):
        number, letter = run.recipe.seed + 1, MODELS[run.recipe.seed]
        caption = (
            f"The {len(model.wrong):,} images that model {letter} (seed {run.recipe.seed}, final weights) "
            f"misclassifies (the paper's: {reported[f'model_{letter.lower()}_misclassified']}). "
        )
        items.append(_wrong_images(data, f"figure-a{number}", f"Figure A.{number}", caption, model, command, [run]))
    whose = "majority vote" if voted else f"model {MODELS[voters[0].recipe.seed]}"
    runs = voters if voted else voters[:1]
    return [*items, *_by_class(data, f"MNIST, {whose}", {"max-min": voted or models[0]}, command, runs)]


def _of_one_dataset(data: ReportData) -> list[PageItem]:
    """Return misclassified images, confusion matrix and scores of the first dataset that has class lengths."""
    able = matched_networks(data.runs.filter(lambda run: run.has("lengths.safetensors")))
    for dataset, pair in list(able.items())[:1]:
        found = {name: responses(run.folder) for name, run in pair.items()}
        name, run = list(pair.items())[-1]
        title = f"{title_of(dataset)}, {line_style(name).label}"
        caption = (
            f"The {len(found[name].wrong):,} of {len(found[name].labels):,} test images of {title_of(dataset)} that "
            f"the {line_style(name).label} network misclassifies with its final weights. "
        )
        command = data.look_command("misclassified", pair.values())
        image = _wrong_images(
            data, "misclassified", f"Misclassified images: {title}", caption, found[name], command, [run], False
        )
        return [image, *_by_class(data, title, found, command, list(pair.values()))]
    return []


def _by_class(
    data: ReportData, title: str, found: Mapping[str, Responses], command: str, runs: Sequence[RunSummary]
) -> list[PageItem]:
    name, shown = list(found.items())[-1]
    caption = (
        "How often each true class (row) is classified as each class (column) with the final weights. Bold: correct. "
        "Only errors are shaded."
    )
    table = run_tables.scores_by_class({line_style(norm).label: one for norm, one in found.items()})
    return [
        data.item(
            "confusion",
            f"Confusion matrix: {title}",
            caption,
            mistakes.confusion(shown, name),
            command,
            runs if len(found) == 1 else runs[-1:],
        ),
        data.item("class-scores", f"Precision and recall: {title}", "Per class.", table, command, runs),
    ]


def _wrong_images(
    data: ReportData,
    name: str,
    title: str,
    caption: str,
    model: Responses,
    command: str,
    runs: Sequence[RunSummary],
    paper_number: bool = True,
) -> PageItem:
    """Draw misclassified images. A run folder holds no images, so they may not be available."""
    try:
        images = test_images(runs[0])
    except InputError as error:
        return PageItem(name, title, f"{caption}They cannot be drawn: {error}.", None)
    figure = mistakes.misclassified(model, images)
    return data.item(name, title, caption + GRID, figure, command, runs, paper_number=paper_number)


def _people(data: ReportData, voted: Responses | None, voters: Sequence[RunSummary]) -> list[PageItem]:
    study, poll = data.studies["poll"], data.poll
    command = "maxmincaps poll open RUN RUN RUN"
    if poll is None and voted is None:
        return [PageItem("table-3", "Table 3, figure 10", "", None, command)]
    below = not voters or data.below_paper(voters)  # a poll does not name its runs
    of_mnist = voted if voters and voters[0].recipe.dataset == "mnist" else None
    table = table_3(poll, of_mnist, below)
    items = [PageItem("table-3", "Table 3", study.claim, table, command, below_paper=below)]
    if poll is None or not (chosen := examples(poll)):
        return [*items, PageItem("figure-10", "Figure 10", "", None, command)]
    words = (
        "People beside networks, class by class, for three misclassified images. The shares of people sum to 1, the "
        "lengths of capsules do not."
    )
    figure = human_or_network(chosen, poll.classes, poll.models)
    return [*items, PageItem("figure-10", "Figure 10", words, figure, command)]


def test_images(run: RunSummary) -> UInt8[Tensor, "image channel height width"]:
    """Load the test images of a run."""
    return images_seen(Run(Path(run.folder))).test.images
