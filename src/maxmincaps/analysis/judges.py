"""How runs are asked about a claim: each judge takes the runs of a study and gives a finding."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import fmean, linear_regression
from typing import Any

from maxmincaps.analysis import measures
from maxmincaps.analysis.compare import ENOUGH, Interval, Verdict, complete, interval, paired, pairs, verdict
from maxmincaps.analysis.vote import models_a_b_c, vote, voters
from maxmincaps.studies import STUDIES
from maxmincaps.studies.records import Row, has_papers_budget
from maxmincaps.studies.study import DATASETS, PAPER_SCALE, title_of
from maxmincaps.training.responses import responses
from maxmincaps.training.words import counted

Measure = Callable[[Row], float | None]
MAX_MIN, SOFTMAX = "Max-Min", "Softmax"
BACKGROUND = ("background-mnist", "cifar10")
SIX = (MAX_MIN, "Centered Max-Min", "Adjusted Log", "WTA", "Z-Score", "Sum")
"""The normalizations that the paper compares in Table 4."""
HALF_A_POINT = 0.5
"""Less than this, of some accuracies, is taken not to matter."""


@dataclass(frozen=True)
class Finding:
    """What the runs of one study say about one claim."""

    ours: str
    """Our number in words, with its unit."""
    verdict: Verdict
    rows: Sequence[Row]
    """The runs that were looked at, diverged ones too."""
    n: int
    """Runs, or pairs of runs, that count."""
    at_paper: bool | None = None
    """Whether these are all the runs that the paper has of it. None: it has as many as of their lines."""


def _nothing(rows: Sequence[Row]) -> Finding:
    return Finding("nothing to compare yet" if rows else "no runs", Verdict.TOO_FEW, rows, 0)


def _judged(values: Iterable[float], rows: Sequence[Row], unit: str, bound: float = 0.0, side: int = 1) -> Finding:
    """Judge the claim that a mean lies above a bound, or below it (`side` −1)."""
    values = list(values)
    found, turned = interval(values), interval(side * value for value in values)
    if found is None:
        return _nothing(rows)
    return Finding(_in_words(found, unit, bound), verdict(turned, side * bound), rows, found.n)


def _judged_everywhere(values: Mapping[str, Sequence[float]], rows: Sequence[Row], unit: str, side: int = 1) -> Finding:
    """Judge the claim that a mean lies above zero, or below it, on each of the five datasets.

    Where the datasets are on different sides their common mean decides nothing, and what some of the five say for a
    claim is not yet said by all.
    """
    found = _judged((value for own in values.values() for value in own), rows, unit, side=side)
    if not values:
        return found
    told = ", ".join(f"{title_of(dataset)} {fmean(own):+.3g}" for dataset, own in values.items())
    sides = {side * fmean(own) > 0 for own in values.values()}
    alike = sides == {False} or (sides == {True} and values.keys() >= set(DATASETS))
    decided = found.verdict if alike or found.verdict is Verdict.TOO_FEW else Verdict.UNDECIDED
    return replace(found, ours=f"{found.ours}: {told}", verdict=decided)


def _unless_diverged(found: Finding, rows: Iterable[Row]) -> Finding:
    """Let a claim not hold by the runs that are left where others of the same kind diverged."""
    diverged = any(row["status"] == "diverged" for row in rows)
    return replace(found, verdict=Verdict.UNDECIDED) if diverged and found.verdict is Verdict.HOLDS else found


def _in_words(found: Interval, unit: str, bound: float) -> str:
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


def runs_of(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Keep the runs that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


# Table 1


def gain(rows: Sequence[Row], dataset: str) -> Finding:
    """Max-Min is better than Softmax on a dataset, seed by seed."""
    here = runs_of(rows, dataset=dataset)
    return _judged(paired(here, measures.best_points, MAX_MIN, SOFTMAX), here, "points")


def errors_fall(rows: Sequence[Row]) -> Finding:
    """Max-Min takes away errors on each of the five datasets, and at least 8.6 % of Softmax's on average."""
    falls: dict[str, list[float]] = {dataset: [] for dataset in DATASETS}
    for both, (ours, theirs) in pairs(rows, measures.best_error_percent, MAX_MIN, SOFTMAX).items():
        if theirs and both.dataset in falls:
            falls[both.dataset].append(100 * (theirs - ours) / theirs)
    found = {dataset: fall for dataset, values in falls.items() if (fall := interval(values))}
    if not found:
        return _nothing(rows)
    ours = ", ".join(f"{title_of(dataset)} {fall.mean:.1f} %" for dataset, fall in found.items())
    n = min(map(len, falls.values()))
    if n < ENOUGH:
        return Finding(ours, Verdict.TOO_FEW, rows, n)
    if all(fall.mean >= 8.6 and verdict(fall) is Verdict.HOLDS for fall in found.values()):
        return Finding(ours, Verdict.HOLDS, rows, n)
    fails = any(verdict(fall, above=8.6) is Verdict.FAILS for fall in found.values())
    return Finding(ours, Verdict.FAILS if fails else Verdict.UNDECIDED, rows, n)


