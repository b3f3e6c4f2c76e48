"""Summary of any study line by line, as `maxmincaps study report` prints it."""

from collections.abc import Sequence

from maxmincaps.analysis.measures import best_accuracy, final_accuracy, validation_accuracy
from maxmincaps.analysis.runs import Interval, RunTable, interval
from maxmincaps.studies.table import how_many
from maxmincaps.training.run import RunSummary


def line_cells(runs: Sequence[RunSummary], reference: str) -> list[dict[str, str]]:
    """Return the accuracies of each line of a study, and its difference from a reference line, as text by column.

    The difference is the mean over matched pairs: of validation accuracies if there are any, else of best ones.

    Args:
        runs: The runs of one study at one scale, as `study_rows` returns them.
        reference: The label of the line that the others are compared with.
    """
    table, cells = RunTable(tuple(runs)), []
    for (dataset, line, value), own in table.by(lambda run: (run.recipe.dataset, run.line, run.value)).items():
        validated = own[0].recipe.validation
        same = table.where(dataset=dataset, value=value)
        compared = validation_accuracy if validated else best_accuracy
        apart = [] if line == reference else same.differences(compared, line, reference)
        cells.append(
            {
                "study": own[0].study,
                "dataset": dataset,
                "line": line + ("" if value is None else f", {value:g}"),
                "best": _text(own.mean(best_accuracy)),
                "final": _text(own.mean(final_accuracy)),
                "validation": _text(own.mean(validation_accuracy) if validated else None),
                "less the first line": _text(interval(apart), "+"),
                "n": how_many(own),
            }
        )
    return cells


def _text(found: Interval | None, sign: str = "") -> str:
    return found.with_sd(sign) if found else ""
