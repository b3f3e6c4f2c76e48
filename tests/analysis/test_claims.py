"""Claims are decided by the runs: the paper's own numbers support them, the opposite refutes them."""

from inspect import signature

import pytest
import torch

from maxmincaps.analysis.claims import CLAIMS, evaluate_claims
from maxmincaps.analysis.runs import study_runs
from maxmincaps.analysis.verdicts import Verdict
from maxmincaps.studies import STUDIES
from maxmincaps.studies.study import DATASETS
from tests.analysis.runs import as_the_paper, by_name, diverge, make_study, write_lengths


def test_without_runs_no_claim_has_a_verdict():
    found = evaluate_claims([])
    assert [found.claim.name for found in found] == list(CLAIMS)
    assert {claim.verdict for claim in found} == {Verdict.NOT_TESTED}
    assert not any(claim.finding.runs for claim in found)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.name)
def test_a_claim_names_lines_of_its_study_and_arguments_that_its_criterion_has(claim):
    arguments = claim.criterion.keywords
    signature(claim.criterion.func).bind(None, **arguments)
    named = {arguments[key] for key in ("line", "minus", "first", "second") if key in arguments}
    assert named <= {line.label for line in STUDIES[claim.study].lines}
    assert set(arguments.get("datasets", ())) <= set(DATASETS)


def test_the_papers_own_accuracies_make_table_1_hold(tmp_path):
    found = by_name(make_study(tmp_path, "datasets", "full", as_the_paper).values())
    for dataset in ("mnist", "rotated-mnist", "fashion-mnist", "background-mnist", "cifar10"):
        claim = found[f"better-on-{dataset}"]
        assert (claim.verdict, claim.finding.n, claim.finding.runs.scales) == (Verdict.SUPPORTED, 5, ("full",))
        assert "20 epochs" in claim.budget
    assert found["errors-fall"].verdict is Verdict.SUPPORTED
    assert "MNIST 37." in found["errors-fall"].finding.ours
    assert found["background-gains-most"].verdict is Verdict.SUPPORTED


def test_the_opposite_accuracies_make_table_1_fail(tmp_path):
    found = by_name(make_study(tmp_path, "datasets", "full", lambda entry: 100 - as_the_paper(entry)).values())
    names = ("better-on-mnist", "better-on-cifar10", "background-gains-most")
    assert {found[name].verdict for name in names} == {Verdict.REFUTED}
    assert found["errors-fall"].verdict is Verdict.NOT_COMPARABLE, "8.6 % is the paper's number, at its budget"


def test_accuracies_that_cross_from_seed_to_seed_leave_table_1_inconclusive(tmp_path):
    def crossing(entry):
        turn = 0.4 * (entry.recipe.seed - 2) * (1 if entry.line.label == "Max-Min" else -1)
        return 100 - (100 - as_the_paper(entry)) * (1 - turn)

    found = by_name(make_study(tmp_path, "datasets", "full", crossing).values())
    names = ("better-on-mnist", "better-on-cifar10", "errors-fall")
    assert {found[name].verdict for name in names} == {Verdict.INCONCLUSIVE}


def test_two_seeds_are_not_enough_and_a_third_that_was_asked_for_counts(tmp_path):
    two = make_study(tmp_path, "datasets", "small", as_the_paper)
    assert by_name(two.values())["better-on-rotated-mnist"].verdict is Verdict.NOT_TESTED
    three = make_study(tmp_path, "datasets", "small", as_the_paper, seeds=3)
    claim = by_name(three.values())["better-on-rotated-mnist"]
    assert (claim.verdict, claim.finding.n, claim.finding.runs.scales) == (Verdict.SUPPORTED, 3, ("small",))


def test_claims_are_evaluated_on_the_runs_that_the_tables_show(tmp_path):
    """A complete smaller scale is preferred to half of a larger one, for each dataset."""
    whole = make_study(tmp_path, "datasets", "small", as_the_paper)
    full = make_study(tmp_path, "datasets", "full", as_the_paper)
    half = [row for (_, _, dataset, seed), row in full.items() if dataset == "cifar10" or seed < 3]
    rows = [*whole.values(), *half]
    found, table_1 = by_name(rows), study_runs(STUDIES["datasets"], rows)
    scales = {run.recipe.dataset: run.scale for run in table_1}
    for dataset, scale in scales.items():
        claim = found[f"better-on-{dataset}"]
        assert (claim.finding.runs.scales, claim.finding.n) == ((scale,), len(table_1.of(dataset, "Max-Min")))
    assert scales == dict.fromkeys(DATASETS, "small") | {"cifar10": "full"}
    assert set(found["errors-fall"].finding.runs.scales) == {"small", "full"}


def test_a_trial_with_a_smaller_network_never_stands_before_runs_of_the_papers(tmp_path):
    trial = make_study(tmp_path, "datasets", "minute", lambda entry: 90.0, seeds=3)
    paper = make_study(tmp_path, "datasets", "paper", as_the_paper, seeds=1)
    assert set(study_runs(STUDIES["datasets"], list(trial.values())).scales) == {"minute"}
    assert set(study_runs(STUDIES["datasets"], [*trial.values(), *paper.values()]).scales) == {"paper"}


