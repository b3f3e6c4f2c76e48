"""What the lines of a study came to, for any study: accuracies, and differences from the first line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maxmincaps.analysis.compare import Interval, complete, interval, paired
from maxmincaps.training.run import Run, RunSummary


@dataclass(frozen=True)
class LineResult:
    """The runs of one line of a study on one dataset. Accuracies are in percent, differences in percentage points."""

    study: str
    dataset: str
    line: str
    value: float | None
    runs: int
    diverged: int
    best: Interval | None
    """Test accuracy of the best epoch."""
    final: Interval | None
    """Test accuracy of the final epoch."""
    validation: Interval | None
    """Validation accuracy of the best epoch, if there is a validation set."""
    difference: Interval | None
    """Accuracy less that of the first line, over pairs with the same seed: validation if there is any, else best."""

    def cells(self) -> dict[str, str]:
        """Return the line as text, by column."""
        return {
            "study": self.study,
            "dataset": self.dataset,
            "line": self.line + ("" if self.value is None else f", {self.value:g}"),
            "best": _text(self.best),
            "final": _text(self.final),
            "validation": _text(self.validation),
            "less the first line": _text(self.difference, "+"),
            "n": f"{self.runs}" + (f" and {self.diverged} diverged" if self.diverged else ""),
        }


def line_results(rows: Sequence[RunSummary], reference: str) -> list[LineResult]:
    """Summarise the runs of a study line by line.

    Args:
        rows: The runs of one study at one scale, as `study_rows` returns them.
        reference: The label of the line that the others are compared with.
    """
    groups: dict[tuple[str, str, float | None], list[RunSummary]] = {}
    for row in rows:
        groups.setdefault((row.recipe.dataset, row.line, row.value), []).append(row)
    return [_line_result(group, rows, reference) for group in groups.values()]


def _line_result(group: list[RunSummary], rows: Sequence[RunSummary], reference: str) -> LineResult:
    first, done = group[0], complete(group)
    measure = _validation if first.recipe.validation else _best
    same = [row for row in rows if (row.recipe.dataset, row.value) == (first.recipe.dataset, first.value)]
    differences = [] if first.line == reference else paired(same, measure, first.line, reference)

    def over(measure: Callable[[RunSummary], float]) -> Interval | None:
        return interval(map(measure, done))

    return LineResult(
        study=first.study,
        dataset=first.recipe.dataset,
        line=first.line,
        value=first.value,
        runs=len(done),
        diverged=len(group) - len(done),
        best=over(_best),
        final=over(lambda row: 100 * row.result.final_test_accuracy),
        validation=over(_validation) if first.recipe.validation else None,
        difference=interval(differences),
    )


def _best(row: RunSummary) -> float:
    return 100 * row.result.best_test_accuracy


def _validation(row: RunSummary) -> float:
    return 100 * max(line.selection_accuracy for line in Run(row.folder).history)


def _text(found: Interval | None, sign: str = "") -> str:
    if found is None:
        return ""
    return f"{found.mean:{sign}.2f}" + (f" ± {found.sd:.2f}" if found.sd is not None else "")
