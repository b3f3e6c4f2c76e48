"""Means, intervals, matched pairs and the rule for verdicts."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nct, t

from maxmincaps.analysis.claims import Evidence, count_verdicts, summarize_verdicts
from maxmincaps.analysis.runs import RunTable, interval
from maxmincaps.analysis.verdicts import Bound, Verdict, combine, evaluate
from maxmincaps.recipe import Recipe
from maxmincaps.training.schema import Environment
from tests.analysis.runs import make_data, make_run

S, R, U, C, N = (
    Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE, Verdict.NOT_TESTED
)  # fmt: skip


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_an_interval_is_symmetric_about_the_mean_with_the_sample_sd(values):
    found = interval(values)
    assert found.n == len(values)
    assert math.isclose(found.mean, statistics.fmean(values), abs_tol=1e-9)
    assert math.isclose(found.sd, statistics.stdev(values), abs_tol=1e-7)
    assert math.isclose(found.high - found.mean, found.mean - found.low, abs_tol=1e-6)


@given(st.lists(st.integers(-100, 100), min_size=2, max_size=20, unique=True))
def test_an_interval_is_students(values):
    found = interval(values)
    low, high = t.interval(0.95, len(values) - 1, found.mean, found.sd / math.sqrt(len(values)))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert interval([]) is None
    assert (interval([2.0]).mean, interval([2.0]).sd, interval([2.0]).low) == (2.0, None, None)
    assert interval([2.0]).detectable is None


@pytest.mark.parametrize("n", [3, 5, 10, 30])
def test_the_smallest_detectable_difference_is_found_in_about_eighty_of_a_hundred_repetitions(n):
    values = [1.0, -1.0] * (n // 2) + [0.0] * (n % 2)
    found = interval(values)
    shift = found.detectable / (found.sd / math.sqrt(n))
    power = nct.sf(t.ppf(0.975, n - 1), n - 1, shift)
    assert 0.72 < power < 0.85


@pytest.mark.parametrize(
    ("values", "bound", "verdict"),
    [
        ([1.0, 1.1, 0.9], Bound(), S),
        ([-1.0, -1.1, -0.9], Bound(), R),
        ([1.0, -1.0, 0.5], Bound(), U),
        ([1.0, 1.1], Bound(), N),
        ([0.0, 0.05, 0.02], Bound(0.2, side=0), S),
        ([0.3, 0.31, 0.29], Bound(0.2, side=0), R),
        ([-0.3, -0.31, -0.29], Bound(0.2, side=0), R),
        ([0.3, 0.31, 0.29], Bound(0.35, side=-1), S),
        ([0.5, 0.51, 0.49], Bound(0.35, side=-1), R),
    ],
)
def test_the_whole_interval_has_to_lie_on_one_side(values, bound, verdict):
    assert bound.verdict(interval(values)) is verdict


@pytest.mark.parametrize(
    ("verdicts", "expected", "words"),
    [
        ([S, S], S, "supported"),
        ([S, U, N, R, S], Verdict.PARTLY, "supported on 2, refuted on 1 of 5 datasets"),
        ([S, U], Verdict.PARTLY, "supported on 1 of 2 datasets"),
        ([R, U, N], R, "refuted on 1 of 3 datasets"),
        ([U, N], U, "inconclusive on 1 of 2 datasets"),
        ([C, N], C, "not comparable on 1 of 2 datasets"),
        ([N, N], N, "not tested"),
    ],
)
def test_datasets_are_counted_in_the_verdict(verdicts, expected, words):
    assert combine(verdicts) == (expected, words)


def test_pairs_of_different_datasets_are_never_pooled():
    values = {"mnist": [1.0, 1.1], "cifar10": [1.0, 0.9]}
    found = evaluate(values, RunTable(), "points")
    assert (found.verdict, found.n) == (N, 2)


def test_only_runs_that_differ_in_nothing_but_the_line_are_paired(tmp_path):
    def run(line, seed, best, dataset="mnist", **changes):
        precision = changes.pop("precision", "fp32")
        made = make_run(tmp_path, Recipe(dataset=dataset, seed=seed), best, line=line, **changes)
        machine = Environment(started_at="", precision=precision)
        return made.__class__(**{**made.__dict__, "machine": machine})

    runs = [run("a", 0, 0.5), run("a", 1, 0.6), run("a", 3, 0.9, "cifar10"), run("a", 4, 0.9, precision="bf16")]
    runs += [run("a", 2, 0.9, status="diverged", outcome=None)]
    runs += [run("a", 5, 0.9, images=make_data(regenerated=True)), run("a", 6, 0.9, scale="full")]
    runs += [run("b", 0, 0.1), run("b", 1, 0.3), *(run("b", seed, 0.1) for seed in range(2, 7))]
    found = RunTable(tuple(runs)).differences(lambda run: run.result.best_test_accuracy, "a", "b")
    assert found == pytest.approx([0.4, 0.3])


def test_the_counts_name_every_verdict_once():
    found = [Evidence(None, evaluate({"mnist": [1.0, 1.1, 0.9]}, RunTable(), ""))] * 2
    assert count_verdicts(found) == {verdict: 2 * (verdict is S) for verdict in Verdict}
    assert summarize_verdicts(found).startswith("2 claims: 2 supported, 0 supported on some datasets, 0 refuted")
