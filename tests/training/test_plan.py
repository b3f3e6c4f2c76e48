"""The plan that is printed before a training."""

import pytest
import torch

from maxmincaps import CapsNet, Recipe
from maxmincaps.training.prepare import TrainingPlan, plan_training

SMALL = {"conv_channels": 8, "types": 2, "decoder": (16,)}


def plan_for(image_shape, images=100, **settings):
    recipe = Recipe(**SMALL, **settings)
    network = CapsNet(image_shape=image_shape, **SMALL)
    return plan_training(network, recipe, images)


def test_a_plan_counts_children_and_parameters():
    network = CapsNet(**SMALL)
    plan = plan_training(network, Recipe(**SMALL), 100)
    assert plan.children == 2 * 6 * 6
    assert plan.parameters == sum(parameter.numel() for parameter in network.parameters())
    assert plan.warnings == ()
    assert "72 children" in plan.summary()


def test_a_plan_leaves_the_network_and_the_random_numbers_as_they_were():
    network = CapsNet(stem="deep", **SMALL)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    state = torch.get_rng_state()
    plan_training(network, Recipe(**SMALL), 100)
    assert torch.get_rng_state().equal(state)
    assert all(tensor.equal(before[name]) for name, tensor in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_memory_grows_with_the_batch():
    small, large = (plan_for((1, 28, 28), batch_size=size).memory_bytes for size in (16, 160))
    assert large > 2 * small


def test_reduced_kernels_are_said():
    [warning] = plan_for((1, 10, 10)).warnings
    assert "9×9" in warning
    assert "--conv-kernel" in warning


@pytest.mark.parametrize(("side", "warned"), [(28, False), (160, True)])
def test_far_too_many_children_are_warned_of(side, warned):
    warnings = plan_for((1, side, side), batch_size=1).warnings
    assert any("--stem deep" in warning for warning in warnings) == warned


@pytest.mark.parametrize(
    ("memory_bytes", "seconds", "words"),
    [(10**4, 0.1, "1 MB of memory and 1 s"), (2 * 10**9, 90, "2.0 GB of memory and 90 s"),
     (10**6, 9000, "2.5 h")],
)  # fmt: skip
def test_no_size_is_printed_as_zero(memory_bytes, seconds, words):
    assert words in TrainingPlan(8, 100, memory_bytes, seconds).summary()
