"""The runs whose networks vote in Table 2 and figures 9, 10 and A.1 to A.3."""

from collections.abc import Iterable

from maxmincaps.studies.paper import VOTERS
from maxmincaps.training.run import RunSummary

MODELS = dict(zip(map(int, VOTERS["seed"]), "ABC", strict=True))
"""The seeds of the networks that vote, and the paper's names of them."""


def voters(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the complete Max-Min runs that hold class lengths, ordered by seed."""
    able = [run for run in runs if run.complete and run.line == "Max-Min" and run.has("lengths.safetensors")]
    return sorted(able, key=lambda run: run.recipe.seed)


def models_a_b_c(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the runs that vote in the paper's Table 2; fewer than three if one diverged or is unfinished."""
    return [run for run in voters(runs) if run.recipe.seed in MODELS]
