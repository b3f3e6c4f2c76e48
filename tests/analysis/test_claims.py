"""Claims are judged by the records: the paper's own numbers make them hold, the opposite makes them fail."""

import pytest
import torch

from maxmincaps.analysis.claims import CLAIMS, evidence
from maxmincaps.analysis.compare import Verdict
from maxmincaps.report.selection import shown
from maxmincaps.studies import STUDIES
from maxmincaps.studies.bounds import W_KEPT
from maxmincaps.studies.study import DATASETS
from tests.analysis.records import write_diverged, write_lengths, write_study, write_trace


def by_name(rows):
    return {found.name: found for found in evidence(list(rows))}


def as_the_paper(entry):
    value = STUDIES["datasets"].reported("best_test_accuracy", entry.recipe.dataset, entry.line.label)
    return value.value + 0.001 * entry.recipe.seed * (1 if entry.line.label == "Max-Min" else -1)


def test_without_runs_no_claim_has_a_verdict():
    found = evidence([])
    assert [claim.name for claim in found] == list(CLAIMS)
    assert {claim.verdict for claim in found} == {Verdict.TOO_FEW}
    assert {claim.scales for claim in found} == {()}


def test_the_papers_own_accuracies_make_table_1_hold(tmp_path):
    found = by_name(write_study(tmp_path, "datasets", "full", as_the_paper).values())
    for dataset in ("mnist", "rotated-mnist", "fashion-mnist", "background-mnist", "cifar10"):
        claim = found[f"better-on-{dataset}"]
        assert (claim.verdict, claim.n, claim.scales) == (Verdict.HOLDS, 5, ("full",))
        assert "20 epochs" in claim.budget
    assert found["errors-fall"].verdict is Verdict.HOLDS
    assert "MNIST 37." in found["errors-fall"].ours
    assert found["background-gains-most"].verdict is Verdict.HOLDS


def test_the_opposite_accuracies_make_table_1_fail(tmp_path):
    found = by_name(write_study(tmp_path, "datasets", "full", lambda entry: 100 - as_the_paper(entry)).values())
    names = ("better-on-mnist", "better-on-cifar10", "errors-fall", "background-gains-most")
    assert {found[name].verdict for name in names} == {Verdict.FAILS}


def test_accuracies_that_cross_from_seed_to_seed_leave_table_1_undecided(tmp_path):
    def crossing(entry):
        turn = 0.4 * (entry.recipe.seed - 2) * (1 if entry.line.label == "Max-Min" else -1)
        return 100 - (100 - as_the_paper(entry)) * (1 - turn)

    found = by_name(write_study(tmp_path, "datasets", "full", crossing).values())
    names = ("better-on-mnist", "better-on-cifar10", "errors-fall")
    assert {found[name].verdict for name in names} == {Verdict.UNDECIDED}


def test_two_seeds_are_not_enough_and_a_third_that_was_asked_for_counts(tmp_path):
    two = write_study(tmp_path, "datasets", "small", as_the_paper)
    assert by_name(two.values())["better-on-rotated-mnist"].verdict is Verdict.TOO_FEW
    three = write_study(tmp_path, "datasets", "small", as_the_paper, seeds=3)
    claim = by_name(three.values())["better-on-rotated-mnist"]
    assert (claim.verdict, claim.n, claim.scales) == (Verdict.HOLDS, 3, ("small",))


def test_claims_are_judged_by_the_runs_that_the_tables_show(tmp_path):
    """Of each dataset the whole of a smaller scale, not the half of a larger one."""
    whole = write_study(tmp_path, "datasets", "small", as_the_paper)
    full = write_study(tmp_path, "datasets", "full", as_the_paper)
    half = [row for (_, _, dataset, seed), row in full.items() if dataset == "cifar10" or seed < 3]
    rows = [*whole.values(), *half]
    found, table_1 = by_name(rows), shown(STUDIES["datasets"], rows)
    for dataset, scale in table_1.scales.items():
        claim = found[f"better-on-{dataset}"]
        assert (claim.scales, claim.n) == ((scale,), len(table_1.of(dataset, "Max-Min")))
    assert table_1.scales == dict.fromkeys(DATASETS, "small") | {"cifar10": "full"}
    assert set(found["errors-fall"].scales) == {"small", "full"}


