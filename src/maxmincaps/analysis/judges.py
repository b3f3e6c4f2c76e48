"""How runs are asked about a claim: each judge takes the runs of a study and gives a finding."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, linear_regression
from typing import Any

from maxmincaps.analysis import measures
from maxmincaps.analysis.compare import ENOUGH, Verdict, complete, interval, paired, pairs, verdict
from maxmincaps.analysis.findings import Finding, in_words, judged, judged_everywhere, nothing, unless_diverged
from maxmincaps.analysis.vote import vote
from maxmincaps.analysis.voters import models_a_b_c, voters
from maxmincaps.studies import STUDIES
from maxmincaps.studies.figures_2_to_6_inside import SHOWN
from maxmincaps.studies.study import DATASETS, PAPER_SCALE, title_of
from maxmincaps.studies.table import has_papers_budget
from maxmincaps.training.responses import responses
from maxmincaps.training.run import RunSummary
from maxmincaps.wording import pluralize

Measure = Callable[[RunSummary], float | None]
MAX_MIN, SOFTMAX = "Max-Min", "Softmax"
BACKGROUND = ("background-mnist", "cifar10")
SIX = (MAX_MIN, "Centered Max-Min", "Adjusted Log", "WTA", "Z-Score", "Sum")
"""The normalizations that the paper compares in Table 4."""
HALF_A_POINT = 0.5
"""Less than this, of some accuracies, is taken not to matter."""
A_FIFTH = 0.2
"""Points of accuracy: less than this is taken for approximately the same."""


def runs_of(rows: Sequence[RunSummary], **wanted: Any) -> list[RunSummary]:
    """Return the runs with these values of `dataset`, `seed`, `line`, `value` or `scale`."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


# Table 1


def gain(rows: Sequence[RunSummary], dataset: str) -> Finding:
    """Max-Min is better than Softmax on a dataset, seed by seed."""
    here = runs_of(rows, dataset=dataset)
    found = judged(paired(here, measures.best_points, MAX_MIN, SOFTMAX), here, "points")
    return unless_diverged(found, runs_of(here, line=MAX_MIN))


def errors_fall(rows: Sequence[RunSummary]) -> Finding:
    """Max-Min takes away errors on each of the five datasets, and at least 8.6 % of Softmax's on average."""
    falls: dict[str, list[float]] = {dataset: [] for dataset in DATASETS}
    for both, (ours, theirs) in pairs(rows, measures.best_error_percent, MAX_MIN, SOFTMAX).items():
        if theirs and both.dataset in falls:
            falls[both.dataset].append(100 * (theirs - ours) / theirs)
    found = {dataset: fall for dataset, values in falls.items() if (fall := interval(values))}
    if not found:
        return nothing(rows)
    ours = ", ".join(f"{title_of(dataset)} {fall.mean:.1f} %" for dataset, fall in found.items())
    n = min(map(len, falls.values()))
    if n < ENOUGH:
        return Finding(ours, Verdict.TOO_FEW, rows, n)
    if all(fall.mean >= 8.6 and verdict(fall) is Verdict.HOLDS for fall in found.values()):
        return unless_diverged(Finding(ours, Verdict.HOLDS, rows, n), runs_of(rows, line=MAX_MIN))
    fails = any(verdict(fall, above=8.6) is Verdict.FAILS for fall in found.values())
    return Finding(ours, Verdict.FAILS if fails else Verdict.UNDECIDED, rows, n)


def background_gains_most(rows: Sequence[RunSummary]) -> Finding:
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
    found = judged(differences, rows, "points more than without a background")
    return unless_diverged(found, runs_of(rows, line=MAX_MIN))


# Figures 7 and 8


