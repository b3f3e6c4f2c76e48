"""What a training starts with: initial values, and how fast each layer learns at each step."""

from pathlib import Path

import pytest
import torch

from maxmincaps import CapsNet, fold_multipliers
from maxmincaps.data.images import splits
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import network_for, optimizer_tensors, restore_optimizer
from maxmincaps.training.prepare import initial_network, learning_rate_at, optimizer_for


def test_sabours_initial_values_are_those_of_the_spec(tiny):
    recipe = tiny(initial_values="sabour", conv_channels=64, vote_sigma=0.1)
    network = initial_network(recipe, splits(recipe).train)
    assert network.conv1.weight.std().item() == pytest.approx(0.05 * 0.88, rel=0.05)  # cut off at two sigma
    assert network.primary.convolution.weight.abs().max() <= 0.2
    assert network.digits.weights.std().item() == pytest.approx(0.1, rel=0.1)
    assert network.primary.convolution.bias.eq(0.1).all()


def test_the_learning_rate_decays_continuously_down_to_its_floor(tiny):
    recipe = tiny(learning_rate=0.001, decay=0.96, decay_steps=2000, min_learning_rate=1e-6, warmup=0)
    assert learning_rate_at(recipe, 0, 1) == 0.001
    assert learning_rate_at(recipe, 1000, 1) == pytest.approx(0.001 * 0.96**0.5)
    assert learning_rate_at(recipe, 2000, 1) == pytest.approx(0.00096)
    assert learning_rate_at(recipe, 10**7, 1) == 1e-6


def test_a_cosine_ends_at_the_floor_and_a_warm_up_begins_low(tiny):
    recipe = tiny(schedule="cosine", warmup=9, learning_rate=0.001, min_learning_rate=1e-6)
    assert learning_rate_at(recipe, 0, 1000) == pytest.approx(0.0001)
    assert learning_rate_at(recipe, 500, 1000) == pytest.approx(0.0005)
    assert learning_rate_at(recipe, 1000, 1000) == 1e-6


def rates(recipe, **sizes):
    network = fold_multipliers(CapsNet(normalization=recipe.normalization, **sizes))
    return {group["name"]: group["rate"] for group in optimizer_for(recipe, network).param_groups}


def test_large_layers_learn_more_slowly_the_more_terms_their_sums_have(tiny):
    ours = rates(tiny())
    assert (ours["others"], ours["primary"]) == (1, 6000 / (256 * 81))
    assert rates(tiny(), conv_channels=8, types=2)["primary"] == 1
    assert rates(tiny(), types=128)["votes"] == pytest.approx(ours["votes"] * 30_000 / (128 * 36 * 8))
    assert rates(tiny(vote_rate=0.25, primary_rate=0.5)) == {"others": 1, "primary": 0.5, "votes": 0.25}


def test_w_moves_the_further_the_smaller_the_couplings_are_that_it_acts_through(tiny):
    assert rates(tiny(normalization="uniform"))["votes"] == 1
    assert rates(tiny(normalization="softmax"))["votes"] == pytest.approx(10)
    assert rates(tiny())["votes"] == pytest.approx(2.5, rel=0.01)


def test_with_slow_layer_rates_w_begins_small_and_learns_slowly_and_primarycaps_does_not(tiny):
    fast, slow = (rates(tiny(layer_rates=rates_of)) for rates_of in ("fast", "slow"))
    assert slow["votes"] == pytest.approx(fast["votes"] * 400 / (1152 * 8))
    assert (fast["primary"], slow["primary"]) == (6000 / (256 * 81), 1)
    images = splits(tiny()).train
    sigmas = [
        initial_network(tiny(layer_rates=rates_of), images).digits.weights.std().item() for rates_of in ("fast", "slow")
    ]
    assert sigmas[1] == pytest.approx(0.05 * sigmas[0])


def test_a_rate_set_for_a_layer_overrides_the_layer_wise_rule(tiny):
    recipe = tiny(layer_rates="slow", vote_sigma=0.5, vote_rate=3, primary_rate=2)
    assert rates(recipe) == {"others": 1, "primary": 2, "votes": 3}
    assert initial_network(recipe, splits(recipe).train).digits.sigma == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [("squash_parts", False), ("primary_scale", 0.5), ("relu", True), ("start", 0.01), ("low", -1.0), ("high", 0.1)],
)
def test_a_setting_of_the_recipe_reaches_the_network(tiny, name, value):
    plain, other = (network_for(tiny(**changes), (1, 28, 28), 10) for changes in ({}, {name: value}))
    other.load_state_dict(plain.state_dict())
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert not other(images).lengths.equal(plain(images).lengths)


@pytest.mark.parametrize("method", ["auto", "spectral", "direct"])
def test_the_convolution_is_the_one_that_was_asked_for(tiny, method):
    assert network_for(tiny(convolution=method), (1, 28, 28), 10).primary.convolution.method == method


def test_a_parameter_that_no_gradient_reached_does_not_keep_a_run_from_being_continued(tiny):
    network = initial_network(tiny(), splits(tiny()).train)
    network.digits.register_parameter("idle", torch.nn.Parameter(torch.ones(())))
    network(torch.rand(2, *network.image_shape)).lengths.sum().backward()
    optimizer, again = (optimizer_for(tiny(), network) for _ in range(2))
    optimizer.step()
    tensors = optimizer_tensors(optimizer)
    restore_optimizer(again, tensors, Path("checkpoint"))
    assert optimizer_tensors(again).keys() == tensors.keys()
    del tensors["0.exp_avg"]
    with pytest.raises(InputError, match="does not fit the network"):
        restore_optimizer(again, tensors, Path("checkpoint"))


@pytest.mark.parametrize("default", [torch.device("meta"), torch.float64])
def test_a_users_defaults_decide_nothing_of_a_network(tiny, default):
    recipe = tiny()
    images = splits(recipe).train
    expected = initial_network(recipe, images)
    before = torch.get_default_dtype()
    (torch.set_default_dtype if isinstance(default, torch.dtype) else torch.set_default_device)(default)
    try:
        found = initial_network(recipe, images)
    finally:
        torch.set_default_dtype(before)
        torch.set_default_device(None)
    for name, weight in found.state_dict().items():
        assert (weight.dtype, weight.device.type) == (torch.float32, "cpu")
        assert isinstance(default, torch.dtype) or weight.equal(expected.state_dict()[name])