def test_a_trial_with_a_smaller_network_never_stands_before_runs_of_the_papers(tmp_path):
    trial = write_study(tmp_path, "datasets", "minute", lambda entry: 90.0, seeds=3)
    paper = write_study(tmp_path, "datasets", "paper", as_the_paper, seeds=1)
    assert set(shown(STUDIES["datasets"], list(trial.values())).scales.values()) == {"minute"}
    assert set(shown(STUDIES["datasets"], [*trial.values(), *paper.values()]).scales.values()) == {"paper"}


def test_diverged_runs_are_counted_and_count_for_nothing(tmp_path):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    write_diverged(rows, *[("Max-Min", None, "mnist", seed) for seed in range(3)])
    found = by_name(rows.values())
    claim = found["better-on-mnist"]
    assert (claim.verdict, claim.n) == (Verdict.TOO_FEW, 2)
    assert "(runs: 7 and 3 diverged)" in claim.budget
    assert "diverged" not in found["better-on-cifar10"].budget


@pytest.mark.parametrize(("sign", "expected"), [(1, Verdict.HOLDS), (-1, Verdict.FAILS)])
def test_slopes_over_iterations_are_judged_by_their_sign(tmp_path, sign, expected):
    def accuracy(entry):
        rise = 0.1 if entry.line.label == "Max-Min" else -0.1
        return 90 + sign * rise * entry.line.value + 0.01 * entry.recipe.seed * entry.line.value

    def train(entry):
        return 0.95 if (entry.line.label == "Max-Min") == (sign > 0) else 0.99

    names = ("iterations-help-max-min", "iterations-harm-softmax", "smaller-gap")
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


def test_a_rise_over_the_curves_that_did_not_diverge_is_no_rise(tmp_path):
    rows = write_study(tmp_path, "iterations", "full", lambda e: 90 + (0.1 + 0.001 * e.recipe.seed) * e.line.value)
    assert by_name(rows.values())["iterations-help-max-min"].verdict is Verdict.HOLDS
    write_diverged(rows, ("Max-Min", 10, "mnist", 0))
    claim = by_name(rows.values())["iterations-help-max-min"]
    assert (claim.verdict, claim.n) == (Verdict.UNDECIDED, 24)


@pytest.mark.parametrize(("lead", "expected"), [(0.1, Verdict.HOLDS), (-0.1, Verdict.FAILS)])
def test_the_best_and_the_worst_of_six_have_to_stand_apart_from_the_next(tmp_path, lead, expected):
    def accuracy(entry):
        place = {"Max-Min": lead, "Sum": -lead, "Softmax": 5.0, "Uniform (control)": 5.0}
        return 90 + place.get(entry.line.label, 0) + 0.001 * entry.recipe.seed * (entry.line.label == "WTA")

    rows = write_study(tmp_path, "normalizations", "small", accuracy)
    found = by_name(rows.values())
    assert {found[f"{name}-of-six"].verdict for name in ("max-min-is-best", "sum-is-worst")} == {expected}
    write_diverged(rows, ("Z-Score", None, "mnist", 0))
    assert by_name(rows.values())["max-min-is-best-of-six"].verdict is Verdict.TOO_FEW


def test_winner_take_all_is_not_cheap_where_it_diverged(tmp_path):
    rows = write_study(
        tmp_path, "normalizations", "full", lambda e: 99 - 0.001 * e.recipe.seed * (e.line.label == "WTA")
    )
    assert by_name(rows.values())["winner-take-all-is-cheap"].verdict is Verdict.HOLDS
    write_diverged(rows, ("WTA", None, "mnist", 0))
    assert by_name(rows.values())["winner-take-all-is-cheap"].verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("cost", "expected"), [(0.3, Verdict.HOLDS), (0.5, Verdict.FAILS)])
def test_winner_take_all_may_cost_three_tenths_of_a_point(tmp_path, cost, expected):
    def accuracy(entry):
        return 99 - cost * (entry.line.label == "WTA") + 0.001 * entry.recipe.seed * (entry.line.label == "WTA")

    found = by_name(write_study(tmp_path, "normalizations", "small", accuracy).values())
    assert found["winner-take-all-is-cheap"].verdict is expected


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
    one = [row for (_, _, dataset, seed), row in rows.items() if (dataset, seed) == ("mnist", 0)]
    assert by_name(one)["smaller-gap"].verdict is Verdict.TOO_FEW