def slope(rows: Sequence[RunSummary], line: str, side: int) -> Finding:
    """A line's accuracy rises (`side` 1) or falls (−1) with the number of iterations, seed by seed.

    From two iterations on, as one routes nothing; what the first ones with routing are worth is told beside it.
    """
    here = runs_of(rows, line=line)
    curves = measures.whole_curves(here)
    slopes = [(curve.dataset, _slope(points)) for curve, points in curves.items()]
    found = judged_everywhere(slopes, here, "points an iteration", side=side, wanted=DATASETS)
    found = unless_diverged(found, here)
    firsts = ((points, min(count for count in points if count > 1)) for points in curves.values() if 1 in points)
    first_steps = [(first, points[first] - points[1]) for points, first in firsts]
    if not first_steps:
        return found
    (count, *_), gains = zip(*first_steps, strict=True)
    return replace(found, ours=f"{found.ours}; {count} iterations beside 1: {fmean(gains):+.2f} points")


def _slope(points: Mapping[float, float]) -> float:
    """Give the slope over the numbers of iterations that route anything."""
    routed = {count: points[count] for count in sorted(points) if count > 1}
    return linear_regression(list(routed), list(routed.values())).slope


def lead_grows(rows: Sequence[RunSummary]) -> Finding:
    """What Max-Min is ahead of Softmax grows with the number of iterations, seed by seed."""
    return _grows(rows, _differences(rows, measures.best_points, MAX_MIN, SOFTMAX), "points of lead")


def smaller_gap(rows: Sequence[RunSummary]) -> Finding:
    """The gap of Max-Min is smaller than that of Softmax: seed by seed, the mean over the numbers of iterations."""
    gaps_saved = _differences(rows, measures.gap_points, SOFTMAX, MAX_MIN)
    saved = [(curve.dataset, fmean(points.values())) for curve, points in gaps_saved.items()]
    found = judged_everywhere(saved, rows, "points of gap saved", wanted=DATASETS)
    return unless_diverged(found, runs_of(rows, line=MAX_MIN))


def gap_saved_grows(rows: Sequence[RunSummary]) -> Finding:
    """What Max-Min saves of Softmax's gap grows with the number of iterations, seed by seed."""
    return _grows(rows, _differences(rows, measures.gap_points, SOFTMAX, MAX_MIN), "points of gap saved")


def _grows(rows: Sequence[RunSummary], curves: Mapping[measures.Curve, dict[float, float]], unit: str) -> Finding:
    slopes = [(curve.dataset, _slope(points)) for curve, points in curves.items()]
    found = judged_everywhere(slopes, rows, f"{unit} an iteration", wanted=DATASETS)
    return unless_diverged(found, runs_of(rows, line=MAX_MIN))


def _differences(
    rows: Sequence[RunSummary], measure: Callable[[RunSummary], float], first: str, second: str
) -> dict[measures.Curve, dict[float, float]]:
    """Give what a measure of one line is above the other's, by iterations, where there are pairs at all of them."""
    scales = {row.recipe.dataset: row.scale for row in rows}
    found: dict[measures.Curve, dict[float, float]] = defaultdict(dict)
    for both, (one, other) in pairs(rows, measure, first, second).items():
        curve = measures.Curve("iterations", scales[both.dataset], both.dataset, first, both.seed)
        assert both.value is not None  # the number of iterations
        found[curve][both.value] = one - other
    return measures.whole(found)


# Figures 2 to 6


def per_run(rows: Sequence[RunSummary], measure: Measure, unit: str, above: float, line: str | None = None) -> Finding:
    """The mean of a measure over runs, of one line or of all, lies above a bound."""
    asked = [row for row in rows if line in (row.line, None)]
    here = _measured(asked, measure)
    values = [(row.recipe.dataset, value) for row, value in here.items()]
    return judged_everywhere(values, _told(here, asked), unit, above) if here else _not_kept(asked)


def per_both(rows: Sequence[RunSummary], measure: Measure, unit: str, above: float) -> Finding:
    """The mean of a measure lies above a bound for Max-Min and for Softmax alike: of each pair the lower one counts."""
    here = _measured(rows, measure)
    found = pairs([*here], here.__getitem__, MAX_MIN, SOFTMAX)
    lower = [(both.dataset, min(values)) for both, values in found.items()]
    return judged_everywhere(lower, _told(here, rows), unit, above) if here else _not_kept(rows)


