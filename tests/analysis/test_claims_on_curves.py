"""Claims about iterations and bounds are decided seed by seed, on complete curves only."""

import pytest

from maxmincaps.analysis.verdicts import Verdict
from maxmincaps.studies.paper import W_KEPT
from tests.analysis.runs import by_name, diverge, make_study


@pytest.mark.parametrize(("sign", "expected"), [(1, Verdict.SUPPORTED), (-1, Verdict.REFUTED)])
def test_slopes_over_iterations_are_evaluated_by_their_sign(tmp_path, sign, expected):
    def accuracy(entry):
        rise = 0.1 if entry.line.label == "Max-Min" else -0.1
        return 90 + sign * rise * entry.line.value + 0.01 * entry.recipe.seed * entry.line.value

    def train(entry):
        return 0.95 if (entry.line.label == "Max-Min") == (sign > 0) else 0.99

    names = ("iterations-help-max-min", "iterations-harm-softmax", "lead-grows", "smaller-gap", "gap-saved-grows")
    found = by_name(make_study(tmp_path, "iterations", "full", accuracy, train).values())
    assert {found[name].verdict for name in names} == {expected}
    two_datasets = by_name(make_study(tmp_path, "iterations", "small", accuracy, train).values())
    assert {two_datasets[name].verdict for name in names} == {Verdict.NOT_TESTED}, "two seeds on each of two datasets"
    three = by_name(make_study(tmp_path, "iterations", "small", accuracy, train, seeds=3).values())
    of_two = {Verdict.SUPPORTED: "supported on 2 of 5 datasets", Verdict.REFUTED: "refuted on 2 of 5 datasets"}
    assert {three[name].finding.summary for name in names} == {of_two[expected]}
    assert all(": MNIST " in three[name].finding.ours for name in names)


def test_one_iteration_routes_nothing_and_is_no_part_of_the_slope(tmp_path):
    def accuracy(entry):
        """One iteration is far below, and from three on accuracy falls."""
        return 95 - 0.1 * entry.line.value * (1 + 0.01 * entry.recipe.seed) - 3 * (entry.line.value == 1)

    runs = make_study(tmp_path, "iterations", "small", accuracy, seeds=3)
    assert by_name(runs.values())["iterations-help-max-min"].verdict is Verdict.REFUTED


def test_a_lead_may_grow_where_both_fall(tmp_path):
    def accuracy(entry):
        fall = (0.1 if entry.line.label == "Max-Min" else 0.2) + 0.001 * entry.recipe.seed
        return 95 - fall * entry.line.value

    found = by_name(make_study(tmp_path, "iterations", "full", accuracy).values())
    names = ("iterations-help-max-min", "iterations-harm-softmax", "lead-grows")
    assert [found[name].verdict for name in names] == [Verdict.REFUTED, Verdict.SUPPORTED, Verdict.SUPPORTED]
    assert found["lead-grows"].finding.ours.startswith("percentage points of lead per iteration: MNIST +0.1")


def test_a_smaller_gap_where_others_diverged_is_not_said_to_hold(tmp_path):
    rows = make_study(tmp_path, "iterations", "full", lambda e: 90 + (e.line.label == "Max-Min") * e.line.value / 10)
    names = ("lead-grows", "smaller-gap", "gap-saved-grows")
    assert {by_name(rows.values())[name].verdict for name in names} == {Verdict.SUPPORTED}
    diverge(rows, ("Max-Min", 10, "mnist", 0))
    found = by_name(rows.values())
    assert {found[name].finding.summary for name in names} == {"supported on 4 of 5 datasets"}


def test_a_rise_over_the_curves_that_did_not_diverge_is_no_rise(tmp_path):
    rows = make_study(tmp_path, "iterations", "full", lambda e: 90 + (0.1 + 0.001 * e.recipe.seed) * e.line.value)
    assert by_name(rows.values())["iterations-help-max-min"].verdict is Verdict.SUPPORTED
    diverge(rows, ("Max-Min", 10, "mnist", 0))
    claim = by_name(rows.values())["iterations-help-max-min"]
    assert (claim.verdict, claim.finding.n) == (Verdict.PARTLY, 4)
    assert claim.finding.summary == "supported on 4 of 5 datasets"


def test_a_bound_matters_when_the_worst_value_is_half_a_point_below_the_best(tmp_path):
    def accuracy(entry):
        steep = 1.0 if entry.line.label == "start value" else 0.1
        return 99 + steep * (entry.line.value - 1) + 0.001 * entry.recipe.seed

    rows = make_study(tmp_path, "bounds", "full", accuracy)
    found = by_name(rows.values())
    assert found["upper-bound-does-not-matter"].verdict is Verdict.SUPPORTED
    assert found["start-does-not-matter"].verdict is Verdict.REFUTED


