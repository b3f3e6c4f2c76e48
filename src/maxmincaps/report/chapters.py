"""The chapters of the page: which figures and tables each shows, in which words, from which runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from maxmincaps.analysis import traces
from maxmincaps.analysis.measures import best_points, gap_points
from maxmincaps.analysis.responses import responses
from maxmincaps.recipe import Recipe
from maxmincaps.report import curves, tables
from maxmincaps.report import responses as response_figures
from maxmincaps.report import routing as routing_figures
from maxmincaps.report.architecture import architecture
from maxmincaps.report.beginning import COLUMNS, Curve, first_steps
from maxmincaps.report.material import Material, Plate, absent, command_for
from maxmincaps.report.mistakes_chapter import mnist_record
from maxmincaps.report.selection import Shown, complete, mean, name_in_files, siblings, title_of, title_with_mark, twins
from maxmincaps.report.table import Table
from maxmincaps.studies import rates
from maxmincaps.studies.beginning import DEFAULT, FACTORS, NAMES, factors, label
from maxmincaps.studies.records import Row
from maxmincaps.training.checkpoint import network_for, unfilled_network
from maxmincaps.training.record import Record

REPORT = "maxmincaps report"


@dataclass(frozen=True)
class Chapter:
    """Some plates under a heading."""

    name: str
    heading: str
    plates: Callable[[Material], list[Plate]]


def network(material: Material) -> list[Plate]:
    """Figure 1, for each network that the figures look into, or the paper's own where there is none."""
    rows = [next(iter(pair.values())) for pair in material.twins.values()]
    told = [(f"figure-1-{name_in_files(row['dataset'])}", title_of(row["dataset"]), _network_of(row)) for row in rows]
    drawn = told or [("figure-1", "MNIST, the paper's sizes", network_for(Recipe(), (1, 28, 28), 10))]
    return [
        Plate(
            name,
            f"Figure 1, {title}",
            "The network, drawn from its own shapes. Above: two convolutions make the capsules of PrimaryCaps, and "
            "routing makes one capsule a class, whose length is that class's probability. Below: the decoder sees one "
            f"row of DigitCaps and rebuilds the image. {sum(part.numel() for part in net.parameters()):,} parameters.",
            architecture(net),
            REPORT,
        )
        for name, title, net in drawn
    ]


def _network_of(row: Row):
    return unfilled_network(Record(Path(row["folder"])))


def inside(material: Material) -> list[Plate]:
    """Figures 2 to 4: how routing goes inside trained networks."""
    pairs = material.twins
    if not pairs:
        words = "Histograms of logits and couplings at each iteration, and three children over their parents."
        return [absent("figure-2", "Figures 2 to 4", words, material.studies["evolution"])]
    plates = [plate for dataset, pair in pairs.items() for plate in _evolution(material, dataset, pair)]
    panels = [
        (title_of(dataset), {name: traces.trace(row["folder"]) for name, row in pair.items()})
        for dataset, pair in pairs.items()
    ]
    caption = (
        "Three children of PrimaryCaps at the last iteration: their logits and their couplings to all parents, for the "
        "first training image; its true class is in full colour. The three are those whose logits differ most and "
        "whose strongest parents differ from each other."
    )
    figure = routing_figures.rows(panels)
    return [*plates, material.plate("figure-4", "Figure 4", caption, figure, _look("rows", pairs), _rows(pairs))]


