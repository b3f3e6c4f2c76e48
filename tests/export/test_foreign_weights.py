"""Weights of other implementations: the same outputs for the same images."""

import pytest
import torch
from torch import nn

from maxmincaps import InputError, network_from_weights

CHANNELS, TYPES, PART, CLASSES, POSE, ROWS = 6, 3, 4, 5, 7, 3
CHILDREN = TYPES * ROWS * ROWS
SIZES = {"image_shape": (1, 12, 12), "classes": CLASSES}


class Textbook(nn.Module):
    """A typical public CapsNet: votes in memory, softmax over the parents, three iterations."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.conv1 = nn.Conv2d(1, CHANNELS, 5)
        count, each = {"types": (1, TYPES * PART), "flat": (1, TYPES * PART), "places": (1, TYPES * PART)}.get(
            kind, (TYPES, PART) if kind == "32 convolutions" else (PART, TYPES)
        )
        self.capsules = nn.ModuleList([nn.Conv2d(CHANNELS, each, 3, stride=2) for _ in range(count)])
        self.W = nn.Parameter(0.3 * torch.randn(1, CHILDREN, CLASSES, POSE, PART))
        self.decoder = nn.Sequential(
            nn.Linear(CLASSES * POSE, 9), nn.ReLU(), nn.Linear(9, 11), nn.ReLU(), nn.Linear(11, 144), nn.Sigmoid()
        )

    def children_of(self, images):
        maps = [convolution(self.conv1(images).relu()) for convolution in self.capsules]
        if self.kind == "8 convolutions":
            return torch.stack([each.flatten(1) for each in maps], dim=-1)
        if self.kind == "flat":
            return maps[0].reshape(len(images), -1, PART)
        if self.kind == "places":
            return maps[0].permute(0, 2, 3, 1).reshape(len(images), -1, PART)
        by_type = torch.cat(maps, dim=1).view(len(images), TYPES, PART, ROWS, ROWS)
        return by_type.permute(0, 1, 3, 4, 2).reshape(len(images), -1, PART)

    @staticmethod
    def squash(vectors):
        squared = vectors.square().sum(-1, keepdim=True)
        return squared / (1 + squared) * vectors / (squared.sqrt() + 1e-12)

    def forward(self, images):
        parts = self.squash(self.children_of(images))
        votes = (self.W @ parts[:, :, None, :, None]).squeeze(-1)
        logits = torch.zeros(votes.shape[:3])
        for _ in range(3):
            poses = self.squash((logits.softmax(-1).unsqueeze(-1) * votes).sum(1))
            logits = logits + (votes * poses.unsqueeze(1)).sum(-1)
        lengths = poses.norm(dim=-1)
        kept = poses * nn.functional.one_hot(lengths.argmax(1), CLASSES).unsqueeze(-1)
        return poses, lengths, self.decoder(kept.flatten(1)).view(-1, 1, 12, 12)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@torch.no_grad()
def agree(theirs, ours):
    images = torch.rand(4, 1, 12, 12)
    return all(torch.allclose(one, other, atol=1e-5) for one, other in zip(theirs(images), ours(images), strict=True))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("types", {}),
        ("32 convolutions", {}),
        ("8 convolutions", {}),
        ("flat", {"primary": "flat"}),
        ("places", {"axes": "1 (row column type) parent pose part"}),
    ],
)
def test_every_layout_of_capsules_gives_its_own_answers(kind, settings):
    theirs = Textbook(kind)
    assert agree(theirs, network_from_weights(theirs.state_dict(), **SIZES, **settings))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (1, 0, 3, 2), (0, 2, 1, 3), (3, 1, 0, 2)])
def test_the_axes_of_w_are_found_by_their_lengths(order):
    theirs = Textbook("types")
    state = {**theirs.state_dict(), "W": theirs.W[0].permute(order)}
    assert agree(theirs, network_from_weights(state, **SIZES))


def test_a_wrong_layout_gives_other_answers():
    theirs = Textbook("flat")
    assert not agree(theirs, network_from_weights(theirs.state_dict(), **SIZES, primary="types"))


def test_an_ambiguous_w_must_be_named_and_a_wrong_name_is_reported():
    theirs = Textbook("types")
    state = {**theirs.state_dict(), "W": torch.rand(CHILDREN, CLASSES, CLASSES, PART)}
    with pytest.raises(InputError, match="name its axes"):
        network_from_weights(state, **SIZES)
    with pytest.raises(InputError, match="do not fit a W of"):
        network_from_weights(state, **SIZES, axes="child parent pose")
    with pytest.raises(InputError, match="do not fit together"):
        network_from_weights(state, **SIZES, axes="child parent pose part")


def test_a_state_without_capsules_is_refused():
    with pytest.raises(InputError, match="expected two convolutions or more"):
        network_from_weights(nn.Linear(2, 2).state_dict())


@pytest.mark.parametrize("name", ["capsules.norm.running_mean", "head.weight", "digits.bias"])
def test_weights_that_have_no_place_in_a_capsnet_are_named_and_not_dropped(name):
    state = {**Textbook("types").state_dict(), name: torch.zeros(CLASSES, POSE)}
    with pytest.raises(InputError, match=f"has no place for the weights '{name}'"):
        network_from_weights(state, **SIZES)


def test_a_bias_of_the_classes_is_taken_where_routing_has_one():
    bias = torch.rand(CLASSES, POSE)
    state = {**Textbook("types").state_dict(), "digits.b": bias[None]}
    assert network_from_weights(state, **SIZES, routing_bias=True).digits.bias.equal(bias)


def test_convolutions_of_unequal_shapes_are_no_capsules():
    state = Textbook("32 convolutions").state_dict()
    state["capsules.1.weight"] = torch.zeros(PART, CHANNELS, 5, 5)
    with pytest.raises(InputError, match="expected convolutions of one shape in PrimaryCaps"):
        network_from_weights(state, **SIZES)


def test_capsules_of_neighbouring_places_are_not_saved_as_if_they_were_ours(tmp_path):
    network = network_from_weights(Textbook("flat").state_dict(), **SIZES, primary="flat")
    with pytest.raises(InputError, match="neighbouring places"):
        network.save_pretrained(tmp_path / "flat")
