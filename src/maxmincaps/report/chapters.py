"""The chapters of the page: which figures and tables each shows, and from which runs."""

from collections.abc import Callable
from dataclasses import dataclass

from maxmincaps.analysis import traces
from maxmincaps.analysis.measures import accuracies_by_epoch, inactive_by_epoch, training_accuracies_by_epoch
from maxmincaps.analysis.runs import RunTable
from maxmincaps.capsules.network import CapsNet
from maxmincaps.recipe import Recipe
from maxmincaps.report import curves, run_tables, tables
from maxmincaps.report import responses as response_figures
from maxmincaps.report import routing as routing_figures
from maxmincaps.report.architecture import Shapes, architecture, shapes_of
from maxmincaps.report.items import Networks, PageItem, ReportData, matched_networks, other_seeds, settings_except
from maxmincaps.report.record_chapter import mnist_record
from maxmincaps.report.style import line_style
from maxmincaps.report.table import dataset_title
from maxmincaps.report.variations import PERCENT, ablations, iterations, other_normalizations
from maxmincaps.studies.study import title_of
from maxmincaps.studies.table import budget_in_words
from maxmincaps.training.checkpoint import network_for, unfilled_network
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run, RunSummary

ROUTING_SETTINGS = ("normalization", "iterations", "low", "high", "start", "logit_gain", "seed")
"""Settings that may differ between runs in one panel of the polarisation figure."""
FEWEST_SETTINGS = 3
"""Different routing settings that a panel of the polarisation figure shows at least."""
MOST_PANELS = 6


@dataclass(frozen=True)
class Chapter:
    """Some figures and tables under a heading."""

    name: str
    heading: str
    items: Callable[[ReportData], list[PageItem]]


def network(data: ReportData) -> list[PageItem]:
    """Return figure 1 for each size of network in the figures, or the paper's where there is none."""
    drawn: dict[Shapes, tuple[str, str, CapsNet]] = {}
    for dataset, pair in data.networks.items():
        net = unfilled_network(Run(next(iter(pair.values())).folder))
        name, title, _ = drawn.get(shapes_of(net), (f"figure-1-{data.file_names[dataset]}", "Figure 1", net))
        drawn[shapes_of(net)] = name, f"{title}, {title_of(dataset)}", net
    paper = ("figure-1", "Figure 1, MNIST, the paper's sizes", network_for(Recipe(), (1, 28, 28), 10))
    return [
        PageItem(
            name,
            title,
            "The network, drawn from its own shapes. Above: two convolutions make the capsules of PrimaryCaps, and "
            "routing makes one capsule per class, whose length says how strongly the class is present. Below: the "
            "decoder reconstructs the image from the capsule of one class. "
            f"{sum(part.numel() for part in net.parameters()):,} parameters.",
            architecture(net),
            "maxmincaps report",
        )
        for name, title, net in drawn.values() or [paper]
    ]


def routing(data: ReportData) -> list[PageItem]:
    """Return figures 2 to 4."""
    if not data.networks:
        return [data.not_run("figure-2", "Figures 2 to 4", "evolution")]
    items = [_evolution(data, dataset, pair) for dataset, pair in data.networks.items()]
    panels = [
        (title_of(dataset), {name: traces.trace(run.folder) for name, run in pair.items()})
        for dataset, pair in data.networks.items()
    ]
    caption = (
        "Logits and routing coefficients of three lower-level capsules to all parents at the last iteration, for the "
        "first training image; its true class is in full colour. The three have the widest ranges of logits and "
        "different strongest parents. Logits have an axis of their own in each row. Max-Min maps the smallest logit of "
        "a capsule to 0 and the largest to 1, however close they are: where the range of the logits is small, it "
        "amplifies small differences, noise included, to the full range of coefficients."
    )
    runs = _runs(data.networks)
    figure = routing_figures.rows(panels)
    return [*items, data.item("figure-4", "Figure 4", caption, figure, data.look_command("rows", runs), runs)]


