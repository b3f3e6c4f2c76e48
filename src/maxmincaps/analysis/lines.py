"""Summary of any study line by line: accuracies, and differences from the first line."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmincaps.analysis.measures import best_accuracy, final_accuracy, validation_accuracy
from maxmincaps.analysis.runs import Interval, RunTable, interval
from maxmincaps.training.run import RunSummary


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


def line_results(runs: Sequence[RunSummary], reference: str) -> list[LineResult]:
    """Summarise the runs of a study line by line.

    Args:
        runs: The runs of one study at one scale, as `study_rows` returns them.
        reference: The label of the line that the others are compared with.
    """
    table = RunTable(tuple(runs))
    groups = table.by(lambda run: (run.recipe.dataset, run.line, run.value))
    return [_line_result(group, table, reference) for group in groups.values()]


def _line_result(group: RunTable, runs: RunTable, reference: str) -> LineResult:
    first = group[0]
    measure = validation_accuracy if first.recipe.validation else best_accuracy
    same = runs.where(dataset=first.recipe.dataset, value=first.value)
    differences = [] if first.line == reference else same.differences(measure, first.line, reference)
    return LineResult(
        study=first.study,
        dataset=first.recipe.dataset,
        line=first.line,
        value=first.value,
        runs=len(group.complete),
        diverged=len(group) - len(group.complete),
        best=group.mean(best_accuracy),
        final=group.mean(final_accuracy),
        validation=group.mean(validation_accuracy) if first.recipe.validation else None,
        difference=interval(differences),
    )


def _text(found: Interval | None, sign: str = "") -> str:
    if found is None:
        return ""
    return f"{found.mean:{sign}.2f}" + (f" ± {found.sd:.2f}" if found.sd is not None else "")
