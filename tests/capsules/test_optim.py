"""Parameter groups with layer-wise rates, for any module."""

import pytest
import torch
from torch import nn

from maxmincaps import CapsNet, InputError, PrimaryCapsules, RoutedCapsules, fold_multipliers, parameter_groups


def rates(model, **settings):
    """Return each parameter's rate by its name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, lr=0.5, **settings)
    assert all(group["lr"] == 0.5 * group["rate"] for group in groups)
    return {names[id(parameter)]: group["rate"] for group in groups for parameter in group["params"]}


def stacked():
    return nn.Sequential(
        nn.Conv2d(1, 64, 9), PrimaryCapsules(64, 8), RoutedCapsules(288, 16), RoutedCapsules(16, 10, 16)
    )


def test_a_model_without_capsule_layers_has_one_ordinary_group():
    (group,) = parameter_groups(nn.Sequential(nn.Linear(2, 3), nn.Conv2d(1, 2, 9)), lr=0.1)
    assert (group["lr"], len(group["params"])) == (0.1, 4)


def test_parameters_of_other_modules_are_never_scaled():
    found = rates(stacked())
    assert {name: rate for name, rate in found.items() if name.startswith("0.")} == {"0.weight": 1, "0.bias": 1}
    assert all(rate != 1 for name, rate in found.items() if name.endswith("weights"))


def test_every_parameter_is_in_one_group():
    network = CapsNet(conv_channels=8, types=2, routing_bias=True)
    grouped = [parameter for group in parameter_groups(network, lr=1) for parameter in group["params"]]
    assert len(grouped) == len({id(parameter) for parameter in grouped}) == len(list(network.parameters()))


def test_multipliers_and_rates_give_the_same_steps_as_rates_alone():
    torch.manual_seed(0)
    network, folded = stacked(), stacked()
    folded.load_state_dict(network.state_dict())
    fold_multipliers(folded)
    images = torch.rand(4, 1, 28, 28)
    for each in (network, folded):
        optimizer = torch.optim.Adam(parameter_groups(each, lr=1e-3), eps=1e-20)
        for _ in range(3):
            optimizer.zero_grad()
            each(images).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(network[2].effective_weights, folded[2].weights, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(network[1].convolution.effective_weights, folded[1].convolution.weight)


def test_parts_are_scaled_and_frozen_by_name():
    plain, changed = rates(stacked()), rates(stacked(), scale={"0": 0.1, "3.weights": 2}, freeze=["1"])
    assert changed["0.bias"] == pytest.approx(0.1)
    assert changed["3.weights"] == 2 * plain["3.weights"]
    assert changed["2.weights"] == plain["2.weights"]
    assert not any(name.startswith("1.") for name in changed)


@pytest.mark.parametrize("settings", [{"scale": {"stem": 2}}, {"freeze": ["1.convolution.weigh"]}])
def test_a_name_that_no_parameter_has_is_refused(settings):
    with pytest.raises(InputError, match="no parameter in"):
        parameter_groups(stacked(), lr=1, **settings)


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="did you mean slow"):
        parameter_groups(stacked(), lr=1, layer_rates="slw")
