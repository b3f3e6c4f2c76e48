"""Numbers of one run: accuracies, and what its trace, class lengths and history say about the network.

A measure that needs an optional file of the run folder returns None if the file is not there.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from maxmincaps.analysis.responses import tuning
from maxmincaps.analysis.traces import trace
from maxmincaps.errors import InputError
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.training.separation import Separation, read_separation

NEAR = 0.02
"""A routing coefficient within this distance of its start has hardly moved: a fifth of 0.1."""


def _of_result(field: str) -> Callable[[RunSummary], float]:
    return lambda run: 100 * getattr(run.result, field)


def _by_epoch(field: str) -> Callable[[RunSummary], list[float]]:
    def measure(run: RunSummary) -> list[float]:
        lines = Run(run.folder).history
        if len(lines) != run.recipe.epochs:
            raise InputError(f"{run.folder}/history.jsonl: expected {run.recipe.epochs} epochs, found {len(lines)}")
        return [100 * getattr(line, field) for line in lines]

    return measure


def _of_coefficients(compute: Callable[[Tensor], float]) -> Callable[[RunSummary], float | None]:
    """Make a measure of a function of the active capsules' coefficients, (iteration, child, parent)."""

    def measure(run: RunSummary) -> float | None:
        found = trace(run.folder) if run.has("trace.safetensors") else None
        return compute(found.couplings[:, found.alive]) if found and found.alive.any() else None

    return measure


def _of_responses(compute: Callable[[Responses], Any]) -> Callable[[RunSummary], Any]:
    """Make a measure of a function of the responses to all test images."""
    return lambda run: compute(responses(run.folder)) if run.has("lengths.safetensors") else None


def _of_separation(compute: Callable[[Separation], Tensor]) -> Callable[[RunSummary], float | None]:
    """Make a measure of a function of what a run on overlapping images stored; None where it is not a number."""

    def measure(run: RunSummary) -> float | None:
        if not run.has("separation.safetensors"):
            return None
        value = compute(read_separation(run.folder)).item()
        return value if math.isfinite(value) else None

    return measure


best_accuracy = _of_result("best_test_accuracy")
"""Test accuracy of the best epoch in percent, as the paper reports it."""
final_accuracy = _of_result("final_test_accuracy")
"""Test accuracy of the last epoch in percent."""
training_accuracy = _of_result("train_accuracy")
"""Training accuracy of the final weights in percent."""

accuracies_by_epoch = _by_epoch("selection_accuracy")
"""Accuracy after each epoch in percent, on the images that choose the best epoch."""
training_accuracies_by_epoch = _by_epoch("running_train_accuracy")
"""Training accuracy of each epoch in percent, counted while the epoch trains."""
inactive_by_epoch = _by_epoch("dead_children")
"""Percentage of inactive lower-level capsules after each epoch."""

near_start_percent = _of_coefficients(lambda c: 100 * ((c[-1] - c[0]).abs() <= NEAR).float().mean().item())
"""Percentage of the last coefficients that are near their start."""
coefficient_sd = _of_coefficients(lambda c: c[-1].std().item())
"""Standard deviation of the last coefficients."""
coefficient_range = _of_coefficients(lambda c: (c[-1].amax(dim=1) - c[-1].amin(dim=1)).mean().item())
"""Mean distance between the largest and the smallest last coefficient of a capsule."""
several_strong_parents_percent = _of_coefficients(lambda c: 100 * ((c[-1] > 0.5).sum(dim=1) >= 2).float().mean().item())
"""Percentage of capsules with two or more coefficients above 0.5."""

true_length = _of_responses(lambda found: found.lengths.gather(1, found.labels[:, None]).mean().item())
"""Mean length of the true class's capsule over the test images."""
several_peaks_percent = _of_responses(
    lambda found: 100 * ((found.lengths > 0.5).sum(dim=1) >= 2).double().mean().item()
)
"""Percentage of test images with two or more capsules longer than a half."""

