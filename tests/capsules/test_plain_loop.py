"""Layers learn in a plain loop: one learning rate, no warm-up, no groups. `research/plain_loop.py` has full sizes."""

import pytest
import torch
from torch import nn

from maxmincaps import NORMALIZATIONS, CapsNet, PrimaryCapsules, RoutedCapsules, capsule_loss, load, margin_loss

NAMES = sorted(NORMALIZATIONS.keys() - {"sum"})  # which learns far more slowly, in `fit` too
OPTIMIZERS = {
    "adam-0.001": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "adam-0.003": lambda parameters: torch.optim.Adam(parameters, lr=3e-3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=2e-3),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}


@pytest.fixture(scope="module")
def digits():
    """Images and labels of the classes 0 to 3, 16 in a batch."""
    found = load("mnist-5k")
    chosen = (found.labels < 4).nonzero()[:640, 0]
    return list(zip(found.images[chosen].split(16), found.labels[chosen].split(16), strict=True))


def stack(**settings):
    """Two routed layers, of which the second has few children."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 9),
        nn.ReLU(),
        PrimaryCapsules(32, types=4),
        RoutedCapsules(4 * 36, 8, **settings),
        RoutedCapsules(8, 4, part_pose=16, **settings),
    )


def accuracy_after_training(network, optimizer, batches):
    """Train on all batches but the last eight, once, and classify those."""
    for pixels, labels in batches[:-8]:
        images = pixels / 255
        optimizer.zero_grad()
        if isinstance(network, CapsNet):
            capsule_loss(network(images, labels), images, labels).backward()
        else:
            margin_loss(network(images).norm(dim=-1), labels).backward()
        optimizer.step()
    with torch.no_grad():
        right = [
            (_lengths(network, pixels / 255).argmax(1) == labels).float().mean() for pixels, labels in batches[-8:]
        ]
    return torch.stack(right).mean().item()


def _lengths(network, images):
    return network(images).lengths if isinstance(network, CapsNet) else network(images).norm(dim=-1)


@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        *((optimizer, {}) for optimizer in OPTIMIZERS),
        ("adam-0.001", {"relu": False}),
        ("adam-0.003", {"relu": False}),
        ("adam-0.003", {"iterations": 1}),
        ("adam-0.003", {"iterations": 8}),
    ],
)
def test_the_network_learns_with_any_optimizer(optimizer, settings, digits):
    torch.manual_seed(0)
    network = CapsNet(classes=4, conv_channels=64, types=4, decoder=(16,), **settings)
    assert accuracy_after_training(network, OPTIMIZERS[optimizer](network.parameters()), digits) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_every_normalization_learns(name, digits):
    torch.manual_seed(0)
    network = CapsNet(classes=4, conv_channels=64, types=4, decoder=(16,), normalization=name)
    assert accuracy_after_training(network, OPTIMIZERS["adam-0.003"](network.parameters()), digits) > 0.7


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_stack_of_routed_layers_learns(optimizer, digits):
    torch.manual_seed(0)
    network = stack()
    assert accuracy_after_training(network, OPTIMIZERS[optimizer](network.parameters()), digits) > 0.7