def background_gains_most(rows: Sequence[Row]) -> Finding:
    """Seed by seed: the smaller gain of the two sets with a background, above the largest of the other three."""
    gains: dict[int, dict[str, float]] = defaultdict(dict)
    for both, (ours, theirs) in pairs(rows, measures.best_points, MAX_MIN, SOFTMAX).items():
        gains[both.seed][both.dataset] = ours - theirs
    differences = [
        min(gain[dataset] for dataset in BACKGROUND)
        - max(gain[dataset] for dataset in DATASETS if dataset not in BACKGROUND)
        for gain in gains.values()
        if gain.keys() >= set(DATASETS)
    ]
    return _judged(differences, rows, "points more than without a background")


# Figures 7 and 8


def slope(rows: Sequence[Row], line: str, side: int) -> Finding:
    """A line's accuracy rises (`side` 1) or falls (−1) with the number of iterations, seed by seed.

    From two iterations on, as one routes nothing; what the first ones with routing are worth is told beside it.
    """
    here = runs_of(rows, line=line)
    slopes: dict[str, list[float]] = defaultdict(list)
    first_steps = []
    for curve, points in measures.whole_curves(here).items():
        routed = {count: points[count] for count in sorted(points) if count > 1}
        slopes[curve.dataset].append(linear_regression(list(routed), list(routed.values())).slope)
        first_steps += [(min(routed), points[min(routed)] - points[1])] if 1 in points else []
    found = _unless_diverged(_judged_everywhere(slopes, here, "points an iteration", side), here)
    if not first_steps:
        return found
    (count, *_), gains = zip(*first_steps, strict=True)
    return replace(found, ours=f"{found.ours}; {count} iterations beside 1: {fmean(gains):+.2f} points")


def smaller_gap(rows: Sequence[Row]) -> Finding:
    """The gap of Max-Min is smaller than that of Softmax: seed by seed, the mean over the numbers of iterations."""
    saved: dict[tuple[str, int], list[float]] = defaultdict(list)
    for both, (theirs, ours) in pairs(rows, measures.gap_points, SOFTMAX, MAX_MIN).items():
        saved[both.dataset, both.seed].append(theirs - ours)
    by_dataset: dict[str, list[float]] = defaultdict(list)
    for (dataset, _), values in saved.items():
        by_dataset[dataset].append(fmean(values))
    return _judged_everywhere(by_dataset, rows, "points of gap saved")


# Figures 2 to 6


def per_run(rows: Sequence[Row], measure: Measure, unit: str, above: float, line: str | None = None) -> Finding:
    """The mean of a measure over runs, of one line or of all, lies above a bound."""
    asked = [row for row in rows if line in (row["line"], None)]
    here = _measured(asked, measure)
    return _judged([row["measured"] for row in here], _told(here, asked), unit, above) if here else _not_kept(asked)


def per_both(rows: Sequence[Row], measure: Measure, unit: str, above: float) -> Finding:
    """The mean of a measure lies above a bound for Max-Min and for Softmax alike: of each pair the lower one counts."""
    here = _measured(rows, measure)
    lower = [min(both) for both in pairs(here, itemgetter("measured"), MAX_MIN, SOFTMAX).values()]
    return _judged(lower, _told(here, rows), unit, above) if here else _not_kept(rows)


def per_pair(rows: Sequence[Row], measure: Measure, unit: str, first: str, second: str) -> Finding:
    """A measure is larger for one line than for the other, pair by pair."""
    here = _measured(rows, measure)
    if not here:
        return _not_kept(rows)
    return _judged(paired(here, itemgetter("measured"), first, second), _told(here, rows), unit)


def _not_kept(rows: Sequence[Row]) -> Finding:
    """Say of runs whose records lack what a measure is taken from that they are there, and what is wrong."""
    if not complete(rows):
        return _nothing(rows)
    return Finding("the records do not hold what this is measured by", Verdict.TOO_FEW, rows, 0)


def _told(measured: Sequence[Row], asked: Sequence[Row]) -> list[Row]:
    """Give the runs that are told of beside a number: those it is of, and those that diverged."""
    return [*measured, *(row for row in asked if row["status"] == "diverged")]


def _measured(rows: Sequence[Row], measure: Measure) -> list[Row]:
    """Measure the runs whose records hold what it takes."""
    return [{**row, "measured": value} for row in complete(rows) if (value := measure(row)) is not None]


def tuning_keeps_shape(rows: Sequence[Row]) -> Finding:
    """The tuning curves of both normalizations correlate by more than 0.9, beside their peaks."""
    asked = [row for row in rows if row["dataset"] in ("mnist", "cifar10", "mnist-5k")]
    here = [row for row in complete(asked) if measures.has(row, "lengths.safetensors")]
    if not here:
        return _not_kept(asked)
    unit = "correlation of the curves beside their peaks"
    return _judged(measures.tuning_likenesses(here), _told(here, asked), unit, 0.9)


