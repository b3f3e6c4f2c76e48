"""Capsule heads on a small convolutional backbone: accuracy, calibration, rotated and shifted images.

Claim    none of the paper's. Capsule networks are said to be better calibrated and more robust to changes of pose than
         other networks. This study compares four heads on the same backbone, trained the same way: a linear classifier,
         capsules with uniform routing coefficients (no routing), with Softmax, and with Max-Min.
Runs     CIFAR10, the deep stem with 128 channels, PrimaryCaps of 16 types with 5×5 kernels, no reconstruction. Images
         are whitened, shifted by up to 4 pixels and mirrored. Margin loss, 30 epochs, cosine schedule, large products
         in bf16, 3 seeds. Published for comparison: Keras' capsule example 83.8 % after 50 epochs, DeepCaps 92.7 %.
Measure  best test accuracy, the epoch chosen on the last 5,000 training images. `python research/backbones.py` adds the
         calibration error and the accuracy on test images rotated by up to 30° and shifted by up to 8 pixels.
Cost     at 216 (capsules) to 274 (linear) images/s, measured on one core with other work beside it: about 1.7 to
         2 core-hours a run.
Command  maxmincaps study run research/backbones.py --out research/runs
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

from torch import Generator, Tensor

from maxmincaps import Run, load, load_network
from maxmincaps.data.augment import for_testing, rotate, shift
from maxmincaps.studies.study import HALF_PRECISION, Budget, Line, Study
from maxmincaps.training.evaluate import accuracy, class_lengths

LINEAR = Line("linear", {"head": "linear"})
STUDY = Study(
    name="backbones",
    title="Heads on a backbone",
    claim="What capsules and routing add to a convolutional backbone.",
    datasets=("cifar10",),
    lines=(
        LINEAR,
        Line("capsules, uniform", {"normalization": "uniform"}),
        Line("capsules, Softmax", {"normalization": "softmax"}),
        Line("capsules, Max-Min", {"normalization": "max-min"}),
    ),
    settings={
        "stem": "deep",
        "conv_channels": 128,
        "types": 16,
        "primary_kernel": 5,
        "reconstruction_weight": 0.0,
        "crop": 0,
        "shift": 4,
        "flip": True,
        "whiten": True,
        "schedule": "cosine",
    },
    scales={"small": (Budget(epochs=30, seeds=3, changes={"validation": 5_000, **HALF_PRECISION}),)},
    notes={"small": "30 epochs of 45,000 training images, 5,000 validation images"},
)

CHANGES: dict[str, Callable[[Tensor, Generator], Tensor]] = {
    "test": lambda images, generator: images,
    "rotated 30°": lambda images, generator: rotate(images, 30.0, generator),
    "shifted 8 px": lambda images, generator: shift(images, 8, generator),
}
"""Changes of the test images, by the name of their column."""


def calibration_error(lengths: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Return the expected calibration error, with the longest length as the network's confidence.

    Args:
        lengths: Class lengths, (image, class).
        labels: True classes, (image).
        bins: Equal intervals of confidence.

    Returns:
        The mean distance between confidence and accuracy over the bins, weighted by their images.
    """
    confidence, predicted = lengths.max(dim=1)
    right = (predicted == labels).double()
    which = (confidence * bins).long().clamp(max=bins - 1)
    gaps = (confidence.double() - right).new_zeros(bins).index_add(0, which, confidence.double() - right)
    return gaps.abs().sum().item() / len(labels)


def measure(folder: Path) -> dict[str, float]:
    """Return the calibration error of a run's network and its accuracy on changed test images, by column."""
    run, network = Run(folder), load_network(folder)
    test = load(run.recipe.dataset, "test")
    prepare = for_testing(run.recipe)
    found = {}
    for name, change in CHANGES.items():
        generator = Generator().manual_seed(0)  # the same changes for every run

        def changed(images: Tensor, change=change, generator=generator) -> Tensor:
            return prepare(change(images, generator))

        lengths = class_lengths(network, test, changed)
        found[name] = 100 * accuracy(lengths, test.labels)
        found[f"{name}, calibration error"] = 100 * calibration_error(lengths, test.labels)
    return found


def finished(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield line and folder of the study's finished runs below a folder."""
    lines = {entry.recipe.fingerprint(): entry.line.label for entry in STUDY.entries("small")}
    for path in sorted(folder.rglob("recipe.json")):
        run = Run(path.parent)
        if run.complete and run.recipe.fingerprint() in lines:
            yield lines[run.recipe.fingerprint()], path.parent


def main(folder: str = "research/runs") -> None:
    """Print the means over the seeds, in percent."""
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for line, path in finished(Path(folder)):
        rows[line].append(measure(path))
    if not rows:
        print(f"{folder}: no finished run of this study; train them with the command above")
    for line, found in rows.items():
        means = {name: mean(row[name] for row in found) for name in found[0]}
        print(f"{line} (n = {len(found)}):", *(f"{name} {value:.2f} %" for name, value in means.items()), sep="\n  ")


if __name__ == "__main__":
    main(*sys.argv[1:])
