"""The chapter on the MNIST record: Table 2, misclassified images with precision and recall, and the poll."""

from collections.abc import Mapping, Sequence
from typing import Any

from maxmincaps.analysis.poll_results import examples
from maxmincaps.analysis.runs import MODELS, models_a_b_c
from maxmincaps.analysis.vote import vote
from maxmincaps.errors import InputError
from maxmincaps.report import mistakes, run_tables, tables
from maxmincaps.report.items import PageItem, ReportData, matched_networks
from maxmincaps.report.poll import human_or_network, table_3
from maxmincaps.report.style import line_style
from maxmincaps.studies.paper import LENGTHS
from maxmincaps.studies.study import title_of
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import Run, RunSummary

GRID = "Above each image: its index in the test set, the prediction, and the true label. "


def mnist_record(data: ReportData) -> list[PageItem]:
    """Return tables 2 and 3, figures 9, 10 and A.1 to A.3, the confusion matrix and the scores of each class."""
    study, found, runs, command = data.of_study("mnist-record")
    voters = models_a_b_c(found[0]) if found else []
    models = [responses(run.folder) for run in voters]
    voted = vote(models) if len(models) == len(MODELS) else None
    items = _misclassified(data, voters, models, voted) if models else _of_one_dataset(data)
    if runs:
        items.insert(0, data.item("table-2", tables.table_2(study, found), command, runs, paper_number=True))
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
        words = {"name": "figure-9", "paper": reported["vote_misclassified"]}
        items.append(_wrong_images(data, "vote-misclassified", voted, command, voters, **words))
    for run, model in zip(voters, models, strict=True):
        seed, letter = run.recipe.seed, MODELS[run.recipe.seed]
        paper = reported[f"model_{letter.lower()}_misclassified"]
        words = {"name": f"figure-a{seed + 1}", "number": seed + 1, "letter": letter, "seed": seed, "paper": paper}
        items.append(_wrong_images(data, "model-misclassified", model, command, [run], **words))
    whose = "majority vote" if voted else f"model {MODELS[voters[0].recipe.seed]}"
    runs = voters if voted else voters[:1]
    return [*items, *_by_class(data, f"MNIST, {whose}", {"max-min": voted or models[0]}, command, runs)]


def _of_one_dataset(data: ReportData) -> list[PageItem]:
    """Return misclassified images, confusion matrix and scores of the first dataset that has class lengths."""
    able = matched_networks(data.runs.filter(lambda run: run.has(LENGTHS)))
    if not able:
        return []
    dataset, pair = next(iter(able.items()))
    found = {name: responses(run.folder) for name, run in pair.items()}
    name, run = list(pair.items())[-1]
    title, network = title_of(dataset), line_style(name).label
    command = data.look_command("misclassified", pair.values())
    words = {"dataset": title, "network": network, "images": len(found[name].labels)}
    image = _wrong_images(data, "misclassified", found[name], command, [run], paper_number=False, **words)
    return [image, *_by_class(data, f"{title}, {network}", found, command, list(pair.values()))]


def _by_class(
    data: ReportData, whose: str, found: Mapping[str, Responses], command: str, runs: Sequence[RunSummary]
) -> list[PageItem]:
    name, shown = list(found.items())[-1]
    table = run_tables.scores_by_class({line_style(norm).label: one for norm, one in found.items()})
    drawn = runs if len(found) == 1 else runs[-1:]
    return [
        data.item("confusion", mistakes.confusion(shown, name), command, drawn, whose=whose),
        data.item("class-scores", table, command, runs, whose=whose),
    ]


def _wrong_images(
    data: ReportData,
    text: str,
    model: Responses,
    command: str,
    runs: Sequence[RunSummary],
    *,
    paper_number: bool = True,
    **words: Any,
) -> PageItem:
    """Draw misclassified images. A run folder holds no images, so they may not be available."""
    words["wrong"] = len(model.wrong)
    try:
        images = images_seen(Run(runs[0].folder)).test.images
    except InputError as error:
        return data.item(text, None, "", rest=f"They cannot be drawn: {error}.", **words)
    figure = mistakes.misclassified(model, images)
    return data.item(text, figure, command, runs, paper_number=paper_number, rest=GRID, **words)


def _people(data: ReportData, voted: Responses | None, voters: Sequence[RunSummary]) -> list[PageItem]:
    poll, command = data.poll, "maxmincaps poll open RUN RUN RUN"
    if poll is None and voted is None:
        return [PageItem("table-3", "Table 3, figure 10", "", None, command)]
    below = not voters or data.below_paper(voters)  # a poll does not name its runs
    of_mnist = voted if voters and voters[0].recipe.dataset == "mnist" else None
    table = table_3(poll, of_mnist, below)
    items = [PageItem("table-3", "Table 3", data.studies["poll"].claim, table, command, below_paper=below)]
    if poll is None or not (chosen := examples(poll)):
        return [*items, PageItem("figure-10", "Figure 10", "", None, command)]
    return [*items, data.item("figure-10", human_or_network(chosen, poll.classes, poll.models), command)]
