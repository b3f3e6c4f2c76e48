"""How runs are turned into the numbers of a claim. Each criterion takes the runs of a study and returns a finding.

Arguments that criteria share: `measure` returns a number of one run, `unit` is the unit of the result, `line`, `first`,
`second` and `minus` are labels of lines, `bound` is what the claim says (default: the mean is above 0), and
`datasets` are the datasets that the claim is about (default: all that were run).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import sub
from statistics import fmean, linear_regression
from typing import Any

import torch
from torch import Tensor

from maxmincaps.analysis import measures
from maxmincaps.analysis.runs import Measure, RunTable, models_a_b_c, voters
from maxmincaps.analysis.verdicts import ACROSS, ENOUGH, Bound, Finding, Verdict, evaluate, not_tested
from maxmincaps.analysis.vote import vote
from maxmincaps.studies.study import DATASETS, PAPER_SCALE
from maxmincaps.training.responses import responses
from maxmincaps.training.run import RunSummary
from maxmincaps.wording import pluralize

MAX_MIN_LABEL, SOFTMAX_LABEL = BOTH = ("Max-Min", "Softmax")  # labels of the two lines that most claims compare
WITH_BACKGROUND = ("background-mnist", "cifar10")
SIX = (MAX_MIN_LABEL, "Centered Max-Min", "Adjusted Log", "WTA", "Z-Score", "Sum")
"""The normalizations that the paper compares in Table 4."""


def on_pairs(
    runs: RunTable,
    measure: Callable[[RunSummary], Any],
    unit: str,
    *,
    first: str = MAX_MIN_LABEL,
    second: str = SOFTMAX_LABEL,
    combine: Callable[[Any, Any], float] = sub,
    bound: Bound | None = None,
    datasets: Sequence[str] = (),
) -> Finding:
    """Evaluate one number per matched pair of two lines: `combine` of both measures, by default `first - second`."""
    here = runs.filter(lambda run: run.line in (first, second) and run.recipe.dataset in (datasets or runs.datasets))
    pairs = here.pairs(measure, first, second)
    values = _by_dataset((key.dataset, combine(*both)) for key, both in pairs.items())
    return evaluate(values, here, unit, bound, datasets, measure)


def on_runs(
    runs: RunTable, measure: Measure, unit: str, line: str, bound: Bound, datasets: Sequence[str] = ()
) -> Finding:
    """Evaluate one number per run of a line."""
    here = runs.where(line=line)
    values = _by_dataset((run.recipe.dataset, value) for run, value in here.measured(measure).items())
    return evaluate(values, here, unit, bound, datasets, measure)


def on_curves(
    runs: RunTable,
    measure: Measure,
    unit: str,
    reduce: Callable[[Mapping[float, float]], float],
    *,
    line: str,
    minus: str | None = None,
    bound: Bound | None = None,
    datasets: Sequence[str] = DATASETS,
) -> Finding:
    """Evaluate one number per dataset and seed: `reduce` of the curve over all places on the axis that the study has.

    With `minus`, the curve is the difference of two lines, pair by pair.
    """
    here = runs.filter(lambda run: run.line in (line, minus))
    curves = here.curves(measure, line)
    if minus is not None:
        others = here.curves(measure, minus)
        curves = {
            key: {place: points[place] - others[key][place] for place in points}
            for key, points in curves.items()
            if key in others
        }
    values = _by_dataset((key.dataset, reduce(points)) for key, points in curves.items())
    return evaluate(values, here, unit, bound, datasets)


def relative_fall(ours: float, theirs: float) -> float:
    """Return by how many percent the first error is lower than the second."""
    return 100 * (theirs - ours) / theirs if theirs else 0.0


def correlation(first: Tensor, second: Tensor) -> float:
    """Return Pearson's correlation of two vectors."""
    return torch.corrcoef(torch.stack([first, second]))[0, 1].item()


def slope(points: Mapping[float, float]) -> float:
    """Return the slope over the numbers of iterations from two on; one iteration is no routing."""
    routed = {place: points[place] for place in sorted(points) if place > 1}
    return linear_regression(list(routed), list(routed.values())).slope


REDUCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "relative_fall": relative_fall,
    "correlation": correlation,
    "slope": slope,
    "average": lambda points: fmean(points.values()),
}
"""Functions that make one number of a pair (`combine`) or of a curve (`reduce`), by their name in claims.toml."""


def does_not_matter(runs: RunTable, line: str) -> Finding:
    """Evaluate whether accuracy stays within half a percentage point over a curve; refuted if every seed diverges."""
    found = on_curves(
        runs,
        measures.best_accuracy,
        "percentage points from worst to best",
        lambda points: max(points.values()) - min(points.values()),
        line=line,
        bound=Bound(0.5, side=-1),
        datasets=("mnist",),
    )
    seeds = {run.recipe.seed for run in found.runs}
    lost = {run.recipe.seed for run in found.runs.diverged}
    if len(lost) >= ENOUGH and lost == seeds:
        words = f"diverged in all {pluralize(len(lost), 'seed')}"
        return Finding(words, Verdict.REFUTED, str(Verdict.REFUTED), found.runs)
    return found


