"""What the paper says of more iterations and of bounds is judged seed by seed, by curves that are whole."""

import pytest

from maxmincaps.analysis.compare import Verdict
from maxmincaps.studies.bounds import W_KEPT
from tests.analysis.runs import by_name, write_diverged, write_study


@pytest.mark.parametrize(("sign", "expected"), [(1, Verdict.HOLDS), (-1, Verdict.FAILS)])
def test_slopes_over_iterations_are_judged_by_their_sign(tmp_path, sign, expected):
    def accuracy(entry):
        rise = 0.1 if entry.line.label == "Max-Min" else -0.1
        return 90 + sign * rise * entry.line.value + 0.01 * entry.recipe.seed * entry.line.value

    def train(entry):
        return 0.95 if (entry.line.label == "Max-Min") == (sign > 0) else 0.99

    names = ("iterations-help-max-min", "iterations-harm-softmax", "lead-grows", "smaller-gap", "gap-saved-grows")
    found = by_name(write_study(tmp_path, "iterations", "full", accuracy, train).values())
    assert {found[name].verdict for name in names} == {expected}
    two_datasets = by_name(write_study(tmp_path, "iterations", "small", accuracy, train).values())
    of_two = Verdict.UNDECIDED if expected is Verdict.HOLDS else expected
    assert {two_datasets[name].verdict for name in names} == {of_two}, "two of five can refute, and cannot show"
    assert all(": MNIST " in two_datasets[name].ours for name in names)


def test_one_iteration_routes_nothing_and_is_told_apart_from_more_of_them(tmp_path):
    def accuracy(entry):
        """One iteration is far below, and from three on accuracy falls."""
        return 95 - 0.1 * entry.line.value * (1 + 0.01 * entry.recipe.seed) - 3 * (entry.line.value == 1)

    claim = by_name(write_study(tmp_path, "iterations", "small", accuracy).values())["iterations-help-max-min"]
    assert claim.verdict is Verdict.FAILS
    assert claim.ours.endswith("; 3 iterations beside 1: +2.80 points")


def test_a_lead_may_grow_where_both_fall(tmp_path):
    def accuracy(entry):
        fall = (0.1 if entry.line.label == "Max-Min" else 0.2) + 0.001 * entry.recipe.seed
        return 95 - fall * entry.line.value

    found = by_name(write_study(tmp_path, "iterations", "full", accuracy).values())
    names = ("iterations-help-max-min", "iterations-harm-softmax", "lead-grows")
    assert [found[name].verdict for name in names] == [Verdict.FAILS, Verdict.HOLDS, Verdict.HOLDS]
    assert found["lead-grows"].ours.startswith("+0.1 points of lead an iteration")


def test_a_smaller_gap_where_others_diverged_is_not_said_to_hold(tmp_path):
    rows = write_study(tmp_path, "iterations", "full", lambda e: 90 + (e.line.label == "Max-Min") * e.line.value / 10)
    names = ("lead-grows", "smaller-gap", "gap-saved-grows")
    assert {by_name(rows.values())[name].verdict for name in names} == {Verdict.HOLDS}
    write_diverged(rows, ("Max-Min", 10, "mnist", 0))
    assert {by_name(rows.values())[name].verdict for name in names} == {Verdict.UNDECIDED}


def test_a_rise_over_the_curves_that_did_not_diverge_is_no_rise(tmp_path):
    rows = write_study(tmp_path, "iterations", "full", lambda e: 90 + (0.1 + 0.001 * e.recipe.seed) * e.line.value)
    assert by_name(rows.values())["iterations-help-max-min"].verdict is Verdict.HOLDS
    write_diverged(rows, ("Max-Min", 10, "mnist", 0))
    claim = by_name(rows.values())["iterations-help-max-min"]
    assert (claim.verdict, claim.n) == (Verdict.UNDECIDED, 24)


def test_a_bound_matters_when_the_worst_value_is_half_a_point_below_the_best(tmp_path):
    def accuracy(entry):
        steep = 1.0 if entry.line.label == "start value" else 0.1
        return 99 + steep * (entry.line.value - 1) + 0.001 * entry.recipe.seed

    rows = write_study(tmp_path, "bounds", "full", accuracy)
    found = by_name(rows.values())
    assert found["upper-bound-does-not-matter"].verdict is Verdict.HOLDS
    assert found["start-does-not-matter"].verdict is Verdict.FAILS


