"""Weights behind multipliers: the same function, the same bits, and old weights as they were meant."""

import copy

import pytest
import torch
from torch import nn

from maxmincaps import NORMALIZATIONS, CapsNet, PrimaryCapsules, RoutedCapsules, fold_multipliers
from maxmincaps.capsules.multipliers import KEY, power_of_two

SMALL = {"conv_channels": 16, "types": 4, "decoder": (8,)}


@pytest.fixture
def images():
    return torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("number", [1e-9, 0.3, 1.0, 1.5, 700.0])
def test_the_nearest_power_of_two_is_within_a_factor_of_the_root_of_two(number):
    found = power_of_two(number)
    assert found.hex().startswith("0x1.0000000000000p")
    assert 2**-0.5 <= found / number <= 2**0.5


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_folding_changes_no_bit_of_an_answer(name, precision, images):
    network = CapsNet(**SMALL, normalization=name)
    folded = fold_multipliers(copy.deepcopy(network))
    assert network.primary.convolution.multiplier != 1
    assert not any(key.endswith(KEY) for key in folded.state_dict())
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        for ours, theirs in zip(network(images), folded(images), strict=True):
            assert ours.equal(theirs)


def test_weights_of_an_earlier_version_are_loaded_as_they_were_meant(images):
    """They have no multipliers beside them, as those of any other program."""
    old = fold_multipliers(CapsNet(**SMALL))
    new = CapsNet(**SMALL)
    new.load_state_dict(old.state_dict())
    assert new.digits.effective_weights.equal(old.digits.weights)
    assert new(images).poses.equal(old(images).poses)


def test_weights_move_between_layers_of_different_multipliers():
    one, other = (RoutedCapsules(8, 4, normalization=name, iterations=3) for name in ("max-min", "softmax"))
    assert one.multiplier != other.multiplier
    other.load_state_dict(one.state_dict())
    assert other.effective_weights.equal(one.effective_weights)


def test_what_the_optimizer_holds_is_what_the_state_dict_has():
    """So that averages and copies made through either agree."""
    layer = RoutedCapsules(2000, 4)
    assert layer.multiplier != 1
    for name, parameter in layer.named_parameters():
        assert layer.state_dict()[name].data_ptr() == parameter.data_ptr()
    moved = torch.func.functional_call(layer, dict(layer.named_parameters()), torch.ones(1, 2000, 8))
    assert moved.equal(layer(torch.ones(1, 2000, 8)))


def test_layers_of_other_programs_get_no_multiplier():
    network = nn.Sequential(nn.Conv2d(256, 8, 9), PrimaryCapsules(256, 1, 8))
    before = network[0].weight.clone()
    fold_multipliers(network)
    assert network[0].weight.equal(before)


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("name", sorted(NORMALIZATIONS.keys() - {"sum"}))  # whose coefficients have no bound
@pytest.mark.parametrize("children", [8, 200, 2000])
def test_parents_begin_with_moderate_lengths_whatever_they_are_made_of(name, iterations, children):
    torch.manual_seed(0)
    layer = RoutedCapsules(children, 10, normalization=name, iterations=iterations)
    parts = torch.randn(16, children, 8)
    lengths = layer(0.2 * parts / parts.norm(dim=-1, keepdim=True)).norm(dim=-1)
    assert 5e-4 < lengths.mean() < 0.6


def test_the_larger_the_fan_in_the_smaller_the_multiplier():
    assert PrimaryCapsules(8, kernel=3).convolution.multiplier == 1
    small, large = (PrimaryCapsules(channels).convolution.multiplier for channels in (64, 256))
    assert large == small / 4
    small, large = (RoutedCapsules(children, 10).multiplier for children in (288, 1152))
    assert large == small / 4


def test_a_layer_takes_bounded_memory_to_build_for_many_parents():
    with torch.device("meta"):
        layer = RoutedCapsules(1, 500_000)
    assert layer.typical_couplings().numel() <= 2_000_000
