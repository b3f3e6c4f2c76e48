"""What a training is expected to need, measured on a few images before it starts."""

import time
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from maxmincaps.capsules.losses import capsule_loss
from maxmincaps.capsules.network import CapsNet
from maxmincaps.recipe import Recipe
from maxmincaps.wording import duration

MOST_CHILDREN = 10_000
"""More children than in any network of the paper (9,216, for CIFAR10 with padding)."""

SAMPLE = 8
COPIES = 5
"""Weights, gradients, two moments of Adam, and the moving average."""


@dataclass(frozen=True)
class TrainingPlan:
    """Size of a network and what training it is expected to need.

    Attributes:
        children: Lower-level capsules that are routed.
        parameters: Numbers that are learnt.
        memory_bytes: Weights with their optimizer state, and what one batch keeps for backward.
        seconds: Forward and backward passes over all epochs; evaluation comes on top.
        warnings: What was changed to fit the images, and sizes that are far too large.
    """

    children: int
    parameters: int
    memory_bytes: int
    seconds: float
    warnings: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line of text."""
        megabytes = max(1, round(self.memory_bytes / 1e6))
        memory = f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes} MB"
        return (
            f"{self.children:,} children, {self.parameters:,} parameters, "
            f"about {memory} of memory and {duration(max(1.0, self.seconds))} of training"
        )


def plan_training(network: CapsNet, recipe: Recipe, images: int) -> TrainingPlan:
    """Run a copy of the network forward and backward on a few random images and extrapolate to the whole training.

    Args:
        network: The network, which is left as it is.
        recipe: Batch size, epochs and processes.
        images: Training images of an epoch.
    """
    copy = deepcopy(network).train()
    sample = min(SAMPLE, recipe.batch_size)
    _, kept_bytes = _measure(copy, sample)  # the first pass takes memory and chooses kernels
    seconds, _ = _measure(copy, sample)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    share = -(-recipe.batch_size // recipe.processes)
    return TrainingPlan(
        children=torch.Size(network.grid).numel(),
        parameters=parameters,
        memory_bytes=4 * COPIES * parameters + kept_bytes * share // sample,
        seconds=seconds / sample * images * recipe.epochs / recipe.processes,
        warnings=tuple(_warnings(network, recipe)),
    )


def _measure(network: CapsNet, sample: int) -> tuple[float, int]:
    """Return the seconds of a forward and backward pass and the bytes that it keeps for backward."""
    device = next(network.parameters()).device
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(sample, *network.image_shape, generator=generator).to(device)
    labels = torch.zeros(sample, dtype=torch.long, device=device)
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    begin = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = capsule_loss(network(images, labels), images, labels)
    loss.backward()
    loss.item()  # waits for an accelerator
    return time.perf_counter() - begin, sum(kept.values())


def _warnings(network: CapsNet, recipe: Recipe) -> list[str]:
    _, height, width = network.image_shape
    found = []
    wanted = (recipe.conv_kernel, recipe.primary_kernel)
    if network.kernels != wanted:
        (conv, primary), (wanted_conv, wanted_primary) = network.kernels, wanted
        found.append(
            f"images of {height}×{width} are too small for kernels of {wanted_conv}×{wanted_conv} and "
            f"{wanted_primary}×{wanted_primary}; using {conv}×{conv} and {primary}×{primary} "
            "(--conv-kernel, --primary-kernel)"
        )
    children = torch.Size(network.grid).numel()
    if children > MOST_CHILDREN:
        found.append(
            f"{children:,} children are far more than the paper's 1,152: this is slow and needs much memory; "
            "use --stem deep, a smaller --image-size, fewer --types or a larger --primary-stride"
        )
    return found
