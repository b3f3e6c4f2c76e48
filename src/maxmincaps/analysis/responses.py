"""What trained networks answer to test images: figures 5, 6, 9 and A.1 to A.3, from run folders alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from maxmincaps.errors import InputError
from maxmincaps.training.responses import Responses, responses


class ClassLength(NamedTuple):
    """Length of one class capsule for one test image. `label` and `parent` are class numbers."""

    image: int
    label: int
    parent: int
    length: float


class MeanLength(NamedTuple):
    """Mean length of one class capsule over the test images of one class."""

    label: int
    parent: int
    mean_length: float


class Mistake(NamedTuple):
    """A misclassified test image."""

    image: int
    prediction: int
    label: int
    length_of_prediction: float
    length_of_label: float


class ClassScore(NamedTuple):
    """Precision, recall and F1 score of one class as fractions of 1. None: nothing to divide by."""

    label: int
    images: int
    precision: float | None
    recall: float | None
    f1: float | None


def shown_images(labels: Int64[Tensor, "image"], classes: int) -> list[int]:
    """Return the images of figure 5: the first test image of each class, the same for every network."""
    return [int((labels == label).nonzero()[0]) for label in range(classes) if (labels == label).any()]


def _responses_of(run: Path | str | Responses) -> Responses:
    return run if isinstance(run, Responses) else responses(run)


def outputs(run: Path | str | Responses, images: Sequence[int] | None = None) -> list[ClassLength]:
    """Return the length of each class capsule for some test images (figure 5).

    Args:
        run: Run folder, or responses.
        images: Indices of test images. Default: the first of each class.

    Raises:
        InputError: If an index is not one of the test set.
    """
    found = _responses_of(run)
    chosen = shown_images(found.labels, len(found.classes)) if images is None else list(images)
    for image in chosen:
        if not 0 <= image < len(found.labels):
            raise InputError(f"image: expected 0 to {len(found.labels) - 1}, found {image}")
    return [
        ClassLength(image, int(found.labels[image]), parent, length)
        for image in chosen
        for parent, length in enumerate(found.lengths[image].tolist())
    ]


def tuning(run: Path | str | Responses) -> Float[Tensor, "label parent"]:
    """Return the mean length of each class capsule over the test images of each class (figure 6)."""
    return tuning_of(_responses_of(run))


def tuning_of(found: Responses) -> Float[Tensor, "label parent"]:
    """Average the lengths over the images of each class. A class without images has zeros."""
    sums = torch.zeros(len(found.classes), found.lengths.shape[1]).index_add(0, found.labels, found.lengths)
    return sums / found.labels.bincount(minlength=len(found.classes)).clamp(min=1)[:, None]


def tuning_rows(run: Path | str | Responses) -> list[MeanLength]:
    """Return the tuning curves as a tidy table."""
    return [
        MeanLength(label, parent, length)
        for label, curve in enumerate(tuning(run).tolist())
        for parent, length in enumerate(curve)
    ]


def misclassified(found: Responses) -> list[Mistake]:
    """Return the images that are classified wrongly (figures 9, A.1 to A.3)."""
    return [
        Mistake(image, prediction, label, found.lengths[image, prediction].item(), found.lengths[image, label].item())
        for image in found.wrong.tolist()
        for prediction, label in [(int(found.predictions[image]), int(found.labels[image]))]
    ]


def confusion(found: Responses) -> Int64[Tensor, "label prediction"]:
    """Count how often each true class is classified as each class."""
    classes = len(found.classes)
    return (found.labels * classes + found.predictions).bincount(minlength=classes**2).reshape(classes, classes)


def class_scores(found: Responses) -> list[ClassScore]:
    """Return precision, recall and F1 score of each class."""
    counts = confusion(found)
    scores = []
    for label in range(len(counts)):
        right, actual, predicted = (int(n) for n in (counts[label, label], counts[label].sum(), counts[:, label].sum()))
        scores.append(
            ClassScore(
                label,
                actual,
                right / predicted if predicted else None,
                right / actual if actual else None,
                2 * right / (actual + predicted) if actual + predicted else None,
            )
        )
    return scores
