"""The chapters of the page: which figures and tables each shows, in which words, from which runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maxmincaps.analysis import traces
from maxmincaps.analysis.measures import accuracies_by_epoch, training_and_test_by_epoch
from maxmincaps.capsules.network import CapsNet
from maxmincaps.recipe import Recipe
from maxmincaps.report import curves, own_tables, tables
from maxmincaps.report import responses as response_figures
from maxmincaps.report import routing as routing_figures
from maxmincaps.report.architecture import Shapes, architecture, shapes_of
from maxmincaps.report.material import Material, Plate, absent
from maxmincaps.report.mistakes_chapter import mnist_record
from maxmincaps.report.selection import (
    matched_pairs,
    other_seeds,
)
from maxmincaps.report.style import look
from maxmincaps.report.variations_chapter import iterations, others
from maxmincaps.studies.study import title_of
from maxmincaps.training.checkpoint import network_for, unfilled_network
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run, RunSummary

REPORT = "maxmincaps report"


@dataclass(frozen=True)
class Chapter:
    """Some plates under a heading."""

    name: str
    heading: str
    plates: Callable[[Material], list[Plate]]


def network(material: Material) -> list[Plate]:
    """Figure 1, for each size of network that the figures look into, or the paper's own where there is none."""
    drawn: dict[Shapes, tuple[str, str, CapsNet]] = {}
    for dataset, pair in material.matched_pairs.items():
        net = unfilled_network(Run(next(iter(pair.values())).folder))
        name, title, _ = drawn.get(shapes_of(net), (f"figure-1-{material.names[dataset]}", "Figure 1", net))
        drawn[shapes_of(net)] = name, f"{title}, {title_of(dataset)}", net
    paper = ("figure-1", "Figure 1, MNIST, the paper's sizes", network_for(Recipe(), (1, 28, 28), 10))
    return [
        Plate(
            name,
            title,
            "The network, drawn from its own shapes. Above: two convolutions make the capsules of PrimaryCaps, and "
            "routing makes one capsule a class, whose length is that class's probability. Below: the decoder sees one "
            f"row of DigitCaps and rebuilds the image. {sum(part.numel() for part in net.parameters()):,} parameters.",
            architecture(net),
            REPORT,
        )
        for name, title, net in drawn.values() or [paper]
    ]


def inside(material: Material) -> list[Plate]:
    """Figures 2 to 4: how routing goes inside trained networks."""
    pairs = material.matched_pairs
    if not pairs:
        words = "Histograms of logits and couplings at each iteration, and three children over their parents."
        return [absent("figure-2", "Figures 2 to 4", words, material.studies["evolution"])]
    plates = [plate for dataset, pair in pairs.items() for plate in _evolution(material, dataset, pair)]
    panels = [
        (title_of(dataset), {name: traces.trace(row.folder) for name, row in pair.items()})
        for dataset, pair in pairs.items()
    ]
    caption = (
        "Three children of PrimaryCaps at the last iteration: their logits and their couplings to all parents, for the "
        "first training image; its true class is in full colour. The three are those whose logits differ most and "
        "whose strongest parents differ from each other."
    )
    figure = routing_figures.rows(panels)
    return [
        *plates,
        material.plate("figure-4", "Figure 4", caption, figure, _look(material, "rows", pairs), _rows(pairs)),
    ]


def _evolution(material: Material, dataset: str, pair: dict[str, RunSummary]) -> list[Plate]:
    number = 3 if dataset == "cifar10" else 2
    # One dataset has the paper's number alone, so that pages can count on it; a second one has its name beside it.
    first = next(name for name in material.matched_pairs if (name == "cifar10") == (dataset == "cifar10"))
    stem = f"figure-{number}" if dataset == first else f"figure-{number}-{material.names[dataset]}"
    histograms = {name: traces.evolution(row.folder) for name, row in pair.items()}
    silent = {name: 1 - traces.trace(row.folder).alive.float().mean().item() for name, row in pair.items()}
    shares = ", ".join(f"{look(name).label} {100 * share:.0f} %" for name, share in silent.items())
    rows, command = list(pair.values()), _look(material, "evolution", {dataset: pair})
    caption = (
        f"Logits and couplings of the first training image of {title_of(dataset)}, iteration by iteration, in networks "
        "trained with each normalization. The first row is where routing starts. In grey behind the others: children "
        f"whose vote is zero ({shares}); their logits stay 0, and Max-Min gives them couplings of 0. Counts are on a "
        "logarithmic axis, the logits' axes differ; "
    )
    columns = {
        "": ("true class", "only the true class's column is counted."),
        "-all": ("all", "all columns are counted."),
    }
    return [
        material.plate(
            stem + ending,
            f"Figure {number}, {title_of(dataset)}" + (", all classes" if ending else ""),
            caption + words,
            routing_figures.evolution(histograms, column),
            command,
            rows,
        )
        for ending, (column, words) in columns.items()
    ]


