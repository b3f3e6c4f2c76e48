"""The class lengths of a run's test images: as the run stores them, computed again, and compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from maxmincaps.capsules.losses import longest, same_classes
from maxmincaps.data.augment import for_testing
from maxmincaps.data.images import ImageSet, load
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import check_finite, load_network, load_tensors
from maxmincaps.training.evaluate import accuracy, class_lengths, images_seen
from maxmincaps.training.predict import PREPROCESSING, Predictor, size_before_crop
from maxmincaps.training.run import Run
from maxmincaps.wording import percent, pluralize

Weights = Literal["best", "last"]


@dataclass(frozen=True, eq=False)
class Responses:
    """The final lengths of the class capsules for every test image."""

    lengths: Float[Tensor, "image parent"]
    predictions: Int64[Tensor, "image *several"]
    labels: Int64[Tensor, "image *several"]
    classes: tuple[str, ...]

    @property
    def wrong(self) -> Int64[Tensor, "mistake"]:
        """The indices of the misclassified images."""
        return (~same_classes(self.predictions, self.labels)).nonzero().squeeze(1)

    @property
    def error_percent(self) -> float:
        """The percentage of misclassified images."""
        return 100 * len(self.wrong) / len(self.labels)


def responses(run: Path | str) -> Responses:
    """Return the responses that a run stored (lengths.safetensors).

    Raises:
        InputError: If the file is missing or damaged.
    """
    path = Path(run) / "lengths.safetensors"
    tensors, _ = load_tensors(path)
    classes = Run(Path(run)).data.classes
    try:
        lengths, predictions, labels = (tensors[name] for name in ("lengths", "predictions", "labels"))
    except KeyError as error:
        raise InputError(f"{path}: expected a tensor {error}, found {', '.join(tensors) or 'none'}") from None
    images = len(labels) if labels.dim() in (1, 2) else 0
    shapes = [tuple(tensor.shape) for tensor in (lengths, predictions, labels)]
    if not images or shapes != [(images, len(classes)), *[tuple(labels.shape)] * 2]:
        raise InputError(f"{path}: expected lengths of {len(classes)} classes, predictions and labels, found {shapes}")
    for chosen in (predictions, labels):
        if chosen.is_floating_point() or chosen.min() < 0 or chosen.max() >= len(classes):
            raise InputError(f"{path}: expected predictions and labels in 0…{len(classes) - 1}, found others")
    check_finite({"lengths": lengths}, path)
    return Responses(lengths.float(), predictions.long(), labels.long(), classes)


def responses_of(folder: Path, weights: Weights, dataset: Path | str | None = None) -> Responses:
    """Return the stored responses of the last weights, or compute those of the best ones or to a named dataset."""
    if dataset is None and Run(folder).exists and (weights == "last" or best_is_last(folder)):
        return responses(folder)
    return evaluate_run(folder, weights, dataset)


def best_is_last(folder: Path) -> bool:
    """Return whether the best epoch of a run is its last one, so that both have the same weights."""
    run = Run(folder)
    return run.complete and run.result.best_epoch == run.result.epochs


def evaluate_run(folder: Path, weights: Weights = "best", dataset: Path | str | None = None) -> Responses:
    """Classify the test images of a run again, or other images with the same classes.

    Args:
        folder: A run folder, or a hub folder.
        weights: Weights of the best epoch or of the last one.
        dataset: A dataset's name, or a folder or array file of images. Default: those that the run was tested on.
            Without a test split of its own, all images of a folder are used.
    """
    run = Run(folder)
    if not run.exists and (folder / PREPROCESSING).exists():
        hub = Predictor.of(folder)
        network, recipe, classes = hub.network, hub.recipe, hub.classes
        images = _images_of_size(dataset or recipe.dataset, hub.size_before_crop, network.image_shape[0] == 1, classes)
    else:
        network, recipe, classes = load_network(folder, weights), run.recipe, run.data.classes
        images = _images_to_evaluate(run, dataset)
    lengths = class_lengths(network, images, for_testing(recipe))
    return Responses(lengths, longest(lengths, images.labels), images.labels, classes)


def _images_to_evaluate(run: Run, dataset: Path | str | None) -> ImageSet:
    try:
        return images_seen(run, dataset).test  # the run's own images, wherever they are now
    except InputError:
        if dataset is None or str(dataset) == run.recipe.dataset:
            raise
    return _images_of_size(dataset, size_before_crop(run), run.data.image_shape[0] == 1, run.data.classes)


def _images_of_size(dataset: Path | str, size: tuple[int, int], grey: bool, classes: tuple[str, ...]) -> ImageSet:
    """Load images of some of the classes, with the labels that the network has for them."""
    height, width = size
    images = load(dataset, "evaluation", image_size=height if height == width else None, grey=grey)
    if (images.height, images.width) != (height, width):
        found = f"{images.height}×{images.width}"
        raise InputError(f"{dataset}: expected images of {height}×{width}, as the network was tested on, found {found}")
    if unknown := [name for name in images.classes if name not in classes]:
        raise InputError(f"{dataset}: expected classes of the run ({', '.join(classes)}), found {unknown[0]!r}")
    labels = torch.tensor([classes.index(name) for name in images.classes])
    return replace(images, labels=labels[images.labels], classes=classes)


def verify_run(folder: Path, dataset: Path | str | None = None) -> Iterator[str]:
    """Check a run folder. Yield a line for each check that passes.

    Args:
        folder: The run folder.
        dataset: Path of the run's own images. Default: where they were when it was trained.

    Raises:
        InputError: At the first check that fails.
    """
    run = Run(folder)
    recipe, data, result, history = run.recipe, run.data, run.result, run.history

    def check_agrees(name: str, found: float, tolerance: float = 1e-9) -> None:
        stated = getattr(result, name)
        if not math.isclose(stated, found, rel_tol=0, abs_tol=tolerance):
            raise InputError(f"{folder}: result.json says {name} {percent(stated, 4)}, found {percent(found, 4)}")

    yield f"recipe {recipe.fingerprint()}: {recipe.dataset}, {recipe.normalization}, seed {recipe.seed}"
    if len(history) != result.epochs:
        raise InputError(f"{folder}: expected {result.epochs} epochs in history.jsonl, found {len(history)}")
    if result.best_chosen_by == "test" and data.test_images_per_epoch == data.test_images:
        if not 1 <= result.best_epoch <= result.epochs:
            raise InputError(f"{folder}: result.json says best_epoch {result.best_epoch} of {result.epochs}")
        # The best epoch was chosen on the whole test set, so the history has exactly this number.
        check_agrees("best_test_accuracy", history[result.best_epoch - 1].selection_accuracy)
    yield f"history of {pluralize(result.epochs, 'epoch')}"
    stored = responses(folder)
    if len(stored.labels) != data.test_images:
        found = len(stored.labels)
        raise InputError(f"{folder}: expected {data.test_images} images in lengths.safetensors, found {found}")
    check_agrees("final_test_accuracy", 1 - len(stored.wrong) / len(stored.labels))
    yield f"lengths of {data.test_images} test images give the stated final accuracy"
    for weights, name in (("best", "best_test_accuracy"), ("last", "final_test_accuracy")):
        again, stated = evaluate_run(folder, weights, dataset), getattr(result, name)
        measured = accuracy(again.lengths, again.labels)
        # Other machines round differently: one image in a thousand may change its class.
        check_agrees(name, measured, 0.001 + 1e-9)
        how = f"within 0.1 percentage points of the stated {percent(stated)}" if measured != stated else "as stated"
        yield f"{weights} weights give {percent(measured)} of {len(again.labels)} test images, {how}"
