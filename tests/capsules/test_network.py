"""The network as a whole: shapes, counts, what it answers, what flows back."""

import inspect
import re

import pytest
import torch
from jaxtyping import TypeCheckError

from maxmincaps import NORMALIZATIONS, CapsNet, Recipe, RoutedCapsules, capsule_loss, margin_loss, routing_steps, squash
from maxmincaps.capsules.decoder import keep_only
from maxmincaps.capsules.layers import PrimaryCapsules
from maxmincaps.capsules.losses import capsule_losses, hits
from maxmincaps.errors import InputError
from maxmincaps.recipe import NetworkSettings
from maxmincaps.training.checkpoint import network_for

TINY = {"conv_channels": 8, "types": 2, "part_pose": 4, "class_pose": 6, "decoder": (16,)}


@pytest.fixture(scope="module")
def images():
    return torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def test_the_mnist_network_has_the_papers_shapes(images):
    network = CapsNet().eval()
    features = network.conv1(images)
    assert features.shape == (3, 256, 20, 20)
    assert network.primary.convolution(features).shape == (3, 256, 6, 6)
    assert network.parts(images).shape == (3, 1152, 8)
    assert network.digits.weights.shape == (1152, 10, 16, 8)
    output = network(images)
    assert output.poses.shape == (3, 10, 16)
    assert output.lengths.shape == (3, 10)
    assert output.reconstruction.shape == images.shape


def test_the_settings_of_a_recipe_are_those_of_the_network():
    """Names and defaults; a recipe has image shape and classes from its images."""
    arguments = inspect.signature(CapsNet).parameters
    ours = {name: argument.default for name, argument in arguments.items() if name not in ("image_shape", "classes")}
    assert ours == {name: field.default for name, field in NetworkSettings.model_fields.items()}
    assert network_for(Recipe(), (1, 28, 28), 10).config == CapsNet().config


def test_every_argument_is_documented():
    for public in (CapsNet, PrimaryCapsules, RoutedCapsules, routing_steps, capsule_losses, margin_loss):
        described = inspect.getdoc(public)
        for name in inspect.signature(public).parameters:
            assert re.search(rf"^    \*{{0,2}}{name}: \S", described, re.MULTILINE), (public, name)


def test_the_mnist_network_has_8215568_parameters():
    assert sum(parameter.numel() for parameter in CapsNet().parameters()) == 8_215_568


def test_the_cifar10_network_has_the_papers_shapes():
    network = CapsNet.cifar10().eval()
    crops = torch.rand(2, 3, 24, 24)
    assert network.conv1(crops).shape == (2, 256, 16, 16)
    assert network.grid == (64, 4, 4)
    assert network.parts(crops).shape == (2, 1024, 8)
    assert network(crops).reconstruction.shape == (2, 3, 24, 24)


def test_padding_same_gives_cifar10_9216_children():
    assert CapsNet.cifar10(padding="same", **TINY | {"types": 64}).digits.weights.shape[0] == 9216


def test_eight_neighbouring_channels_at_one_place_are_one_capsule():
    """Children are ordered by type, then row, then column."""
    layer = PrimaryCapsules(3, types=2, part_pose=4, kernel=3, stride=2, relu=False, squash=False)
    features = torch.randn(2, 3, 9, 7)
    maps, children = layer.convolution(features), layer(features)
    child = 0
    for capsule_type in range(2):
        for row in range(4):
            for column in range(3):
                expected = maps[:, 4 * capsule_type : 4 * capsule_type + 4, row, column]
                torch.testing.assert_close(children[:, child], expected)
                child += 1
    assert child == children.shape[1]


def test_relu_and_squash_of_the_parts_can_be_switched_off():
    features = torch.randn(2, 3, 9, 9)
    plain = PrimaryCapsules(3, 2, 4, kernel=3, relu=False, squash=False)
    parts = plain(features)
    plain.relu = True
    torch.testing.assert_close(plain(features), parts.relu())
    plain.squash = True
    torch.testing.assert_close(plain(features), squash(parts.relu()))
    plain.scale, plain.squash = 0.5, False
    torch.testing.assert_close(plain(features), parts.relu() / 2)


