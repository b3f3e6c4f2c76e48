"""Is a record whole, and is what it says true?"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from maxmincaps.data.augment import for_testing
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.evaluate import accuracy, class_lengths
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run
from maxmincaps.training.run_images import images_seen
from maxmincaps.training.schema import RunResult
from maxmincaps.wording import percent, pluralize


def evaluate_run(folder: Path, weights: Literal["best", "last"] = "best") -> tuple[float, int]:
    """Give the test accuracy of a run's weights, measured now, and the number of images."""
    record = Run(folder)
    network, test = load_network(folder, weights), images_seen(record).test
    return accuracy(class_lengths(network, test, for_testing(record.recipe)), test.labels), len(test)


def verify_run(folder: Path) -> Iterator[str]:
    """Yield a line for each thing that was found right; the first that is not is an `InputError`."""
    record = Run(folder)
    recipe, data, result = record.recipe, record.data, record.result
    yield f"recipe {recipe.fingerprint()}: {recipe.dataset}, {recipe.normalization}, seed {recipe.seed}"
    if len(record.history) != result.epochs:
        raise InputError(f"{folder}: expected {result.epochs} epochs in history.jsonl, found {len(record.history)}")
    if result.best_chosen_by == "test" and data.test_images_per_epoch == data.test_images:
        if not 1 <= result.best_epoch <= result.epochs:
            raise InputError(f"{folder}: result.json says best_epoch {result.best_epoch} of {result.epochs}")
        # What the whole test set chose was measured then, and is no matter of rounding now.
        _agree(folder, "best_test_accuracy", result, record.history[result.best_epoch - 1].selection_accuracy)
    yield f"history of {pluralize(result.epochs, 'epoch')}"
    stated = responses(folder)
    if len(stated.labels) != data.test_images:
        raise InputError(
            f"{folder}: expected {data.test_images} images in lengths.safetensors, found {len(stated.labels)}"
        )
    _agree(folder, "final_test_accuracy", result, (stated.predictions == stated.labels).double().mean().item())
    yield f"lengths of {data.test_images} test images give the stated final accuracy"
    for weights, name in (("best", "best_test_accuracy"), ("last", "final_test_accuracy")):
        measured, images = evaluate_run(folder, weights)
        # Another machine rounds otherwise: an image in a thousand may fall on the other side.
        _agree(folder, name, result, measured, 0.001 + 1e-9)
        how = (
            "as stated"
            if measured == getattr(result, name)
            else f"within 0.1 percentage points of the stated {percent(getattr(result, name))}"
        )
        yield f"{weights} weights give {percent(measured)} of {images} test images, {how}"


def _agree(folder: Path, name: str, result: RunResult, found: float, tolerance: float = 1e-9) -> None:
    if not math.isclose(getattr(result, name), found, rel_tol=0, abs_tol=tolerance):
        raise InputError(
            f"{folder}: result.json says {name} {percent(getattr(result, name), 4)}, found {percent(found, 4)}"
        )
