"""Means, intervals and verdicts."""

import math
import statistics
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as students_t

from maxmincaps.analysis.compare import Verdict, interval, paired, t_quantile, verdict


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 8, 9, 24, 49])
def test_the_quantile_of_students_t_is_the_known_one(degrees):
    assert math.isclose(t_quantile(degrees), students_t.ppf(0.975, degrees), rel_tol=1e-9)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_an_interval_is_symmetric_about_the_mean_with_the_sample_sd(values):
    found = interval(values)
    assert found.n == len(values)
    assert math.isclose(found.mean, statistics.fmean(values), abs_tol=1e-9)
    assert math.isclose(found.sd, statistics.stdev(values), abs_tol=1e-7)
    assert math.isclose(found.high - found.mean, found.mean - found.low, abs_tol=1e-6)


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert interval([]) is None
    assert (interval([2.0]).mean, interval([2.0]).sd, interval([2.0]).low) == (2.0, None, None)


def test_only_runs_that_differ_in_nothing_but_the_line_are_paired():
    def row(line, seed, measure, **others):
        same = {"dataset": "mnist", "value": None, "used_precision": "fp32", "regenerated": False, "status": "complete"}
        return {**same, "line": line, "seed": seed, "m": measure, **others}

    rows = [row("a", 0, 5), row("a", 1, 6), row("a", 2, None, status="diverged"), row("a", 3, 9, dataset="cifar10")]
    rows += [row("a", 4, 9, used_precision="bf16"), row("a", 5, 9, regenerated=True)]
    rows += [row("b", 0, 1), row("b", 1, 3), *(row("b", seed, 1) for seed in range(2, 6))]
    assert paired(rows, itemgetter("m"), "a", "b") == [4, 3]
    assert paired(rows, lambda row: 2 * row["m"], "b", "a") == [-8, -6]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.1, 0.9], Verdict.HOLDS),
        ([1.0, -1.1, 0.9], Verdict.UNDECIDED),
        ([-1.0, -1.1, -0.9], Verdict.FAILS),
        ([5.0, 5.1], Verdict.TOO_FEW),
        ([5.0], Verdict.TOO_FEW),
        ([], Verdict.TOO_FEW),
        ([1.0, 1.1, math.nan], Verdict.UNDECIDED),
    ],
)
def test_a_claim_is_judged_if_at_least_three_pairs_put_its_whole_interval_on_one_side_of_the_bound(values, expected):
    assert verdict(interval(values)) is expected
