"""What trained networks say of the test images: figures 5, 6, 9 and A.1 to A.3, from records alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from maxmincaps.errors import InputError
from maxmincaps.training.responses import Responses, responses

RunSummary = dict[str, Any]


def shown_images(labels: Int64[Tensor, "image"], classes: int) -> list[int]:
    """Choose the images of figure 5: the first test image of each class, the same for every network."""
    return [int((labels == label).nonzero()[0]) for label in range(classes) if (labels == label).any()]


def outputs(run: Path | str, images: Sequence[int] | None = None) -> list[RunSummary]:
    """Give the length of each class capsule for some test images, by default the first of each class (figure 5)."""
    found = responses(run)
    chosen = shown_images(found.labels, len(found.classes)) if images is None else list(images)
    for image in chosen:
        if not 0 <= image < len(found.labels):
            raise InputError(f"image: expected 0 to {len(found.labels) - 1}, found {image}")
    return [
        {"image": image, "label": int(found.labels[image]), "parent": parent, "length": length}
        for image in chosen
        for parent, length in enumerate(found.lengths[image].tolist())
    ]


def tuning(run: Path | str) -> Float[Tensor, "label parent"]:
    """Give the mean length of each capsule over the test images of each true class: one curve a row (figure 6)."""
    return tuning_of(responses(run))


def tuning_of(found: Responses) -> Float[Tensor, "label parent"]:
    """Average the lengths over the images of each class; a class without images gives zeros."""
    sums = torch.zeros(len(found.classes), found.lengths.shape[1]).index_add(0, found.labels, found.lengths)
    return sums / found.labels.bincount(minlength=len(found.classes)).clamp(min=1)[:, None]


def tuning_rows(run: Path | str) -> list[RunSummary]:
    """Give the tuning curves as a tidy table."""
    return [
        {"label": label, "parent": parent, "mean_length": length}
        for label, curve in enumerate(tuning(run).tolist())
        for parent, length in enumerate(curve)
    ]


def misclassified(found: Responses) -> list[RunSummary]:
    """List the images that are classified wrongly: index, prediction, label, and both lengths (figures 9, A.1–A.3)."""
    return [
        {
            "image": image,
            "prediction": prediction,
            "label": label,
            "length_of_prediction": found.lengths[image, prediction].item(),
            "length_of_label": found.lengths[image, label].item(),
        }
        for image in found.wrong.tolist()
        for prediction, label in [(int(found.predictions[image]), int(found.labels[image]))]
    ]


def confusion(found: Responses) -> Int64[Tensor, "label prediction"]:
    """Count how often each class is taken for each other."""
    classes = len(found.classes)
    return (found.labels * classes + found.predictions).bincount(minlength=classes**2).reshape(classes, classes)
