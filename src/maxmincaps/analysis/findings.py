"""What runs say about a claim: a number in words, its verdict, and the runs that it stands on."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from maxmincaps.analysis.compare import ENOUGH, Interval, Verdict, interval, verdict
from maxmincaps.studies.study import title_of
from maxmincaps.training.run import RunSummary


@dataclass(frozen=True)
class Finding:
    """What the runs of one study say about one claim."""

    ours: str
    """Our number in words, with its unit."""
    verdict: Verdict
    rows: Sequence[RunSummary]
    """The runs that were looked at, diverged ones too."""
    n: int
    """Runs, or pairs of runs, that count."""
    at_paper: bool | None = None
    """Whether these are all the runs that the paper has of it. None: it has as many as of their lines."""


def nothing(rows: Sequence[RunSummary]) -> Finding:
    """Say that there is nothing to judge by."""
    return Finding("nothing to compare yet" if rows else "no runs", Verdict.TOO_FEW, rows, 0)


def judged(
    values: Iterable[float], rows: Sequence[RunSummary], unit: str, bound: float = 0.0, side: int = 1
) -> Finding:
    """Judge the claim that a mean lies above a bound, or below it (`side` −1)."""
    values = list(values)
    found, turned = interval(values), interval(side * value for value in values)
    if found is None:
        return nothing(rows)
    return Finding(in_words(found, unit, bound), verdict(turned, side * bound), rows, found.n)


def judged_everywhere(
    values: Iterable[tuple[str, float]],
    rows: Sequence[RunSummary],
    unit: str,
    bound: float = 0.0,
    side: int = 1,
    wanted: Collection[str] = (),
) -> Finding:
    """Judge the claim that a mean lies above a bound, or below it, on each dataset that there is, and on those wanted.

    Where the datasets are on different sides their common mean decides nothing, and what some of the wanted ones say
    for a claim is not yet said by all.
    """
    by_dataset: dict[str, list[float]] = defaultdict(list)
    for dataset, value in values:
        by_dataset[dataset].append(value)
    found = judged((value for own in by_dataset.values() for value in own), rows, unit, bound, side)
    if not by_dataset or len({*by_dataset, *wanted}) == 1:
        return found
    sign = "" if bound else "+"
    told = ", ".join(f"{title_of(dataset)} {fmean(own):{sign}.3g}" for dataset, own in by_dataset.items())
    sides = {side * (fmean(own) - bound) > 0 for own in by_dataset.values()}
    alike = sides == {False} or (sides == {True} and by_dataset.keys() >= set(wanted))
    decided = found.verdict if alike or found.verdict is Verdict.TOO_FEW else Verdict.UNDECIDED
    return replace(found, ours=f"{found.ours}: {told}", verdict=decided)


def unless_diverged(found: Finding, rows: Iterable[RunSummary]) -> Finding:
    """Let a claim not hold by the runs that are left where others of the same kind diverged."""
    diverged = any(row.status == "diverged" for row in rows)
    return replace(found, verdict=Verdict.UNDECIDED) if diverged and found.verdict is Verdict.HOLDS else found


def in_words(found: Interval, unit: str, bound: float) -> str:
    """Write a mean with its interval: `+0.270 points (95 %: +0.201 to +0.339, n = 5)`.

    What is held against zero is a difference, and has a sign. Below three runs an interval would be wider than
    anything it could be of.
    """
    sign = "" if bound else "+"
    if found.n < ENOUGH or found.low is None or found.high is None or found.high == found.low:
        return f"{found.mean:{sign}.3g} {unit} (n = {found.n})"
    digits = max(0, 1 - math.floor(math.log10((found.high - found.low) / 2)))  # two of them are certain
    mean, low, high = (f"{number:{sign}.{digits}f}" for number in (found.mean, found.low, found.high))
    return f"{mean} {unit} (95 %: {low} to {high}, n = {found.n})"
