"""The recipe `as-coded` beside a direct transcription of Sabour's code."""

import pytest
import torch

from maxmincaps import Recipe
from maxmincaps.data.images import ImageSet
from maxmincaps.training.prepare import initial_network, losses_for, optimizer_for
from tests.reference import as_coded

TYPES = 4


@pytest.fixture(scope="module")
def stepped():
    """One step of the recipe in double precision: weights before, losses, output, and the network afterwards."""
    sizes = {"conv_channels": 6, "types": TYPES, "decoder": (12, 20), "primary_scale": 1 / TYPES}
    recipe = Recipe.from_file("as-coded").with_changes(**sizes)
    pixels = torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([3, 1, 4, 1, 5])
    train = ImageSet(pixels, labels, tuple("0123456789"), "noise")
    network = initial_network(recipe, train).double()
    images = pixels.double() / 255
    before = {name: weight.clone().requires_grad_() for name, weight in network.state_dict().items()}
    optimizer = optimizer_for(recipe, network)
    output = network(images, labels)
    losses = losses_for(recipe, output, images, labels)
    losses.total.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}
    optimizer.step()
    return before, images, labels, output, losses, gradients, network


def test_poses_are_those_of_the_code(stepped):
    before, images, _, output, *_ = stepped
    torch.testing.assert_close(output.poses, as_coded.inference(before, images, TYPES))


def test_the_loss_is_twenty_times_that_of_the_code(stepped):
    """Its margin costs have a factor of a half and are means over ten classes: Adam does not see the difference."""
    before, images, labels, _, losses, *_ = stepped
    torch.testing.assert_close(losses.total, 20 * as_coded.loss(before, images, labels, TYPES))


def test_gradients_and_the_first_step_are_those_of_the_code(stepped):
    before, images, labels, *_, gradients, network = stepped
    as_coded.loss(before, images, labels, TYPES).backward()
    for name, parameter in network.named_parameters():
        theirs = before[name]
        torch.testing.assert_close(gradients[name], 20 * theirs.grad, msg=lambda text, name=name: f"{name}: {text}")
        moved, step = parameter.detach() - theirs.detach(), as_coded.first_adam_step(theirs.grad)
        large = theirs.grad.abs() > 1e-4  # below, the epsilons of the two Adams matter
        torch.testing.assert_close(moved[large], step[large], rtol=0.01, atol=0)


def test_initial_values_are_truncated_normal_with_biases_of_a_tenth(stepped):
    before = stepped[0]
    for name, weight in before.items():
        if name.endswith("bias"):
            assert weight.eq(0.1).all() or weight.sub(0.1).abs().max() < 1e-8  # 0.1 in single precision
        else:
            sigma = 0.05 if name.startswith("conv1") else 0.1
            assert weight.abs().max() <= 2 * sigma + 1e-8
            assert weight.std().item() == pytest.approx(0.88 * sigma, rel=0.1)