def test_diverged_runs_are_counted_and_count_for_nothing(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    diverge(rows, *[("Max-Min", None, "mnist", seed) for seed in range(3)])
    found = by_name(rows.values())
    claim = found["better-on-mnist"]
    assert (claim.verdict, claim.finding.n) == (Verdict.NOT_TESTED, 2)
    assert "(runs: 7 and 3 diverged)" in claim.budget
    assert "diverged" not in found["better-on-cifar10"].budget


@pytest.mark.parametrize(
    ("study", "scale", "names"),
    [
        ("datasets", "full", ["better-on-mnist", "errors-fall", "background-gains-most"]),
        ("mnist-record", "paper", ["record-beats-softmax"]),
    ],
)
def test_what_max_min_gained_where_it_did_not_diverge_is_no_gain_yet(tmp_path, study, scale, names):
    def accuracy(entry):
        return as_the_paper(entry) if study == "datasets" else 99.5 + 0.3 * (entry.line.label == "Max-Min")

    rows = make_study(tmp_path, study, scale, accuracy)
    assert {by_name(rows.values())[name].verdict for name in names} == {Verdict.SUPPORTED}
    diverge(rows, *[("Max-Min", None, "mnist", seed) for seed in range(2)])
    found = by_name(rows.values())
    assert {found[name].verdict for name in names} <= {Verdict.INCONCLUSIVE, Verdict.PARTLY}
    if study == "datasets":
        assert found["errors-fall"].summary == "supported on 4 of 5 datasets, at our budget"


@pytest.mark.parametrize(
    ("apart", "expected"),
    [
        ([0.0, 0.05, 0.02], Verdict.SUPPORTED),
        ([0.3, 0.31, 0.29], Verdict.REFUTED),
        ([0.0, 0.3, 0.1], Verdict.INCONCLUSIVE),
    ],
)
@pytest.mark.parametrize("side", [1, -1])
def test_two_normalizations_are_level_if_all_of_the_interval_is_within_a_fifth_of_a_point(
    tmp_path, apart, expected, side
):
    def accuracy(entry):
        first = entry.line.label in ("Centered Max-Min", "WTA", "Softmax from 1.0")
        return 98 + side * apart[entry.recipe.seed] * first

    found = by_name(make_study(tmp_path, "normalizations", "small", accuracy).values())
    names = ("centered-max-min-like-adjusted-log", "wta-like-z-score", "softmax-from-1.0-like-softmax")
    assert {found[name].verdict for name in names} == {expected}


@pytest.mark.parametrize(("lead", "expected"), [(0.1, Verdict.SUPPORTED), (-0.1, Verdict.REFUTED)])
def test_the_best_and_the_worst_of_six_have_to_stand_apart_from_the_next(tmp_path, lead, expected):
    def accuracy(entry):
        place = {"Max-Min": lead, "Sum": -lead, "Softmax": 5.0, "Uniform (control)": 5.0}
        return 90 + place.get(entry.line.label, 0) + 0.001 * entry.recipe.seed * (entry.line.label == "WTA")

    rows = make_study(tmp_path, "normalizations", "small", accuracy)
    found = by_name(rows.values())
    assert {found[f"{name}-of-six"].verdict for name in ("max-min-is-best", "sum-is-worst")} == {expected}
    diverge(rows, ("Z-Score", None, "mnist", 0))
    assert by_name(rows.values())["max-min-is-best-of-six"].verdict is Verdict.NOT_TESTED


def test_winner_take_all_is_not_cheap_where_it_diverged(tmp_path):
    rows = make_study(
        tmp_path, "normalizations", "full", lambda e: 99 - 0.001 * e.recipe.seed * (e.line.label == "WTA")
    )
    assert by_name(rows.values())["winner-take-all-is-cheap"].verdict is Verdict.SUPPORTED
    diverge(rows, ("WTA", None, "mnist", 0))
    assert by_name(rows.values())["winner-take-all-is-cheap"].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("cost", "scale", "expected"),
    [
        (0.3, "small", Verdict.SUPPORTED),
        (0.5, "small", Verdict.NOT_COMPARABLE),
        (0.5, "paper", Verdict.REFUTED),
    ],
)
def test_winner_take_all_may_cost_three_tenths_of_a_point(tmp_path, cost, scale, expected):
    def accuracy(entry):
        return 99 - cost * (entry.line.label == "WTA") + 0.001 * entry.recipe.seed * (entry.line.label == "WTA")

    found = by_name(make_study(tmp_path, "normalizations", scale, accuracy).values())
    assert found["winner-take-all-is-cheap"].verdict is expected


def test_runs_without_a_partner_are_not_called_no_runs(tmp_path):
    rows = make_study(tmp_path, "datasets", "small", as_the_paper)
    claim = by_name([rows["Max-Min", None, "mnist", 0]])["better-on-mnist"]
    assert (claim.finding.n, claim.finding.runs.scales) == (0, ("small",))
    assert "no matched pair" in claim.finding.ours
    assert by_name([])["better-on-mnist"].finding.ours == "no runs"