def per_pair(rows: Sequence[RunSummary], measure: Measure, unit: str, first: str, second: str) -> Finding:
    """A measure is larger for one line than for the other, pair by pair."""
    here = _measured(rows, measure)
    found = pairs([*here], here.__getitem__, first, second)
    values = [(both.dataset, larger - smaller) for both, (larger, smaller) in found.items()]
    return judged_everywhere(values, _told(here, rows), unit) if here else _not_kept(rows)


def differs_on_cifar10(rows: Sequence[RunSummary], measure: Measure, unit: str) -> Finding:
    """A measure is larger on CIFAR10 than on MNIST, for Max-Min and for Softmax alike, seed by seed."""
    asked = [row for row in rows if row.recipe.dataset in ("mnist", "cifar10")]
    here = _measured(asked, measure)
    if not here:
        return _not_kept(asked)
    found = {(row.line, row.recipe.seed, row.recipe.dataset): value for row, value in here.items()}
    more = [
        min(found[line, seed, "cifar10"] - found[line, seed, "mnist"] for line in (MAX_MIN, SOFTMAX))
        for seed in dict.fromkeys(row.recipe.seed for row in here)
        if all((line, seed, dataset) in found for line in (MAX_MIN, SOFTMAX) for dataset in ("mnist", "cifar10"))
    ]
    return judged(more, _told(here, asked), unit)


def _not_kept(rows: Sequence[RunSummary]) -> Finding:
    """Say of runs whose records lack what a measure is taken from that they are there, and what is wrong."""
    if not complete(rows):
        return nothing(rows)
    return Finding("the records do not hold what this is measured by", Verdict.TOO_FEW, rows, 0)


def _told(measured: Iterable[RunSummary], asked: Sequence[RunSummary]) -> list[RunSummary]:
    """Give the runs that are told of beside a number: those it is of, and those that diverged."""
    return [*measured, *(row for row in asked if row.status == "diverged")]


def _measured(rows: Sequence[RunSummary], measure: Measure) -> dict[RunSummary, float]:
    """Return the measure of each complete run whose folder holds what it takes."""
    return {row: value for row in complete(rows) if (value := measure(row)) is not None}


def tuning_keeps_shape(rows: Sequence[RunSummary]) -> Finding:
    """The tuning curves of both normalizations correlate by more than 0.9, beside their peaks."""
    asked = [row for row in rows if row.recipe.dataset in SHOWN["dataset"]]
    here = [row for row in complete(asked) if measures.has(row, "lengths.safetensors")]
    if not here:
        return _not_kept(asked)
    unit = "correlation of the curves beside their peaks"
    return judged_everywhere(measures.tuning_likenesses(here), _told(here, asked), unit, 0.9)


# Tables 2 and 4, bounds


def stands_out(rows: Sequence[RunSummary], line: str, side: int) -> Finding:
    """Of the paper's six, a normalization is above all others (`side` 1) or below them (−1), seed by seed."""
    six = [row for row in rows if row.line in SIX]
    by_seed: dict[int, dict[str, float]] = defaultdict(dict)
    for row in complete(six):
        by_seed[row.recipe.seed][row.line] = side * measures.best_points(row)
    ahead = [
        found[line] - max(value for other, value in found.items() if other != line)
        for found in by_seed.values()
        if found.keys() == set(SIX)
    ]
    where = "above the best" if side > 0 else "below the worst"
    return unless_diverged(judged(ahead, six, f"points {where} of the other five"), six)


def winner_take_all_is_cheap(rows: Sequence[RunSummary]) -> Finding:
    """It costs less than 0.35 points: 0.3 as the paper rounds it."""
    here = runs_of(rows, line=MAX_MIN) + (own := runs_of(rows, line="WTA"))
    lost = paired(here, measures.best_points, MAX_MIN, "WTA")
    errors = pairs(here, measures.best_error_percent, MAX_MIN, "WTA").values()
    more = [100 * (theirs / ours - 1) for ours, theirs in errors if ours]
    told = f"points lost, {fmean(more):.0f} % more errors" if more else "points lost"
    return unless_diverged(judged(lost, here, told, 0.35, side=-1), own)


