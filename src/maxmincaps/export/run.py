"""From the record of a run to a file for other programs, checked on the images that the run was tested on."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from maxmincaps.capsules.shapes import Images
from maxmincaps.data.augment import for_testing, whiten
from maxmincaps.data.batches import as_float
from maxmincaps.data.images import fixed_subset, images_of
from maxmincaps.errors import InputError, check_name
from maxmincaps.export.card import told_recipe
from maxmincaps.export.onnx import write_onnx
from maxmincaps.export.program import Answers, write_program
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.run import Run

WRITERS = {"onnx": (".onnx", write_onnx), "torch": (".pt2", write_program)}
ALLOWED_DIFFERENCE = 1e-4
CHECKED_IMAGES = 100


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how far its answers are from torch's."""

    path: Path
    outputs: tuple[str, ...]
    difference: float
    images: int


def export_run(
    folder: Path | str,
    to: Literal["onnx", "torch"] = "onnx",
    out: Path | str | None = None,
    *,
    couplings: bool = False,
    weights: Literal["best", "last"] = "best",
) -> Exported:
    """Write a run's network as ONNX or as a torch program.

    The file takes any number of images with pixels in 0…1, and gives lengths, poses and reconstruction, and the last
    iteration's couplings on request. It is kept only if it answers as the network does, on images of the test set.
    """
    record = Run(Path(folder))
    suffix, write = WRITERS[check_name(to, WRITERS, "form of export")]
    path = Path(out) if out else Path(record.folder.resolve().name + suffix)
    if path.suffix != suffix:
        raise InputError(f"{path}: expected a file whose name ends in {suffix}")
    recipe = record.recipe
    answers = Answers(load_network(folder, weights), couplings, whiten if recipe.whiten else None)
    images = _real_images(recipe)
    beside = path.with_name(f".{path.stem}.new{suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        difference = largest_difference(write(answers, beside, _notes(record, weights)), answers, images)
        if not difference <= ALLOWED_DIFFERENCE:
            raise InputError(
                f"{path}: was not written, as its answers on {len(images)} test images differ by {difference:.1e} "
                f"from torch's (allowed: {ALLOWED_DIFFERENCE:.0e})"
            )
        beside.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):  # it was renamed, or there was no place for it
            beside.unlink()
    return Exported(path, answers.outputs, difference, len(images))


@torch.no_grad()
def largest_difference(
    file: Callable[[Tensor], tuple[Tensor, ...]], network: Callable[[Tensor], tuple[Tensor, ...]], images: Images
) -> float:
    """Compare all answers, of one image and of all together: the batch axis is free."""
    pairs = [
        (ours, theirs)
        for batch in (images[:1], images)
        for ours, theirs in zip(file(batch), network(batch), strict=True)
    ]
    return torch.stack([(ours - theirs).abs().max() for ours, theirs in pairs]).max().item()  # NaN, if one is


def _real_images(recipe: Recipe) -> Images:
    """Give some test images at the size that the network takes, before any whitening."""
    test = images_of(recipe, "test")
    return for_testing(recipe.with_changes(whiten=False))(as_float(fixed_subset(test, CHECKED_IMAGES).images))


def _notes(record: Run, weights: str) -> dict[str, str]:
    """Say in the file what it is, so that it needs no record beside it."""
    return {
        "classes": json.dumps(record.data.classes),
        "recipe": told_recipe(record).to_json(),
        "fingerprint": record.recipe.fingerprint(),
        "weights": weights,
    }
