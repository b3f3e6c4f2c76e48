"""What a claim is measured by: numbers of one run, from its row or its record, and of runs side by side."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from maxmincaps.analysis.compare import complete, pairs
from maxmincaps.analysis.responses import tuning_of
from maxmincaps.analysis.traces import trace
from maxmincaps.errors import InputError
from maxmincaps.studies import STUDIES
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run, RunSummary

NEAR = 0.02
"""A coupling this near to its start has hardly moved: a fifth of 0.1."""


def best_points(row: RunSummary) -> float:
    """Give the best test accuracy in percent: the paper's measure."""
    return 100 * row.result.best_test_accuracy


def best_error_percent(row: RunSummary) -> float:
    """Give the test error of the best epoch in percent."""
    return 100 - best_points(row)


def final_points(row: RunSummary) -> float:
    """Give the final test accuracy in percent."""
    return 100 * row.result.final_test_accuracy


def gap_points(row: RunSummary) -> float:
    """Give training minus test accuracy in points, each of its own best epoch: the paper's measure of overfitting."""
    return 100 * (row.result.best_running_train_accuracy - row.result.best_test_accuracy)


def accuracies_by_epoch(row: RunSummary) -> list[float]:
    """Give the accuracy after each epoch in percent, on the images that the best one is chosen by."""
    return percent_by_epoch(row, f"{row.result.best_chosen_by}_accuracy")


def training_and_test_by_epoch(row: RunSummary) -> list[tuple[float, float]]:
    """Give the accuracy while training, and that on the images that the best epoch is chosen by, epoch by epoch."""
    training = percent_by_epoch(row, "running_train_accuracy")
    return list(zip(training, accuracies_by_epoch(row), strict=True))


def percent_by_epoch(row: RunSummary, name: str) -> list[float]:
    """Give a share that a complete run's history tells after each epoch, in percent."""
    history = Run(row.folder).history
    if len(history) != row.recipe.epochs:
        raise InputError(f"{row.folder}/history.jsonl: expected {row.recipe.epochs} epochs, found {len(history)}")
    return [100 * getattr(line, name) for line in history]


def has(row: RunSummary, name: str) -> bool:
    """Return whether a run folder holds a file."""
    return row.has(name)


def near_start_percent(row: RunSummary) -> float | None:
    """Give the share of the last couplings of living children that are near their start."""
    if (found := _alive(row)) is None:
        return None
    return 100 * ((found[-1] - found[0]).abs() <= NEAR).float().mean().item()


def coupling_sd(row: RunSummary) -> float | None:
    """Give the standard deviation of the last couplings of living children."""
    return None if (found := _alive(row)) is None else found[-1].std().item()


def coupling_range(row: RunSummary) -> float | None:
    """Give the mean distance between the largest and the smallest of a living child's last couplings."""
    return None if (found := _alive(row)) is None else (found[-1].amax(dim=1) - found[-1].amin(dim=1)).mean().item()


def several_strong_parents_percent(row: RunSummary) -> float | None:
    """Give the share of living children that are coupled to two parents or more with more than a half.

    A share, as the mean number of such parents hides that most children have one and some have nine.
    """
    if (found := _alive(row)) is None:
        return None
    return 100 * ((found[-1] > 0.5).sum(dim=1) >= 2).float().mean().item()


def zero_logits_percent(row: RunSummary) -> float | None:
    """Give the share of the last logits, of all children, within a hundredth of the largest of zero."""
    if not has(row, "trace.safetensors"):
        return None
    last = trace(row.folder).logits[-1].abs()
    return 100 * (last <= last.max() / 100).float().mean().item()


def true_length(row: RunSummary) -> float | None:
    """Give the mean length of the true class's capsule over the test images."""
    return None if (found := _mean_lengths(row)) is None else found[0]


def other_length(row: RunSummary) -> float | None:
    """Give the mean length of all other capsules."""
    return None if (found := _mean_lengths(row)) is None else found[1]


def closeness_of_classes(row: RunSummary) -> float | None:
    """Give how little the true class's capsule stands out: the mean length of the others less its own."""
    return None if (found := _mean_lengths(row)) is None else found[1] - found[0]


def peaked_percent(row: RunSummary) -> float | None:
    """Give the share of test images whose true class, and no other, has a capsule longer than a half."""
    if not has(row, "lengths.safetensors"):
        return None
    found = responses(row.folder)
    long = found.lengths > 0.5
    return 100 * (long.gather(1, found.labels[:, None])[:, 0] & (long.sum(dim=1) == 1)).double().mean().item()


def several_peaks_percent(row: RunSummary) -> float | None:
    """Give the share of test images with two capsules or more longer than a half."""
    if not has(row, "lengths.safetensors"):
        return None
    return 100 * ((responses(row.folder).lengths > 0.5).sum(dim=1) >= 2).double().mean().item()


class Curve(NamedTuple):
    """What the runs of one curve of a study have in common."""

    study: str
    scale: str
    dataset: str
    line: str
    seed: int

    def values(self) -> set[float | None]:
        """Give the places on the horizontal axis at which the study has runs."""
        entries = STUDIES[self.study].entries(self.scale, seeds=1)
        here = (entry for entry in entries if (entry.recipe.dataset, entry.line.label) == (self.dataset, self.line))
        return {entry.line.value for entry in here}


def whole_curves(rows: Sequence[RunSummary]) -> dict[Curve, dict[float, float]]:
    """Give the best accuracy by value, for each dataset and seed with a result at every value that its study has.

    A seed that is not through, or diverged at a value, would be compared with others over another range.
    """
    found: dict[Curve, dict[float, float]] = defaultdict(dict)
    for row in complete(rows):
        curve = Curve(row.study, row.scale, row.recipe.dataset, row.line, row.recipe.seed)
        found[curve][row.value or 0.0] = best_points(row)
    return whole(found)


def whole(curves: Mapping[Curve, dict[float, float]]) -> dict[Curve, dict[float, float]]:
    """Keep the curves that have a point at every value of their study."""
    return {curve: points for curve, points in curves.items() if points.keys() >= curve.values()}


def tuning_likenesses(rows: Sequence[RunSummary]) -> list[tuple[str, float]]:
    """Correlate the tuning curves of Softmax and Max-Min, by dataset, for each seed that both have, from lengths.

    Beside their peaks: any two networks that classify well have those in the same places, and they would decide alone.
    """

    def beside_the_peaks(row: RunSummary) -> torch.Tensor:
        curves = tuning_of(responses(row.folder))
        return curves[~torch.eye(*curves.shape, dtype=torch.bool)]

    curves = pairs(rows, beside_the_peaks, "Softmax", "Max-Min")
    found = [(shared.dataset, torch.corrcoef(torch.stack(both))[0, 1].item()) for shared, both in curves.items()]
    # The curve of a network that always says 1 has no shape.
    return [(dataset, likeness) for dataset, likeness in found if math.isfinite(likeness)]


def _alive(row: RunSummary) -> torch.Tensor | None:
    """Give the couplings of living children, iteration by iteration."""
    if not has(row, "trace.safetensors"):
        return None
    found = trace(row.folder)
    return found.couplings[:, found.alive] if found.alive.any() else None


def _mean_lengths(row: RunSummary) -> tuple[float, float] | None:
    """Give the mean length of true and of other capsules."""
    if not has(row, "lengths.safetensors"):
        return None
    found = responses(row.folder)
    true = found.lengths.gather(1, found.labels[:, None])
    others = (found.lengths.sum() - true.sum()) / (found.lengths.numel() - true.numel())
    return true.mean().item(), others.item()
