"""Every claim that the paper makes in words, as a check on our runs. Verdicts are computed, never typed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from maxmincaps.analysis.compare import Interval, Verdict

Row = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """What the runs of one study say about one claim."""

    ours: str
    """Our number in words, with its unit."""
    verdict: Verdict
    rows: Sequence[Row]
    """The runs that were looked at."""
    n: int
    """Runs, or pairs of runs, that count."""
    interval: Interval | None = None


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the number that it stands on, and how our runs are asked about it."""

    name: str
    sentence: str
    paper: str
    study: str
    judge: Callable[[Sequence[Row]], Finding]


@dataclass(frozen=True)
class Evidence:
    """A claim of the paper beside what our runs say: one entry of the report."""

    name: str
    sentence: str
    ours: str
    paper: str
    n: int
    budget: str
    """What the runs cost, from their records."""
    verdict: Verdict
    study: str
    scale: str | None
    """The scale whose runs were looked at. None: there are none."""
    interval: Interval | None


CLAIMS: dict[str, Claim] = {}
"""Every claim by name."""


def evidence(rows: Sequence[Row], scale: str | None = None) -> list[Evidence]:
    """Judge every claim by the table of records, at one scale, or at the best that each study has."""
    raise NotImplementedError
