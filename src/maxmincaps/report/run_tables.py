"""Tables that the paper does not have: lines of studies, points of curves, every run, and scores of each class."""

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

from maxmincaps.analysis import measures
from maxmincaps.analysis.responses import class_scores
from maxmincaps.analysis.runs import Measure, RunTable, Tables, interval
from maxmincaps.report.items import changed_settings, settings_except
from maxmincaps.report.style import line_style
from maxmincaps.report.table import (
    BEST_NOTE,
    NONE,
    SD_NOTE,
    Table,
    best_and_final,
    budgets,
    dataset_title,
    missing,
    with_interval,
    with_sd,
)
from maxmincaps.studies.study import Study
from maxmincaps.studies.table import how_many
from maxmincaps.training.responses import Responses
from maxmincaps.training.run import RunSummary

COMPARED_LINES = ("Max-Min", "Softmax", "Uniform (control)")  # labels of the lines whose differences are shown


def accuracies_of_lines(study: Study, tables: Tables, name: str) -> Table:
    """Return the accuracies of every line of a study that is not in the paper."""
    several = len(study.datasets) > 1
    first = ("Dataset",) * several
    validated = any(run.recipe.validation for runs in tables for run in runs)
    rows = []
    for dataset in study.datasets:
        for runs in [own for own in tables if dataset in own.datasets] or [RunTable((), study)] * (not several):
            for line in dict.fromkeys(line.label for line in study.lines):
                own = runs.of(dataset, line)
                if not own and several:
                    continue
                best, final, n, budget = best_and_final(own)
                validation = (with_sd(own.mean(measures.validation_accuracy), otherwise=NONE),) * validated
                inactive = with_sd(own.mean(measures.final_inactive), otherwise=NONE)
                title = (dataset_title(own, dataset),) * several
                rows.append((*title, line, best, final, *validation, inactive, n, budget))
    return Table(
        name=name,
        caption=f"{study.title}. Test accuracy (%), and inactive capsules after the last epoch (%).",
        columns=(*first, "Line", "Best", "Final", *("Validation",) * validated, "Inactive", "n", "Budget"),
        rows=tuple(rows),
        notes=(BEST_NOTE, SD_NOTE),
    )


def normalizations_compared(study: Study, tables: Tables, name: str) -> Table:
    """Return the difference between normalizations for every setting of a study whose lines are `Softmax, setting`.

    Differences are means over matched pairs, with their 95 % interval; of validation accuracies if there are any.
    """
    settings = dict.fromkeys(line.label.partition(", ")[2] for line in study.lines if ", " in line.label)
    validated = any(run.recipe.validation for runs in tables for run in runs)
    measure = measures.validation_accuracy if validated else measures.best_accuracy
    known = {run.line.partition(", ")[0] for runs in tables for run in runs}
    names = [name for name in COMPARED_LINES if name in known]
    pairs = [*combinations(names, 2)]
    rows = []
    for dataset, runs, setting in product(study.datasets, tables, settings):
        lines = {name: f"{name}, {setting}" for name in names}
        own = runs.where(dataset=dataset).filter(lambda run, lines=lines: run.line in lines.values())
        if not own.complete:
            continue
        means = (with_sd(own.where(line=line).mean(measure), otherwise=NONE) for line in lines.values())
        apart = (interval(own.differences(measure, lines[first], lines[second])) for first, second in pairs)
        rows.append((dataset_title(own, dataset), setting, *means, *map(with_interval, apart), budgets(own)))
    return Table(
        name=name,
        caption=f"{study.title}. {'Validation' if validated else 'Best test'} accuracy (%), and differences of matched "
        "pairs (percentage points).",
        columns=("Dataset", "Setting", *names, *(f"{first} − {second}" for first, second in pairs), "Budget"),
        rows=tuple(rows),
        notes=(BEST_NOTE, f"{SD_NOTE} Differences have their 95 % interval where n is 3 or more."),
    )


def points_of_curves(study: Study, tables: Tables, name: str, caption: str, axis: str, measure: Measure) -> Table:
    """Return the points of a study's curves: one row per curve, one column per value that has runs."""
    values = sorted({run.value for runs in tables for run in runs if run.value is not None})
    labels = dict.fromkeys(line.label for line in study.lines)
    rows = []
    for dataset, runs, label in product(study.datasets, tables, labels):
        points = [runs.of(dataset, label, value) for value in values]
        every = runs.where(dataset=dataset, line=label)
        if every:
            cells = (with_sd(own.mean(measure), otherwise=missing(own)) for own in points)
            n = " or ".join(dict.fromkeys(how_many(own) for own in points if own))
            rows.append((dataset_title(every, dataset), label, *cells, n, budgets(every)))
    return Table(
        name=name,
        caption=caption,
        columns=("Dataset", "Line", *(f"{axis}{value:g}" for value in values), "n", "Our budget"),
        rows=tuple(rows),
        notes=(SD_NOTE,),
    )


def all_runs(runs: RunTable) -> Table:
    """Return every run of the folder; runs that differ in the seed alone share a row."""
    shown = (measures.best_accuracy, measures.final_accuracy, measures.training_accuracy)
    groups = runs.by(
        lambda run: (
            *(run.recipe.dataset, run.recipe.iterations, run.recipe.normalization),
            settings_except(run, "seed"),
        )
    )
    rows = []
    for _, own in sorted(groups.items()):
        title, changes = dataset_title(own, own[0].recipe.dataset), _differences(own[0]) or NONE
        cells = (with_sd(own.mean(measure), otherwise=missing(own)) for measure in shown)
        rows.append((title, name_of(own[0]), changes, *cells, how_many(own), budgets(own)))
    return Table(
        name="all-runs",
        caption="Every run of this folder: test accuracy (%), and training accuracy with the final weights.",
        columns=("Dataset", "Normalization", "Differs in", "Best", "Final", "Training", "n", "Budget"),
        rows=tuple(rows),
        notes=(BEST_NOTE, SD_NOTE),
    )


def scores_by_class(networks: Mapping[str, Responses]) -> Table:
    """Return precision, recall and F1 score of each class, for one or more networks on the same test images."""
    found = {title: class_scores(one) for title, one in networks.items()}
    names, parts = next(iter(networks.values())).classes, ("precision", "recall", "f1")
    scores = (f"{title}, {part}" if len(found) > 1 else part.capitalize() for title in found for part in parts)
    rows = []
    for name, *of_class in zip(names, *found.values(), strict=True):
        shares = (getattr(score, part) for score in of_class for part in parts)
        cells = (NONE if share is None else f"{100 * share:.2f}" for share in shares)
        rows.append((name, f"{of_class[0].images:,}", *cells))
    return Table(
        name="class-scores",
        caption="Precision, recall and F1 score of each class on the test set (%).",
        columns=("Class", "Images", *scores),
        rows=tuple(rows),
        notes=(
            "Final weights. Precision: correct among images predicted as the class. Recall: correct among its images.",
        ),
    )


def name_of(run: RunSummary) -> str:
    """Return normalization and number of iterations of a run."""
    return f"{line_style(run.recipe.normalization).label}, r = {run.recipe.iterations}"


def _differences(run: RunSummary) -> str:
    def short(value: Any) -> str:
        if isinstance(value, list):
            return "×".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name} {short(value)}" for name, value in changed_settings(run).items() if name != "iterations")
