"""What a recipe means to whoever trains by it: threads, initial values, an optimizer, a learning rate, a loss."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from maxmincaps.capsules.losses import Losses, capsule_losses
from maxmincaps.capsules.network import CapsNet, CapsNetOutput
from maxmincaps.capsules.shapes import Images, Labels
from maxmincaps.data.augment import image_size_after
from maxmincaps.data.images import ImageSet
from maxmincaps.errors import InputError, one_line
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import network_for


class Pace(NamedTuple):
    """How fast W begins and learns beside PrimaryCaps; docs/training.md tells what was measured."""

    primary_terms: int
    """PrimaryCaps learns at the full rate if its sums have at most so many terms."""
    vote_terms: int
    """The same for W, whose inputs are smaller, as squashed."""
    vote_size: float
    """How long the parents' sums start, as a multiple of what the layer suggests."""


PACES = {"fast": Pace(6_000, 30_000, 1.0), "slow": Pace(21_000, 400, 0.05)}
"""The rules that a recipe chooses from, by name."""


@contextmanager
def threads_of(recipe: Recipe) -> Iterator[None]:
    """Use the recipe's number of CPU threads, and give the old number back afterwards."""
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
    """Build the recipe's network for these images; its initial weights depend on the seed and on nothing else."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # whatever a user's default device is
        torch.default_generator.manual_seed(recipe.seed)  # of the CPU alone: a user's other generators are theirs
        network = _network(recipe, train)
        if recipe.initial_values == "sabour":
            _initialise_as_sabour(network)
        digits = network.digits
        digits.reset_parameters(recipe.vote_sigma or PACES[recipe.layer_rates].vote_size * digits.suggested_sigma())
    return network


def _network(recipe: Recipe, train: ImageSet) -> CapsNet:
    return network_for(recipe, (train.channels, *image_size_after(recipe, train)), len(train.classes))


def optimizer_for(recipe: Recipe, network: CapsNet) -> torch.optim.Optimizer:
    """Make Adam, with rates of their own for PrimaryCaps and W: multiples of the learning rate.

    A step of Adam moves every weight by about the learning rate, and in the first steps all of a sum's weights the same
    way: a sum moves the further the more terms it has.
    """
    pace = PACES[recipe.layer_rates]
    primary = network.primary.convolution
    digits = network.digits
    # W acts multiplied by couplings, so it has to move the more the smaller they are.
    vote_rate = min(1.0, pace.vote_terms / digits.terms) / digits.typical_couplings().abs().mean().item()
    primary_rate = min(1.0, pace.primary_terms / primary.weight[0].numel())
    special = {
        "primary": (list(primary.parameters()), recipe.primary_rate or primary_rate),
        "votes": ([digits.weights], recipe.vote_rate or vote_rate),
    }
    taken = {id(parameter) for parameters, _ in special.values() for parameter in parameters}
    others = [parameter for parameter in network.parameters() if id(parameter) not in taken]
    groups = [{"name": "others", "params": others, "rate": 1.0}]
    groups += [{"name": name, "params": parameters, "rate": rate} for name, (parameters, rate) in special.items()]
    settings = {"lr": recipe.learning_rate, "betas": (0.9, 0.999), "eps": 1e-8, "fused": True}
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, weight_decay=recipe.weight_decay, **settings)
    return torch.optim.Adam(groups, **settings)


def learning_rate_at(recipe: Recipe, step: int, steps: int) -> float:
    """Give the rate of one of `steps` steps, never below the smallest: a function, so there is nothing to save."""
    if recipe.schedule == "cosine":
        share = (1 + math.cos(math.pi * step / steps)) / 2
    elif recipe.schedule == "constant":
        share = 1.0
    else:
        share = recipe.decay ** (step / recipe.decay_steps)
    rise = min(1.0, (step + 1) / (recipe.warmup + 1))
    return max(recipe.min_learning_rate, recipe.learning_rate * share * rise)


def set_learning_rate(optimizer: torch.optim.Optimizer, recipe: Recipe, step: int, steps: int) -> None:
    """Let each layer learn at its own multiple of the step's rate."""
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
    """Truncated normal values with σ 0.05 (Conv1) and 0.1 (all others), biases 0.1, as in the code of Sabour et al."""
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            nn.init.constant_(parameter, 0.1)
        else:
            sigma = 0.05 if name.startswith("conv1") else 0.1
            nn.init.trunc_normal_(parameter, std=sigma, a=-2 * sigma, b=2 * sigma)
