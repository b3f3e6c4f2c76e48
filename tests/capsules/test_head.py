"""The capsule head on backbones: shapes, image sizes, losses that learn."""

import pytest
import torch
from torch import nn

from maxmincaps import InputError, capsule_loss, margin_loss
from maxmincaps.capsules.decoder import Decoder
from maxmincaps.capsules.head import CapsuleHead
from maxmincaps.capsules.network import CapsNetOutput
from maxmincaps.capsules.normalizations import NORMALIZATIONS


def halves(images, seed):
    """Images of three classes: the bright part is the upper third, the middle, or the lower third."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (images,), generator=generator)
    pixels = torch.rand(images, 1, 12, 12, generator=generator) * 0.5
    for image, label in zip(pixels, labels.tolist(), strict=True):
        image[:, 4 * label : 4 * label + 4] += 0.5
    return pixels, labels


class Classifier(nn.Module):
    def __init__(self, **head):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = CapsuleHead(3, in_channels=16, types=4, **head)
        self.decoder = Decoder(3, 16, (1, 12, 12), (32,))

    def forward(self, images):
        return self.head(self.backbone(images))


def margin(network, images, labels):
    return margin_loss(network(images), labels)


def scaled_cross_entropy(network, images, labels):
    return nn.functional.cross_entropy(10 * network(images), labels)


def with_reconstruction(network, images, labels):
    poses = network.head.poses(network.backbone(images))
    return capsule_loss(CapsNetOutput(poses, poses.norm(dim=-1), network.decoder(poses, labels)), images, labels)


def accuracy_after_training(loss, steps=60, **head):
    torch.manual_seed(0)
    network = Classifier(**head)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(steps):
        images, labels = halves(32, seed=step)
        optimizer.zero_grad()
        loss(network, images, labels).backward()
        optimizer.step()
    images, labels = halves(200, seed=10_000)
    with torch.no_grad():
        return (network.eval()(images).argmax(dim=1) == labels).float().mean().item()


@pytest.mark.parametrize("loss", [margin, scaled_cross_entropy, with_reconstruction])
def test_a_backbone_with_a_capsule_head_learns_by_each_loss(loss):
    assert accuracy_after_training(loss) > 0.9


@pytest.mark.parametrize("name", [name for name in NORMALIZATIONS if name != "sum"])
def test_a_capsule_head_learns_with_every_normalization(name):
    assert accuracy_after_training(margin, normalization=name) > 0.9


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 7), (32, 24)])
def test_the_number_of_children_does_not_depend_on_the_size_of_the_maps(size):
    head = CapsuleHead(5, in_channels=6, types=2, grid=3)
    features = torch.rand(2, 6, *size)
    assert head.parts(features).shape == (2, 2 * 9, 8)
    assert head(features).shape == (2, 5)


def test_a_capsule_head_takes_the_place_of_a_linear_layer_on_vectors():
    head = CapsuleHead(7, in_features=20, class_pose=12)
    features = torch.rand(3, 20)
    assert head.poses(features).shape == (3, 7, 12)
    assert head.parts(features).shape == (3, 32, 8)
    torch.testing.assert_close(head(features), head.poses(features).norm(dim=-1))


def test_a_grid_of_one_is_global_average_pooling():
    torch.manual_seed(0)
    head = CapsuleHead(4, in_channels=6, grid=1)
    features = torch.rand(2, 6, 5, 9)
    pooled = features.mean(dim=(2, 3), keepdim=True)
    torch.testing.assert_close(head(features), head(pooled))


def test_a_kernel_of_three_lets_a_capsule_see_its_neighbours():
    head = CapsuleHead(4, in_channels=6, types=1, grid=4, kernel=3, relu=False)
    features = torch.rand(1, 6, 4, 4)
    changed = features.clone()
    changed[:, :, 0, 0] += 1
    moved = (head.parts(features) != head.parts(changed)).any(dim=-1).reshape(4, 4)
    assert moved.nonzero().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_lengths_lie_between_zero_and_one():
    lengths = CapsuleHead(10, in_channels=3)(100 * torch.randn(4, 3, 8, 8))
    assert (lengths >= 0).all()
    assert (lengths <= 1).all()


def test_the_head_can_be_exported_for_any_batch():
    head = CapsuleHead(5, in_channels=6, types=2).eval()
    features = torch.rand(3, 6, 8, 8)
    program = torch.export.export(
        head, (features,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False
    ).module()
    more = torch.rand(5, 6, 8, 8)
    torch.testing.assert_close(program(more), head(more))


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (torch.rand(2, 5, 4, 4), r"CapsuleHead: expected .*\(batch, 6, rows, columns\), found \(2, 5, 4, 4\)"),
        (torch.rand(2, 6), r"CapsuleHead: expected .*found \(2, 6\)"),
        (torch.zeros(2, 6, 4, 4, dtype=torch.uint8), "CapsuleHead: .*floating.*uint8"),
    ],
)
def test_wrong_features_are_refused_with_what_was_expected_and_found(features, words):
    with pytest.raises(InputError, match=words):
        CapsuleHead(10, in_channels=6)(features)


@pytest.mark.parametrize("settings", [{}, {"in_channels": 3, "in_features": 3}, {"in_channels": 3, "kernel": 2}])
def test_contradictory_settings_are_refused(settings):
    with pytest.raises(InputError, match="CapsuleHead"):
        CapsuleHead(10, **settings)