# Tables 2 and 4, bounds


def stands_out(rows: Sequence[Row], line: str, side: int) -> Finding:
    """Of the paper's six, a normalization is above all others (`side` 1) or below them (−1), seed by seed."""
    six = [row for row in rows if row["line"] in SIX]
    by_seed: dict[int, dict[str, float]] = defaultdict(dict)
    for row in complete(six):
        by_seed[row["seed"]][row["line"]] = side * measures.best_points(row)
    ahead = [
        found[line] - max(value for other, value in found.items() if other != line)
        for found in by_seed.values()
        if found.keys() == set(SIX)
    ]
    where = "above the best" if side > 0 else "below the worst"
    return _unless_diverged(_judged(ahead, six, f"points {where} of the other five"), six)


def winner_take_all_is_cheap(rows: Sequence[Row]) -> Finding:
    """It costs less than 0.35 points: 0.3 as the paper rounds it."""
    here = runs_of(rows, line=MAX_MIN) + (own := runs_of(rows, line="WTA"))
    lost = paired(here, measures.best_points, MAX_MIN, "WTA")
    errors = pairs(here, measures.best_error_percent, MAX_MIN, "WTA").values()
    more = [100 * (theirs / ours - 1) for ours, theirs in errors if ours]
    told = f"points lost, {fmean(more):.0f} % more errors" if more else "points lost"
    return _unless_diverged(_judged(lost, here, told, 0.35, side=-1), own)


def no_matter(rows: Sequence[Row], line: str) -> Finding:
    """Over the values from 0.01 to 1.0, best and worst accuracy differ by less than half a point, in every seed."""
    here = runs_of(rows, line=line)
    spans = [max(points.values()) - min(points.values()) for points in measures.whole_curves(here).values()]
    diverged = len({row["seed"] for row in here if row["status"] == "diverged"})
    told = [f"{max(spans):.2g} points from worst to best at most (n = {len(spans)})"] if spans else []
    told += [f"diverged in {counted(diverged, 'seed')}"] if diverged else []
    if not told:
        return _nothing(here)
    against = diverged + sum(span >= HALF_A_POINT for span in spans)  # what diverged mattered, by no number
    seeds = diverged + len(spans)
    decided = {0: Verdict.HOLDS, seeds: Verdict.FAILS}.get(against, Verdict.UNDECIDED)
    return Finding("; ".join(told), decided if seeds >= ENOUGH else Verdict.TOO_FEW, here, len(spans))


def single_record(rows: Sequence[Row]) -> Finding:
    """The best of at least three runs errs on 0.20 % or less."""
    here = runs_of(rows, line=MAX_MIN)
    errors = [measures.best_error_percent(row) for row in complete(here)]
    if not errors:
        return _nothing(here)
    ours = f"{min(errors):.2f} % at best, {sum(errors) / len(errors):.2f} % on average (best epochs, n = {len(errors)})"
    reached = _reached(min(errors), 0.20, at_paper=has_papers_budget(STUDIES["mnist-record"], here))
    return Finding(ours, reached if len(errors) >= ENOUGH else Verdict.TOO_FEW, here, len(errors))


def vote_record(rows: Sequence[Row]) -> Finding:
    """The vote of seeds 0 to 2 errs on 0.17 % or less."""
    here = models_a_b_c(rows)
    if len(here) < 3:
        return _nothing(here)
    together = vote([responses(row["folder"]) for row in here])
    ours = f"{together.error_percent:.2f} % ({len(together.wrong)} images, final weights)"
    at_paper = all(row["scale"] == PAPER_SCALE for row in here)  # all of its three
    return Finding(ours, _reached(together.error_percent, 0.17, at_paper=at_paper), here, len(here), at_paper)


def _reached(error_percent: float, record: float, *, at_paper: bool) -> Verdict:
    """Say whether a record was reached. With less than the paper's budget a miss refutes nothing."""
    if error_percent <= record + 1e-9:
        return Verdict.HOLDS
    return Verdict.FAILS if at_paper else Verdict.UNDECIDED


def vote_beats_one(rows: Sequence[Row]) -> Finding:
    """Each group of three, no model in two groups, against the mean of its own three."""
    here = voters(rows)
    saved = []
    for first in range(0, len(here) - 2, 3):
        three = [responses(row["folder"]) for row in here[first : first + 3]]
        saved.append(sum(model.error_percent for model in three) / 3 - vote(three).error_percent)
    return _judged(saved, here, "points of error saved by a vote of three, final weights")


def record_beats_softmax(rows: Sequence[Row]) -> Finding:
    """Max-Min is better than Softmax under the record's recipe, seed by seed."""
    return _judged(paired(rows, measures.best_points, MAX_MIN, SOFTMAX), rows, "points")