def level(rows: Sequence[RunSummary], line: str, other: str) -> Finding:
    """Two lines lie less than a fifth of a point apart: the whole interval of their difference does, seed by seed."""
    here = runs_of(rows, line=line) + runs_of(rows, line=other)
    apart = interval(paired(here, measures.best_points, line, other))
    if apart is None:
        return nothing(here)
    if apart.low is None or apart.high is None or apart.n < ENOUGH:
        decided = Verdict.TOO_FEW
    elif apart.low > -A_FIFTH and apart.high < A_FIFTH:
        decided = Verdict.HOLDS
    else:
        decided = Verdict.FAILS if apart.low >= A_FIFTH or apart.high <= -A_FIFTH else Verdict.UNDECIDED
    return unless_diverged(Finding(in_words(apart, "points", 0.0), decided, here, apart.n), here)


def no_matter(rows: Sequence[RunSummary], line: str) -> Finding:
    """Over the values from 0.01 to 1.0, best and worst accuracy differ by less than half a point, in every seed."""
    here = runs_of(rows, line=line)
    spans = [max(points.values()) - min(points.values()) for points in measures.whole_curves(here).values()]
    diverged = len({row.recipe.seed for row in here if row.status == "diverged"})
    told = [f"{max(spans):.2g} points from worst to best at most (n = {len(spans)})"] if spans else []
    told += [f"diverged in {pluralize(diverged, 'seed')}"] if diverged else []
    if not told:
        return nothing(here)
    against = diverged + sum(span >= HALF_A_POINT for span in spans)  # what diverged mattered, by no number
    seeds = diverged + len(spans)
    decided = {0: Verdict.HOLDS, seeds: Verdict.FAILS}.get(against, Verdict.UNDECIDED)
    return Finding("; ".join(told), decided if seeds >= ENOUGH else Verdict.TOO_FEW, here, len(spans))


def single_record(rows: Sequence[RunSummary]) -> Finding:
    """The best of at least three runs errs on 0.20 % or less."""
    here = runs_of(rows, line=MAX_MIN)
    errors = [measures.best_error_percent(row) for row in complete(here)]
    if not errors:
        return nothing(here)
    ours = f"{min(errors):.2f} % at best, {sum(errors) / len(errors):.2f} % on average (best epochs, n = {len(errors)})"
    reached = _reached(min(errors), 0.20, at_paper=has_papers_budget(STUDIES["mnist-record"], here))
    return Finding(ours, reached if len(errors) >= ENOUGH else Verdict.TOO_FEW, here, len(errors))


def vote_record(rows: Sequence[RunSummary]) -> Finding:
    """The vote of seeds 0 to 2 errs on 0.17 % or less."""
    here = models_a_b_c(rows)
    if len(here) < 3:
        return nothing(here)
    together = vote([responses(row.folder) for row in here])
    ours = f"{together.error_percent:.2f} % ({len(together.wrong)} images, final weights)"
    at_paper = all(row.scale == PAPER_SCALE for row in here)  # all of its three
    return Finding(ours, _reached(together.error_percent, 0.17, at_paper=at_paper), here, len(here), at_paper)


def _reached(error_percent: float, record: float, *, at_paper: bool) -> Verdict:
    """Say whether a record was reached. With less than the paper's budget a miss refutes nothing."""
    if error_percent <= record + 1e-9:
        return Verdict.HOLDS
    return Verdict.FAILS if at_paper else Verdict.UNDECIDED


def vote_beats_one(rows: Sequence[RunSummary]) -> Finding:
    """Each group of three, no model in two groups, against the best of its own three."""
    here = voters(rows)
    saved = []
    for first in range(0, len(here) - 2, 3):
        three = [responses(row.folder) for row in here[first : first + 3]]
        saved.append(min(model.error_percent for model in three) - vote(three).error_percent)
    return judged(saved, here, "points of error below the best of three, final weights")


def record_beats_softmax(rows: Sequence[RunSummary]) -> Finding:
    """Max-Min is better than Softmax under the record's recipe, seed by seed."""
    found = judged(paired(rows, measures.best_points, MAX_MIN, SOFTMAX), rows, "points")
    return unless_diverged(found, runs_of(rows, line=MAX_MIN))
