"""Claims about couplings, logits and lengths are decided by the traces and lengths in run folders."""

import pytest
import torch

from maxmincaps.analysis.verdicts import Verdict
from tests.analysis.runs import as_the_paper, by_name, diverge, make_study, write_lengths, write_trace

INSIDE = (
    "softmax-stays-near-start", "max-min-spreads", "parents-differ-more", "several-strong-parents",
    "most-logits-stay-at-zero", "peaked-on-mnist", "several-peaks-on-cifar10", "classes-closer-on-cifar10",
    "true-class-longer", "other-classes-shorter", "tuning-keeps-shape",
)  # fmt: skip


def test_runs_that_lack_the_file_of_a_measure_are_not_called_no_runs(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    found = by_name(rows.values())
    for name in INSIDE:
        assert (found[name].verdict, found[name].finding.n) == (Verdict.NOT_TESTED, 0)
        assert "lack the files" in found[name].finding.ours
        assert "20 epochs" in found[name].budget


@pytest.mark.parametrize(("outliers", "verdict"), [(5, Verdict.REFUTED), (20, Verdict.SUPPORTED)])
def test_a_few_children_with_nine_strong_parents_do_not_make_up_for_many_with_one(tmp_path, outliers, verdict):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    logits, couplings = torch.randn(3, 100, 10, generator=torch.Generator().manual_seed(0)), torch.zeros(3, 100, 10)
    couplings[:, :, 0] = 1.0
    couplings[:, :outliers, 1:] = 0.9
    for row in rows.values():
        write_trace(tmp_path / row.fingerprint, logits, couplings)
    found = by_name(rows.values())["several-strong-parents"]
    assert (found.verdict, found.finding.ours.split(" (")[0]) == (
        verdict,
        f"% of the active capsules: MNIST {outliers}",
    )


def test_runs_on_other_images_are_not_among_the_papers(tmp_path):
    """What `maxmincaps quickstart` leaves stands in for the paper's datasets only where there is nothing else."""
    quick = make_study(tmp_path, "datasets", "quickstart", lambda entry: 97.0)
    rows = {**make_study(tmp_path, "datasets", "full", as_the_paper), **quick}
    for row in rows.values():
        write_trace(tmp_path / row.fingerprint, torch.randn(3, 20, 10), torch.full((3, 20, 10), 0.1))
    diverge(rows, ("Softmax", None, "mnist", 0))
    alone, together = (by_name(own.values())["softmax-stays-near-start"] for own in (quick, rows))
    assert (alone.finding.n, together.finding.n) == (1, 4)
    assert "1 diverged" in together.budget


def test_a_dataset_on_the_other_side_of_the_bound_is_counted(tmp_path):
    """Softmax's couplings stay near their start on four datasets, and move on the fifth in every seed."""
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    for (_, _, dataset, _), row in rows.items():
        couplings = torch.full((3, 100, 10), 0.1)
        couplings[-1, : 70 if dataset == "cifar10" else 2] = 0.5
        write_trace(tmp_path / row.fingerprint, torch.randn(3, 100, 10), couplings)
    found = by_name(rows.values())["softmax-stays-near-start"]
    assert found.finding.summary == "supported on 4, refuted on 1 of 5 datasets"
    assert "CIFAR10 30" in found.finding.ours


def test_a_claim_about_both_normalizations_needs_both(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    for (label, *_), row in rows.items():
        logits = torch.zeros(3, 100, 10)
        logits[1:, : 80 if label == "Max-Min" else 1] = 1.0
        write_trace(tmp_path / row.fingerprint, logits, torch.full((3, 100, 10), 0.1))
    assert by_name(rows.values())["most-logits-stay-at-zero"].verdict is Verdict.REFUTED


def test_a_damaged_run_affects_only_the_claims_that_need_it(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    (tmp_path / rows["Max-Min", None, "mnist", 0].fingerprint).mkdir(parents=True)
    (rows["Max-Min", None, "mnist", 0].folder / "trace.safetensors").write_bytes(b"torn")
    found = by_name(rows.values())
    assert found["max-min-spreads"].finding.ours.startswith("cannot be evaluated: ")
    assert found["better-on-mnist"].verdict is Verdict.SUPPORTED


def test_claims_about_the_inside_of_networks_are_evaluated_on_traces_and_lengths(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    labels = torch.arange(100) % 10
    noise = torch.Generator().manual_seed(0)
    confused_with = 0.02 * torch.rand(10, 10, generator=noise)
    for (label, _, dataset, _), row in rows.items():
        hard = label == "Max-Min"
        logits = torch.zeros(3, 50, 10)
        logits[1:, :20] = torch.randn(2, 20, 10, generator=noise)
        couplings = torch.rand(3, 50, 10, generator=noise) if hard else torch.full((3, 50, 10), 0.1)
        write_trace(tmp_path / row.fingerprint, logits, couplings)
        lengths = torch.eye(10)[labels] * (0.9 if hard else 0.8) + (0.05 if hard else 0.1) + confused_with[labels]
        if dataset == "cifar10":  # every second class is taken for the next one too
            lengths += 0.5 * torch.eye(10)[(labels + 1) % 10] * (labels % 2)[:, None]
        write_lengths(tmp_path / row.fingerprint, lengths + 1e-3 * torch.rand(100, 10, generator=noise), labels)
    found = by_name(rows.values())
    assert {name: found[name].verdict for name in INSIDE} == dict.fromkeys(INSIDE, Verdict.SUPPORTED)


def test_a_network_whose_lengths_never_vary_is_left_out_of_the_tuning_claim(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    labels = torch.arange(100) % 10
    for (_, _, dataset, seed), row in rows.items():
        lengths = torch.ones(100, 10) if (dataset, seed) == ("mnist", 0) else torch.rand(10, 10)[labels]
        write_lengths(tmp_path / row.fingerprint, lengths, labels)
    found = by_name(rows.values())["tuning-keeps-shape"]
    assert (found.finding.n, found.verdict) == (4, Verdict.REFUTED)  # of five pairs on MNIST


def test_tuning_curves_that_have_nothing_but_their_peaks_in_common_are_not_alike(tmp_path):
    rows = make_study(tmp_path, "datasets", "full", as_the_paper)
    labels = torch.arange(100) % 10
    noise = torch.Generator().manual_seed(0)
    for row in rows.values():
        lengths = 0.9 * torch.eye(10)[labels] + 0.05 * torch.rand(10, 10, generator=noise)[labels]
        write_lengths(tmp_path / row.fingerprint, lengths, labels)
    assert by_name(rows.values())["tuning-keeps-shape"].verdict is Verdict.REFUTED