def test_a_bound_at_which_runs_diverged_is_not_left_out_of_the_range_that_does_not_matter(tmp_path):
    rows = write_study(tmp_path, "bounds", "full", lambda entry: 99 + 0.001 * entry.recipe.seed)
    write_diverged(rows, *[(W_KEPT, 0.1, "mnist", seed) for seed in range(5)])
    found = by_name(rows.values())
    claim = found["upper-bound-does-not-matter"]
    assert (claim.verdict, claim.n, claim.ours) == (Verdict.FAILS, 0, "diverged in 5 seeds")
    assert "5 diverged" in claim.budget
    assert found["start-does-not-matter"].verdict is Verdict.HOLDS


def test_a_bound_at_which_some_seeds_diverged_is_not_said_to_make_no_difference(tmp_path):
    rows = write_study(tmp_path, "bounds", "full", lambda entry: 99 + 0.001 * entry.recipe.seed)
    write_diverged(rows, *[(W_KEPT, 0.01, "mnist", seed) for seed in range(2)])
    claim = by_name(rows.values())["upper-bound-does-not-matter"]
    assert (claim.verdict, claim.n) == (Verdict.UNDECIDED, 3)


def test_a_bound_that_matters_in_every_seed_matters_however_unequal_the_seeds_are(tmp_path):
    far = {0: 8.0, 1: 3.0, 2: 88.0}
    rows = write_study(tmp_path, "bounds", "full", lambda e: 99 - far[e.recipe.seed] * (e.line.value < 0.1), seeds=3)
    claim = by_name(rows.values())["upper-bound-does-not-matter"]
    assert (claim.verdict, claim.ours) == (Verdict.FAILS, "88 points from worst to best at most (n = 3)")


@pytest.mark.parametrize("there", [(0.3, 1.0), (0.01, 1.0)])
def test_a_part_of_the_range_of_bounds_says_nothing_about_the_whole(tmp_path, there):
    rows = write_study(tmp_path, "bounds", "full", lambda entry: 99 + 0.001 * entry.recipe.seed)
    part = [row for (_, value, _, _), row in rows.items() if value in there]
    assert by_name(part)["upper-bound-does-not-matter"].verdict is Verdict.TOO_FEW


def test_a_curve_over_iterations_counts_when_all_its_points_are_there(tmp_path):
    rows = write_study(tmp_path, "iterations", "small", lambda entry: 90 + 0.1 * entry.line.value)
    half = [row for (_, value, _, seed), row in rows.items() if not seed or value <= 3]
    assert by_name(rows.values())["iterations-help-max-min"].n == 4
    assert by_name(half)["iterations-help-max-min"].n == 2


def test_a_curve_over_iterations_whose_end_nobody_ran_counts_for_nothing(tmp_path):
    """The first two numbers of iterations rise, and all six would fall."""
    rows = write_study(tmp_path, "iterations", "full", lambda e: 90 + (0.1 if e.line.value < 3 else -1) * e.line.value)
    assert by_name(rows.values())["iterations-help-max-min"].verdict is Verdict.FAILS
    beginning = [row for (_, value, _, _), row in rows.items() if value < 3]
    assert by_name(beginning)["iterations-help-max-min"].verdict is Verdict.TOO_FEW


def test_datasets_on_different_sides_leave_a_claim_about_all_of_them_undecided(tmp_path):
    def accuracy(entry):
        """Softmax rises a little with every iteration on four datasets, and falls by much on CIFAR10."""
        slope = -3.0 if entry.recipe.dataset == "cifar10" else 0.01
        return 90 + slope * entry.line.value * (1 + 0.01 * entry.recipe.seed)

    def train(entry):
        ahead = 0.001 if entry.recipe.dataset == "mnist" else -0.05
        return 0.95 + ahead * (entry.line.label == "Max-Min")

    found = by_name(write_study(tmp_path, "iterations", "full", accuracy, train).values())
    for name in ("iterations-harm-softmax", "smaller-gap"):
        assert found[name].verdict is Verdict.UNDECIDED
        assert "MNIST +" in found[name].ours or "MNIST -" in found[name].ours


def test_the_numbers_of_iterations_of_one_seed_are_one_pair_of_gaps(tmp_path):
    rows = write_study(tmp_path, "iterations", "small", lambda e: 90 + 0.1 * (e.line.label == "Max-Min"))
    assert by_name(rows.values())["smaller-gap"].n == 4
    alone = [row for (_, count, dataset, _), row in rows.items() if (count, dataset) == (3, "mnist")]
    assert by_name(alone)["smaller-gap"].ours == "nothing to compare yet", "one point is no curve"
    write_diverged(rows, ("Max-Min", 10, "rotated-mnist", 0))
    assert by_name(rows.values())["smaller-gap"].n == 3
    one = [row for (_, _, dataset, seed), row in rows.items() if (dataset, seed) == ("mnist", 0)]
    assert by_name(one)["smaller-gap"].verdict is Verdict.TOO_FEW
