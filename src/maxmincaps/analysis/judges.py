"""How runs are asked about a claim: each judge takes the runs of a study and gives a finding."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maxmincaps.analysis import measures
from maxmincaps.analysis.compare import ENOUGH, Interval, Verdict, interval, paired, verdict
from maxmincaps.analysis.vote import vote
from maxmincaps.studies.records import Row
from maxmincaps.studies.study import DATASETS, SHORT
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
    """The runs that were looked at."""
    n: int
    """Runs, or pairs of runs, that count."""
    interval: Interval | None = None


def _nothing(rows: Sequence[Row] = ()) -> Finding:
    return Finding("no runs", Verdict.TOO_FEW, rows, 0)


def in_words(found: Interval, unit: str) -> str:
    """Write a mean with its interval: `+0.27 points (95 %: +0.20 to +0.34, n = 5)`."""
    if found.low is None or found.high is None:
        return f"{found.mean:+.3g} {unit} (n = {found.n})"
    return f"{found.mean:+.3g} {unit} (95 %: {found.low:+.3g} to {found.high:+.3g}, n = {found.n})"


def _mean_above(values: Iterable[float], rows: Sequence[Row], unit: str, above: float = 0.0) -> Finding:
    """Judge the claim that a mean lies above a bound."""
    found = interval(values)
    if found is None:
        return _nothing(rows)
    return Finding(in_words(found, unit), verdict(found, above), rows, found.n, found)


def runs_of(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Keep the runs that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


# Table 1


def gain(rows: Sequence[Row], dataset: str) -> Finding:
    """Max-Min is better than Softmax on a dataset, seed by seed."""
    here = runs_of(rows, dataset=dataset)
    return _mean_above(paired(here, measures.best_points, MAX_MIN, SOFTMAX), here, "points")


def errors_fall(rows: Sequence[Row]) -> Finding:
    """Max-Min takes away errors on each of the five datasets, and at least 8.6 % of Softmax's on average."""
    falls = {dataset: interval(measures.error_falls(runs_of(rows, dataset=dataset))) for dataset in DATASETS}
    found = {dataset: fall for dataset, fall in falls.items() if fall}
    if not found:
        return _nothing(rows)
    ours = ", ".join(f"{SHORT[dataset]} {fall.mean:.1f} %" for dataset, fall in found.items())
    n = min((fall.n for fall in found.values()), default=0) if len(found) == len(DATASETS) else 0
    if n < ENOUGH:
        return Finding(ours, Verdict.TOO_FEW, rows, n)
    if all(fall.mean >= 8.6 and verdict(fall) is Verdict.HOLDS for fall in found.values()):
        return Finding(ours, Verdict.HOLDS, rows, n)
    fails = any(verdict(fall, above=8.6) is Verdict.FAILS for fall in found.values())
    return Finding(ours, Verdict.FAILS if fails else Verdict.UNDECIDED, rows, n)


def background_gains_most(rows: Sequence[Row]) -> Finding:
    """Seed by seed: the smaller gain of the two sets with a background, above the largest of the other three."""
    gains = {dataset: measures.gains_by_seed(runs_of(rows, dataset=dataset)) for dataset in DATASETS}
    seeds = set.intersection(*(set(gain) for gain in gains.values()))
    differences = [
        min(gains[dataset][seed] for dataset in BACKGROUND)
        - max(gains[dataset][seed] for dataset in DATASETS if dataset not in BACKGROUND)
        for seed in sorted(seeds)
    ]
    return _mean_above(differences, rows, "points more than without a background")


# Figures 7 and 8


def slope(rows: Sequence[Row], line: str, sign: float) -> Finding:
    """A line's accuracy rises (`sign` 1) or falls (−1) with the number of iterations."""
    slopes = measures.slopes(runs_of(rows, line=line), measures.best_points)
    finding = _mean_above([sign * slope for slope in slopes], rows, "points an iteration")
    if finding.interval is None:
        return finding
    true = interval(slopes)
    assert true is not None
    return Finding(in_words(true, "points an iteration"), finding.verdict, runs_of(rows, line=line), true.n, true)


def smaller_gap(rows: Sequence[Row]) -> Finding:
    """The gap of Max-Min is smaller than that of Softmax, pair by pair."""
    return _mean_above(paired(rows, measures.gap_points, SOFTMAX, MAX_MIN), rows, "points of gap saved")


