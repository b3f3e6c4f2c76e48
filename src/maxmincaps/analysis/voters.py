"""The networks of Table 2 that vote: which runs they are, and what the paper calls them."""

from collections.abc import Iterable

from maxmincaps.analysis.compare import complete
from maxmincaps.analysis.measures import has
from maxmincaps.studies.table_3_poll import VOTERS
from maxmincaps.training.run import RunSummary

MODELS = dict(zip(map(int, VOTERS["seed"]), "ABC", strict=True))
"""The seeds of the networks that vote, and what the paper calls them."""


def voters(rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Give the Max-Min runs whose records hold what a vote takes, by seed."""
    able = [row for row in complete(rows) if row.line == "Max-Min" and has(row, "lengths.safetensors")]
    return sorted(able, key=lambda row: row.recipe.seed)


def models_a_b_c(rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Give the three of them that vote in the paper's Table 2; fewer where one diverged or is not over."""
    return [row for row in voters(rows) if row.recipe.seed in MODELS]