def test_only_a_difference_is_printed_with_a_sign(tmp_path):
    rows = make_study(tmp_path, "normalizations", "small", lambda e: 99 - 0.3 * (e.line.label == "WTA"))
    assert by_name(rows.values())["winner-take-all-is-cheap"].finding.ours.startswith("0.3 percentage points lost (")
    rows = make_study(tmp_path, "datasets", "small", as_the_paper)
    assert by_name(rows.values())["better-on-mnist"].finding.ours == "+0.27 percentage points (n = 1)"
    assert "95 %" not in by_name(rows.values())["better-on-rotated-mnist"].finding.ours, (
        "two runs have no interval to speak of"
    )
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    expected = "+0.2740 percentage points (95 % interval +0.2701 to +0.2779, n = 5)"
    assert by_name(rows.values())["better-on-mnist"].finding.ours == expected


def test_the_vote_is_that_of_the_papers_seeds_and_not_of_whichever_three_there_are(tmp_path):
    rows = make_study(tmp_path, "mnist-record", "full", lambda entry: 99.8)
    for row in rows.values():
        write_lengths(tmp_path / row.fingerprint, torch.eye(10), torch.arange(10))
    assert by_name(rows.values())["vote-record"].finding.n == 3
    diverge(rows, ("Max-Min", None, "mnist", 0))
    claim = by_name(rows.values())["vote-record"]
    assert (claim.verdict, claim.finding.n) == (Verdict.NOT_TESTED, 0)


def test_the_majority_vote_and_the_lowest_error_are_computed_from_the_lengths_in_the_runs(tmp_path):
    rows = make_study(tmp_path, "mnist-record", "full", lambda e: 99.8 if e.line.label == "Max-Min" else 99.5, seeds=9)
    labels = torch.zeros(1000, dtype=torch.long)
    for (label, _, _, seed), row in rows.items():
        lengths = torch.eye(10)[labels].clone()
        first = 10 * (seed % 3)
        lengths[first : first + 3 + (label == "Softmax")] = torch.eye(10)[
            1
        ]  # no two networks of a group of three err together
        write_lengths(tmp_path / row.fingerprint, lengths, labels)
    found = by_name(rows.values())
    assert found["record-beats-softmax"].verdict is Verdict.SUPPORTED
    assert found["single-record"].verdict is Verdict.SUPPORTED
    assert found["vote-record"].verdict is Verdict.SUPPORTED
    assert found["vote-record"].finding.ours == "0.00 % (0 images, final weights, one vote of 3)"
    assert (found["vote-beats-one"].verdict, found["vote-beats-one"].finding.n) == (Verdict.SUPPORTED, 3)


def test_a_vote_that_errs_as_often_as_the_best_of_its_three_beats_none_of_them(tmp_path):
    rows = make_study(tmp_path, "mnist-record", "full", lambda entry: 99.8, seeds=9)
    labels = torch.zeros(1000, dtype=torch.long)
    for (_, _, _, seed), row in rows.items():
        lengths = torch.eye(10)[labels].clone()
        lengths[: 3 + seed % 3] = torch.eye(10)[1]  # all err on the same three, some on one or two more
        lengths[3:5, 1 + seed % 3] += 0.01
        write_lengths(tmp_path / row.fingerprint, lengths, labels)
    found = by_name(rows.values())["vote-beats-one"]
    assert (found.verdict, found.finding.n) == (Verdict.REFUTED, 3)


def test_some_of_the_papers_seeds_are_not_its_budget_whatever_their_verdict(tmp_path):
    def accuracy(entry):
        return 99.8 if entry.line.label == "Max-Min" else 99.5

    some, all_ten = (
        make_study(tmp_path / f"{seeds}", "mnist-record", "paper", accuracy, seeds=seeds) for seeds in (3, 10)
    )
    for rows, summary in ((some, "supported, at our budget"), (all_ten, "supported")):
        found = by_name(rows.values())["record-beats-softmax"]
        assert (found.verdict, found.summary) == (Verdict.SUPPORTED, summary)


def test_three_of_the_papers_ten_seeds_that_miss_its_best_refute_nothing(tmp_path):
    rows = make_study(tmp_path, "mnist-record", "paper", lambda entry: 99.79, seeds=3)
    assert by_name(rows.values())["single-record"].verdict is Verdict.NOT_COMPARABLE


@pytest.mark.parametrize(("scale", "verdict"), [("full", Verdict.NOT_COMPARABLE), ("paper", Verdict.REFUTED)])
def test_an_error_of_table_2_missed_with_less_than_the_papers_budget_is_not_comparable(tmp_path, scale, verdict):
    rows = make_study(tmp_path, "mnist-record", scale, lambda entry: 99.7)
    labels = torch.zeros(1000, dtype=torch.long)
    for row in rows.values():
        lengths = torch.eye(10)[labels].clone()
        lengths[:3] = torch.eye(10)[1]
        write_lengths(tmp_path / row.fingerprint, lengths, labels)
    found = by_name(rows.values())
    assert (found["single-record"].verdict, found["vote-record"].verdict) == (verdict, verdict)
