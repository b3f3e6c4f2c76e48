"""What trained networks answer to test images: figures 5, 6, 9 and A.1 to A.3, from run folders alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from maxmincaps.capsules.decoder import one_hot
from maxmincaps.errors import InputError
from maxmincaps.training.responses import Responses


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


def shown_images(found: Responses) -> list[int]:
    """Return the images of figure 5: the first test image of each class, the same for every network."""
    return [
        int(of_class[0, 0]) for label in range(len(found.classes)) if len(of_class := (found.labels == label).nonzero())
    ]


def outputs(found: Responses, images: Sequence[int] | None = None) -> list[ClassLength]:
    """Return the length of each class capsule for some test images, by default the first of each class (figure 5)."""
    chosen = shown_images(found) if images is None else list(images)
    for image in chosen:
        if not 0 <= image < len(found.labels):
            raise InputError(f"image: expected 0 to {len(found.labels) - 1}, found {image}")
    return [
        ClassLength(image, int(found.labels[image]), parent, length)
        for image in chosen
        for parent, length in enumerate(found.lengths[image].tolist())
    ]


def tuning(found: Responses) -> Float[Tensor, "label parent"]:
    """Return the mean length of each class capsule over the images of each class (figure 6); zeros without images."""
    sums = torch.zeros(len(found.classes), found.lengths.shape[1]).index_add(0, found.labels, found.lengths)
    return sums / found.labels.bincount(minlength=len(found.classes)).clamp(min=1)[:, None]


def tuning_rows(found: Responses) -> list[MeanLength]:
    """Return the tuning curves as a tidy table."""
    curves = enumerate(tuning(found).tolist())
    return [MeanLength(label, parent, length) for label, curve in curves for parent, length in enumerate(curve)]


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
    """Return precision, recall and F1 score of each class. An image may have several classes."""
    actual, predicted = (
        one_hot(each, len(found.classes), torch.float64).long() for each in (found.labels, found.predictions)
    )
    columns = ((actual * predicted).sum(dim=0).tolist(), actual.sum(dim=0).tolist(), predicted.sum(dim=0).tolist())
    return [
        ClassScore(
            label,
            actual,
            right / predicted if predicted else None,
            right / actual if actual else None,
            2 * right / (actual + predicted) if actual + predicted else None,
        )
        for label, (right, actual, predicted) in enumerate(zip(*columns, strict=True))
    ]
