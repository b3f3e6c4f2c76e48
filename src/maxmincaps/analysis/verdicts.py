"""The rule by which runs decide a claim, and its application to one claim."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from maxmincaps.analysis.runs import Interval, RunTable, interval
from maxmincaps.studies.study import title_of

ENOUGH = 3
"""Runs, or matched pairs, that a verdict needs on a dataset."""
ACROSS = "across datasets"
"""Stands for the dataset where one number compares several datasets."""

RULE = (
    "One rule decides all claims. Each claim is evaluated on each dataset separately; runs on different datasets "
    "are never pooled. A claim about a difference is measured on matched pairs: two runs with the same dataset, seed "
    "and budget. With three or more pairs (or runs, for a claim about one normalization) we compute the mean and its "
    "95 % confidence interval (Student's t). The claim is supported on a dataset if the whole interval lies on the "
    "claimed side, refuted if the whole interval lies on the other side, and inconclusive otherwise; with fewer than "
    "three it is not tested. Supported becomes inconclusive if any of the runs diverged. A claim that names a number "
    "of the paper is not comparable, rather than refuted, if it is missed with a smaller budget than the paper's. Over "
    "several datasets the verdict counts them, such as “supported on 2 of 5 datasets”. n is the number of pairs or "
    "runs on one dataset. The smallest detectable difference is the true difference that n pairs with this spread show "
    "in 80 of 100 repetitions. Intervals are not corrected for the number of claims."
)
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
    side: int = 1
    """1 if the claim says "above `value`", -1 for "below", 0 for "within plus or minus `value`"."""
    of_paper: bool = False
    """Whether `value` is a number of the paper, which a smaller budget cannot refute."""

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

    ours: str
    """Mean, interval and n of each dataset in words."""
    verdict: Verdict
    summary: str
    """The verdict in words, with the number of datasets."""
    runs: RunTable
    n: int = 0
    """Smallest number of pairs or runs on a dataset that was measured."""
    detectable: str = ""
    """Smallest detectable difference in words. Empty if there is no interval."""
    at_paper: bool | None = None
    """Whether these are all runs that the paper has. None: decided by the study's scale."""


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
) -> Finding:
    """Apply the rule to one claim.

    Args:
        values: For each dataset, one number per matched pair or run.
        runs: The runs that were considered. A diverged one on a dataset turns `supported` there into `inconclusive`.
        unit: Unit of the numbers.
        bound: What the claim says about the mean. Default: above 0.
        datasets: The datasets that the claim is about. Default: those that have values.
    """
    bound = bound or Bound()
    found = {dataset: own for dataset, numbers in values.items() if (own := interval(numbers))}
    if not found:
        return not_tested(runs)
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
