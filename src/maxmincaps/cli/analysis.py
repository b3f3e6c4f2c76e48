"""`maxmincaps look …`: what is inside trained networks, as tables, from records alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from maxmincaps.cli.predict import RunFolder
from maxmincaps.cli.terminal import console, table, write_csv

Csv = Annotated[Path | None, Parameter(help="Write the table to this file instead of printing it.")]


def evolution(run: RunFolder, *, bins: int = 10, csv: Csv = None) -> None:
    """Count logits and couplings of one training image at each routing iteration (figures 2 and 3).

    Parameters
    ----------
    bins: int
        Bins of each histogram.
    """
    from maxmincaps.analysis.traces import evolution_rows
    from maxmincaps.errors import InputError

    if bins < 1:
        raise InputError(f"--bins: expected at least 1, found {bins}")
    _out(f"Logits and couplings of {run.name}", _named(evolution_rows(run, bins=bins), run), csv)


def rows(run: RunFolder, *, child: list[int] | None = None, count: int = 3, csv: Csv = None) -> None:
    """Show logits and couplings of a few children over their parents, at the last iteration (figure 4).

    Parameters
    ----------
    child: list[int]
        Which children. Default: those whose logits differ most, each with another strongest parent.
    count: int
        How many, if none is named.
    """
    from maxmincaps.analysis import traces
    from maxmincaps.errors import InputError

    if count < 1:
        raise InputError(f"--count: expected at least 1, found {count}")
    _out(f"Children of {run.name}, last iteration", _named(traces.rows(run, child, count=count), run), csv)


def outputs(run: RunFolder, *, image: list[int] | None = None, csv: Csv = None) -> None:
    """Show the class lengths of some test images (figure 5).

    Parameters
    ----------
    image: list[int]
        Which test images. Default: the first of each class.
    """
    from maxmincaps.analysis.responses import outputs as found

    rows = _named(found(run, image), run)
    if csv:
        _out("", rows, csv)
        return
    _matrix(f"Lengths in {run.name}", ("image", "label"), rows, "parent", "length")


def tuning(run: RunFolder, *, csv: Csv = None) -> None:
    """Show the mean length of each class capsule over the test images of each class (figure 6)."""
    from maxmincaps.analysis.responses import tuning_rows

    rows = _named(tuning_rows(run), run)
    if csv:
        _out("", rows, csv)
        return
    _matrix(f"Mean lengths in {run.name}", ("label",), rows, "parent", "mean_length")


def misclassified(run: RunFolder, *, csv: Csv = None) -> None:
    """List the test images that a network gets wrong, and count which class is taken for which (figures 9, A.1–A.3)."""
    from maxmincaps.analysis.responses import misclassified as wrong
    from maxmincaps.training.responses import responses

    found = responses(run)
    _out(f"{len(found.wrong)} of {len(found.labels)} test images wrong in {run.name}", _named(wrong(found), run), csv)
    if not csv:
        _confusion(found)


def vote(
    runs: Annotated[list[Path], Parameter(help="The folders of several runs' records.")],
    *,
    rule: Literal["majority", "summed"] = "majority",
    csv: Csv = None,
) -> None:
    """Classify by the majority vote of several networks, and list what they get wrong (table 2, figure 9).

    Parameters
    ----------
    rule: str
        By majority, ties by summed length; or by summed length alone.
    """
    from maxmincaps.analysis.responses import misclassified as wrong
    from maxmincaps.analysis.vote import spread
    from maxmincaps.analysis.vote import vote as together
    from maxmincaps.training.responses import responses

    models = [responses(run) for run in runs]
    found = together(models, rule)
    for run, model in zip(runs, models, strict=True):
        console.say(f"{model.error_percent:.2f} %  {len(model.wrong)} wrong  {run}")
    _out(f"Together: {found.error_percent:.2f} %, {len(found.wrong)} wrong", _named(wrong(found), runs[0]), csv)
    if len(models) > 3:
        errors = spread(models, rule=rule)
        console.print(f"every three of them: {min(errors):.2f} to {max(errors):.2f} %")


def _named(rows: Sequence[NamedTuple], run: Path) -> list[dict[str, Any]]:
    """Call the classes in a table by the names that the run's dataset gives them."""
    from maxmincaps.training.run import Run

    names = dict(enumerate(Run(run).data.classes))
    return [
        {
            key: names.get(value, value) if key in ("parent", "label", "prediction") else value
            for key, value in row._asdict().items()
        }
        for row in rows
    ]


def _out(title: str, rows: Sequence[dict[str, Any]], path: Path | None) -> None:
    """Print a table, or write it to a file."""
    if path is None:
        shown = table(title, *(f"#{name}" for name in (rows[0] if rows else ())))
        for row in rows:
            shown.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
        console.print(shown if rows else title)
        return
    write_csv(path, rows)
    console.say(f"{len(rows)} rows in {path}")


def _matrix(title: str, keys: tuple[str, ...], rows: Sequence[dict[str, Any]], across: str, value: str) -> None:
    """Print a tidy table with one of its columns laid across."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    shown = table(title, *(f"#{key}" for key in keys), *(f"#{column}" for column in columns))
    lines: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        lines.setdefault(tuple(str(row[key]) for key in keys), []).append(f"{row[value]:.2f}")
    for key, values in lines.items():
        shown.add_row(*key, *values)
    console.print(shown)


def _confusion(found: Any) -> None:
    from maxmincaps.analysis.responses import confusion

    shown = table("Rows: true class; columns: prediction", "", *(f"#{name}" for name in found.classes))
    for name, counts in zip(found.classes, confusion(found).tolist(), strict=True):
        shown.add_row(name, *(str(count) if count else "·" for count in counts))
    console.print(shown)