def _evolution(material: Material, dataset: str, pair: dict[str, Row]) -> list[Plate]:
    number = 3 if dataset == "cifar10" else 2
    histograms = {name: traces.evolution(row["folder"]) for name, row in pair.items()}
    rows, command = list(pair.values()), _look("evolution", {dataset: pair})
    caption = (
        f"Logits and couplings of the first training image of {title_of(dataset)}, iteration by iteration, in networks "
        "trained with each normalization. The first row is where routing starts. Counts are on a logarithmic axis; "
    )
    columns = {
        "": ("true class", "only the true class's column is counted."),
        "-all": ("all", "all columns are counted."),
    }
    return [
        material.plate(
            f"figure-{number}{ending}",
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
    pairs = material.twins
    if not pairs:
        words = "The lengths of all class capsules for some test images, and their means over each class."
        return [absent("figure-5", "Figures 5 and 6", words, material.studies["outputs"])]
    panels = [
        (title_of(dataset), {name: responses(row["folder"]) for name, row in pair.items()})
        for dataset, pair in pairs.items()
    ]
    outputs = (
        "The lengths of all class capsules for the same test images, the first of each class; the true class is "
        "in full colour. A bar as tall as its row has length 1."
    )
    curves_ = (
        "Tuning curves: the mean length of each class capsule over all test images of a class, one curve a class. The "
        "class's own capsule is the outlined point; the higher it stands above the others, the better it is tuned."
    )
    rows = _rows(pairs)
    return [
        material.plate(
            "figure-5", "Figure 5", outputs, response_figures.outputs(panels), _look("outputs", pairs), rows
        ),
        material.plate("figure-6", "Figure 6", curves_, response_figures.tuning(panels), _look("tuning", pairs), rows),
    ]


def accuracy(material: Material) -> list[Plate]:
    """Table 1, figures 7 and 8, and accuracy by epoch."""
    runs = material.shown("datasets")
    words = "Softmax and Max-Min on each dataset, the paper's numbers beside ours."
    own = [
        siblings(material.rows, row)
        for dataset, pair in twins(material.rows).items()
        if dataset not in runs.scales
        for row in pair.values()
    ]
    plates = [table_plate(material, "Table 1", words, tables.table_1(runs, own), runs)]
    plates += _iterations(material, material.shown("iterations"))
    return [*plates, *_by_epoch(material)]


def _iterations(material: Material, runs: Shown) -> list[Plate]:
    told = (
        ("figure-7", "Figure 7", best_points, "test accuracy (%)", "Best test accuracy"),
        ("figure-8", "Figure 8", gap_points, "training − test (points)", "Training less test accuracy"),
    )
    ending = " against the number of routing iterations; the bars are the sd over runs. The paper prints no numbers."
    if not runs.rows:
        return [absent(name, title, words + ending, runs.study) for name, title, _, _, words in told]
    command = _study_command(runs)
    return [
        material.plate(
            name, title, words + ending, curves.against_iterations(_panels(runs, measure), axis), command, runs.rows
        )
        for name, title, measure, axis, words in told
    ]


def _panels(runs: Shown, measure: Callable[[Row], float]) -> list[tuple[str, dict[str, list[curves.Point]]]]:
    """Give a panel for each dataset of the study: a curve for each normalization."""
    lines = {line.label: line.settings["normalization"] for line in runs.study.lines}
    values = sorted({line.value for line in runs.study.lines if line.value is not None})
    return [
        (
            title_with_mark([row for row in runs.rows if row["dataset"] == dataset], dataset),
            {name: _points(runs, dataset, label, values, measure) for label, name in lines.items()},
        )
        for dataset in runs.study.datasets
    ]


def _points(
    runs: Shown, dataset: str, label: str, values: Sequence[float], measure: Callable[[Row], float]
) -> list[curves.Point]:
    found = [(value, mean(runs.of(dataset, label, value), measure)) for value in values]
    return [curves.Point(value, point.mean, point.sd, point.n) for value, point in found if point]


def _by_epoch(material: Material) -> list[Plate]:
    pairs = twins(material.rows)
    if not pairs:
        return []
    alike = {name: {n: siblings(material.rows, row) for n, row in pair.items()} for name, pair in pairs.items()}
    panels = [
        (title_of(dataset), {name: [_history(row) for row in rows] for name, rows in groups.items()})
        for dataset, groups in alike.items()
    ]
    words = (
        "Accuracy after each epoch, on the images that the best epoch is chosen by: the test set, or a fixed part of "
        "it, or images held out. Thin lines are runs with different seeds, thick ones their mean."
    )
    rows = [row for groups in alike.values() for own in groups.values() for row in own]
    figure = curves.by_epoch(panels)
    return [material.plate("training-curves", "Training curves", words, figure, "maxmincaps runs", rows)]


def _history(row: Row) -> list[float]:
    lines = Record(Path(row["folder"])).history
    return [100 * line[f"{row['best_chosen_by']}_accuracy"] for line in lines]


def others(material: Material) -> list[Plate]:
    """Table 4, bounds and choices."""
    runs, bounds, choices = (material.shown(name) for name in ("normalizations", "bounds", "choices"))
    words = "Other ways from logits to couplings, the paper's numbers beside ours."
    return [
        table_plate(material, "Table 4", words, tables.table_4(runs), runs),
        _bounds(material, bounds),
        _choices(material, choices),
    ]


def _bounds(material: Material, runs: Shown) -> Plate:
    words = "Best test accuracy of Max-Min against its upper bound, and against the couplings' start value (log axis)."
    if not runs.rows:
        return absent("bounds", "Bounds and start values", words, runs.study)
    values = sorted({line.value for line in runs.study.lines if line.value is not None})
    dataset = runs.study.datasets[0]
    labels = dict.fromkeys(line.label for line in runs.study.lines)
    panels = [(label, {"max-min": _points(runs, dataset, label, values, best_points)}) for label in labels]
    figure = curves.against_bound(panels, "test accuracy (%)")
    return material.plate("bounds", "Bounds and start values", words, figure, _study_command(runs), runs.rows)


def _choices(material: Material, runs: Shown) -> Plate:
    words = "Best test accuracy when one detail that papers leave open is changed, beside the default (dotted)."
    if not runs.rows:
        return absent("choices", "Choices", words, runs.study)
    figure = curves.choices(_lines(runs, best_points), runs.study.lines[0].label)
    return material.plate("choices", "Choices", words, figure, _study_command(runs), runs.rows)


def learning(material: Material) -> list[Plate]:
    """How training was chosen: the first hundred steps, learning rates, options."""
    return [
        *_beginning(material),
        _rates(material),
        *_learning_curves(material),
        _first_try(material),
        _options(material),
    ]


def _first_try(material: Material) -> Plate:
    runs = material.shown("first-try")
    words = "Every normalization, and other numbers of iterations, with the default recipe."
    return table_plate(material, runs.study.title, words, tables.of_lines(runs, "first-try"), runs)


def _learning_curves(material: Material) -> list[Plate]:
    runs = material.shown("learning")
    title = "Side by side, epoch by epoch"
    words = (
        "Accuracy on all test images after each epoch. Thin lines are runs with different seeds, thick ones their mean."
    )
    if not runs.rows:
        return [absent("learning", title, words, runs.study)]
    dataset = runs.rows[0]["dataset"]
    histories = {name: [_history(row) for row in complete(runs.of(dataset, label))] for name, label in NAMES.items()}
    figure = curves.by_epoch([(title_of(dataset), histories)])
    return [
        material.plate("learning", title, words, figure, _study_command(runs), runs.rows),
        table_plate(material, title, "The same in numbers.", tables.by_epoch(histories), runs),
    ]


def _rates(material: Material) -> Plate:
    runs = material.shown("rates")
    title = "Learning rates of PrimaryCaps and W"
    words = (
        "Accuracy on held-out training images after one epoch, for the same nine settings of both normalizations. "
        "W's rate is given times the mean of the couplings that W acts through."
    )
    if not runs.rows:
        return absent("rates", title, words, runs.study)
    dataset = runs.study.datasets[0]
    panels = [
        (
            name,
            {
                (primary, votes): point.mean
                for primary, votes in product(rates.PRIMARY, rates.VOTES)
                if (point := mean(runs.of(dataset, rates.label(name, primary, votes)), _held_out_points))
            },
        )
        for name in rates.NAMES
    ]
    figure = curves.grids(panels, "rate of W × mean coupling", "rate of PrimaryCaps", rates.PRIMARY, rates.VOTES)
    return material.plate("rates", title, words, figure, _study_command(runs), runs.rows)


def _options(material: Material) -> Plate:
    runs = material.shown("options")
    title = "Options of training"
    words = "Accuracy on held-out training images at the best epoch, each option alone beside plain training (dotted)."
    if not runs.rows:
        return absent("options", title, words, runs.study)
    figure = curves.choices(
        _lines(runs, _held_out_points), runs.study.lines[0].label, "accuracy on held-out images (%)"
    )
    return material.plate("options", title, words, figure, _study_command(runs), runs.rows)


def _held_out_points(row: Row) -> float:
    return max(_history(row))


def _lines(runs: Shown, measure: Callable[[Row], float]) -> list[tuple[str, curves.Point]]:
    """Give the mean of each line of a study on its one dataset."""
    found = [(line.label, mean(runs.of(runs.study.datasets[0], line.label), measure)) for line in runs.study.lines]
    return [(label, curves.Point(0, point.mean, point.sd, point.n)) for label, point in found if point]


def _beginning(material: Material) -> list[Plate]:
    runs = material.shown("beginning")
    words = (
        "The first hundred steps, with one setting changed in each column: blue Max-Min, orange Softmax; thick the "
        "default, dashed the other values. Gradients are root mean squares over a layer's weights."
    )
    title = "The first hundred steps"
    if not runs.rows:
        return [absent("first-steps", title, words, runs.study)]
    columns = [(factor, curves_) for factor in FACTORS if len(curves_ := _first_steps(runs, factor)) > 1]
    halves = [columns[at : at + COLUMNS] for at in range(0, len(columns), COLUMNS)]
    return [
        material.plate(f"first-steps-{number}", title, words, first_steps(half), _study_command(runs), runs.rows)
        for number, half in enumerate(halves, 1)
    ]


def _first_steps(runs: Shown, factor: str) -> list[Curve]:
    """Give the default's curves and those of a factor's values."""
    wanted = [(name, value, label(name, factor, value)) for name in NAMES for value in factors(name).get(factor, ())]
    concerned = dict.fromkeys(name for name, _, _ in wanted)
    wanted = [*((name, DEFAULT, label(name)) for name in concerned), *wanted]
    return [
        Curve(name, value, steps, default=value == DEFAULT)
        for name, value, line in wanted
        for row in runs.of(runs.study.datasets[0], line)
        if (steps := Record(Path(row["folder"])).steps)
    ]


def everything(material: Material) -> list[Plate]:
    """List every run."""
    if not material.rows:
        return []
    words = "What the records of this folder say; the setting column names what is not the paper's."
    table = tables.all_runs(material.rows)
    return [Plate("all-runs", "All runs", words, table, "maxmincaps runs", "", False)]


def table_plate(material: Material, title: str, words: str, table: Table, runs: Shown) -> Plate:
    """Make a plate of a table. It shows the paper's numbers even where there are no runs of ours."""
    return Plate(
        table.name, title, words, table, _study_command(runs), "", bool(runs.rows) and material.below_paper(runs.rows)
    )


def _study_command(runs: Shown) -> str:
    scales = list(dict.fromkeys(runs.scales.values())) or [None]
    return " && ".join(command_for(runs.study, scale) for scale in scales)


def _look(verb: str, pairs: dict[str, dict[str, Row]]) -> str:
    return " && ".join(f"maxmincaps look {verb} {row['run']}" for row in _rows(pairs))


def _rows(pairs: dict[str, dict[str, Row]]) -> list[Row]:
    return [row for pair in pairs.values() for row in pair.values()]


CHAPTERS = (
    Chapter("network", "The network", network),
    Chapter("inside", "Inside routing", inside),
    Chapter("answers", "What the class capsules answer", answers),
    Chapter("accuracy", "Accuracy on five datasets", accuracy),
    Chapter("mnist-record", "The MNIST record, and its errors", mnist_record),
    Chapter("others", "Other normalizations, bounds and choices", others),
    Chapter("learning", "How training was chosen", learning),
    Chapter("runs", "Every run", everything),
)