def answers(material: Material) -> list[Plate]:
    """Figures 5 and 6: what the class capsules answer."""
    pairs = material.matched_pairs
    if not pairs:
        words = "The lengths of all class capsules for some test images, and their means over each class."
        return [absent("figure-5", "Figures 5 and 6", words, material.studies["outputs"])]
    panels = [
        (title_of(dataset), {name: responses(row.folder) for name, row in pair.items()})
        for dataset, pair in pairs.items()
    ]
    outputs = (
        "The lengths of all class capsules for the same test images, the first of each class; the true class is "
        "in full colour. The mark beside the first row is a length of 1."
    )
    curves_ = (
        "Tuning curves: the mean length of each class capsule over all test images of a class, one curve a class. The "
        "class's own capsule is the outlined point; the higher it stands above the others, the better it is tuned."
    )
    rows = _rows(pairs)
    return [
        material.plate(
            "figure-5", "Figure 5", outputs, response_figures.outputs(panels), _look(material, "outputs", pairs), rows
        ),
        material.plate(
            "figure-6", "Figure 6", curves_, response_figures.tuning(panels), _look(material, "tuning", pairs), rows
        ),
    ]


def accuracy(material: Material) -> list[Plate]:
    """Table 1, figures 7 and 8, and accuracy by epoch."""
    runs = material.shown("datasets")
    words = "Softmax and Max-Min on each dataset, the paper's numbers beside ours."
    beside = material.of_no_study
    own = [
        other_seeds(beside, row)
        for dataset, pair in matched_pairs(beside).items()
        if dataset not in runs.scales
        for row in pair.values()
    ]
    plates = [
        material.table("Table 1", words, tables.table_1(runs, own), runs),
        material.table("Table 1 at a glance", "A line for each dataset.", tables.table_1_in_short(runs), runs),
    ]
    plates += iterations(material)
    return [*plates, *_by_epoch(material)]


def _by_epoch(material: Material) -> list[Plate]:
    # Of a dataset that Table 1 has, its runs; of another, those that come closest to the default.
    pairs = {**matched_pairs(material.rows), **matched_pairs(material.shown("datasets").rows)}
    if not pairs:
        return []
    alike = {name: {n: other_seeds(material.rows, row) for n, row in pair.items()} for name, pair in pairs.items()}
    rows = [row for groups in alike.values() for own in groups.values() for row in own]

    def panels(told: Callable[[RunSummary], Sequence]) -> list[tuple[str, dict[str, list]]]:
        return [
            (title_of(dataset), {name: [told(row) for row in own] for name, own in groups.items()})
            for dataset, groups in alike.items()
        ]

    words = (
        "Accuracy after each epoch, on the images that the best epoch is chosen by: the test set, or a fixed part of "
        "it, or images held out. Thin lines are runs with different seeds, thick ones their mean. Panels begin "
        "where the steep first two epochs end."
    )
    beside = (
        "The same accuracy against that in training, epoch after epoch, whatever time it took to get there: of two "
        "curves the upper one overfits less. Training accuracy is counted while an epoch trains, on images as they "
        "are trained on. The first two epochs may lie outside."
    )
    judged = "accuracy (%)" if any(row.recipe.validation for row in rows) else "test accuracy (%)"
    told = (
        ("training-curves", "Training curves", words, curves.by_epoch(panels(accuracies_by_epoch), judged, steep=2)),
        (
            "test-against-training",
            "Test against training accuracy",
            beside,
            curves.against_training(panels(training_and_test_by_epoch), judged, steep=2),
        ),
    )
    return [
        material.plate(name, title, caption, figure, "maxmincaps runs", rows) for name, title, caption, figure in told
    ]


def everything(material: Material) -> list[Plate]:
    """List every run."""
    if not material.rows:
        return []
    words = "What the records of this folder say. Differs in: the settings that are not the default recipe's."
    table = own_tables.all_runs(material.rows)
    return [Plate("all-runs", "All runs", words, table, "maxmincaps runs")]


def _look(material: Material, verb: str, pairs: dict[str, dict[str, RunSummary]]) -> str:
    return " && ".join(f"maxmincaps look {verb} {material.path(row)}" for row in _rows(pairs))


def _rows(pairs: dict[str, dict[str, RunSummary]]) -> list[RunSummary]:
    return [row for pair in pairs.values() for row in pair.values()]


CHAPTERS = (
    Chapter("network", "The network", network),
    Chapter("inside", "Inside routing", inside),
    Chapter("answers", "What the class capsules answer", answers),
    Chapter("accuracy", "Accuracy on five datasets", accuracy),
    Chapter("mnist-record", "The MNIST record, and its errors", mnist_record),
    Chapter("others", "Other normalizations, bounds and choices", others),
    Chapter("runs", "Every run", everything),
)
