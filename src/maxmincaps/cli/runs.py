"""`maxmincaps runs`, `recipe` and `report`: list and query runs, show recipes, build the report."""

from pathlib import Path
from typing import Any

from maxmincaps.cli.terminal import console, percent, print_table, styled
from maxmincaps.errors import InputError, check_name
from maxmincaps.recipe import NAMED
from maxmincaps.training.run import Run, runs_under


def runs(folder: Path = Path("runs"), *, sql: str | None = None) -> None:
    """List the runs below a folder, or query them with SQL.

    Args:
        folder: A folder with run folders at any depth.
        sql: One SELECT over the tables runs, history, studies and paper, such as "select dataset, normalization,
            epochs, trained_on, avg(best_test_accuracy), count(*) from runs group by all".
    """
    if sql is not None:
        _print_answer(folder, sql)
        return
    found = runs_under(folder)
    if not found:
        raise InputError(f"{folder}: there is no run below it; `maxmincaps train` makes one")
    columns = ("run", "dataset", "normalization", "#r", "#seed", "#epochs", "#best", "#final")
    print_table(f"Runs in {folder}", columns, [(run.folder.relative_to(folder), *_cells(run)) for run in found])


def _cells(run: Run) -> list[Any]:
    """Return what the list shows of a run, or why it cannot be read."""
    try:
        recipe, done = run.recipe, len(run.history)
        result = run.result if run.complete else None
    except InputError as error:
        return [styled((str(error), "red"))]
    epochs = done if run.complete else f"{done} of {recipe.epochs}" + ", diverged" * run.diverged
    best, final = (result.best_test_accuracy, result.final_test_accuracy) if result else (None, None)
    settings = (recipe.dataset, recipe.normalization, recipe.iterations, recipe.seed)
    return [*settings, epochs, percent(best), percent(final)]


def _print_answer(folder: Path, sql: str) -> None:
    """Print the result of a query as a table, or row by row if it is too wide for the screen."""
    from maxmincaps.studies.query import query

    columns, rows = query(folder, sql)
    if len(columns) == 1 or 4 * len(columns) + sum(map(len, columns)) <= console.width:
        print_table("", columns, rows)
        return
    for number, row in enumerate(rows, 1):
        print_table(f"row {number} of {len(rows)}", ("name", "value"), zip(columns, row, strict=True))


def recipe(name: str | None = None) -> None:
    """Print a recipe of the package: its claim, cost and settings. Without a name, list all recipes.

    Args:
        name: The name of a recipe.
    """
    if name:
        path = NAMED[check_name(name, NAMED, "recipe")]
        console.print_line(path.read_text(encoding="utf-8").rstrip())
        return
    heads = {name: path.read_text(encoding="utf-8").partition("\n")[0] for name, path in NAMED.items()}
    rows = [(name, head.removeprefix("# ").rstrip(".")) for name, head in heads.items()]
    print_table("Recipes (maxmincaps train --recipe NAME)", ("name", "description"), rows)


def report(runs: Path = Path("runs"), out: Path = Path("report"), *, poll: Path | None = None) -> None:
    """Build one page from the runs of a folder: the claims of the paper with verdicts, all figures and tables.

    Args:
        runs: Folder with run folders, at any depth.
        out: Folder for the page and the files of every figure and table.
        poll: The file of a poll, for table 3 and figure 10.
    """
    from maxmincaps.report.build import build

    console.print_line(f"report: {build(runs, out, poll=poll)}")
