"""Extreme numbers: outputs and gradients are finite, or the run reports that they are not."""

import contextlib
import itertools
import math

import pytest
import torch

from maxmincaps import NORMALIZATIONS, CapsNet, InputError, capsule_loss, margin_loss, routing_steps, squash
from maxmincaps.capsules.losses import reconstruction_loss
from maxmincaps.cli import main
from maxmincaps.training.run import Run
from tests.conftest import TINY

# Ten times the largest and a sum of four would be beyond single precision.
SIZES = [0.0, 1e-45, 1e-40, 1.2e-38, 1e-30, 1e-20, 1e-8, 1.0, 1e8, 1e20, 1e30, 1e37]
TYPES = [torch.float32, torch.bfloat16]
PATTERNS = [
    [0.0, 0, 0, 0],
    [1, 1, 1, 1],
    [-1, -1, -1, -1],
    [1, -1, 0, 0.5],
    [0, 0, 0, 1],
    [-1, -1, -1, -2],
    [1, 0.999, 0, 1],
]
SMALL = {"image_shape": (1, 12, 12), "classes": 3, "conv_channels": 4, "conv_kernel": 3, "primary_kernel": 3}
SMALL |= {"types": 2, "part_pose": 4, "class_pose": 4, "decoder": (8,)}


def slope_of(result, values):
    """Return the gradient of a weighted sum; the weights differ, so that nothing cancels."""
    weights = torch.linspace(1, 2, result.numel(), dtype=result.dtype).reshape(result.shape)
    total = (result * weights).sum()
    return torch.autograd.grad(total, values, allow_unused=True)[0] if total.requires_grad else None


def combinations():
    """Yield logits or poses of every size, type and pattern."""
    for size, dtype, pattern in itertools.product(SIZES, TYPES, PATTERNS):
        yield (torch.tensor([pattern]) * size).to(dtype)


def test_normalizations_and_their_gradients_are_finite(tally):
    tried = 0
    for name, values in itertools.product(NORMALIZATIONS, combinations()):
        logits = values.clone().requires_grad_()
        couplings = NORMALIZATIONS[name](logits)
        assert couplings.isfinite().all(), (name, logits)
        slope = slope_of(couplings, logits)
        assert slope is None or slope.isfinite().all(), (name, logits, slope)
        tried += 1 + (slope is not None)
    tally("values and gradients", tried=tried, not_finite=0)


@pytest.mark.parametrize("bounds", [{"high": 100.0}, {"low": -1.0}, {"high": 0.01}])
def test_max_min_is_finite_between_any_bounds(bounds):
    for values in combinations():
        logits = values.requires_grad_()
        couplings = NORMALIZATIONS["max-min"].with_settings(**bounds)(logits)
        assert couplings.isfinite().all(), logits
        assert slope_of(couplings, logits).isfinite().all(), logits


def test_bounds_that_leave_nothing_between_them_are_refused_by_name():
    for bounds in ({"high": 0.0}, {"low": 1.0}, {"low": 0.5, "high": 0.2}):
        with pytest.raises(InputError, match="expected a low below high"):
            CapsNet(**SMALL, **bounds)


def test_squash_and_its_gradient_are_finite_and_no_longer_than_one(tally):
    tried = 0
    for values in combinations():
        poses = values.requires_grad_()
        squashed = squash(poses)
        assert squashed.isfinite().all(), poses
        assert squashed.float().norm(dim=-1).le(1 + 1e-2 * (poses.dtype == torch.bfloat16) + 1e-6).all(), poses
        assert slope_of(squashed, poses).isfinite().all(), poses
        tried += 2
    tally("values and gradients", tried=tried, not_finite=0)


