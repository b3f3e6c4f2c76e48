"""Export the network of a run as a file for other programs, checked against torch."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from maxmincaps.capsules.shapes import Images
from maxmincaps.data.augment import for_testing, whiten
from maxmincaps.data.batches import as_float
from maxmincaps.data.images import fixed_subset
from maxmincaps.errors import InputError, check_name, one_line
from maxmincaps.export.card import shareable_recipe
from maxmincaps.export.onnx import to_onnx
from maxmincaps.export.program import ExportedNetwork, Outputs, to_program
from maxmincaps.files import make_directory, reporting_write_errors, write_atomic
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.run import Run

WRITERS = {"onnx": (".onnx", to_onnx), "torch": (".pt2", to_program)}
TOLERANCE = 1e-4
WELL_CONDITIONED_RANGE = 0.01
"""Couplings of a child whose logits have a smaller range are compared less strictly: see `coupling_tolerances`."""
CHECKED_IMAGES = 100


@dataclass(frozen=True)
class Exported:
    """A file that was written, and how it compares with torch."""

    path: Path
    outputs: tuple[str, ...]
    differences: dict[str, float]
    """Largest difference of each output."""
    images: int
    checked_on: str
    """What the images of the comparison were."""


def export_run(
    folder: Path | str,
    to: Literal["onnx", "torch"] = "onnx",
    out: Path | str | None = None,
    *,
    couplings: bool = False,
    weights: Literal["best", "last"] = "best",
    dataset: Path | str | None = None,
    tolerance: float = TOLERANCE,
    overwrite: bool = False,
) -> Exported:
    """Write a run's network as ONNX or as a torch program.

    The file takes any number of images with pixels in 0…1, (batch, channel, height, width). It returns lengths
    (batch, class), poses (batch, class, pose) and the reconstruction. It is written only if it agrees with torch.

    Args:
        folder: The run folder.
        to: The format.
        out: The file to write. Default: the run's name, in the current folder.
        couplings: Whether the file returns the couplings of the last iteration too.
        weights: Weights of the best epoch or of the last one.
        dataset: Where the run's images are now. Default: where they were when it was trained.
        tolerance: Largest difference to torch that is accepted; for couplings see `coupling_tolerances`.
        overwrite: Whether an existing file is replaced.

    Raises:
        InputError: If the outputs differ by more than the tolerance, or the file exists or cannot be written.
    """
    run = Run(Path(folder))
    suffix, write = WRITERS[check_name(to, WRITERS, "format of export")]
    path = Path(out) if out else Path(run.folder.resolve().name + suffix)
    if path.suffix != suffix:
        raise InputError(f"{path}: expected a file whose name ends in {suffix}")
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; choose another file with --out, or replace it with --overwrite")
    network = ExportedNetwork(load_network(folder, weights), couplings, whiten if run.recipe.whiten else None)
    images, checked_on = _images_to_check(run, dataset)
    written = write(network, _notes(run, weights))
    differences = compare(written.run, network, images, tolerance, str(path))
    with reporting_write_errors(path):
        make_directory(path.parent)
        write_atomic(path, written.content)
    return Exported(path, network.outputs, differences, len(images), checked_on)


@torch.no_grad()
def compare(
    file: Callable[[Tensor], Outputs], network: ExportedNetwork, images: Images, tolerance: float, path: str
) -> dict[str, float]:
    """Compare an exported file with torch, on one image and on all together, as the batch axis is free.

    Returns:
        The largest difference of each output.

    Raises:
        InputError: If an output differs by more than the tolerance, or is not a number.
    """
    largest = dict.fromkeys(network.outputs, 0.0)
    for batch in (images[:1], images):
        for name, ours, theirs in zip(network.outputs, network(batch), file(batch), strict=True):
            difference = (ours - theirs).abs()
            allowed = torch.tensor(tolerance)
            if name == "couplings":
                allowed = coupling_tolerances(network.logit_ranges(batch), tolerance)[..., None]
            largest[name] = max(largest[name], difference.max().item())
            if not (difference <= allowed).all():  # false for NaN too
                raise InputError(
                    f"{path}: was not written, as {name} differ by {difference.max():.1e} from torch's on {len(batch)} "
                    f"images (accepted: {tolerance:.0e}; --tolerance accepts more)"
                )
    return largest


def coupling_tolerances(ranges: Tensor, tolerance: float) -> Tensor:
    """Return the accepted difference of each child's couplings.

    Max-Min divides by the range of a child's logits. A rounding error in the logits is multiplied by 1 / range, so the
    couplings of a child with nearly equal logits are ill-conditioned, though its share in every pose is not affected.
    The accepted difference is `tolerance` where the range is at least `WELL_CONDITIONED_RANGE`, and grows as 1 / range
    below it: logits must agree within `tolerance · WELL_CONDITIONED_RANGE`.

    Args:
        ranges: Largest minus smallest logit of each child, (batch, child).
        tolerance: The accepted difference for a well-conditioned child.
    """
    return tolerance * (WELL_CONDITIONED_RANGE / ranges.clamp(min=1e-30)).clamp(min=1)


def _images_to_check(run: Run, dataset: Path | str | None) -> tuple[Images, str]:
    """Return some test images at the network's size, before whitening; random ones if the run's images are missing."""
    try:
        test = images_seen(run, dataset).test
    except InputError as error:
        noise = torch.rand(CHECKED_IMAGES, *run.data.image_shape, generator=torch.Generator().manual_seed(0))
        return noise, f"random images, as the test images cannot be used ({one_line(error)})"
    prepare = for_testing(run.recipe.with_changes(whiten=False))
    return prepare(as_float(fixed_subset(test, CHECKED_IMAGES).images)), "test images"


def _notes(run: Run, weights: str) -> dict[str, str]:
    """Return what the file states about itself."""
    return {
        "classes": json.dumps(run.data.classes),
        "recipe": shareable_recipe(run).to_json(),
        "fingerprint": run.recipe.fingerprint(),
        "weights": weights,
    }