def test_lengths_are_those_of_the_poses(images):
    output = CapsNet(**TINY)(images)
    torch.testing.assert_close(output.lengths, output.poses.square().sum(-1).sqrt())
    assert output.lengths.lt(1).all()


def test_the_decoder_sees_the_labelled_class_or_else_the_longest(images):
    network = CapsNet(**TINY)
    output = network(images)
    torch.testing.assert_close(network(images, output.lengths.argmax(1)).reconstruction, output.reconstruction)
    other = (output.lengths.argmax(1) + 1) % 10
    assert not network(images, other).reconstruction.equal(output.reconstruction)


def test_only_the_kept_row_is_not_zero():
    poses = torch.arange(1.0, 13).reshape(2, 3, 2)
    kept = keep_only(poses, torch.tensor([1, 2]))
    assert kept.tolist() == [[0, 0, 3, 4, 0, 0], [0, 0, 0, 0, 11, 12]]


def test_every_routing_step_can_be_seen_and_the_last_is_what_the_network_says(images):
    network = CapsNet(iterations=4, **TINY)
    steps = list(network.digits.steps(network.parts(images)))
    assert len(steps) == 4
    assert steps[0].couplings.shape == (3, 72, 10)
    for seen, output in zip(network.output(steps[-1].poses), network(images), strict=True):
        assert seen.equal(output)


def test_the_shapes_in_signatures_are_checked_wherever_these_tests_call():
    """A pose too many is an error here, although the arithmetic would go through."""
    with pytest.raises(TypeCheckError):
        margin_loss(torch.rand(2, 10, 1), torch.tensor([1, 2]))


@pytest.mark.parametrize("kernels", [{"conv_kernel": 4}, {"primary_kernel": 8}])
def test_padding_that_keeps_the_size_takes_odd_kernels(kernels):
    with pytest.raises(InputError, match="odd kernels"):
        CapsNet(padding="same", **kernels, **TINY)


def test_every_size_is_a_setting():
    network = CapsNet(image_shape=(3, 40, 30), classes=4, iterations=2, normalization="softmax", conv_kernel=5, **TINY)
    output = network(torch.rand(2, 3, 40, 30))
    assert output.poses.shape == (2, 4, 6)
    assert output.reconstruction.shape == (2, 3, 40, 30)


@pytest.mark.parametrize("full", [False, True])
def test_the_whole_network_can_be_differentiated(full):
    """Against finite differences, where they are the same thing: with one iteration nothing is stopped."""
    torch.manual_seed(0)
    network = CapsNet(image_shape=(1, 12, 12), classes=3, iterations=1, conv_kernel=3, primary_kernel=3,
                      full_backpropagation=full, **TINY).double()  # fmt: skip
    pixels = torch.rand(2, 1, 12, 12, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 2])
    assert torch.autograd.gradcheck(lambda x: capsule_loss(network(x, labels), x, labels), pixels, atol=1e-6)


def test_the_margin_loss_by_hand():
    lengths = torch.tensor([[0.8, 0.3], [0.95, 0.05]])
    # First image, class 1: (0.9 − 0.3)² + 0.5 (0.8 − 0.1)² = 0.36 + 0.245. Second, class 0: nothing to improve.
    assert margin_loss(lengths, torch.tensor([1, 0])).item() == pytest.approx((0.36 + 0.245) / 2)


def test_the_margins_and_the_weight_of_absent_classes_by_hand():
    lengths, labels = torch.tensor([[0.8, 0.3], [0.95, 0.05]]), torch.tensor([1, 0])
    # First image, class 1: (0.8 − 0.3)² + 1 (0.8 − 0.2)² = 0.25 + 0.36. Second, class 0: nothing to improve.
    found = margin_loss(lengths, labels, high=0.8, low=0.2, down_weight=1.0)
    assert found.item() == pytest.approx((0.25 + 0.36) / 2)


