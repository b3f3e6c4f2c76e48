"""Verbs on finished runs: `evaluate`, `predict`, `runs`, `verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from maxmincaps.cli.terminal import bar, console, percent, styled, table

if TYPE_CHECKING:
    from maxmincaps.studies.query import Answer

RunFolder = Annotated[Path, Parameter(help="The folder of a run's record.")]
Which = Annotated[Literal["best", "last"], Parameter(help="Weights of the best epoch, or of the last.")]


def evaluate(run: RunFolder, *, weights: Which = "best") -> None:
    """Measure a run's network on its whole test set again."""
    from maxmincaps.training.verify import evaluate_run

    measured, images = evaluate_run(run, weights)
    console.print(f"{percent(measured)} of {images} test images ({weights} weights of {run})")


def predict(
    images: list[Path],
    *,
    run: Path | None = None,
    weights: Which = "best",
    swap: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Classify image files: resized to what the network takes, in grey or colour as it was trained.

    A picture that is not square keeps its proportions: the empty ends of its longer side are cut, and its shorter side
    is filled up with the colour of its border. A network of your own images gets it stretched, as it got those.

    Parameters
    ----------
    images: list[Path]
        Image files of any common format.
    run: Path
        The folder of a run's record. Default: the digit network that comes with the package.
    swap: bool
        Swap light and dark first: for dark strokes on light paper, as our networks know light ones on dark.
    """
    from maxmincaps.training.predict import Predictor, recognised
    from maxmincaps.training.run import SHIPPED_RUN

    predictor = Predictor.of(run or SHIPPED_RUN, weights)
    for path in images:
        picture = predictor.picture(path)
        lengths = predictor.lengths(1 - picture if swap else picture)
        said = ("  is  ", (predictor.classes[int(lengths.argmax())], "bold green"))
        if not recognised(lengths.max().item(), predictor.recipe):
            said = ("  is not recognised: ", (f"no length reaches {predictor.recipe.margin_low}", "yellow"))
        console.say(styled("\n", (str(path), "bold"), *said))
        width = max(len(name) for name in predictor.classes)
        for name, length in zip(predictor.classes, lengths.tolist(), strict=True):
            console.print(f"  {name:>{width}}  {length:.2f}  {bar(length)}")
        if not swap and predictor.may_be_swapped(picture):
            console.print("  mostly light: if its strokes are dark, add --swap", style="yellow")


def runs(folder: Path = Path("runs"), *, sql: str | None = None) -> None:
    """List the records below a folder, or ask them anything.

    Parameters
    ----------
    folder: Path
        Where to look.
    sql: str
        A question in SQL over the tables runs, history, studies and paper (read-only), such as
        "select dataset, normalization, epochs, trained_on, avg(best_test_accuracy), count(*) from runs group by all".
    """
    from maxmincaps.errors import InputError
    from maxmincaps.studies.query import query
    from maxmincaps.training.run import runs_under

    if sql is not None:
        _print_answer(query(folder, sql))
        return
    records = runs_under(folder)
    if not records:
        raise InputError(f"{folder}: there is no record of a run below it; `maxmincaps train` makes one")
    shown = table(f"Runs in {folder}", "run", "dataset", "normalization", "#r", "#seed", "#epochs", "#best", "#final")
    for record in records:
        name = str(record.folder.relative_to(folder))
        try:
            recipe, done = record.recipe, len(record.history)
            result = record.result if record.complete else None
        except InputError as error:
            shown.add_row(name, styled((str(error), "red")))
            continue
        best = percent(result.best_test_accuracy if result else None)
        final = percent(result.final_test_accuracy if result else None)
        epochs = str(done) if record.complete else f"{done} of {recipe.epochs}" + ", diverged" * record.diverged
        shown.add_row(
            name, recipe.dataset, recipe.normalization, str(recipe.iterations), str(recipe.seed), epochs, best, final
        )
    console.print(shown)


def _print_answer(answer: "Answer") -> None:
    """Print a table; one that is too wide for the screen row by row, a line for each value."""
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


def verify(run: RunFolder) -> None:
    """Check that a record is whole, that its files are sound, and that its weights give the figures it states."""
    from maxmincaps.training.verify import verify_run

    for line in verify_run(run):
        console.print(styled(("✓", "green"), f" {line}"))