# Figures 2 to 6


def per_run(rows: Sequence[Row], measure: Measure, unit: str, above: float, line: str | None = None) -> Finding:
    """The mean of a measure over runs, of one line or of all, lies above a bound."""
    here = _measured([row for row in rows if line in (row["line"], None)], measure)
    return _mean_above([row["measured"] for row in here], here, unit, above)


def per_pair(rows: Sequence[Row], measure: Measure, unit: str, first: str, second: str) -> Finding:
    """A measure is larger for one line than for the other, pair by pair."""
    here = _measured(rows, measure)
    return _mean_above(paired(here, "measured", first, second), here, unit)


def _measured(rows: Sequence[Row], measure: Measure) -> list[Row]:
    """Measure the runs whose records hold what it takes."""
    return [{**row, "measured": value} for row in rows if (value := measure(row)) is not None]


def tuning_keeps_shape(rows: Sequence[Row]) -> Finding:
    """The tuning curves of both normalizations correlate by more than 0.9."""
    here = [row for row in rows if row["dataset"] in ("mnist", "cifar10", "mnist-5k")]
    return _mean_above(measures.tuning_likenesses(here), here, "correlation of the curves", above=0.9)


# Tables 2 and 4, bounds


def winner_take_all_is_cheap(rows: Sequence[Row]) -> Finding:
    """It costs less than 0.35 points: 0.3 as the paper rounds it."""
    here = [row for row in rows if row["line"] in (MAX_MIN, "WTA")]
    costs = paired(here, measures.best_points, MAX_MIN, "WTA")
    found = interval(costs)
    if found is None:
        return _nothing(here)
    below = verdict(interval(-cost for cost in costs), above=-0.35)
    return Finding(in_words(found, "points lost"), below, here, found.n, found)


def no_matter(rows: Sequence[Row], line: str) -> Finding:
    """Over the values from 0.01 to 1.0, best and worst accuracy differ by less than half a point."""
    here = runs_of(rows, line=line)
    spans = measures.spans_by_seed(here)
    found = interval(spans)
    if found is None:
        return _nothing(here)
    below = verdict(interval(-span for span in spans), above=-0.5)
    return Finding(in_words(found, "points from worst to best"), below, here, found.n, found)


def single_record(rows: Sequence[Row]) -> Finding:
    """The best of at least three runs errs on 0.20 % or less."""
    here = runs_of(rows, line=MAX_MIN)
    errors = [100 - measures.best_points(row) for row in here]
    if not errors:
        return _nothing()
    ours = f"{min(errors):.2f} % at best, {sum(errors) / len(errors):.2f} % on average (best epochs, n = {len(errors)})"
    enough = Verdict.HOLDS if min(errors) <= 0.20 + 1e-9 else Verdict.FAILS
    return Finding(ours, enough if len(errors) >= ENOUGH else Verdict.TOO_FEW, here, len(errors))


def _voters(rows: Sequence[Row]) -> list[Row]:
    here = [row for row in runs_of(rows, line=MAX_MIN) if measures.has(row, "lengths.safetensors")]
    return sorted(here, key=lambda row: row["seed"])


def vote_record(rows: Sequence[Row]) -> Finding:
    """The vote of seeds 0 to 2 errs on 0.17 % or less."""
    here = _voters(rows)[:3]
    if len(here) < 3:
        return _nothing(here)
    together = vote([responses(row["folder"]) for row in here])
    ours = f"{together.error_percent:.2f} % ({len(together.wrong)} images)"
    holds = together.error_percent <= 0.17 + 1e-9
    return Finding(ours, Verdict.HOLDS if holds else Verdict.FAILS, here, len(here))


def vote_beats_one(rows: Sequence[Row]) -> Finding:
    """Each group of three, no model in two groups, against the mean of its own three."""
    here = _voters(rows)
    saved = []
    for first in range(0, len(here) - 2, 3):
        three = [responses(row["folder"]) for row in here[first : first + 3]]
        saved.append(sum(model.error_percent for model in three) / 3 - vote(three).error_percent)
    return _mean_above(saved, here, "points of error saved by a vote of three")


def record_beats_softmax(rows: Sequence[Row]) -> Finding:
    """Max-Min is better than Softmax under the record's recipe, seed by seed."""
    return _mean_above(paired(rows, measures.best_points, MAX_MIN, SOFTMAX), rows, "points")