def test_runs_without_a_partner_are_not_called_no_runs(tmp_path):
    rows = write_study(tmp_path, "datasets", "small", as_the_paper)
    claim = by_name([rows["Max-Min", None, "mnist", 0]])["better-on-mnist"]
    assert (claim.ours, claim.n, claim.scales) == ("nothing to compare yet", 0, ("small",))
    assert by_name([])["better-on-mnist"].ours == "no runs"


def test_only_a_difference_is_told_with_a_sign(tmp_path):
    rows = write_study(tmp_path, "normalizations", "small", lambda e: 99 - 0.3 * (e.line.label == "WTA"))
    assert by_name(rows.values())["winner-take-all-is-cheap"].ours == "0.3 points lost, 30 % more errors (n = 3)"
    rows = write_study(tmp_path, "datasets", "small", as_the_paper)
    assert by_name(rows.values())["better-on-mnist"].ours == "+0.27 points (n = 1)"
    assert "95 %" not in by_name(rows.values())["better-on-rotated-mnist"].ours, "two runs have no interval to speak of"
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    assert by_name(rows.values())["better-on-mnist"].ours == "+0.2740 points (95 %: +0.2701 to +0.2779, n = 5)"


def test_the_vote_is_that_of_the_papers_seeds_and_not_of_whichever_three_there_are(tmp_path):
    rows = write_study(tmp_path, "mnist-record", "full", lambda entry: 99.8)
    for row in rows.values():
        write_lengths(tmp_path / row["fingerprint"], torch.eye(10), torch.arange(10))
    assert by_name(rows.values())["vote-record"].n == 3
    write_diverged(rows, ("Max-Min", None, "mnist", 0))
    claim = by_name(rows.values())["vote-record"]
    assert (claim.verdict, claim.n) == (Verdict.TOO_FEW, 0)


def test_the_vote_and_the_record_are_judged_by_the_lengths_in_the_records(tmp_path):
    rows = write_study(tmp_path, "mnist-record", "full", lambda e: 99.8 if e.line.label == "Max-Min" else 99.5, seeds=9)
    labels = torch.zeros(1000, dtype=torch.long)
    for (label, _, _, seed), row in rows.items():
        lengths = torch.eye(10)[labels].clone()
        first = 10 * (seed % 3)
        lengths[first : first + 3 + (label == "Softmax")] = torch.eye(10)[1]  # no two of a three err together
        write_lengths(tmp_path / row["fingerprint"], lengths, labels)
    found = by_name(rows.values())
    assert found["record-beats-softmax"].verdict is Verdict.HOLDS
    assert found["single-record"].verdict is Verdict.HOLDS
    assert found["vote-record"].verdict is Verdict.HOLDS
    assert found["vote-record"].ours == "0.00 % (0 images, final weights)"
    assert (found["vote-beats-one"].verdict, found["vote-beats-one"].n) == (Verdict.HOLDS, 3)


INSIDE = (
    "softmax-stays-near-start", "max-min-spreads", "several-strong-parents", "most-logits-stay-at-zero",
    "true-class-longer", "other-classes-shorter", "tuning-keeps-shape",
)  # fmt: skip


def test_three_of_the_papers_ten_seeds_that_miss_its_best_refute_nothing(tmp_path):
    rows = write_study(tmp_path, "mnist-record", "paper", lambda entry: 99.79, seeds=3)
    assert by_name(rows.values())["single-record"].verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("scale", "verdict"), [("full", Verdict.UNDECIDED), ("paper", Verdict.FAILS)])
def test_a_record_that_was_missed_with_less_than_the_papers_budget_is_undecided(tmp_path, scale, verdict):
    rows = write_study(tmp_path, "mnist-record", scale, lambda entry: 99.7)
    labels = torch.zeros(1000, dtype=torch.long)
    for row in rows.values():
        lengths = torch.eye(10)[labels].clone()
        lengths[:3] = torch.eye(10)[1]
        write_lengths(tmp_path / row["fingerprint"], lengths, labels)
    found = by_name(rows.values())
    assert (found["single-record"].verdict, found["vote-record"].verdict) == (verdict, verdict)


def test_runs_whose_records_lack_what_a_claim_is_measured_by_are_not_called_no_runs(tmp_path):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    found = by_name(rows.values())
    for name in INSIDE:
        assert (found[name].verdict, found[name].n) == (Verdict.TOO_FEW, 0)
        assert found[name].ours == "the records do not hold what this is measured by"
        assert "20 epochs" in found[name].budget


