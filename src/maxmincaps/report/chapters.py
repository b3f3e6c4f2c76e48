"""The chapters of the page: which figures and tables each shows, and from which runs."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from maxmincaps.analysis.measures import accuracies_by_epoch, inactive_by_epoch, training_accuracies_by_epoch
from maxmincaps.analysis.runs import RunTable
from maxmincaps.analysis.traces import Trace, trace
from maxmincaps.analysis.traces import evolution as histograms
from maxmincaps.capsules.network import CapsNet
from maxmincaps.recipe import Recipe
from maxmincaps.report import curves, run_tables, tables
from maxmincaps.report import responses as response_figures
from maxmincaps.report import routing as routing_figures
from maxmincaps.report.architecture import architecture, parts_of
from maxmincaps.report.items import PageItem, ReportData, matched_networks, other_seeds, settings_except
from maxmincaps.report.overlap import overlapping
from maxmincaps.report.record_chapter import mnist_record
from maxmincaps.report.style import line_style
from maxmincaps.report.table import dataset_title
from maxmincaps.report.variations import PERCENT, ablations, iterations, other_normalizations
from maxmincaps.studies.study import title_of
from maxmincaps.studies.table import budget_in_words, network_in_words, relu_in_words
from maxmincaps.training.checkpoint import network_for, unfilled_network
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.wording import pluralize

ROUTING_SETTINGS = ("normalization", "iterations", "low", "high", "start", "logit_gain", "seed")
"""Settings that may differ between runs in one panel of the polarisation figure."""
FEWEST_SETTINGS = 3
"""Different routing settings that a panel of the polarisation figure shows at least, of two or more normalizations."""
MOST_PANELS = 5  # panels of the polarisation figure; with the legend they fill three rows


class Chapter(NamedTuple):
    """Some figures and tables under a heading."""

    name: str
    heading: str
    items: Callable[[ReportData], list[PageItem]]


def network(data: ReportData) -> list[PageItem]:
    """Return figure 1 for each size of network in the figures, or the paper's where there is none."""
    drawn: dict[Hashable, tuple[str, list[str], CapsNet]] = {}
    for dataset, pair in data.networks.items():
        net = unfilled_network(Run(next(iter(pair.values())).folder))
        words = tuple(part[2:] for row in parts_of(net) for part in row)
        _, titles, _ = drawn.setdefault(words, (f"figure-1-{data.file_names[dataset]}", [], net))
        titles.append(title_of(dataset))
    paper = ("figure-1", ["MNIST", "the paper's sizes"], network_for(Recipe(), (1, 28, 28), 10))
    return [
        data.item(
            "figure-1",
            architecture(net),
            "maxmincaps report",
            name=name,
            datasets=", ".join(titles),
            parameters=sum(part.numel() for part in net.parameters()),
        )
        for name, titles, net in drawn.values() or [paper]
    ]


def routing(data: ReportData) -> list[PageItem]:
    """Return figures 2 to 4."""
    if not data.networks:
        return [data.not_run("figure-2", "Figures 2 to 4", "evolution")]
    networks = data.networks.items()
    found = {dataset: {name: trace(run.folder) for name, run in pair.items()} for dataset, pair in networks}
    items = [_evolution(data, dataset, own) for dataset, own in found.items()]
    figure = routing_figures.rows([(title_of(dataset), own) for dataset, own in found.items()])
    runs = _runs_of_networks(data)
    return [*items, data.item("figure-4", figure, data.look_command("rows", runs), runs)]


def _evolution(data: ReportData, dataset: str, found: dict[str, Trace]) -> PageItem:
    number = 3 if dataset == "cifar10" else 2
    # The first dataset has the paper's number alone, so that documents can rely on the name.
    first = next(name for name in data.networks if (name == "cifar10") == (dataset == "cifar10"))
    inactive = {line_style(name).label: 1 - one.alive.float().mean().item() for name, one in found.items()}
    runs = list(data.networks[dataset].values())
    return data.item(
        "evolution",
        routing_figures.evolution({name: histograms(one) for name, one in found.items()}),
        data.look_command("evolution", runs),
        runs,
        name=f"figure-{number}" + ("" if dataset == first else f"-{data.file_names[dataset]}"),
        number=number,
        dataset=title_of(dataset),
        shares=", ".join(f"{label} {100 * share:.0f} %" for label, share in inactive.items()),
    )


def class_capsules(data: ReportData) -> list[PageItem]:
    """Return figures 5 and 6."""
    if not data.networks:
        return [data.not_run("figure-5", "Figures 5 and 6", "outputs")]
    panels = [
        (title_of(dataset), {name: responses(run.folder) for name, run in pair.items()})
        for dataset, pair in data.networks.items()
    ]
    runs = _runs_of_networks(data)
    return [
        data.item("figure-5", response_figures.outputs(panels), data.look_command("outputs", runs), runs),
        data.item("figure-6", response_figures.tuning(panels), data.look_command("tuning", runs), runs),
    ]


def _runs_of_networks(data: ReportData) -> list[RunSummary]:
    return [run for pair in data.networks.values() for run in pair.values()]