def test_the_margin_loss_of_several_labels_asks_for_all_of_them_by_hand():
    lengths, labels = torch.tensor([[0.8, 0.3, 0.5]]), torch.tensor([[1, 0]])
    # Classes 0 and 1 are present: (0.9 − 0.8)² + (0.9 − 0.3)²; class 2 is not: 0.5 (0.5 − 0.1)².
    assert margin_loss(lengths, labels).item() == pytest.approx(0.01 + 0.36 + 0.08)


def test_several_labels_are_reconstructed_one_by_one(images):
    network, labels = CapsNet(**TINY), torch.tensor([[1, 2], [3, 0], [0, 4]])
    together = network(images, labels).reconstruction
    for number in range(2):
        torch.testing.assert_close(together[:, number], network(images, labels[:, number]).reconstruction)
    targets = torch.rand(*together.shape)
    output = network(images, labels)
    expected = margin_loss(output.lengths, labels) + 0.0005 * (together - targets).square().sum() / 3
    torch.testing.assert_close(capsule_loss(output, targets, labels), expected)


def test_an_image_of_two_classes_is_right_if_its_two_longest_capsules_are_these():
    lengths = torch.tensor([[0.1, 0.9, 0.8, 0.2]] * 4)
    labels = torch.tensor([[1, 2], [2, 1], [1, 3], [0, 3]])
    assert hits(lengths, labels).tolist() == [True, True, False, False]
    assert hits(lengths, labels[:, 0]).tolist() == [True, False, True, False]


def test_the_capsule_loss_adds_the_weighted_squared_pixel_errors(images):
    network, labels = CapsNet(**TINY), torch.tensor([1, 2, 3])
    output = network(images, labels)
    squares = (output.reconstruction - images).square().sum() / 3
    expected = margin_loss(output.lengths, labels, high=0.8, low=0.2) + 0.01 * squares
    actual = capsule_loss(output, images, labels, margin_high=0.8, margin_low=0.2, reconstruction_weight=0.01)
    torch.testing.assert_close(actual, expected)


def test_a_black_image_gives_finite_answers_and_gradients():
    network = CapsNet(**TINY)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    black, labels = torch.zeros(2, 1, 28, 28), torch.tensor([0, 1])
    capsule_loss(network(black, labels), black, labels).backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_autocast_works_with_all_of_it(images):
    network = CapsNet(**TINY)
    plain = network(images)
    with torch.autocast("cpu", torch.bfloat16):
        output = network(images, torch.tensor([1, 2, 3]))
        loss = capsule_loss(output, images, torch.tensor([1, 2, 3]))
    loss.backward()
    torch.testing.assert_close(output.lengths.float(), plain.lengths, rtol=0.1, atol=0.05)
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize("settings", [{"iterations": 1}, {"iterations": 3}, {"full_backpropagation": True}])
def test_routing_keeps_the_weights_precision_under_autocast(images, settings):
    network = CapsNet(**{**TINY, **settings})
    with torch.autocast("cpu", torch.bfloat16):
        parts = network.parts(images)
        steps = list(network.digits.steps(parts))
    assert parts.dtype == torch.bfloat16
    assert {step.poses.dtype for step in steps} == {torch.float32}
    again = network.digits(parts.float())
    torch.testing.assert_close(steps[-1].poses, again, rtol=1e-5, atol=1e-6)


def test_wrong_images_are_refused_with_what_was_expected_and_found(images):
    with pytest.raises(InputError, match=r"CapsNet: expected .*\(batch, 1, 28, 28\), found \(3, 3, 28, 28\)"):
        CapsNet(**TINY)(images.expand(-1, 3, -1, -1))


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_a_network_of_one_class_gives_finite_lengths(images, name):
    assert CapsNet(classes=1, normalization=name, **TINY)(images).lengths.isfinite().all()
