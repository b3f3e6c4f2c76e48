"""Tables that the paper does not have: lines side by side, points of curves, everything that was run."""

from collections.abc import Callable, Sequence
from itertools import groupby, product
from typing import Any

from maxmincaps.analysis.measures import best_points, final_points
from maxmincaps.recipe import IDENTITY
from maxmincaps.report.cells import BEST_NOTE, NONE, SD_NOTE, best_and_final, name_of, with_sd
from maxmincaps.report.selection import Shown, budgets, differences, mean, missing, title_with_mark
from maxmincaps.report.table import Table
from maxmincaps.studies.table import how_many
from maxmincaps.training.run import RunSummary


def of_lines(runs: Shown, name: str) -> Table:
    """Give the accuracies of every line of a study that is not in the paper."""
    dataset = runs.study.datasets[0]
    return Table(
        name=name,
        caption=f"{runs.study.title}. Test accuracy (%).",
        columns=("Line", "Best", "Final", "n", "Budget"),
        rows=tuple((line.label, *best_and_final(runs.of(dataset, line.label))) for line in runs.study.lines),
        notes=(BEST_NOTE, SD_NOTE),
        words=("Budget",),
    )


def along(runs: Shown, name: str, caption: str, across: str, measure: Callable[[RunSummary], float]) -> Table:
    """Give the points of a study's curves: a line for each that has any, a column for each value that has runs."""
    values = sorted({row.value for row in runs.rows if row.value is not None})
    labels = dict.fromkeys(line.label for line in runs.study.lines)
    found = {
        (dataset, label): [runs.of(dataset, label, value) for value in values]
        for dataset, label in product(runs.study.datasets, labels)
    }
    return Table(
        name=name,
        caption=caption,
        columns=("Dataset", "Line", *(f"{across}{value:g}" for value in values), "n", "Our budget"),
        rows=tuple(
            (
                title_with_mark([row for rows in points for row in rows], dataset),
                label,
                *(with_sd(mean(rows, measure), otherwise=missing(rows)) for rows in points),
                " or ".join(dict.fromkeys(how_many(rows) for rows in points if rows)),
                budgets(row for rows in points for row in rows),
            )
            for (dataset, label), points in found.items()
            if any(points)
        ),
        notes=(SD_NOTE,),
        words=("Line", "Our budget"),
    )


def all_runs(rows: Sequence[RunSummary]) -> Table:
    """List everything that was run, runs that differ in the seed alone in one line."""
    groups = [list(group) for _, group in groupby(sorted(rows, key=_settings), key=_settings)]
    return Table(
        name="all-runs",
        caption="Every run of this folder: test accuracy (%), and training accuracy with the final weights.",
        columns=("Dataset", "Normalization", "Differs in", "Best", "Final", "Training", "n", "Budget"),
        rows=tuple(
            (
                title_with_mark(group, group[0].recipe.dataset),
                name_of(group[0]),
                _differences(group[0]) or NONE,
                *(
                    with_sd(mean(group, measure), otherwise=missing(group))
                    for measure in (best_points, final_points, _training)
                ),
                how_many(group),
                budgets(group),
            )
            for group in groups
        ),
        notes=(SD_NOTE,),
        words=("Normalization", "Differs in", "Budget"),
    )


def _training(row: RunSummary) -> float:
    return 100 * row.result.train_accuracy


def _settings(row: RunSummary) -> tuple[str, ...]:
    first = ("dataset", "iterations", "normalization")
    others = (name for name in IDENTITY if name not in (*first, "seed"))
    return tuple(f"{row.get(name)!s:>12}" for name in (*first, *others))


def _differences(row: RunSummary) -> str:
    """Name the settings that are not the default recipe's, other than those that the other columns show."""
    return ", ".join(f"{name} {_short(value)}" for name, value in differences(row).items() if name != "iterations")


def _short(value: Any) -> str:
    return (
        f"{value:g}"
        if isinstance(value, float)
        else "×".join(map(str, value))
        if isinstance(value, list)
        else str(value)
    )
