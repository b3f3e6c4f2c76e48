"""Evaluate the network of a run, and check that a run folder is complete and its accuracies can be reproduced."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from maxmincaps.capsules.losses import longest
from maxmincaps.data.augment import for_testing
from maxmincaps.data.images import ImageSet, load
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.evaluate import accuracy, class_lengths
from maxmincaps.training.predict import size_before_crop
from maxmincaps.training.responses import Responses, responses
from maxmincaps.training.run import Run
from maxmincaps.training.run_images import images_seen
from maxmincaps.training.schema import RunResult
from maxmincaps.wording import percent, pluralize


def evaluate_run(
    folder: Path, weights: Literal["best", "last"] = "best", dataset: Path | str | None = None
) -> Responses:
    """Classify the test images of a run again, or other images with the same classes.

    Args:
        folder: The run folder.
        weights: Weights of the best epoch or of the last one.
        dataset: A dataset's name, or a folder or array file of images. Default: those that the run was tested on.
            Without a test split of its own, all images of a folder are used.
    """
    run = Run(folder)
    network, images = load_network(folder, weights), _images_to_evaluate(run, dataset)
    lengths = class_lengths(network, images, for_testing(run.recipe))
    return Responses(lengths, longest(lengths, images.labels), images.labels, run.data.classes)


def responses_of(folder: Path, weights: Literal["best", "last"], dataset: Path | str | None = None) -> Responses:
    """Return the stored responses of the last weights, or compute those of the best ones or to a named dataset."""
    if dataset is None and (weights == "last" or best_is_last(folder)):
        return responses(folder)
    return evaluate_run(folder, weights, dataset)


def best_is_last(folder: Path) -> bool:
    """Return whether the best epoch of a run is its last one, so that both have the same weights."""
    run = Run(folder)
    return run.complete and run.result.best_epoch == run.result.epochs


def _images_to_evaluate(run: Run, dataset: Path | str | None) -> ImageSet:
    if dataset is None:
        return images_seen(run).test
    try:
        return images_seen(run, dataset).test  # the run's own images, wherever they are now
    except InputError:
        if str(dataset) == run.recipe.dataset:
            raise
    data = run.data
    height, width = size_before_crop(run)
    size, grey = height if height == width else None, data.image_shape[0] == 1
    images = load(dataset, "evaluation", image_size=size, grey=grey)
    if (images.height, images.width) != (height, width):
        found = f"{images.height}×{images.width}"
        raise InputError(f"{dataset}: expected images of {height}×{width}, as the network was tested on, found {found}")
    unknown = [name for name in images.classes if name not in data.classes]
    if unknown:
        raise InputError(f"{dataset}: expected classes of the run ({', '.join(data.classes)}), found {unknown[0]!r}")
    labels = torch.tensor([data.classes.index(name) for name in images.classes])
    return replace(images, labels=labels[images.labels], classes=data.classes)


def verify_run(folder: Path, dataset: Path | str | None = None) -> Iterator[str]:
    """Check a run folder. Yield a line for each check that passes.

    Args:
        folder: The run folder.
        dataset: Where the run's images are now. Default: where they were when it was trained.

    Raises:
        InputError: At the first check that fails.
    """
    run = Run(folder)
    recipe, data, result = run.recipe, run.data, run.result
    yield f"recipe {recipe.fingerprint()}: {recipe.dataset}, {recipe.normalization}, seed {recipe.seed}"
    if len(run.history) != result.epochs:
        raise InputError(f"{folder}: expected {result.epochs} epochs in history.jsonl, found {len(run.history)}")
    if result.best_chosen_by == "test" and data.test_images_per_epoch == data.test_images:
        if not 1 <= result.best_epoch <= result.epochs:
            raise InputError(f"{folder}: result.json says best_epoch {result.best_epoch} of {result.epochs}")
        # The best epoch was chosen on the whole test set, so the history has exactly this number.
        _check_agrees(folder, "best_test_accuracy", result, run.history[result.best_epoch - 1].selection_accuracy)
    yield f"history of {pluralize(result.epochs, 'epoch')}"
    stated = responses(folder)
    if len(stated.labels) != data.test_images:
        raise InputError(
            f"{folder}: expected {data.test_images} images in lengths.safetensors, found {len(stated.labels)}"
        )
    _check_agrees(folder, "final_test_accuracy", result, 1 - len(stated.wrong) / len(stated.labels))
    yield f"lengths of {data.test_images} test images give the stated final accuracy"
    for weights, name in (("best", "best_test_accuracy"), ("last", "final_test_accuracy")):
        again = evaluate_run(folder, weights, dataset)
        measured, images = accuracy(again.lengths, again.labels), len(again.labels)
        # Other machines round differently: one image in a thousand may change its class.
        _check_agrees(folder, name, result, measured, 0.001 + 1e-9)
        how = (
            "as stated"
            if measured == getattr(result, name)
            else f"within 0.1 percentage points of the stated {percent(getattr(result, name))}"
        )
        yield f"{weights} weights give {percent(measured)} of {images} test images, {how}"


def _check_agrees(folder: Path, name: str, result: RunResult, found: float, tolerance: float = 1e-9) -> None:
    if not math.isclose(getattr(result, name), found, rel_tol=0, abs_tol=tolerance):
        raise InputError(
            f"{folder}: result.json says {name} {percent(getattr(result, name), 4)}, found {percent(found, 4)}"
        )