def accuracy(data: ReportData) -> list[PageItem]:
    """Return Table 1, accuracy by epoch, inactive capsules by epoch, and accuracy against polarisation."""
    study, found, runs, command = data.of_study("datasets")
    own = [
        other_seeds(data.outside_studies, run)
        for dataset, pair in matched_networks(data.outside_studies).items()
        if dataset not in runs.datasets
        for run in pair.values()
    ]
    if runs or own:
        shown = [tables.table_1(study, found, own)]
        if any(study.reported(tables.BEST, dataset, "Max-Min") for dataset in runs.datasets):
            shown.append(tables.table_1_in_short(study, found))
        every = [*runs, *(run for table in own for run in table)]
        items = [data.item(table.name, table, command, every, paper_number=True) for table in shown]
    else:
        items = [data.not_run("table-1", "Table 1", "datasets")]
    return [*items, *_by_epoch(data, found[0] if found else runs), *_polarization(data)]


def _by_epoch(data: ReportData, table_1: RunTable) -> list[PageItem]:
    # Of a dataset of Table 1 its runs; of any other dataset those that are nearest to the default recipe.
    pairs = {**matched_networks(data.runs), **matched_networks(table_1)}
    if not pairs:
        return []
    alike = {dataset: {n: other_seeds(data.runs, run) for n, run in pair.items()} for dataset, pair in pairs.items()}
    runs = [run for groups in alike.values() for own in groups.values() for run in own]

    def panels(values: Callable[[RunSummary], list]) -> list[tuple[str, dict[str, list]]]:
        return [
            (title_of(dataset), {name: [values(run) for run in own] for name, own in groups.items()})
            for dataset, groups in alike.items()
        ]

    def training_and_test(run: RunSummary) -> list[tuple[float, float]]:
        return list(zip(training_accuracies_by_epoch(run), accuracies_by_epoch(run), strict=True))

    label = "accuracy (%)" if any(run.recipe.validation for run in runs) else "test accuracy (%)"
    figures = {
        "training-curves": curves.by_epoch(panels(accuracies_by_epoch), label, skip=2),
        "test-against-training": curves.against_training(panels(training_and_test), label, skip=2),
        "inactive-capsules": curves.by_epoch(panels(inactive_by_epoch), "inactive capsules (%)", limits=PERCENT),
    }
    return [data.item(name, figure, data.runs_command, runs) for name, figure in figures.items()]


def _polarization(data: ReportData) -> list[PageItem]:
    groups = data.runs.complete.by(lambda run: settings_except(run, *ROUTING_SETTINGS)).values()
    several = [own for own in groups if len({settings_except(run, "seed") for run in own}) >= FEWEST_SETTINGS]
    compared = [own for own in several if len({run.recipe.normalization for run in own}) > 1]
    chosen = sorted(compared, key=len, reverse=True)[:MOST_PANELS]
    if not chosen:
        return []
    runs = [run for own in chosen for run in own]
    budgets = "; ".join(f"({letter}) {budget_in_words(own[0])}" for letter, own in zip("abcde", chosen, strict=False))
    figure = curves.against_polarization(list(zip(_panel_titles(chosen), chosen, strict=True)))
    return [data.item("polarisation", figure, data.runs_command, runs, panels=budgets)]


def _panel_titles(groups: list[RunTable]) -> list[str]:
    """Return dataset, network, epochs and ReLU of each group of runs, and the settings that tell equal titles apart."""
    titles = []
    for own in groups:
        recipe = own[0].recipe
        words = (network_in_words(own[0]), pluralize(recipe.epochs, "epoch"), relu_in_words(own[0]))
        titles.append(f"{dataset_title(own, recipe.dataset)}\n{', '.join(words)}")
    settings = [own[0].recipe.model_dump(exclude={*ROUTING_SETTINGS}) for own in groups]
    recipes = list(zip(titles, settings, strict=True))
    for place, (title, recipe) in enumerate(recipes):
        same = [other for its_title, other in recipes if its_title == title]
        differing = [name for name in recipe if any(other[name] != recipe[name] for other in same)]
        titles[place] += "".join(f", {name} {recipe[name]}" for name in differing)
    return titles


def all_runs(data: ReportData) -> list[PageItem]:
    """Return the table of every run."""
    return [data.item("all-runs", run_tables.all_runs(data.runs), data.runs_command)] if data.runs else []


CHAPTERS = (
    Chapter("accuracy", "Accuracy on each dataset", accuracy),
    Chapter("iterations", "Routing iterations", iterations),
    Chapter("inside", "Inside routing", routing),
    Chapter("class-capsules", "Class capsules", class_capsules),
    Chapter("mnist-record", "The MNIST record, and misclassified images", mnist_record),
    Chapter("normalizations", "Other normalizations and bounds", other_normalizations),
    Chapter("overlap", "Overlapping digits", overlapping),
    Chapter("ablations", "Ablations", ablations),
    Chapter("network", "The network", network),
    Chapter("runs", "Every run", all_runs),
)