def _evolution(data: ReportData, dataset: str, pair: dict[str, RunSummary]) -> PageItem:
    number = 3 if dataset == "cifar10" else 2
    # The first dataset has the paper's number alone, so that documents can rely on the name.
    first = next(name for name in data.networks if (name == "cifar10") == (dataset == "cifar10"))
    name = f"figure-{number}" if dataset == first else f"figure-{number}-{data.file_names[dataset]}"
    histograms = {norm: traces.evolution(run.folder) for norm, run in pair.items()}
    inactive = {norm: 1 - traces.trace(run.folder).alive.float().mean().item() for norm, run in pair.items()}
    shares = ", ".join(f"{line_style(norm).label} {100 * share:.0f} %" for norm, share in inactive.items())
    caption = (
        f"All logits and all routing coefficients of the first training image of {title_of(dataset)}, iteration by "
        "iteration, in networks trained with each normalization. Iteration 1 shows the start of routing. Only active "
        f"lower-level capsules are counted; inactive ones, whose output is zero, are left out ({shares} of all). "
        "Counts are on a logarithmic axis; the axes of the logits differ."
    )
    runs = list(pair.values())
    title = f"Figure {number}, {title_of(dataset)}"
    figure = routing_figures.evolution(histograms)
    return data.item(name, title, caption, figure, data.look_command("evolution", runs), runs)


def class_capsules(data: ReportData) -> list[PageItem]:
    """Return figures 5 and 6."""
    if not data.networks:
        return [data.not_run("figure-5", "Figures 5 and 6", "outputs")]
    panels = [
        (title_of(dataset), {name: responses(run.folder) for name, run in pair.items()})
        for dataset, pair in data.networks.items()
    ]
    outputs = (
        "Lengths of all class capsules for the same test images, the first of each class; the true class is in full "
        "colour. The mark beside the first row is a length of 1."
    )
    tuning = (
        "Tuning curves as a heat map: the mean length of each class capsule (column) over all test images of a class "
        "(row). A well tuned network has ones on the diagonal and zeros elsewhere. Numbers omit the leading zero."
    )
    runs = _runs(data.networks)
    figures = (
        ("figure-5", "Figure 5", outputs, response_figures.outputs(panels), "outputs"),
        ("figure-6", "Figure 6", tuning, response_figures.tuning(panels), "tuning"),
    )
    return [
        data.item(name, title, caption, figure, data.look_command(verb, runs), runs)
        for name, title, caption, figure, verb in figures
    ]


def accuracy(data: ReportData) -> list[PageItem]:
    """Return Table 1, accuracy by epoch, inactive capsules by epoch, and accuracy against polarisation."""
    study, found = data.studies["datasets"], data.by_network("datasets")
    runs = RunTable(tuple(run for own in found for run in own), study)
    own = [
        other_seeds(data.outside_studies, run)
        for dataset, pair in matched_networks(data.outside_studies).items()
        if dataset not in runs.datasets
        for run in pair.values()
    ]
    items = [*_by_epoch(data), *_polarization(data)]
    if not runs and not own:
        return [data.not_run("table-1", "Table 1", "datasets"), *items]
    command = data.study_command(study, runs.scales)
    words = "Softmax and Max-Min on each dataset, the paper's numbers beside ours."
    shown_tables = [("Table 1", words, tables.table_1(study, found, own))]
    if any(study.reported(tables.BEST, dataset, "Max-Min") for dataset in runs.datasets):
        shown_tables.append(("Table 1 in short", "One line per dataset.", tables.table_1_in_short(study, found)))
    shown = [*runs, *(run for table in own for run in table)]
    return [
        *(
            data.item(table.name, title, words, table, command, shown, paper_number=True)
            for title, words, table in shown_tables
        ),
        *items,
    ]


