"""What runs say together: means over seeds, paired differences, and a plain verdict."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

from maxmincaps.training.run import RunSummary

Measured = TypeVar("Measured")
ENOUGH = 3
"""Runs, or pairs of runs, that a verdict needs."""


class Verdict(StrEnum):
    """What our runs say about a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    TOO_FEW = "not enough runs"


@dataclass(frozen=True)
class Interval:
    """A mean over runs, with the interval that covers the true one in 95 of 100 cases (Student's t)."""

    mean: float
    sd: float | None
    """Sample standard deviation (n − 1). None for a single run."""
    n: int
    low: float | None
    high: float | None


def interval(values: Iterable[float]) -> Interval | None:
    """Give mean, sd and 95 % interval of some values; None if there are none."""
    found = list(values)
    if not found:
        return None
    mean, n = math.fsum(found) / len(found), len(found)
    if n == 1:
        return Interval(mean, None, 1, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (n - 1))
    half = t_quantile(n - 1) * sd / math.sqrt(n)
    return Interval(mean, sd, n, mean - half, mean + half)


def complete(rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Keep the runs that came to their end with a result."""
    return [row for row in rows if row.status == "complete"]


class Shared(NamedTuple):
    """What two runs that are compared have in common. A recipe says neither how it was computed nor of which draw."""

    dataset: str
    value: float | None
    seed: int
    precisions: str
    regenerated: bool

    @classmethod
    def of(cls, run: RunSummary) -> "Shared":
        """Return what identifies the pair that a run belongs to."""
        return cls(run.recipe.dataset, run.value, run.recipe.seed, run.precisions, run.regenerated)


def pairs(
    rows: Sequence[RunSummary], measure: Callable[[RunSummary], Measured], first: str, second: str
) -> dict[Shared, tuple[Measured, Measured]]:
    """Give a measure of the runs of two lines that share all of `Shared`, by these.

    Runs without a result (diverged ones) have no partner.
    """
    sides = [{Shared.of(row): measure(row) for row in complete(rows) if row.line == line} for line in (first, second)]
    return {key: (one, sides[1][key]) for key, one in sides[0].items() if key in sides[1]}


def paired(rows: Sequence[RunSummary], measure: Callable[[RunSummary], float], first: str, second: str) -> list[float]:
    """Give `first − second` of a measure for every pair of runs."""
    return [one - other for one, other in pairs(rows, measure, first, second).values()]


def verdict(found: Interval | None, above: float = 0.0) -> Verdict:
    """Judge the claim that a mean lies above a bound: it holds if the whole interval does, and fails if none of it."""
    if found is None or found.low is None or found.high is None or found.n < ENOUGH:
        return Verdict.TOO_FEW
    if found.low > above:
        return Verdict.HOLDS
    return Verdict.FAILS if found.high <= above else Verdict.UNDECIDED


def t_quantile(degrees: int) -> float:
    """Give the t that Student's distribution stays within in 95 of 100 cases, by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, degrees) < 0.95 else (low, middle)
    return (low + high) / 2


def _t_within(t: float, degrees: int) -> float:
    """Give the probability of lying within ±t (Abramowitz and Stegun, 26.7.3 and 26.7.4: exact for whole degrees)."""
    angle = math.atan(t / math.sqrt(degrees))
    term = math.cos(angle) if degrees % 2 else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + degrees % 2, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    if degrees % 2:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
