"""Device mistakes, found without an accelerator.

Tensors of the device `meta` have shapes and no numbers: a tensor that the code makes on the CPU by mistake, or a number
that it asks the device for (`.item()`), is an error there as it would be slow or wrong on a GPU.
"""

import pytest
import torch

from maxmincaps import NORMALIZATIONS, CapsNet, RoutedCapsules, capsule_loss, margin_loss, route, squash

DEVICE = torch.device("meta")


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_routing_makes_nothing_on_another_device_than_its_votes(name):
    assert route(torch.rand(2, 12, 5, 4, device=DEVICE), name).device == DEVICE


@pytest.mark.parametrize("full_backpropagation", [False, True])
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_a_training_step_stays_on_the_device(name, full_backpropagation):
    network = CapsNet(
        conv_channels=8, types=2, decoder=(16,), normalization=name, full_backpropagation=full_backpropagation
    ).to(DEVICE)
    images, labels = torch.rand(3, 1, 28, 28, device=DEVICE), torch.zeros(3, dtype=torch.long, device=DEVICE)
    optimizer = torch.optim.Adam(network.parameters())
    output = network(images, labels)
    loss = capsule_loss(output, images, labels)
    loss.backward()
    optimizer.step()
    assert {tensor.device for tensor in (*output, loss)} == {DEVICE}
    assert {parameter.grad.device for parameter in network.parameters()} == {DEVICE}


def test_the_network_classifies_without_labels_on_the_device():
    network = CapsNet(conv_channels=8, types=2, decoder=(16,)).to(DEVICE)
    with torch.inference_mode():
        assert network(torch.rand(3, 1, 28, 28, device=DEVICE)).reconstruction.device == DEVICE


@pytest.mark.parametrize("iterations", [1, 3])
def test_a_layer_of_ones_own_model_stays_on_the_device(iterations):
    layer = RoutedCapsules(12, 3, 4, 6, iterations=iterations).to(DEVICE)
    poses = squash(layer(torch.rand(2, 12, 4, device=DEVICE)))
    loss = margin_loss(poses.norm(dim=-1), torch.zeros(2, dtype=torch.long, device=DEVICE))
    assert loss.device == DEVICE


def test_a_number_that_is_asked_of_the_device_is_found():
    with pytest.raises(RuntimeError, match="meta"):
        route(torch.rand(2, 12, 5, 4, device=DEVICE), lambda logits: logits / logits.max().item())


def test_a_tensor_on_another_device_is_found():
    with pytest.raises(RuntimeError, match="device"):
        route(torch.rand(2, 12, 5, 4, device=DEVICE), lambda logits: logits * torch.ones(5))
