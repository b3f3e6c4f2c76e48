"""How runs are asked about a claim: each judge takes the runs of a study and gives a finding."""

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

Measure = Callable[[Row], float | None]
MAX_MIN, SOFTMAX = "Max-Min", "Softmax"
BACKGROUND = ("background-mnist", "cifar10")


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
    """Judge the claim that a mean lies above zero, or below it, on every dataset.

    Where the datasets are on different sides their common mean decides nothing.
    """
    found = _judged((value for own in values.values() for value in own), rows, unit, side=side)
    if len(values) < 2:
        return found
    told = ", ".join(f"{title_of(dataset)} {fmean(own):+.3g}" for dataset, own in values.items())
    mixed = len({side * fmean(own) > 0 for own in values.values()}) > 1
    decided = found.verdict in (Verdict.HOLDS, Verdict.FAILS)
    return replace(
        found, ours=f"{found.ours}: {told}", verdict=Verdict.UNDECIDED if mixed and decided else found.verdict
    )


def _in_words(found: Interval, unit: str, bound: float) -> str:
    """Write a mean with its interval: `+0.27 points (95 %: +0.20 to +0.34, n = 5)`."""
    form = ".4g" if bound else "+.3g"  # what is held against zero is a difference, and has a sign
    within = "" if found.low is None else f"95 %: {found.low:{form}} to {found.high:{form}}, "
    return f"{found.mean:{form}} {unit} ({within}n = {found.n})"


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
    """A line's accuracy rises (`side` 1) or falls (−1) with the number of iterations, seed by seed."""
    here = runs_of(rows, line=line)
    slopes: dict[str, list[float]] = defaultdict(list)
    for curve, points in measures.whole_curves(here).items():
        slopes[curve.dataset].append(linear_regression(list(points), list(points.values())).slope)
    return _judged_everywhere(slopes, here, "points an iteration", side)


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


def winner_take_all_is_cheap(rows: Sequence[Row]) -> Finding:
    """It costs less than 0.35 points: 0.3 as the paper rounds it."""
    here = [row for row in rows if row["line"] in (MAX_MIN, "WTA")]
    return _judged(paired(here, measures.best_points, MAX_MIN, "WTA"), here, "points lost", 0.35, side=-1)


def no_matter(rows: Sequence[Row], line: str) -> Finding:
    """Over the values from 0.01 to 1.0, best and worst accuracy differ by less than half a point."""
    here = runs_of(rows, line=line)
    spans = [max(points.values()) - min(points.values()) for points in measures.whole_curves(here).values()]
    found = _judged(spans, here, "points from worst to best", 0.5, side=-1)
    diverged = any(row["status"] == "diverged" for row in here)  # then it mattered, though no number says how much
    return replace(found, verdict=Verdict.UNDECIDED) if diverged and found.verdict is Verdict.HOLDS else found


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
    return Finding(ours, _reached(together.error_percent, 0.17, at_paper=at_paper), here, len(here))


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
