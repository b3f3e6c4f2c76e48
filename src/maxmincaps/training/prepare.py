"""What a recipe means for training: threads, initial values, optimizer, learning rate and loss."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from maxmincaps.capsules.layers import INITIAL_GAIN
from maxmincaps.capsules.losses import Losses, capsule_losses
from maxmincaps.capsules.multipliers import fold_multipliers
from maxmincaps.capsules.network import CapsNet, CapsNetOutput
from maxmincaps.capsules.optim import LAYER_RATES, parameter_groups
from maxmincaps.capsules.shapes import Images, Labels
from maxmincaps.data.augment import image_size_after
from maxmincaps.data.images import ImageSet
from maxmincaps.errors import InputError, one_line
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import network_for
from maxmincaps.training.memory import keep_large_blocks

SABOUR_SIGMA = 0.1


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


def check_network(recipe: Recipe, train: ImageSet) -> CapsNet:
    """Return the recipe's network on the meta device, without memory for its weights.

    Raises:
        InputError: If the network cannot be built.
    """
    try:
        with torch.device("meta"):
            return _network(recipe, train)
    except (RuntimeError, ArithmeticError, TypeError) as error:  # of sizes that no tensor can have
        raise InputError(f"the recipe's network cannot be built: {one_line(error)}") from None


def initial_network(recipe: Recipe, train: ImageSet) -> CapsNet:
    """Build the recipe's network for these images; its initial weights depend on the seed and on nothing else.

    Its multipliers are folded: the optimizer's groups have the layer-wise rates, and files have the weights themselves.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # whatever a user's default device is
        torch.default_generator.manual_seed(recipe.seed)  # of the CPU alone: a user's other generators are theirs
        network = _network(recipe, train)
        fold_multipliers(network)
        with torch.no_grad():  # the initial values of all runs so far: with warm-up they need no gain
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


def set_learning_rate(optimizer: torch.optim.Optimizer, recipe: Recipe, step: int, steps: int) -> None:
    """Set the learning rate of each group to its multiple of the step's rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate_at(recipe, step, steps) * group["rate"]


def class_weights_for(recipe: Recipe, train: ImageSet) -> Tensor | None:
    """Return the weight of each class in the margin loss, (class,), or `None` if all are 1.

    Balanced weights are inversely proportional to the number of training images of a class; their mean over the
    training images is 1.
    """
    if recipe.class_weights is None:
        return None
    if recipe.class_weights == "balanced":
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
            continue  # other layers than Sabour's
        if name.endswith("bias"):
            nn.init.constant_(parameter, 0.1)
        else:
            sigma = 0.05 if name.startswith("conv1") else SABOUR_SIGMA
            nn.init.trunc_normal_(parameter, std=sigma, a=-2 * sigma, b=2 * sigma)
