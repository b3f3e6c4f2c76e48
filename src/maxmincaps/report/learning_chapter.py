"""The chapter on how training was chosen: the first hundred steps, learning rates, options, and both side by side."""

from itertools import product

from maxmincaps.analysis.compare import complete
from maxmincaps.analysis.measures import held_out_points, percent_by_epoch
from maxmincaps.report import curves, own_tables
from maxmincaps.report.beginning import COLUMNS, Curve, first_steps
from maxmincaps.report.material import Material, Plate, absent, study_command
from maxmincaps.report.selection import Shown, beside_the_first, mean
from maxmincaps.studies import rates
from maxmincaps.studies.beginning import DEFAULT, FACTORS, factors, label
from maxmincaps.studies.study import NAMES
from maxmincaps.training.run import Run

LEARNING_TOLD = {
    "test_accuracy": "test accuracy",
    "running_train_accuracy": "training accuracy",
    "dead_children": "children without a pose",
}
"""What the learning curves show, by its name in a run's history."""

ONE_BY_ONE = {
    "options": "each option alone, less that of plain training.",
    "by-heart": "the default with one setting changed (with a slow W: four), less that of the default; by then hardly "
    "a training image is still wrong.",
    "paces": "lines that add a setting each to the one before, less that of the default; a network of a quarter of the "
    "paper's kernels and capsules.",
}
"""Studies that change or add one setting at a time, and what their figures show."""


def learning(material: Material) -> list[Plate]:
    """How training was chosen: the first hundred steps, learning rates, options."""
    return [
        *_beginning(material),
        _rates(material),
        *_learning_curves(material),
        *_epoch_by_epoch(
            material,
            "normalizations",
            "default-by-epoch",
            "The runs of Table 4, which have the default recipe and its moving average, after each epoch.",
        ),
        *_epoch_by_epoch(material, "eight-epochs", "eight-epochs", "All of MNIST, without augmentation."),
        _first_try(material),
        *(_one_by_one(material, name) for name in ONE_BY_ONE),
    ]


def _first_try(material: Material) -> Plate:
    runs = material.shown("first-try")
    words = "Every normalization, and other numbers of iterations, with the default recipe."
    return material.table(runs.study.title, words, own_tables.of_lines(runs, "first-try"), runs)


def _learning_curves(material: Material) -> list[Plate]:
    runs = material.shown("learning")
    title = "Side by side, epoch by epoch"
    words = (
        "After each epoch: accuracy on all test images, accuracy in training, and children that ReLU left without a "
        "pose. Thin lines are runs with different seeds, thick ones their mean."
    )
    if not runs.rows:
        return [absent("learning", title, words, runs.study)]
    dataset = runs.rows[0].recipe.dataset
    found = {name: rows for name, line in NAMES.items() if (rows := complete(runs.of(dataset, line)))}
    told = {
        measure: {name: [percent_by_epoch(row, measure) for row in rows] for name, rows in found.items()}
        for measure in LEARNING_TOLD
    }
    figure = curves.by_epoch([(title, told[measure]) for measure, title in LEARNING_TOLD.items()], measure="%")
    named = {NAMES[name]: rows for name, rows in found.items()}
    return [
        material.plate("learning", title, words, figure, study_command(runs), runs.rows),
        material.table(title, "The same in numbers.", own_tables.by_epoch(named, "learning-by-epoch"), runs),
    ]


def _epoch_by_epoch(material: Material, study: str, name: str, words: str) -> list[Plate]:
    """Give the test accuracies of a study's runs after each epoch."""
    runs = material.shown(study)
    (dataset,) = runs.study.datasets
    lines = {line.label: runs.of(dataset, line.label) for line in runs.study.lines}
    table = own_tables.by_epoch({label: rows for label, rows in lines.items() if rows}, name)
    return [material.table(f"{runs.study.title}, epoch by epoch", words, table, runs)] if runs.rows else []


def _rates(material: Material) -> Plate:
    runs = material.shown("rates")
    title = "Learning rates of PrimaryCaps and W"
    words = (
        "Accuracy on held-out training images after one epoch, for the same twelve settings of both normalizations. "
        "W's rate is given times the mean of the couplings that W acts through. Bold: the best. Framed: nearest to "
        "the default's rule, which is one for all normalizations."
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
                if (point := mean(runs.of(dataset, rates.label(name, primary, votes)), held_out_points))
            },
        )
        for name in NAMES
    ]
    axes = ("rate of W × mean coupling", "rate of PrimaryCaps", rates.PRIMARY, rates.VOTES, rates.NEAREST_DEFAULT)
    figure = curves.grids(panels, "held-out accuracy (%)", *axes)
    return material.plate("rates", title, words, figure, study_command(runs), runs.rows)


def _one_by_one(material: Material, name: str) -> Plate:
    """Draw a study that changes one setting at a time, judged by held-out images."""
    runs = material.shown(name)
    title = runs.study.title
    words = f"Accuracy on held-out training images at the best epoch: {ONE_BY_ONE[name]} {curves.PAIRS_IN_WORDS}"
    if not runs.rows:
        return absent(name, title, words, runs.study)
    figure = curves.beside(*beside_the_first(runs, held_out_points), "difference in held-out accuracy (points)")
    return material.plate(name, title, words, figure, study_command(runs), runs.rows)


def _beginning(material: Material) -> list[Plate]:
    runs = material.shown("beginning")
    title = "The first hundred steps"
    words = (
        "Thick the default, dashed other values of the setting above a column (¼ and 4: times the default's; literal: "
        "the recipe `paper`, which differs in several). Gradients are root mean squares over a layer's weights."
    )
    found = [(factor, _first_steps(runs, factor)) for factor in FACTORS]
    columns = [(factor, drawn) for factor, drawn in found if any(not curve.default for curve in drawn)]
    if not columns:
        return [absent("first-steps", title, words, runs.study)]
    halves = [columns[at : at + COLUMNS] for at in range(0, len(columns), COLUMNS)]
    return [
        material.plate(
            f"first-steps-{number}",
            title,
            f"Varied: {', '.join(factor for factor, _ in half)}. {words}",
            first_steps(half),
            study_command(runs),
            runs.rows,
        )
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
        if (steps := Run(row.folder).steps)
    ]
