"""Stems: sizes of feature maps, and kernels that fit small images."""

import pytest
import torch
from torch import nn

from maxmincaps import CapsNet, InputError
from maxmincaps.capsules.stem import deep_stem, feature_shape, fitted_kernels


@pytest.mark.parametrize(
    ("side", "features"), [(8, 4), (16, 8), (24, 12), (28, 14), (32, 16), (64, 16), (100, 13), (224, 14)]
)
def test_a_deep_stem_ends_with_at_most_sixteen_places_a_side(side, features):
    stem = deep_stem(3, 64, (side, side))
    assert feature_shape(stem, (3, side, side)) == (64, features, features)


def test_asking_for_the_shape_leaves_the_stem_as_it_was():
    stem = deep_stem(1, 16, (28, 28))
    before = {name: tensor.clone() for name, tensor in stem.state_dict().items()}
    feature_shape(stem, (1, 28, 28))
    assert stem.training
    assert all(tensor.equal(before[name]) for name, tensor in stem.state_dict().items())


def test_the_shape_of_a_stem_without_memory_is_known():
    with torch.device("meta"):
        assert feature_shape(deep_stem(3, 32, (64, 64)), (3, 64, 64)) == (32, 16, 16)


def test_a_stem_that_returns_no_feature_maps_is_refused():
    with pytest.raises(InputError, match=r"feature maps .*found \(1, 784\)"):
        feature_shape(nn.Flatten(), (1, 28, 28))


def test_a_stem_for_other_channels_is_refused():
    with pytest.raises(InputError, match=r"does not accept images of \(3, 28, 28\)"):
        feature_shape(deep_stem(1, 16, (28, 28)), (3, 28, 28))


def places(side, conv_kernel, primary_kernel):
    return (side - conv_kernel + 1 - primary_kernel) // 2 + 1


@pytest.mark.parametrize(
    ("side", "kernels"), [(28, (9, 9)), (17, (9, 9)), (16, (7, 7)), (12, (5, 5)), (8, (3, 3)), (4, (1, 1)), (1, (1, 1))]
)
def test_kernels_shrink_only_where_they_do_not_fit(side, kernels):
    assert fitted_kernels(lambda conv, primary: places(side, conv, primary), 9, 9) == kernels


def test_a_kernel_that_is_small_already_stays():
    assert fitted_kernels(lambda conv, primary: places(10, conv, primary), 3, 9) == (3, 5)


SMALL = {"types": 2, "decoder": (16,), "conv_channels": 16}


@pytest.mark.parametrize("side", [1, 5, 8, 12, 16])
def test_a_network_for_small_images_reduces_its_kernels_by_itself(side):
    network = CapsNet(image_shape=(1, side, side), **SMALL)
    assert network.kernels < (9, 9)
    assert network(torch.rand(2, 1, side, side)).lengths.shape == (2, 10)


def test_kernels_that_fit_stay_the_papers():
    assert CapsNet(image_shape=(1, 17, 17), **SMALL).kernels == (9, 9)


def test_large_images_with_a_deep_stem_have_few_children_and_parameters():
    with torch.device("meta"):
        network = CapsNet(image_shape=(3, 224, 224), stem="deep")
        assert network(torch.rand(2, 3, 224, 224)).reconstruction.shape == (2, 3, 224, 224)
    assert torch.Size(network.grid).numel() == 64 * 3 * 3
    assert sum(parameter.numel() for parameter in network.parameters()) < 30_000_000


def test_any_module_that_returns_feature_maps_is_a_stem():
    stem = nn.Sequential(nn.Conv2d(3, 6, 5, stride=2), nn.ReLU())
    network = CapsNet(image_shape=(3, 40, 30), stem=stem, **SMALL)
    assert network(torch.rand(2, 3, 40, 30)).reconstruction.shape == (2, 3, 40, 30)
    assert network.cannot_be_saved


def test_the_default_stem_leaves_the_state_dict_as_it_was():
    names = set(CapsNet(**SMALL).state_dict())
    assert {"conv1.weight", "conv1.bias", "primary.convolution.weight", "digits.weights"} <= names
    assert not any(name.startswith("stem") for name in names)


def test_an_unknown_stem_or_head_is_refused():
    with pytest.raises(InputError, match="did you mean deep"):
        CapsNet(stem="depp")
    with pytest.raises(InputError, match="did you mean linear"):
        CapsNet(head="liner")


def test_a_linear_head_is_a_linear_classifier_of_the_parts():
    torch.manual_seed(0)
    network = CapsNet(head="linear", **SMALL)
    images = torch.rand(3, 1, 28, 28)
    parts, output = network.parts(images), network(images)
    weights = network.digits.effective_weights.squeeze(2)
    logits = torch.einsum("bip,ijp->bj", parts, weights) + network.digits.bias.squeeze(1)
    torch.testing.assert_close(output.lengths, logits.sigmoid())
    assert output.poses.shape == (3, 10, 1)
    [step] = network.digits.steps(parts)
    assert step.couplings.eq(1).all()
