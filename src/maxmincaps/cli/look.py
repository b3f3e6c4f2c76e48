"""`maxmincaps look …`: print what trained networks compute, as tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from maxmincaps.analysis import responses, traces
from maxmincaps.analysis import vote as votes
from maxmincaps.cli.predict import print_confusion
from maxmincaps.cli.terminal import Count, RunFolder, console, print_table, write_csv
from maxmincaps.training.responses import responses_of
from maxmincaps.training.run import Run


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of all commands.

    Args:
        weights: Weights of the best epoch or of the last one. Default: best; last for a run without weights.
        dataset: Path of the run's own images. Default: where they were when it was trained.
        csv: Write the table to this file instead of printing it.
    """

    weights: Literal["best", "last"] | None = None
    dataset: str | None = None
    csv: Path | None = None

    def weights_of(self, run: Path) -> Literal["best", "last"]:
        """Return the weights that were asked for, else the best ones if the run folder has them."""
        return self.weights or ("best" if (run / "best.safetensors").exists() else "last")


DEFAULTS = Options()


def evolution(run: RunFolder, *, bins: Count = 10, options: Options = DEFAULTS) -> None:
    """Count logits and couplings of one training image at each routing iteration (figures 2 and 3).

    Args:
        bins: Bins of each histogram.
    """
    weights = options.weights_of(run)
    rows = traces.evolution(traces.trace_of(run, weights, options.dataset), bins=bins)
    _print(f"Logits and couplings of {run.name} ({weights} weights)", rows, Run(run).data.classes, options.csv)


def rows(run: RunFolder, *, child: list[int] | None = None, count: Count = 3, options: Options = DEFAULTS) -> None:
    """Show logits and couplings of a few children over their parents, at the last iteration (figure 4).

    Args:
        child: Indices of the children to show. Default: those with the widest range of logits, each with another
            strongest parent.
        count: Number of children to show if --child is not given.
    """
    weights = options.weights_of(run)
    found = traces.rows(traces.trace_of(run, weights, options.dataset), child, count=count)
    _print(f"Children of {run.name}, last iteration ({weights} weights)", found, Run(run).data.classes, options.csv)


def outputs(run: RunFolder, *, image: list[int] | None = None, options: Options = DEFAULTS) -> None:
    """Show the class lengths of some test images (figure 5).

    Args:
        image: Indices of the test images to show. Default: the first image of each class.
    """
    weights = options.weights_of(run)
    found = responses_of(run, weights, options.dataset)
    title = f"Lengths in {run.name} ({weights} weights)"
    _print(title, responses.outputs(found, image), found.classes, options.csv, across=("image", "label"))


def tuning(run: RunFolder, *, options: Options = DEFAULTS) -> None:
    """Show the mean length of each class capsule over the test images of each class (figure 6)."""
    weights = options.weights_of(run)
    found = responses_of(run, weights, options.dataset)
    title = f"Mean lengths in {run.name} ({weights} weights)"
    _print(title, responses.tuning_rows(found), found.classes, options.csv, across=("label",))


def misclassified(run: RunFolder, *, options: Options = DEFAULTS) -> None:
    """List the misclassified test images, and print the confusion matrix (figures 9, A.1–A.3)."""
    weights = options.weights_of(run)
    found = responses_of(run, weights, options.dataset)
    title = f"{len(found.wrong)} of {len(found.labels)} test images wrong in {run.name} ({weights} weights)"
    _print(title, responses.misclassified(found), found.classes, options.csv)
    if not options.csv:
        print_confusion(found)


def vote(
    runs: Annotated[list[Path], Parameter(help="Several run folders.")],
    *,
    rule: Literal["majority", "summed"] = "majority",
    options: Options = DEFAULTS,
) -> None:
    """Classify by the majority vote of several networks, and list what they get wrong (table 2, figure 9).

    Args:
        rule: `majority`: by majority vote, ties decided by summed length. `summed`: by summed length alone.
    """
    models = [responses_of(run, options.weights_of(run), options.dataset) for run in runs]
    found = votes.vote(models, rule)
    for run, model in zip(runs, models, strict=True):
        wrong = f"{model.error_percent:.2f} %  {len(model.wrong)} wrong"
        console.print_line(f"{wrong}  {run} ({options.weights_of(run)} weights)")
    title = f"Together: {found.error_percent:.2f} %, {len(found.wrong)} wrong"
    _print(title, responses.misclassified(found), found.classes, options.csv)
    if len(models) > 3:
        errors = votes.spread(models, rule=rule)
        console.print(f"every three of them: {min(errors):.2f} to {max(errors):.2f} %")


def _print(
    title: str, rows: Sequence[NamedTuple], classes: Sequence[str], csv: Path | None, *, across: tuple[str, ...] = ()
) -> None:
    """Print rows as a table, with the names of classes, or write them to a file.

    With `across`, the last column of the rows is printed as a matrix: a line for each value of those columns, and a
    column for each parent.
    """
    names = dict(enumerate(classes))
    named = [
        {key: names.get(value, value) if key in ("parent", "label", "prediction") else value for key, value in row}
        for row in (row._asdict().items() for row in rows)
    ]
    if csv:
        write_csv(csv, named)
        console.print_line(f"{len(named)} rows in {csv}")
    elif across:
        lines: dict[tuple[Any, ...], list[str]] = {}
        for row in named:
            lines.setdefault(tuple(row[key] for key in across), []).append(f"{[*row.values()][-1]:.2f}")
        parents = dict.fromkeys(row["parent"] for row in named)
        print_table(title, [f"#{name}" for name in (*across, *parents)], [(*key, *line) for key, line in lines.items()])
    elif named:
        cells = ([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row.values()] for row in named)
        print_table(title, [f"#{name}" for name in named[0]], cells)
    else:
        console.print(title)