@pytest.mark.parametrize(("outliers", "verdict"), [(5, Verdict.FAILS), (20, Verdict.HOLDS)])
def test_a_few_children_with_nine_strong_parents_do_not_make_up_for_many_with_one(tmp_path, outliers, verdict):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    logits, couplings = torch.randn(3, 100, 10, generator=torch.Generator().manual_seed(0)), torch.zeros(3, 100, 10)
    couplings[:, :, 0] = 1.0
    couplings[:, :outliers, 1:] = 0.9
    for row in rows.values():
        write_trace(tmp_path / row["fingerprint"], logits, couplings)
    found = by_name(rows.values())["several-strong-parents"]
    assert (found.verdict, found.ours.split(" (")[0]) == (verdict, f"{outliers} % of the voting children")


def test_runs_on_other_images_are_not_among_the_papers(tmp_path):
    """What `maxmincaps quickstart` leaves stands in for the paper's datasets only where there is nothing else."""
    quick = write_study(tmp_path, "datasets", "quickstart", lambda entry: 97.0)
    rows = {**write_study(tmp_path, "datasets", "full", as_the_paper), **quick}
    for row in rows.values():
        write_trace(tmp_path / row["fingerprint"], torch.randn(3, 20, 10), torch.full((3, 20, 10), 0.1))
    write_diverged(rows, ("Softmax", None, "mnist", 0))
    alone, together = (by_name(own.values())["softmax-stays-near-start"] for own in (quick, rows))
    assert (alone.n, together.n) == (1, 24)
    assert "1 diverged" in together.budget


def test_a_claim_about_both_normalizations_needs_both(tmp_path):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    for (label, *_), row in rows.items():
        logits = torch.zeros(3, 100, 10)
        logits[1:, : 80 if label == "Max-Min" else 1] = 1.0
        write_trace(tmp_path / row["fingerprint"], logits, torch.full((3, 100, 10), 0.1))
    assert by_name(rows.values())["most-logits-stay-at-zero"].verdict is Verdict.FAILS


def test_a_damaged_record_costs_the_claims_that_ask_for_it_and_no_others(tmp_path):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    (tmp_path / rows["Max-Min", None, "mnist", 0]["fingerprint"] / "trace.safetensors").write_bytes(b"torn")
    found = by_name(rows.values())
    assert found["max-min-spreads"].ours.startswith("cannot be judged: ")
    assert found["better-on-mnist"].verdict is Verdict.HOLDS


def test_what_is_inside_the_networks_is_judged_by_their_traces_and_lengths(tmp_path):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    labels = torch.arange(100) % 10
    noise = torch.Generator().manual_seed(0)
    confused_with = 0.02 * torch.rand(10, 10, generator=noise)
    for (label, *_), row in rows.items():
        hard = label == "Max-Min"
        logits = torch.zeros(3, 50, 10)
        logits[1:, :20] = torch.randn(2, 20, 10, generator=noise)
        couplings = torch.rand(3, 50, 10, generator=noise) if hard else torch.full((3, 50, 10), 0.1)
        write_trace(tmp_path / row["fingerprint"], logits, couplings)
        lengths = torch.eye(10)[labels] * (0.9 if hard else 0.8) + (0.05 if hard else 0.1) + confused_with[labels]
        write_lengths(tmp_path / row["fingerprint"], lengths + 1e-3 * torch.rand(100, 10, generator=noise), labels)
    found = by_name(rows.values())
    assert {name: found[name].verdict for name in INSIDE} == dict.fromkeys(INSIDE, Verdict.HOLDS)


def test_tuning_curves_that_have_nothing_but_their_peaks_in_common_are_not_alike(tmp_path):
    rows = write_study(tmp_path, "datasets", "full", as_the_paper)
    labels = torch.arange(100) % 10
    noise = torch.Generator().manual_seed(0)
    for row in rows.values():
        lengths = 0.9 * torch.eye(10)[labels] + 0.05 * torch.rand(10, 10, generator=noise)[labels]
        write_lengths(tmp_path / row["fingerprint"], lengths, labels)
    assert by_name(rows.values())["tuning-keeps-shape"].verdict is Verdict.FAILS
