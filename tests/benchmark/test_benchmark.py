"""The textbook network computes the same as ours, and ratios are computed from timings."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from maxmincaps import NORMALIZATIONS, CapsNet, capsule_loss, fold_multipliers
from maxmincaps.benchmark import compare as comparing
from maxmincaps.benchmark.compare import RATIOS, Ratio, cases_of, compare
from maxmincaps.benchmark.textbook import TextbookCapsNet
from maxmincaps.benchmark.worker import NETWORKS, Case, build, build_step


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("outside", [False, True])
def test_the_textbook_gives_our_answers_with_our_weights(network, outside):
    torch.manual_seed(0)
    ours = CapsNet(**NETWORKS[network], relu=True, full_backpropagation=not outside).double()
    fold_multipliers(ours)  # so that gradients can be compared
    textbook = TextbookCapsNet(**NETWORKS[network], routing_outside_autograd=outside).double()
    _take_weights(textbook, ours)
    images = torch.rand(2, *NETWORKS[network]["image_shape"], dtype=torch.float64)
    labels = torch.tensor([1, 7])
    losses = [capsule_loss(each(images, labels), images, labels) for each in (ours, textbook)]
    torch.testing.assert_close(*losses, rtol=1e-7, atol=0)  # the textbook adds 1e-12 to what it divides by
    for loss in losses:
        loss.backward()
    pairs = [
        (ours.conv1.weight, textbook.conv1.weight),
        (ours.primary.convolution.weight, textbook.primary.weight),
        (ours.digits.weights, textbook.weights),
    ]
    for mine, theirs in pairs:
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=1e-4 * theirs.grad.abs().max().item())


@torch.no_grad()
def _take_weights(textbook, ours):
    textbook.conv1.load_state_dict(ours.conv1.state_dict())
    textbook.primary.load_state_dict(fold_multipliers(deepcopy(ours.primary.convolution)).state_dict())
    textbook.weights.copy_(ours.digits.effective_weights)
    textbook.decoder.load_state_dict(ours.decoder.state_dict())


def test_fifty_steps_of_training_stay_together():
    """A small network of the same form, from the same weights: the curves differ by rounding only."""
    torch.manual_seed(0)
    ours, plain = (CapsNet(conv_channels=32, types=8, convolution=way) for way in ("spectral", "direct"))
    plain.load_state_dict(ours.state_dict())
    images, labels = torch.rand(20, 1, 28, 28), torch.randint(0, 10, (20,))
    curves = []
    for network in (ours, plain):
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
        curve = []
        for _ in range(50):
            loss = capsule_loss(network(images, labels), images, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
        curves.append(curve)
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)
    assert curves[0][-1] < 0.9 * curves[0][0]


def test_a_case_may_have_other_types_classes_and_image_sizes():
    case = Case("ours", network="quarter-size", types=4, classes=20, side=32)
    ours, textbook = build(case), build(replace(case, contestant="textbook"))
    assert ours.digits.weights.shape == textbook.weights.shape == (4 * 8 * 8, 20, 16, 8)


def test_copies_run_side_by_side_and_share_the_time(monkeypatch):
    case = Case("ours", network="quarter-size", batch=1, iterations=1, training=False, copies=2)
    assert comparing._in_own_process(case, 2)["step_ms"] > 0


def test_growth_leaves_out_the_textbook_where_it_does_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr(comparing, "_in_own_process", lambda case, threads: {"step_ms": 1.0, "peak_mb": 1.0})
    rows = comparing.grow(threads=1)
    assert {row["kind"] for row in rows} == set(comparing.GROWTH)
    assert [row["value"] for row in rows if row["textbook"] is None] == [96]
    assert all(row["ours"] for row in rows)


@pytest.mark.parametrize("case", cases_of(RATIOS), ids=str)
def test_every_case_makes_a_step(case):
    build_step(replace(case, batch=1))()


def test_a_case_is_the_network_that_it_names():
    digits = build(Case("ours", iterations=10, normalization="softmax")).digits
    assert (digits.iterations, digits.normalization) == (10, NORMALIZATIONS["softmax"])


def test_a_comparison_times_each_case_in_its_own_process_and_gives_ratios():
    small = Case("ours", batch=1, iterations=1, training=False)
    found = compare([Ratio("itself", small, small)], rounds=2, threads=1)
    assert found["ratios"] == [{"name": "itself", "median": 1, "lowest": 1, "highest": 1, "floor": None}]
    assert [each["step_ms"] > 0 for each in found["timings"][0]["rounds"]] == [True, True]


def test_a_ratio_says_how_many_times_the_second_goes_into_the_first(monkeypatch):
    slow, fast = Case("textbook"), Case("ours")
    monkeypatch.setattr(comparing, "_in_own_process", lambda case, threads: {"step_ms": 6.0 if case == slow else 2.0})
    (ratio,) = compare([Ratio("textbook / ours", slow, fast)], rounds=2, threads=1)["ratios"]
    assert (ratio["median"], ratio["lowest"], ratio["highest"]) == (3, 3, 3)


def test_a_system_that_does_not_tell_memory_costs_the_ratio_of_memory_alone(monkeypatch):
    monkeypatch.setattr(comparing, "_in_own_process", lambda case, threads: {"step_ms": 2.0, "memory_mb": 0.0})
    case = Case("ours")
    found = compare([Ratio("time", case, case), Ratio("memory", case, case, of="memory_mb")], rounds=2, threads=1)
    assert [ratio["name"] for ratio in found["ratios"]] == ["time"]
