"""Turn a recipe into threads, initial values, optimizer, learning rate and loss; estimate what its training needs."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from maxmincaps.capsules.layers import INITIAL_GAIN
from maxmincaps.capsules.losses import Losses, capsule_loss, capsule_losses
from maxmincaps.capsules.multipliers import fold_multipliers
from maxmincaps.capsules.network import CapsNet, CapsNetOutput
from maxmincaps.capsules.optim import LAYER_RATES, parameter_groups
from maxmincaps.capsules.shapes import Images, Labels
from maxmincaps.data.augment import image_size_after
from maxmincaps.data.images import ImageSet, Splits
from maxmincaps.errors import InputError, one_line
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import apply_init_from, network_for
from maxmincaps.training.environment import keep_large_blocks
from maxmincaps.wording import duration

SABOUR_SIGMA = 0.1
MOST_CHILDREN = 10_000  # more children than in any network of the paper (9,216, for CIFAR10 with padding)
PLANNED_IMAGES = 8  # the number of images that a plan is measured with
COPIES = 5  # weights, gradients, two moments of Adam, and the moving average


@contextmanager
def threads_of(recipe: Recipe) -> Iterator[None]:
    """Use the recipe's number of CPU threads and keep freed memory; restore the number of threads afterwards."""
    keep_large_blocks()
    before = torch.get_num_threads()
    torch.set_num_threads(recipe.threads or max(1, before // recipe.processes))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_recipe(recipe: Recipe, images: Splits) -> None:
    """Raise `InputError` for everything that can be wrong with a recipe for these images."""
    train = images.train
    try:
        with torch.device("meta"):  # takes no memory for the weights
            network = _network(recipe, train)
    except (RuntimeError, ArithmeticError, TypeError) as error:  # raised for sizes that no tensor can have
        raise InputError(f"the recipe's network cannot be built: {one_line(error)}") from None
    class_weights_for(recipe, train)
    if recipe.init_from:
        apply_init_from(network, recipe.init_from, train.classes)
    smallest = len(train) % recipe.batch_size or recipe.batch_size
    if smallest < recipe.processes:
        raise InputError(
            f"the last batch of an epoch has {smallest} of {len(train)} images, too few for {recipe.processes} "
            f"processes; choose another batch_size than {recipe.batch_size}"
        )


def initial_network(recipe: Recipe, train: ImageSet) -> CapsNet:
    """Build the recipe's network for these images. For a given recipe, its initial weights depend on the seed only.

    Its multipliers are folded: the optimizer's groups have the layer-wise rates, and files have the weights themselves.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # also if the user has set another default device
        torch.default_generator.manual_seed(recipe.seed)  # only the CPU's generator: the user's others stay unchanged
        network = _network(recipe, train)
        fold_multipliers(network)
        with torch.no_grad():  # with warm-up no gain is needed, and earlier runs began with these values
            network.primary.convolution.weight.div_(INITIAL_GAIN)
        if recipe.initial_values != "torch":
            _initialise_as_sabour(network)
            if recipe.primary_bias is not None:
                nn.init.constant_(cast(Tensor, network.primary.convolution.bias), recipe.primary_bias)
        if recipe.initial_values == "as-coded":
            network.digits.sigma = SABOUR_SIGMA
        else:
            rule = LAYER_RATES[recipe.layer_rates]
            network.digits.reset_parameters(recipe.vote_sigma or rule.vote_sigma(network.digits))
    return network


def _network(recipe: Recipe, train: ImageSet) -> CapsNet:
    return network_for(recipe, (train.channels, *image_size_after(recipe, train)), len(train.classes))


def optimizer_for(recipe: Recipe, network: CapsNet) -> torch.optim.Optimizer:
    """Return Adam with the recipe's layer-wise rates: the groups `others`, `primary` and `votes`, in this order."""
    groups = parameter_groups(network, recipe.learning_rate, layer_rates=recipe.layer_rates)
    chosen = {"primary": recipe.primary_rate, "digits": recipe.vote_rate}
    for group in groups:
        group["rate"] = chosen.get(group["name"]) or group["rate"]
        group["lr"] = recipe.learning_rate * group["rate"]
        group["name"] = {"digits": "votes"}.get(group["name"], group["name"])
    settings = {"lr": recipe.learning_rate, "betas": (0.9, 0.999), "eps": 1e-8, "fused": True}
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, weight_decay=recipe.weight_decay, **settings)
    return torch.optim.Adam(groups, **settings)


def learning_rate_at(recipe: Recipe, step: int, steps: int) -> float:
    """Return the learning rate at a step of `steps`, never below the smallest."""
    if recipe.schedule == "cosine":
        share = (1 + math.cos(math.pi * step / steps)) / 2
    elif recipe.schedule == "constant":
        share = 1.0
    else:
        share = recipe.decay ** (step / recipe.decay_steps)
    rise = min(1.0, (step + 1) / (recipe.warmup + 1))
    return max(recipe.min_learning_rate, recipe.learning_rate * share * rise)


def class_weights_for(recipe: Recipe, train: ImageSet) -> Tensor | None:
    """Return the weight of each class in the margin loss, (class,), or `None` if all are 1."""
    if recipe.class_weights is None:
        return None
    if recipe.class_weights == "balanced":  # inversely proportional to the images of a class, with mean 1 over images
        counts = torch.bincount(train.labels.cpu(), minlength=len(train.classes)).clamp(min=1)
        return len(train.labels) / (len(train.classes) * counts.float())
    if len(recipe.class_weights) != len(train.classes):
        raise InputError(
            f"class_weights: expected {len(train.classes)} numbers, one for each class of {train.name}, "
            f"found {len(recipe.class_weights)}"
        )
    return torch.tensor(recipe.class_weights, device="cpu")


def losses_for(
    recipe: Recipe, output: CapsNetOutput, images: Images, labels: Labels, *, class_weights: Tensor | None = None
) -> Losses:
    """Return the losses with the recipe's margins and weights, and with a weight for each class, (class,)."""
    return capsule_losses(
        output,
        images,
        labels,
        margin_high=recipe.margin_high,
        margin_low=recipe.margin_low,
        down_weight=recipe.down_weight,
        reconstruction_weight=recipe.reconstruction_weight,
        image_weights=None if class_weights is None else class_weights.to(labels.device)[labels],
    )


def _initialise_as_sabour(network: CapsNet) -> None:
    """Draw truncated normal values with σ 0.05 (Conv1) and 0.1 (all others), biases 0.1, as in Sabour's code."""
    for name, parameter in network.named_parameters():
        if name.startswith("stem."):
            continue  # Sabour's network has no such layers
        if name.endswith("bias"):
            nn.init.constant_(parameter, 0.1)
        else:
            sigma = 0.05 if name.startswith("conv1") else SABOUR_SIGMA
            nn.init.trunc_normal_(parameter, std=sigma, a=-2 * sigma, b=2 * sigma)


@dataclass(frozen=True)
class TrainingPlan:
    """Size of a network and what training it is expected to need."""

    children: int
    parameters: int
    memory_bytes: int
    """Weights with their optimizer state, and what one batch keeps for backward."""
    seconds: float
    """Forward and backward passes over all epochs, without evaluation."""
    warnings: tuple[str, ...] = ()
    """What was changed to fit the images, and sizes that are far too large."""

    def summary(self) -> str:
        """Return one line of text."""
        megabytes = max(1, round(self.memory_bytes / 1e6))
        memory = f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes} MB"
        return (
            f"{self.children:,} children, {self.parameters:,} parameters, "
            f"about {memory} of memory and {duration(max(1.0, self.seconds))} of training"
        )