parents_under_one = _of_separation(lambda found: found.served[1])
"""Parents that a capsule over one digit serves."""
parents_under_both = _of_separation(lambda found: found.served[2])
"""Parents that a capsule over both digits serves."""
more_parents_under_both = _of_separation(lambda found: found.served[2] - found.served[1])
"""How many more parents a capsule over both digits serves than one over a single digit."""
entropy_under_both = _of_separation(lambda found: found.entropy[2])
"""Entropy, in nats, of the coefficients of a capsule over both digits."""
both_strongest_percent = _of_separation(lambda found: 100 * found.both_strongest[2])
"""Percentage of capsules over both digits whose two strongest parents are these two digits."""
owner_strongest_percent = _of_separation(lambda found: 100 * found.owner_strongest)
"""Percentage of capsules over one digit whose strongest parent is this digit."""
other_strongest_percent = _of_separation(lambda found: 100 * found.other_strongest)
"""Percentage of capsules over one digit whose strongest parent is the other digit of the image."""
order_follows_percent = _of_separation(lambda found: 100 * found.order_follows)
"""Percentage of capsules over both digits whose larger coefficient is for the digit with more bright pixels."""


def best_error(run: RunSummary) -> float:
    """Return the test error of the best epoch in percent."""
    return 100 - best_accuracy(run)


def generalization_gap(run: RunSummary) -> float:
    """Return training minus test accuracy in percentage points, both of the final weights."""
    return training_accuracy(run) - final_accuracy(run)


def final_inactive(run: RunSummary) -> float | None:
    """Return the percentage of inactive lower-level capsules after the last epoch."""
    lines = Run(run.folder).history
    return 100 * lines[-1].dead_children if lines else None


def validation_accuracy(run: RunSummary) -> float | None:
    """Return the validation accuracy of the best epoch in percent, if the run has a validation set."""
    return max(accuracies_by_epoch(run)) if run.recipe.validation else None


def polarization(run: RunSummary) -> float | None:
    """Return how polarised the routing coefficients of the active capsules are after the last epoch.

    The measure is 1 - H / ln(parents), with H the mean entropy of a capsule's coefficients as shares of their sum:
    0 if all parents receive the same, 1 if one parent receives everything.
    """
    lines = Run(run.folder).history
    parents = len(run.data.classes)
    if not lines or parents < 2 or lines[-1].dead_children >= 1:
        return None
    return 1 - lines[-1].coupling_entropy / math.log(parents)


def zero_logits_percent(run: RunSummary) -> float | None:
    """Return the percentage of logits at the last iteration whose size is at most a hundredth of the largest one's."""
    if not run.has("trace.safetensors"):
        return None
    last = trace(run.folder).logits[-1].abs()
    return 100 * (last <= last.max() / 100).float().mean().item()


@_of_responses
def other_length(found: Responses) -> float:
    """Return the mean length of the other classes' capsules over the test images."""
    true = found.lengths.gather(1, found.labels[:, None])
    return ((found.lengths.sum() - true.sum()) / (found.lengths.numel() - true.numel())).item()


def closeness_of_classes(run: RunSummary) -> float | None:
    """Return the mean length of the other classes' capsules minus that of the true class's."""
    others, true = other_length(run), true_length(run)
    return None if others is None else others - true


@_of_responses
def peaked_percent(found: Responses) -> float:
    """Return the percentage of test images whose true class, and no other, has a capsule longer than a half."""
    long = found.lengths > 0.5
    return 100 * (long.gather(1, found.labels[:, None])[:, 0] & (long.sum(dim=1) == 1)).double().mean().item()


@_of_responses
def tuning_beside_peaks(found: Responses) -> Tensor | None:
    """Return the tuning curves without their diagonal: any two good classifiers have their peaks there.

    None if the curves are constant, because then they have no shape to compare.
    """
    curves = tuning(found)
    rest = curves[~torch.eye(*curves.shape, dtype=torch.bool)]
    return rest if rest.std() > 0 else None
