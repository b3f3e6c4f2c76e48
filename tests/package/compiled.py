"""Layers and networks under `torch.compile`; test_layers.py runs this file, where nothing checks shapes."""

import pytest
import torch

from maxmincaps import CapsNet, capsule_loss
from tests.package.test_layers import stacked


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"full_backpropagation": True},
        {"normalization": "winner-take-all"},
        {"normalization": "softmax", "iterations": 1},
    ],
)
def test_layers_compile_into_one_graph_with_the_same_answers_and_gradients(settings):
    torch.manual_seed(0)
    images = torch.rand(3, 3, 12, 9)
    ours, compiled = stacked(**settings), stacked(**settings)
    compiled.load_state_dict(ours.state_dict())
    answers = [network(images) for network in (ours, torch.compile(compiled, fullgraph=True, backend="aot_eager"))]
    torch.testing.assert_close(*answers)
    for answer in answers:
        answer.square().sum().backward()
    for one, other in zip(ours.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("normalization", ["max-min", "softmax"])
def test_a_training_step_compiles_without_graph_breaks_and_has_the_same_gradients(normalization):
    torch.manual_seed(0)
    small = {"conv_channels": 4, "types": 2, "part_pose": 4, "class_pose": 4, "decoder": (8,)}
    ours, compiled = (CapsNet(**small, normalization=normalization) for _ in range(2))
    compiled.load_state_dict(ours.state_dict())
    images, labels = torch.rand(3, 1, 28, 28), torch.arange(3)

    def loss(network):
        return capsule_loss(network(images, labels), images, labels)

    loss(ours).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(compiled).backward()
    for one, other in zip(ours.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_compiled_routing_keeps_the_precision_of_its_weights_under_autocast():
    torch.manual_seed(0)
    network = stacked().eval()
    compiled = torch.compile(network, fullgraph=True, backend="eager")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        answer = compiled(images := torch.rand(3, 3, 12, 9))
        assert answer.dtype == torch.float32
        torch.testing.assert_close(answer, network(images))


def test_the_whole_network_compiles_for_any_number_of_images():
    network = CapsNet(conv_channels=4, types=2, part_pose=4, class_pose=4, decoder=(8,)).eval()
    compiled = torch.compile(network, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        for count in (2, 5):
            images = torch.rand(count, 1, 28, 28)
            torch.testing.assert_close(compiled(images).lengths, network(images).lengths)


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated, and warns of constant shapes
def test_a_traced_network_gives_any_number_of_images_their_answers():
    network = CapsNet(conv_channels=4, types=2, part_pose=4, class_pose=4, decoder=(8,)).eval()
    with torch.no_grad():
        traced = torch.jit.trace(network, torch.rand(4, 1, 28, 28))
        for count in (1, 9):
            images = torch.rand(count, 1, 28, 28)
            torch.testing.assert_close(traced(images)[1], network(images).lengths)
