"""One training step, shared by `fit`, the scikit-learn classifier, the cost estimate and the benchmark."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.swa_utils import get_ema_multi_avg_fn

from maxmincaps.capsules.losses import Losses, capsule_losses, hits
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Images, Labels, Reconstructions
from maxmincaps.recipe import Recipe
from maxmincaps.training.prepare import learning_rate_at, losses_for, optimizer_for
from maxmincaps.training.processes import ONE_PROCESS, Processes

ComputeLosses = Callable[..., Losses]  # from (output, images, labels) to the losses


@dataclass
class Tally:
    """Sums over the images of a step, or of an epoch so far, over all processes."""

    loss: float = 0.0
    margin: float = 0.0
    reconstruction: float = 0.0
    correct: float = 0.0
    seen: float = 0.0

    @property
    def mean_loss(self) -> float:
        """The mean loss of an image."""
        return self.loss / max(self.seen, 1)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class StepResult:
    """What a training step computed."""

    tally: Tally
    """Sums of losses and correct answers over the images of the batch."""
    gradient_norm: float
    """The norm of all gradients together, before clipping."""

    @property
    def finite(self) -> bool:
        """Whether loss and gradients are finite. If they are not, the weights were left unchanged."""
        return math.isfinite(self.tally.loss) and math.isfinite(self.gradient_norm)


def train_step(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Images,
    labels: Labels,
    compute_losses: ComputeLosses = capsule_losses,
    *,
    targets: Reconstructions | None = None,
    processes: Processes = ONE_PROCESS,
    batch_size: int | None = None,
    clip_norm: float | None = None,
    on_gradients: Callable[[float], None] | None = None,
) -> StepResult:
    """Compute losses and gradients of a batch and update the weights once, unless they are not finite.

    Args:
        network: Called with images and labels; returns an output with `lengths` and `reconstruction`.
        optimizer: Makes the update. Its gradients are cleared afterwards.
        images: This process's share of the batch, (batch, channel, height, width).
        labels: Their classes, (batch,), or several for each image, (batch, label).
        compute_losses: Called with (output, images, labels).
        targets: What the reconstructions are compared with, in place of the images.
        processes: The processes that share the batch. The result is summed over them.
        batch_size: The images of the batch over all processes. Default: those given here.
        clip_norm: Gradients are scaled down to this norm if they exceed it. Default: no clipping.
        on_gradients: Called with the mean loss when finite gradients are there, before the update.
    """
    network.train()
    output = network(images, labels)
    losses = compute_losses(output, images if targets is None else targets, labels)
    here = len(labels)
    # The mean over the processes is then the mean over the whole batch, even where they share it unevenly.
    (losses.total * (here * processes.count / (batch_size or here))).backward()
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    norm = get_total_norm(gradients)
    result = _result(losses, hits(output.lengths, labels).sum(), norm, here, processes)
    if result.finite:
        if clip_norm is not None:
            clip_grads_with_norm_(network.parameters(), clip_norm, norm)
        if on_gradients:
            on_gradients(result.tally.mean_loss)
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return result


def _result(losses: Losses, correct: Tensor, norm: Tensor, images: int, processes: Processes) -> StepResult:
    """Move all results to the CPU in one transfer, so that a device is waited for once, and add up the processes'."""
    found = torch.stack([losses.total, losses.margin, losses.reconstruction, correct, norm])
    *means, right, length = found.tolist()
    return StepResult(Tally(*processes.sum(*(images * mean for mean in means), right, images)), length)


def update_ema(averaged: nn.Module, network: nn.Module, decay: float, step: int) -> None:
    """Move an exponential moving average (EMA) of the weights towards the network's weights after a step.

    In the first steps the fraction that is kept is smaller than `decay`, so that initial weights are soon forgotten.
    """
    update = get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))
    update(list(averaged.parameters()), list(network.parameters()), step)
    for mine, theirs in zip(averaged.buffers(), network.buffers(), strict=True):
        mine.copy_(theirs)  # running statistics, such as those of batch norm, are averages already


class Learner:
    """A network with its optimizer, its losses and the EMA of its weights, as a recipe describes them."""

    def __init__(self, recipe: Recipe, processes: Processes, network: CapsNet, class_weights: Tensor | None) -> None:
        self.recipe, self.processes = recipe, processes
        self.plain_network, self.network = network, processes.wrap(network)
        self.optimizer = optimizer_for(recipe, network)
        self.compute_losses = partial(losses_for, recipe, class_weights=class_weights)
        self.averaged = deepcopy(network) if recipe.ema_decay else None

    @property
    def evaluation_network(self) -> CapsNet:
        """The network that is evaluated and whose weights are saved: the averaged one, if the recipe asks for it."""
        return self.averaged or self.plain_network

    def learn(self, images: Images, labels: Labels, step: int, steps: int, **options: Any) -> StepResult:
        """Make one of `steps` steps at its learning rate, and update the EMA. `options` are those of `train_step`."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.recipe, step, steps) * group["rate"]
        options["clip_norm"] = self.recipe.clip_norm
        result = train_step(self.network, self.optimizer, images, labels, self.compute_losses, **options)
        if result.finite and self.averaged:
            update_ema(self.averaged, self.plain_network, self.recipe.ema_decay, step)
        return result