def _by_epoch(data: ReportData) -> list[PageItem]:
    # Of a dataset of Table 1 its runs; of any other dataset those that are nearest to the default recipe.
    pairs = {**matched_networks(data.runs), **matched_networks(data.study("datasets"))}
    if not pairs:
        return []
    alike = {dataset: {n: other_seeds(data.runs, run) for n, run in pair.items()} for dataset, pair in pairs.items()}
    runs = [run for groups in alike.values() for own in groups.values() for run in own]

    def panels(values: Callable[[RunSummary], list]) -> list[tuple[str, dict[str, list]]]:
        return [
            (title_of(dataset), {name: [values(run) for run in own] for name, own in groups.items()})
            for dataset, groups in alike.items()
        ]

    label = "accuracy (%)" if any(run.recipe.validation for run in runs) else "test accuracy (%)"
    lines = "Each line is a run; with several seeds, runs are thin and their mean is thick."
    figures = (
        (
            "training-curves",
            "Training curves",
            "Accuracy after each epoch, on the images that choose the best epoch: the test set, a fixed part of it, or "
            f"a validation set. {lines} Panels begin where the steep first two epochs end.",
            curves.by_epoch(panels(accuracies_by_epoch), label, skip=2),
        ),
        (
            "test-against-training",
            "Test against training accuracy",
            "The same accuracy against training accuracy, epoch after epoch, on linear axes: of two curves the upper "
            f"one overfits less. {lines} Training accuracy is counted while an epoch trains. The first two epochs may "
            "lie outside.",
            curves.against_training(panels(_training_and_test), label, skip=2),
        ),
        (
            "inactive-capsules",
            "Inactive capsules",
            "Percentage of lower-level capsules whose output is zero, after each epoch, on the images of the first "
            f"test batch. {lines}",
            curves.by_epoch(panels(inactive_by_epoch), "inactive capsules (%)", limits=PERCENT),
        ),
    )
    return [data.item(name, title, words, figure, data.runs_command, runs) for name, title, words, figure in figures]


def _training_and_test(run: RunSummary) -> list[tuple[float, float]]:
    return list(zip(training_accuracies_by_epoch(run), accuracies_by_epoch(run), strict=True))


def _polarization(data: ReportData) -> list[PageItem]:
    groups = data.runs.complete.by(lambda run: settings_except(run, *ROUTING_SETTINGS))
    several = [own for own in groups.values() if len({settings_except(run, "seed") for run in own}) >= FEWEST_SETTINGS]
    chosen = sorted(several, key=len, reverse=True)[:MOST_PANELS]
    if not chosen:
        return []
    panels = [(f"{dataset_title(own, own[0].recipe.dataset)}, {own[0].recipe.epochs} epochs", own) for own in chosen]
    runs = [run for own in chosen for run in own]
    caption = (
        "Final test error (100 % minus accuracy, logarithmic axis) against the polarisation of the routing "
        "coefficients, one marker per run. Polarisation is "
        "1 − H / ln(parents) of the active capsules, H being the mean entropy of a capsule's coefficients as shares of "
        "their sum: 0 if all parents receive the same, 1 if one parent receives everything. r is the number of routing "
        "iterations. Runs in one panel differ in normalization, iterations, bounds, gain and seed alone. Panels: "
        + "; ".join(f"({letter}) {budget_in_words(own[0])}" for letter, own in zip("abcdef", chosen, strict=False))
        + "."
    )
    figure = curves.against_polarization(panels)
    return [data.item("polarisation", "Accuracy against polarisation", caption, figure, data.runs_command, runs)]


def all_runs(data: ReportData) -> list[PageItem]:
    """Return the table of every run."""
    if not data.runs:
        return []
    caption = "Every run of this folder. Differs in: settings that are not those of the default recipe."
    return [PageItem("all-runs", "All runs", caption, run_tables.all_runs(data.runs), data.runs_command)]


def _runs(networks: Networks) -> list[RunSummary]:
    return [run for pair in networks.values() for run in pair.values()]


CHAPTERS = (
    Chapter("accuracy", "Accuracy on each dataset", accuracy),
    Chapter("iterations", "Routing iterations", iterations),
    Chapter("inside", "Inside routing", routing),
    Chapter("class-capsules", "Class capsules", class_capsules),
    Chapter("mnist-record", "The MNIST record, and misclassified images", mnist_record),
    Chapter("normalizations", "Other normalizations and bounds", other_normalizations),
    Chapter("ablations", "Ablations", ablations),
    Chapter("network", "The network", network),
    Chapter("runs", "Every run", all_runs),
)