def plan_training(network: CapsNet, recipe: Recipe, images: int) -> TrainingPlan:
    """Run a copy of a network on a few random images and extrapolate to a training with `images` images an epoch."""
    copy, device = deepcopy(network).train(), next(network.parameters()).device
    sample = min(PLANNED_IMAGES, recipe.batch_size)
    pixels = torch.rand(sample, *network.image_shape, generator=torch.Generator().manual_seed(0)).to(device)
    labels = torch.zeros(sample, dtype=torch.long, device=device)
    weights = {parameter.untyped_storage().data_ptr() for parameter in copy.parameters()}
    kept: dict[int, int] = {}
    seconds = 0.0

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    for _ in range(2):  # the first pass takes memory and chooses kernels
        kept.clear()
        begin = time.perf_counter()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = capsule_loss(copy(pixels, labels), pixels, labels)
        loss.backward()
        loss.item()  # waits for an accelerator
        seconds = time.perf_counter() - begin
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return TrainingPlan(
        children=torch.Size(network.grid).numel(),
        parameters=parameters,
        memory_bytes=4 * COPIES * parameters + sum(kept.values()) * -(-recipe.batch_size // recipe.processes) // sample,
        seconds=seconds / sample * images * recipe.epochs / recipe.processes,
        warnings=tuple(_warnings(network, recipe)),
    )


def _warnings(network: CapsNet, recipe: Recipe) -> Iterator[str]:
    _, height, width = network.image_shape
    wanted, used = (
        " and ".join(f"{kernel}×{kernel}" for kernel in kernels)
        for kernels in ((recipe.conv_kernel, recipe.primary_kernel), network.kernels)
    )
    if used != wanted:
        small = f"images of {height}×{width} are too small for kernels of {wanted}"
        yield f"{small}; using {used} (--conv-kernel, --primary-kernel)"
    children = torch.Size(network.grid).numel()
    if children > MOST_CHILDREN:
        yield (
            f"{children:,} children are far more than the paper's 1,152: this is slow and needs much memory; "
            "use --stem deep, a smaller --image-size, fewer --types or a larger --primary-stride"
        )
