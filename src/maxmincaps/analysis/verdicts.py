"""The rule by which runs decide a claim, and its application to one claim."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from maxmincaps.analysis.runs import Interval, RunTable, interval
from maxmincaps.studies.study import title_of
from maxmincaps.training.run import RunSummary

ENOUGH = 3  # runs, or matched pairs, that a verdict needs on a dataset
ACROSS = "across datasets"  # stands for the dataset where one number compares several datasets

RULE = " ".join(Path(__file__).with_name("rule.txt").read_text(encoding="utf-8").split())
"""The rule for verdicts in one paragraph, for the report and the documentation."""


class Verdict(StrEnum):
    """What the runs say about a claim."""

    SUPPORTED = "supported"
    PARTLY = "supported on some datasets"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Bound:
    """What a claim says about a mean."""

    value: float = 0.0
    side: int = 1  # 1 if the claim says "above `value`", -1 for "below", 0 for "within plus or minus `value`"
    of_paper: bool = False  # whether `value` is a number of the paper, which a smaller budget cannot refute

    def verdict(self, found: Interval | None) -> Verdict:
        """Compare an interval with the bound."""
        if found is None or found.low is None or found.high is None or found.n < ENOUGH:
            return Verdict.NOT_TESTED
        if self.side == 0:
            inside = -self.value < found.low and found.high < self.value
            outside = found.low >= self.value or found.high <= -self.value
        else:
            low, high = sorted((self.side * found.low, self.side * found.high))
            inside, outside = low > self.side * self.value, high <= self.side * self.value
        return Verdict.SUPPORTED if inside else Verdict.REFUTED if outside else Verdict.INCONCLUSIVE


@dataclass(frozen=True)
class Finding:
    """What the runs of one study, diverged ones included, say about one claim."""

    ours: str  # mean, interval and n of each dataset in words
    verdict: Verdict
    summary: str  # the verdict in words, with the number of datasets
    runs: RunTable
    n: int = 0  # smallest number of pairs or runs on a dataset that was measured
    detectable: str = ""  # smallest detectable difference in words. Empty if there is no interval.
    at_paper: bool | None = None  # whether these are all runs that the paper has. None: decided by the study's scale.


def not_tested(runs: RunTable, reason: str = "") -> Finding:
    """Return the finding of a claim without any measured pair or run."""
    words = reason or ("no matched pair of runs yet" if runs else "no runs")
    return Finding(words, Verdict.NOT_TESTED, str(Verdict.NOT_TESTED), runs)


def evaluate(
    values: Mapping[str, Sequence[float]],
    runs: RunTable,
    unit: str,
    bound: Bound | None = None,
    datasets: Sequence[str] = (),
    measure: Callable[[RunSummary], Any] | None = None,
) -> Finding:
    """Apply the rule to one claim.

    Args:
        values: For each dataset, one number per matched pair or run.
        runs: The runs that were considered. A diverged one on a dataset turns `supported` there into `inconclusive`.
        unit: Unit of the numbers.
        bound: What the claim says about the mean. Default: above 0.
        datasets: The datasets that the claim is about. Default: those that have values.
        measure: What the numbers were computed from. Without numbers, the finding says so if no run has it.
    """
    bound = bound or Bound()
    found = {dataset: own for dataset, numbers in values.items() if (own := interval(numbers))}
    if not found:
        lacking = measure and runs.complete and not runs.measured(measure)
        return not_tested(runs, "the run folders lack the files that this is measured from" if lacking else "")
    verdicts = {dataset: _on_dataset(bound, own, runs, dataset) for dataset, own in found.items()}
    verdict, summary = combine([verdicts.get(name, Verdict.NOT_TESTED) for name in datasets or found])
    n = min(own.n for own in found.values())
    return Finding(_in_words(found, unit, bound), verdict, summary, runs, n, _detectable(found))


def _on_dataset(bound: Bound, found: Interval, runs: RunTable, dataset: str) -> Verdict:
    verdict = bound.verdict(found)
    here = runs if dataset == ACROSS else runs.where(dataset=dataset)
    if verdict is Verdict.SUPPORTED and here.diverged:
        return Verdict.INCONCLUSIVE
    if verdict is Verdict.REFUTED and bound.of_paper and not here.at_paper():
        return Verdict.NOT_COMPARABLE
    return verdict


def combine(verdicts: Sequence[Verdict]) -> tuple[Verdict, str]:
    """Return the verdict over several datasets, and the same in words.

    >>> combine([Verdict.SUPPORTED, Verdict.INCONCLUSIVE])[1]
    'supported on 1 of 2 datasets'
    """
    kinds = [kind for kind in Verdict if kind in verdicts]  # from the clearest to the least clear
    if len(kinds) == 1:
        return kinds[0], str(kinds[0])
    counted = [kind for kind in kinds if kind in (Verdict.SUPPORTED, Verdict.REFUTED)] or kinds[:1]
    words = ", ".join(f"{kind} on {verdicts.count(kind)}" for kind in counted)
    verdict = Verdict.PARTLY if counted[0] is Verdict.SUPPORTED else counted[0]
    return verdict, f"{words} of {len(verdicts)} datasets"


def _in_words(found: Mapping[str, Interval], unit: str, bound: Bound) -> str:
    """Write `+0.27 percentage points (95 % interval +0.20 to +0.34, n = 5)`, or the same for each dataset."""
    signed = bound.side == 0 or bound.value == 0
    if len(found) == 1:
        (only,) = found.values()
        number, rest = _number(only, signed)
        return f"{number} {unit} ({'95 % interval ' * ('to' in rest)}{rest})"
    parts = (f"{title_of(name)} {_number(own, signed)[0]} ({_number(own, signed)[1]})" for name, own in found.items())
    return f"{unit}: " + "; ".join(parts)


def _number(found: Interval, signed: bool) -> tuple[str, str]:
    """Return the mean, and its interval with n; an interval of two runs says nothing and is left out."""
    sign = "+" if signed else ""
    if found.n < ENOUGH or found.low is None or found.high is None or found.high == found.low:
        return f"{found.mean:{sign}.3g}", f"n = {found.n}"
    # Two significant digits of the half-width, and at most four decimals.
    digits = min(4, max(0, 1 - math.floor(math.log10((found.high - found.low) / 2))))
    mean, low, high = (f"{number:{sign}.{digits}f}" for number in (found.mean, found.low, found.high))
    return mean, f"{low} to {high}, n = {found.n}"


def _detectable(found: Mapping[str, Interval]) -> str:
    sizes = {name: own.detectable for name, own in found.items() if own.n >= ENOUGH and own.detectable is not None}
    if len(found) == 1:
        return "".join(f"{size:.2g}" for size in sizes.values())
    return ", ".join(f"{title_of(name)} {size:.2g}" for name, size in sizes.items())
