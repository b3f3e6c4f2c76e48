"""How a number becomes a cell of a table: with its spread and its mark, or with words where there is none."""

from collections.abc import Sequence

from maxmincaps.analysis.compare import Interval
from maxmincaps.analysis.measures import best_points, final_points
from maxmincaps.report.selection import budgets, mean, missing
from maxmincaps.report.style import look
from maxmincaps.report.table import NOT_RUN
from maxmincaps.studies.table import how_many
from maxmincaps.training.run import RunSummary

DAGGER = "†"
NONE = "–"
BEST_NOTE = (
    "Best: the epoch with the highest accuracy on the test set, or on the images that the budget names instead; chosen "
    "by test images, as in the paper, it is optimistic. Final: the last epoch. Both are measured on all test images, "
    "so a best epoch that others or a part of them chose can lie below the final one."
)
SD_NOTE = "± is the sample standard deviation over n runs; a single run has none."


def best_and_final(rows: Sequence[RunSummary], mark: str = "") -> tuple[str, ...]:
    """Give our best and final accuracy, n and budget."""
    best, final = (with_sd(mean(rows, measure), mark, missing(rows)) for measure in (best_points, final_points))
    return best, final, how_many(rows), budgets(rows) or NOT_RUN


def with_sd(found: Interval | None, mark: str = "", otherwise: str = NOT_RUN) -> str:
    """Give a mean with its standard deviation, or say why there is none."""
    if found is None:
        return otherwise
    return f"{found.mean:.2f}" + (f" ± {found.sd:.2f}" if found.sd is not None else "") + mark


def name_of(row: RunSummary) -> str:
    """Name a run by what routes in it."""
    return f"{look(row.recipe.normalization).label}, r = {row.recipe.iterations}"
