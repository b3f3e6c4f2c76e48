"""The capsule layers in other people's modules."""

import copy
import pickle
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import jaxtyping
import pytest
import torch
from torch import nn

from maxmincaps import CapsNet, InputError, PrimaryCapsules, RoutedCapsules, capsule_loss, margin_loss, route


def stacked(**settings):
    """A network that is not ours: three layers of capsules, of other sizes, on oblong images in colour."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        PrimaryCapsules(6, types=3, part_pose=5, kernel=3, stride=3, padding=1),
        RoutedCapsules(3 * 4 * 3, 7, part_pose=5, pose=6, **settings),
        RoutedCapsules(7, 2, part_pose=6, pose=4, bias=True, **settings),
    )


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def images():
    return torch.rand(3, 3, 12, 9)


@pytest.mark.parametrize(
    "settings", [{}, {"full_backpropagation": True}, {"normalization": "softmax", "iterations": 1}]
)
def test_stacked_layers_learn(settings, images):
    network = stacked(**settings)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        lengths = network(images).norm(dim=-1)
        loss = ((lengths - torch.tensor([0.9, 0.1])) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in network.parameters())
    assert losses[-1] < losses[0] / 2


def test_a_normalization_of_ones_own_is_one_line(images):
    network = stacked(normalization=lambda logits: logits.sigmoid())
    assert network(images).isfinite().all()
    assert not torch.equal(network(images), _with_weights_of(network, stacked())(images))


def _with_weights_of(source, target):
    target.load_state_dict(source.state_dict())
    return target


@pytest.mark.parametrize("carried", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
@pytest.mark.parametrize("normalization", ["max-min", "softmax", "leaky-softmax"])
def test_a_copied_or_pickled_layer_gives_the_same_answers(carried, normalization, images):
    network = stacked(normalization=normalization)
    assert torch.equal(carried(network)(images), network(images))


def test_a_state_dict_carries_all_that_was_learned(images):
    network = stacked()
    assert torch.equal(_with_weights_of(network, stacked())(images), network(images))
    assert {name.rpartition(".")[2] for name in network.state_dict()} <= {"weight", "weights", "bias", "multiplier"}


def test_layers_are_built_without_memory_and_filled_later(images):
    network = stacked()
    with torch.device("meta"):
        empty = stacked()
    assert all(parameter.is_meta for parameter in empty.parameters())
    filled = empty.to_empty(device="cpu")
    assert torch.equal(_with_weights_of(network, filled)(images), network(images))


@pytest.mark.parametrize("full", [False, True])
def test_a_network_without_memory_gives_the_shapes_of_its_answers_and_gradients(full):
    settings = {"conv_channels": 4, "types": 2, "part_pose": 4, "class_pose": 4, "decoder": (8,)}
    with torch.device("meta"):
        network = CapsNet(**settings, full_backpropagation=full)
        output = network(torch.rand(3, 1, 28, 28), torch.zeros(3, dtype=torch.long))
    assert (output.poses.shape, output.lengths.shape) == ((3, 10, 4), (3, 10))
    assert output.reconstruction.shape == (3, 1, 28, 28)
    output.lengths.sum().backward()
    assert network.digits.weights.grad.is_meta


def test_layers_work_in_double_and_under_autocast(images):
    network = stacked()
    exact = copy.deepcopy(network).double()(images.double())
    assert exact.dtype == torch.float64
    torch.testing.assert_close(network(images).double(), exact, atol=1e-4, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        rough = network(images)
    rough.sum().backward()
    assert (rough.double() - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize("settings", [{}, {"normalization": "softmax", "full_backpropagation": True}])
def test_gradients_of_single_images_come_from_vmap(settings):
    network = CapsNet(conv_channels=64, types=2, decoder=(8,), convolution="spectral", **settings)
    images, labels = torch.rand(3, 1, 28, 28), torch.tensor([3, 1, 4])
    parameters = dict(network.named_parameters())

    def loss(parameters, image, label):
        output = torch.func.functional_call(network, parameters, (image[None], label[None]))
        return capsule_loss(output, image[None], label[None])

    with no_shape_checks():
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    for index in range(3):
        gradients = torch.autograd.grad(loss(parameters, images[index], labels[index]), list(parameters.values()))
        for name, gradient in zip(parameters, gradients, strict=True):
            torch.testing.assert_close(each[name][index], gradient, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PrimaryCapsules(6, kernel=3)(torch.rand(2, 5, 9, 9)), r"PrimaryCapsules: .*6, .*found \(2, 5, 9, 9\)"),
        (lambda: PrimaryCapsules(6, kernel=3)(torch.ones(2, 6, 9, 9, dtype=torch.uint8)), r"PrimaryCapsules: .*uint8"),
        (lambda: RoutedCapsules(7, 2)(torch.rand(3, 8, 8)), r"RoutedCapsules: .*\(batch, 7, 8\), found \(3, 8, 8\)"),
        (lambda: CapsNet(conv_channels=4, types=2)(torch.ones(2, 1, 28, 28, dtype=torch.uint8)), r"CapsNet: .*uint8"),
        (lambda: margin_loss(torch.rand(2, 10), torch.tensor([1.0, 2.0])), r"labels: expected integers.*float32"),
        (lambda: margin_loss(torch.rand(2, 10), torch.tensor([1, 10])), "labels: expected 0 to 9, found 10"),
        (lambda: route(torch.rand(7, 2, 3)), r"votes: .*\(batch, child, parent, pose\), found .*\(7, 2, 3\)"),
        (lambda: route(torch.ones(1, 7, 2, 3, dtype=torch.long)), "votes: .*floating-point.*int64"),
        (lambda: RoutedCapsules(1, 2_000_000), r"RoutedCapsules: .*1,000,000 parents, found 2,000,000"),
    ],
)
def test_wrong_input_names_the_layer_what_it_expected_and_what_it_found(call, words):
    with no_shape_checks(), pytest.raises(InputError, match=words):
        call()


@contextmanager
def no_shape_checks():
    """Without the checks that only tests have, which would be first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_a_layer_shows_its_normalization():
    assert "normalization=softmax" in repr(RoutedCapsules(7, 2, normalization="softmax"))
    assert "normalization=max-min" in repr(CapsNet(conv_channels=4, types=2, high=0.5))
    assert "normalization=sigmoid" in repr(RoutedCapsules(7, 2, normalization=torch.sigmoid))


def test_layers_and_networks_compile():
    """In a process of its own: what checks shapes at every call in these tests cannot be compiled."""
    words = [
        "-m",
        "pytest",
        "-q",
        "-o",
        "addopts=--import-mode=importlib",
        str(Path(__file__).with_name("compiled.py")),
    ]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