def test_losses_and_their_gradients_are_finite_for_all_lengths_and_pixels_of_a_network(tally):
    tried = 0
    sizes, others = [0.0, 1e-45, 1e-38, 1e-8, 0.1, 0.5, 0.9, 1.0], [0.0, 1e-40, 1.0]
    for dtype, length, other, label in itertools.product(TYPES, sizes, others, [0, 1]):
        lengths = torch.tensor([[length, other, other]], dtype=dtype, requires_grad=True)
        loss = margin_loss(lengths, torch.tensor([label]))
        pixels = torch.tensor([[[[length, other]]]], dtype=dtype, requires_grad=True)
        squares = reconstruction_loss(pixels, torch.ones(1, 1, 1, 2, dtype=dtype))
        for value, source in ((loss, lengths), (squares, pixels)):
            assert value.isfinite()
            assert slope_of(value, source).isfinite().all()
            tried += 2
    tally("values and gradients", tried=tried, not_finite=0)


def test_routing_is_finite_for_votes_of_any_size_with_either_gradient(tally):
    tried = 0
    sizes = SIZES[:-1]  # a coupling of adjusted-log is 87 at 1e37, and a sum of such votes beyond single precision
    for name, full, size, dtype in itertools.product(NORMALIZATIONS, [False, True], sizes, TYPES):
        generator = torch.Generator().manual_seed(0)
        votes = (torch.randn(2, 5, 3, 4, generator=generator) * size / 3).to(dtype).requires_grad_()
        *_, last = routing_steps(votes, name, 3, full_backpropagation=full)
        assert last.poses.isfinite().all(), (name, full, size, dtype)
        slope = slope_of(last.poses, votes)
        assert slope.isfinite().all(), (name, full, size, dtype, slope)
        tried += 2
    tally("values and gradients", tried=tried, not_finite=0)


def gradients(network, images, labels):
    network.zero_grad()
    output = network(images, labels)
    loss = capsule_loss(output, images, labels)
    loss.backward()
    return output, loss, [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


def test_what_is_not_finite_is_never_hidden_behind_a_finite_loss_and_gradient(tally):
    torch.manual_seed(0)
    labels, noise = torch.tensor([0, 2]), torch.rand(2, 1, 12, 12)
    sound = [torch.full_like(noise, value) for value in (0.0, 1e-45, 1e-30, 0.5, 1.0)] + [noise]
    harmful = [noise.masked_fill(noise < 0.1, value) for value in (1e20, 3e38, math.inf, -math.inf, math.nan)]
    tried = hidden = 0
    for name, full, rough in itertools.product(NORMALIZATIONS, [False, True], [False, True]):
        network = CapsNet(**SMALL, normalization=name, full_backpropagation=full)
        for place, images in enumerate([*sound, *harmful]):
            with torch.autocast("cpu", torch.bfloat16, enabled=rough):
                output, loss, slopes = gradients(network, images, labels)
            seems_sound = bool(loss.isfinite()) and all(slope.isfinite().all() for slope in slopes)
            assert seems_sound or place >= len(sound), (name, full, rough, place)
            hidden += seems_sound and not all(part.isfinite().all() for part in output)
            tried += 1
    assert hidden == 0
    tally("steps of networks", tried=tried, hidden=hidden)


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Train by the command; return the exit code and the error output."""
    monkeypatch.chdir(tmp_path)

    def call(*words, **changed):
        settings = {**TINY, **changed}
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if name != "decoder"]
        with contextlib.suppress(SystemExit) as _, pytest.raises(SystemExit) as ended:
            main(["train", "--out", "run", "--quiet", *flags, "--decoder", "16", *words])
        return ended.value.code or 0, capsys.readouterr().err

    return call


def test_a_run_that_explodes_stops_with_one_line_and_its_own_exit_code(command, tmp_path, tally):
    code, output = command("--learning-rate", "1e30")
    assert code == 3
    assert "not finite at epoch 1, step 2" in output
    assert output.count("\n") == 1
    assert not (tmp_path / "run" / "result.json").exists()
    tally("runs", stopped_by_name=1)


def test_steps_that_are_not_finite_are_skipped_on_request_and_counted(command, tmp_path, tally):
    code, _ = command("--learning-rate", "1e30", "--non-finite", "skip", epochs=1, batch_size=20)
    assert code == 0
    result = Run(tmp_path / "run").result
    assert result.steps == 6
    assert result.skipped_steps == 5
    tally("steps", tried=result.steps, skipped_and_counted=result.skipped_steps)
