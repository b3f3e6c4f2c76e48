"""`maxmincaps runs`: list runs and query them."""

from pathlib import Path
from typing import TYPE_CHECKING

from maxmincaps.cli.terminal import console, percent, styled, table

if TYPE_CHECKING:
    from maxmincaps.studies.query import Answer


def runs(folder: Path = Path("runs"), *, sql: str | None = None) -> None:
    """List the runs below a folder, or query them with SQL.

    Parameters
    ----------
    folder: Path
        A folder with run folders at any depth.
    sql: str
        One SELECT over the tables runs, history, studies and paper, such as
        "select dataset, normalization, epochs, trained_on, avg(best_test_accuracy), count(*) from runs group by all".
    """
    from maxmincaps.errors import InputError
    from maxmincaps.studies.query import query
    from maxmincaps.training.run import runs_under

    if sql is not None:
        _print_answer(query(folder, sql))
        return
    found = runs_under(folder)
    if not found:
        raise InputError(f"{folder}: there is no run below it; `maxmincaps train` makes one")
    shown = table(f"Runs in {folder}", "run", "dataset", "normalization", "#r", "#seed", "#epochs", "#best", "#final")
    for run in found:
        name = str(run.folder.relative_to(folder))
        try:
            recipe, done = run.recipe, len(run.history)
            result = run.result if run.complete else None
        except InputError as error:
            shown.add_row(name, styled((str(error), "red")))
            continue
        best = percent(result.best_test_accuracy if result else None)
        final = percent(result.final_test_accuracy if result else None)
        epochs = str(done) if run.complete else f"{done} of {recipe.epochs}" + ", diverged" * run.diverged
        shown.add_row(
            name, recipe.dataset, recipe.normalization, str(recipe.iterations), str(recipe.seed), epochs, best, final
        )
    console.print(shown)


def _print_answer(answer: "Answer") -> None:
    """Print the result as a table, or row by row if it is too wide for the screen."""
    shown = table("", *answer.columns)
    for row in answer.rows:
        shown.add_row(*map(str, row))
    if len(answer.columns) == 1 or 4 * len(answer.columns) + sum(map(len, answer.columns)) <= console.width:
        console.print(shown)
        return
    for number, row in enumerate(answer.rows, 1):
        one = table(f"row {number} of {len(answer.rows)}", "name", "value")
        for name, value in zip(answer.columns, row, strict=True):
            one.add_row(name, str(value))
        console.print(one)