def background_gains_most(runs: RunTable) -> Finding:
    """Compare the smaller gain of the two datasets with a background with the largest of the others, seed by seed."""
    gains: dict[int, dict[str, float]] = defaultdict(dict)
    for key, (ours, theirs) in runs.pairs(measures.best_accuracy, *BOTH).items():
        gains[key.seed][key.dataset] = ours - theirs
    more = [
        min(gain[name] for name in WITH_BACKGROUND)
        - max(gain[name] for name in DATASETS if name not in WITH_BACKGROUND)
        for gain in gains.values()
        if gain.keys() >= set(DATASETS)
    ]
    here = runs.filter(lambda run: run.line in BOTH)
    return evaluate({ACROSS: more}, here, "percentage points more than without a background")


def differs_on_cifar10(runs: RunTable, measure: Measure, unit: str) -> Finding:
    """Evaluate whether a measure is larger on CIFAR10 than on MNIST for both normalizations, seed by seed."""
    datasets = ("mnist", "cifar10")
    here = runs.filter(lambda run: run.recipe.dataset in datasets and run.line in BOTH)
    found = {(run.line, run.recipe.seed, run.recipe.dataset): value for run, value in here.measured(measure).items()}
    more = [
        min(found[line, seed, "cifar10"] - found[line, seed, "mnist"] for line in BOTH)
        for seed in dict.fromkeys(seed for _, seed, _ in found)
        if all((line, seed, dataset) in found for line in BOTH for dataset in datasets)
    ]
    return evaluate({ACROSS: more}, here, unit, measure=measure)


def stands_out(runs: RunTable, line: str, side: int) -> Finding:
    """Evaluate whether one of the six normalizations is above (`side` 1) or below (-1) all others, seed by seed."""
    six = runs.filter(lambda run: run.line in SIX)
    ahead: dict[str, list[float]] = defaultdict(list)
    for (dataset, _), own in six.complete.by(lambda run: (run.recipe.dataset, run.recipe.seed)).items():
        found = {run.line: side * measures.best_accuracy(run) for run in own}
        if found.keys() == set(SIX):
            ahead[dataset].append(found[line] - max(value for other, value in found.items() if other != line))
    where = "above the best" if side > 0 else "below the worst"
    return evaluate(ahead, six, f"percentage points {where} of the other five")


def single_record(runs: RunTable, record: float) -> Finding:
    """Compare the smallest error of three or more runs with the paper's."""
    here = runs.where(line=MAX_MIN_LABEL)
    errors = [measures.best_error(run) for run in here.complete]
    if not errors:
        return not_tested(here)
    ours = f"{min(errors):.2f} % at best, {fmean(errors):.2f} % on average (best epochs, n = {len(errors)})"
    verdict = _reached(min(errors), record, here.at_paper()) if len(errors) >= ENOUGH else Verdict.NOT_TESTED
    return Finding(ours, verdict, str(verdict), here, len(errors))


def vote_record(runs: RunTable, record: float) -> Finding:
    """Compare the error of the majority vote of seeds 0 to 2 with the paper's."""
    here = RunTable(tuple(models_a_b_c(runs)), runs.study)
    if len(here) < 3:
        return not_tested(here)
    together = vote([responses(run.folder) for run in here])
    ours = f"{together.error_percent:.2f} % ({len(together.wrong)} images, final weights, one vote of 3)"
    at_paper = here.scales == (PAPER_SCALE,)
    verdict = _reached(together.error_percent, record, at_paper)
    return Finding(ours, verdict, str(verdict), here, len(here), at_paper=at_paper)


def vote_beats_one(runs: RunTable) -> Finding:
    """Compare the vote of each disjoint group of three networks with the best of the three."""
    able = voters(runs)
    saved = []
    for first in range(0, len(able) - 2, 3):
        three = [responses(run.folder) for run in able[first : first + 3]]
        saved.append(min(model.error_percent for model in three) - vote(three).error_percent)
    here = runs.where(line=MAX_MIN_LABEL)
    return evaluate({"mnist": saved}, here, "percentage points of error below the best of three, final weights")


def _reached(error: float, record: float, at_paper: bool) -> Verdict:
    if error <= record + 1e-9:
        return Verdict.SUPPORTED
    return Verdict.REFUTED if at_paper else Verdict.NOT_COMPARABLE


def _by_dataset(values: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for dataset, value in values:
        found[dataset].append(value)
    return found