def test_a_bound_at_which_runs_diverged_is_not_left_out_of_the_range_that_does_not_matter(tmp_path):
    rows = make_study(tmp_path, "bounds", "full", lambda entry: 99 + 0.001 * entry.recipe.seed)
    diverge(rows, *[(W_KEPT, 0.1, "mnist", seed) for seed in range(5)])
    found = by_name(rows.values())
    claim = found["upper-bound-does-not-matter"]
    assert (claim.verdict, claim.finding.n, claim.finding.ours) == (Verdict.REFUTED, 0, "diverged in all 5 seeds")
    assert "5 diverged" in claim.budget
    assert found["start-does-not-matter"].verdict is Verdict.SUPPORTED


def test_a_bound_at_which_some_seeds_diverged_is_not_said_to_make_no_difference(tmp_path):
    rows = make_study(tmp_path, "bounds", "full", lambda entry: 99 + 0.001 * entry.recipe.seed)
    diverge(rows, *[(W_KEPT, 0.01, "mnist", seed) for seed in range(2)])
    claim = by_name(rows.values())["upper-bound-does-not-matter"]
    assert (claim.verdict, claim.finding.n) == (Verdict.INCONCLUSIVE, 3)


def test_three_very_unequal_seeds_do_not_decide_how_much_a_bound_matters(tmp_path):
    far = {0: 8.0, 1: 3.0, 2: 88.0}
    rows = make_study(tmp_path, "bounds", "full", lambda e: 99 - far[e.recipe.seed] * (e.line.value < 0.1), seeds=3)
    claim = by_name(rows.values())["upper-bound-does-not-matter"]
    assert claim.verdict is Verdict.INCONCLUSIVE
    assert claim.finding.ours.startswith("33 percentage points from worst to best")


@pytest.mark.parametrize("there", [(0.3, 1.0), (0.01, 1.0)])
def test_a_part_of_the_range_of_bounds_gives_no_verdict_on_the_whole_range(tmp_path, there):
    rows = make_study(tmp_path, "bounds", "full", lambda entry: 99 + 0.001 * entry.recipe.seed)
    part = [row for (_, value, _, _), row in rows.items() if value in there]
    assert by_name(part)["upper-bound-does-not-matter"].verdict is Verdict.NOT_TESTED


def test_a_curve_over_iterations_counts_when_all_its_points_are_there(tmp_path):
    rows = make_study(tmp_path, "iterations", "small", lambda entry: 90 + 0.1 * entry.line.value)
    half = [row for (_, value, _, seed), row in rows.items() if not seed or value <= 3]
    assert by_name(rows.values())["iterations-help-max-min"].finding.n == 2
    assert by_name(half)["iterations-help-max-min"].finding.n == 1


def test_a_curve_without_its_largest_number_of_iterations_gives_no_verdict(tmp_path):
    """The first two numbers of iterations rise, and all six would fall."""
    rows = make_study(tmp_path, "iterations", "full", lambda e: 90 + (0.1 if e.line.value < 3 else -1) * e.line.value)
    assert by_name(rows.values())["iterations-help-max-min"].verdict is Verdict.REFUTED
    beginning = [row for (_, value, _, _), row in rows.items() if value < 3]
    assert by_name(beginning)["iterations-help-max-min"].verdict is Verdict.NOT_TESTED


def test_datasets_on_different_sides_are_counted_and_never_pooled(tmp_path):
    def accuracy(entry):
        """Softmax rises a little with every iteration on four datasets, and falls by much on CIFAR10."""
        slope = -3.0 if entry.recipe.dataset == "cifar10" else 0.01
        return 90 + slope * entry.line.value * (1 + 0.01 * entry.recipe.seed)

    def train(entry):
        ahead = 0.001 if entry.recipe.dataset == "mnist" else -0.05
        return 0.95 + ahead * (entry.line.label == "Max-Min")

    found = by_name(make_study(tmp_path, "iterations", "full", accuracy, train).values())
    assert found["iterations-harm-softmax"].finding.summary == "supported on 1, refuted on 4 of 5 datasets"
    assert found["smaller-gap"].verdict is Verdict.PARTLY


def test_the_numbers_of_iterations_of_one_seed_are_one_pair_of_gaps(tmp_path):
    rows = make_study(tmp_path, "iterations", "small", lambda e: 90 + 0.1 * (e.line.label == "Max-Min"))
    assert by_name(rows.values())["smaller-gap"].finding.n == 2
    alone = [row for (_, count, dataset, _), row in rows.items() if (count, dataset) == (3, "mnist")]
    assert by_name(alone)["smaller-gap"].finding.n == 0, "one point is no curve"
    diverge(rows, ("Max-Min", 10, "rotated-mnist", 0))
    assert by_name(rows.values())["smaller-gap"].finding.n == 1
    one = [row for (_, _, dataset, seed), row in rows.items() if (dataset, seed) == ("mnist", 0)]
    assert by_name(one)["smaller-gap"].verdict is Verdict.NOT_TESTED
