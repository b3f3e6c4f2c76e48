"""`maxmincaps look …`: what is inside trained networks, as tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from maxmincaps.cli.predict import RunFolder, print_confusion
from maxmincaps.cli.terminal import console, table, write_csv

Csv = Annotated[Path | None, Parameter(help="Write the table to this file instead of printing it.")]
Weights = Annotated[
    Literal["best", "last"] | None,
    Parameter(help="Weights of the best epoch or of the last one. Default: best; last for a run without weights."),
]

Dataset = Annotated[
    str | None, Parameter(help="Where the run's own images are now. Default: where they were when it was trained.")
]


def evolution(
    run: RunFolder, *, bins: int = 10, weights: Weights = None, dataset: Dataset = None, csv: Csv = None
) -> None:
    """Count logits and couplings of one training image at each routing iteration (figures 2 and 3).

    Parameters
    ----------
    bins: int
        Bins of each histogram.
    """
    from maxmincaps.analysis.traces import evolution_rows, trace_of
    from maxmincaps.errors import InputError

    if bins < 1:
        raise InputError(f"--bins: expected at least 1, found {bins}")
    which = _which(run, weights)
    rows = _named(evolution_rows(trace_of(run, which, dataset), bins=bins), run)
    _out(f"Logits and couplings of {run.name} ({which} weights)", rows, csv)


def rows(
    run: RunFolder,
    *,
    child: list[int] | None = None,
    count: int = 3,
    weights: Weights = None,
    dataset: Dataset = None,
    csv: Csv = None,
) -> None:
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
    which = _which(run, weights)
    rows = _named(traces.rows(traces.trace_of(run, which, dataset), child, count=count), run)
    _out(f"Children of {run.name}, last iteration ({which} weights)", rows, csv)


def outputs(
    run: RunFolder, *, image: list[int] | None = None, weights: Weights = None, dataset: Dataset = None, csv: Csv = None
) -> None:
    """Show the class lengths of some test images (figure 5).

    Parameters
    ----------
    image: list[int]
        Which test images. Default: the first of each class.
    """
    from maxmincaps.analysis.responses import outputs as lengths_of
    from maxmincaps.training.responses import responses_of

    which = _which(run, weights)
    rows = _named(lengths_of(responses_of(run, which, dataset), image), run)
    if csv:
        _out("", rows, csv)
        return
    _matrix(f"Lengths in {run.name} ({which} weights)", ("image", "label"), rows, "parent", "length")


def tuning(run: RunFolder, *, weights: Weights = None, dataset: Dataset = None, csv: Csv = None) -> None:
    """Show the mean length of each class capsule over the test images of each class (figure 6)."""
    from maxmincaps.analysis.responses import tuning_rows
    from maxmincaps.training.responses import responses_of

    which = _which(run, weights)
    rows = _named(tuning_rows(responses_of(run, which, dataset)), run)
    if csv:
        _out("", rows, csv)
        return
    _matrix(f"Mean lengths in {run.name} ({which} weights)", ("label",), rows, "parent", "mean_length")


def misclassified(run: RunFolder, *, weights: Weights = None, dataset: Dataset = None, csv: Csv = None) -> None:
    """List the test images that a network gets wrong, and count which class is taken for which (figures 9, A.1–A.3)."""
    from maxmincaps.analysis.responses import misclassified as wrong
    from maxmincaps.training.responses import responses_of

    which = _which(run, weights)
    found = responses_of(run, which, dataset)
    title = f"{len(found.wrong)} of {len(found.labels)} test images wrong in {run.name} ({which} weights)"
    _out(title, _named(wrong(found), run), csv)
    if not csv:
        print_confusion(found)


def vote(
    runs: Annotated[list[Path], Parameter(help="Several run folders.")],
    *,
    rule: Literal["majority", "summed"] = "majority",
    weights: Weights = None,
    dataset: Dataset = None,
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
    from maxmincaps.training.responses import responses_of

    which = [_which(run, weights) for run in runs]
    models = [responses_of(run, chosen, dataset) for run, chosen in zip(runs, which, strict=True)]
    found = together(models, rule)
    for run, chosen, model in zip(runs, which, models, strict=True):
        console.print_line(f"{model.error_percent:.2f} %  {len(model.wrong)} wrong  {run} ({chosen} weights)")
    _out(f"Together: {found.error_percent:.2f} %, {len(found.wrong)} wrong", _named(wrong(found), runs[0]), csv)
    if len(models) > 3:
        errors = spread(models, rule=rule)
        console.print(f"every three of them: {min(errors):.2f} to {max(errors):.2f} %")


def _which(run: Path, weights: Literal["best", "last"] | None) -> Literal["best", "last"]:
    """Return the weights to use: those that were asked for, else the best ones if the run folder has them."""
    if weights is None:
        return "best" if (run / "best.safetensors").exists() else "last"
    return weights


def _named(rows: Sequence[NamedTuple], run: Path) -> list[dict[str, Any]]:
    """Return rows as dictionaries, with the names of classes instead of their numbers."""
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
    console.print_line(f"{len(rows)} rows in {path}")


def _matrix(title: str, keys: tuple[str, ...], rows: Sequence[dict[str, Any]], across: str, value: str) -> None:
    """Print a tidy table as a matrix, with the values of one column across."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    shown = table(title, *(f"#{key}" for key in keys), *(f"#{column}" for column in columns))
    lines: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        lines.setdefault(tuple(str(row[key]) for key in keys), []).append(f"{row[value]:.2f}")
    for key, values in lines.items():
        shown.add_row(*key, *values)
    console.print(shown)
