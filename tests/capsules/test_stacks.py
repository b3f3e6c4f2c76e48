"""Stacks of routed layers learn."""

import torch
from torch import nn

from maxmincaps import ConvCapsules, PrimaryCapsules, RoutedCapsules, margin_loss, parameter_groups
from tests.capsules.test_head import halves


class Unflatten(nn.Unflatten):
    def __init__(self, *sizes):
        super().__init__(1, sizes)


def accuracy_after(network, steps):
    optimizer = torch.optim.Adam(parameter_groups(network, lr=3e-3))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * group["rate"] * min(1.0, (step + 1) / 20)
        images, labels = halves(32, seed=step)
        loss = margin_loss(network(images).norm(dim=-1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images, labels = halves(200, seed=10_000)
    with torch.no_grad():
        return (network(images).norm(dim=-1).argmax(dim=1) == labels).float().mean().item()


def test_three_routed_layers_learn():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), PrimaryCapsules(16, types=4, kernel=3, stride=1),
        RoutedCapsules(4 * 3 * 3, 12, 8, 8), RoutedCapsules(12, 8, 8, 8), RoutedCapsules(8, 3, 8, 8),
    )  # fmt: skip
    assert accuracy_after(network, 80) > 0.9


def test_local_layers_below_a_routed_one_learn():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), PrimaryCapsules(16, types=4, kernel=1, stride=1), Unflatten(4, 5, 5),
        ConvCapsules(4, 4, 8, 8, kernel=3), ConvCapsules(4, 4, 8, 8, kernel=3, padding=1),
        nn.Flatten(1, 3), RoutedCapsules(4 * 3 * 3, 3, 8, 8),
    )  # fmt: skip
    assert accuracy_after(network, 80) > 0.9
