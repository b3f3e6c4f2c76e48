"""Numbers of one run: accuracies, and what its trace, class lengths and history say about the network.

A measure that needs an optional file of the run folder returns None if the file is not there.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maxmincaps.analysis.responses import tuning_of
from maxmincaps.analysis.traces import trace
from maxmincaps.errors import InputError
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import Run, RunSummary
from maxmincaps.training.schema import EpochMetrics

NEAR = 0.02
"""A routing coefficient within this distance of its start has hardly moved: a fifth of 0.1."""


def best_accuracy(run: RunSummary) -> float:
    """Return the test accuracy of the best epoch in percent, as the paper reports it."""
    return 100 * run.result.best_test_accuracy


def best_error(run: RunSummary) -> float:
    """Return the test error of the best epoch in percent."""
    return 100 - best_accuracy(run)


def final_accuracy(run: RunSummary) -> float:
    """Return the test accuracy of the last epoch in percent."""
    return 100 * run.result.final_test_accuracy


def training_accuracy(run: RunSummary) -> float:
    """Return the training accuracy of the final weights in percent."""
    return 100 * run.result.train_accuracy


def generalization_gap(run: RunSummary) -> float:
    """Return training minus test accuracy in percentage points, both of the final weights."""
    return training_accuracy(run) - final_accuracy(run)


def history(run: RunSummary) -> list[EpochMetrics]:
    """Return the metrics of each epoch of a complete run.

    Raises:
        InputError: If the history has fewer or more epochs than the recipe.
    """
    lines = Run(run.folder).history
    if len(lines) != run.recipe.epochs:
        raise InputError(f"{run.folder}/history.jsonl: expected {run.recipe.epochs} epochs, found {len(lines)}")
    return lines


def accuracies_by_epoch(run: RunSummary) -> list[float]:
    """Return the accuracy after each epoch in percent, on the images that choose the best epoch."""
    return [100 * line.selection_accuracy for line in history(run)]


def training_accuracies_by_epoch(run: RunSummary) -> list[float]:
    """Return the training accuracy of each epoch in percent, counted while the epoch trains."""
    return [100 * line.running_train_accuracy for line in history(run)]


def inactive_by_epoch(run: RunSummary) -> list[float]:
    """Return the percentage of inactive lower-level capsules after each epoch."""
    return [100 * line.dead_children for line in history(run)]


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


def near_start_percent(run: RunSummary) -> float | None:
    """Return the percentage of the active capsules' last coefficients that are near their start."""
    found = _active_coefficients(run)
    return None if found is None else 100 * ((found[-1] - found[0]).abs() <= NEAR).float().mean().item()


def coefficient_sd(run: RunSummary) -> float | None:
    """Return the standard deviation of the active capsules' last coefficients."""
    return None if (found := _active_coefficients(run)) is None else found[-1].std().item()


def coefficient_range(run: RunSummary) -> float | None:
    """Return the mean distance between the largest and the smallest last coefficient of an active capsule."""
    found = _active_coefficients(run)
    return None if found is None else (found[-1].amax(dim=1) - found[-1].amin(dim=1)).mean().item()


def several_strong_parents_percent(run: RunSummary) -> float | None:
    """Return the percentage of active capsules with two or more coefficients above 0.5."""
    found = _active_coefficients(run)
    return None if found is None else 100 * ((found[-1] > 0.5).sum(dim=1) >= 2).float().mean().item()


def zero_logits_percent(run: RunSummary) -> float | None:
    """Return the percentage of last logits, of all capsules, within a hundredth of the largest from zero."""
    if not run.has("trace.safetensors"):
        return None
    last = trace(run.folder).logits[-1].abs()
    return 100 * (last <= last.max() / 100).float().mean().item()


def true_length(run: RunSummary) -> float | None:
    """Return the mean length of the true class's capsule over the test images."""
    return None if (found := _mean_lengths(run)) is None else found[0]


def other_length(run: RunSummary) -> float | None:
    """Return the mean length of the other classes' capsules over the test images."""
    return None if (found := _mean_lengths(run)) is None else found[1]


def closeness_of_classes(run: RunSummary) -> float | None:
    """Return the mean length of the other classes' capsules minus that of the true class's."""
    return None if (found := _mean_lengths(run)) is None else found[1] - found[0]


def peaked_percent(run: RunSummary) -> float | None:
    """Return the percentage of test images whose true class, and no other, has a capsule longer than a half."""
    if (found := _responses(run)) is None:
        return None
    long = found.lengths > 0.5
    return 100 * (long.gather(1, found.labels[:, None])[:, 0] & (long.sum(dim=1) == 1)).double().mean().item()


def several_peaks_percent(run: RunSummary) -> float | None:
    """Return the percentage of test images with two or more capsules longer than a half."""
    if (found := _responses(run)) is None:
        return None
    return 100 * ((found.lengths > 0.5).sum(dim=1) >= 2).double().mean().item()


def tuning_beside_peaks(run: RunSummary) -> Float[Tensor, "entry"] | None:
    """Return the tuning curves without their peaks, which any two good classifiers have in the same places.

    A network whose curves are constant has no shape to compare, so it has no measure.
    """
    if (found := _responses(run)) is None:
        return None
    curves = tuning_of(found)
    rest = curves[~torch.eye(*curves.shape, dtype=torch.bool)]
    return rest if rest.std() > 0 else None


def _active_coefficients(run: RunSummary) -> Float[Tensor, "iteration child parent"] | None:
    if not run.has("trace.safetensors"):
        return None
    found = trace(run.folder)
    return found.couplings[:, found.alive] if found.alive.any() else None


def _mean_lengths(run: RunSummary) -> tuple[float, float] | None:
    """Return the mean length of the true class's capsule and of all others."""
    if (found := _responses(run)) is None:
        return None
    true = found.lengths.gather(1, found.labels[:, None])
    others = (found.lengths.sum() - true.sum()) / (found.lengths.numel() - true.numel())
    return true.mean().item(), others.item()


def _responses(run: RunSummary) -> Responses | None:
    return responses(run.folder) if run.has("lengths.safetensors") else None
