"""Trained networks on changed test images: rotated, shifted, scaled, noisy and partly covered.

    python research/robustness.py RUN [RUN ...]            # run folders of one dataset, with their weights
    python research/robustness.py RUN ... --iterations 3   # other numbers of routing iterations at inference

Nothing is trained, and test images choose nothing. Each network is measured on the same 2,000 test images with the same
changes, at one, two, three and five routing iterations. It writes robustness.csv (one row for each network, change and
number of iterations) and robustness.png, and prints mean accuracies and differences of matched pairs.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

import torch
from scipy.stats import t
from torch import Generator, Tensor
from torch.nn import functional

from maxmincaps import CapsNet, Run, load, load_network
from maxmincaps.data.augment import for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.data.images import ImageSet, fixed_subset
from maxmincaps.training.evaluate import accuracy

IMAGES = 2_000
Row = dict[str, str | float]


def moved(images: Tensor, degrees: float = 0.0, pixels: float = 0.0, scale: float = 1.0) -> Tensor:
    """Return the images rotated, shifted to the right and scaled, (batch, channel, height, width), zeros outside."""
    angle = torch.deg2rad(torch.tensor(degrees))
    cosine, sine = torch.cos(angle) / scale, torch.sin(angle) / scale
    shift = torch.tensor(-2 * pixels / images.shape[-1])
    matrix = torch.stack([torch.stack([cosine, sine, shift]), torch.stack([-sine, cosine, torch.zeros(())])])
    grid = functional.affine_grid(matrix.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def noisy(images: Tensor, deviation: float) -> Tensor:
    """Return the images with Gaussian noise added, clipped to 0…1."""
    noise = torch.randn(images.shape, generator=Generator().manual_seed(len(images)))
    return (images + deviation * noise).clamp(0, 1)


def covered(images: Tensor, side: float) -> Tensor:
    """Return the images with a black square of this many pixels at a random place of each."""
    size, side = images.shape[-1], int(side)
    first = torch.randint(size - side + 1, (len(images), 2), generator=Generator().manual_seed(len(images)))
    places = torch.arange(size)
    rows, columns = ((places >= first[:, [axis]]) & (places < first[:, [axis]] + side) for axis in range(2))
    return images * ~(rows[:, None, :, None] & columns[:, None, None, :])


CHANGES: dict[str, tuple[Callable[[Tensor, float], Tensor], Sequence[float]]] = {
    "rotation (degrees)": (lambda images, size: moved(images, degrees=size), (0, 15, 30, 45, 60, 90)),
    "shift (pixels)": (lambda images, size: moved(images, pixels=size), (0, 2, 4, 6, 8)),
    "scale": (lambda images, size: moved(images, scale=size), (0.6, 0.8, 1.0, 1.2, 1.4)),
    "noise (standard deviation)": (noisy, (0.0, 0.1, 0.2, 0.3, 0.5)),
    "covered square (pixels)": (covered, (0, 4, 8, 12)),
}
"""For each kind of change: a function of images and size, and the sizes."""


def measure(folder: Path, test: ImageSet, iterations: Sequence[int]) -> Iterator[Row]:
    """Yield one row for each change, size and number of iterations."""
    run, network = Run(folder), load_network(folder)
    pixels, prepare = as_float(test.images), for_testing(run.recipe)
    for kind, (change, sizes) in CHANGES.items():
        for size in sizes:
            found = accuracies(network, prepare(change(pixels, size)), test.labels, iterations)
            for count, percent in zip(iterations, found, strict=True):
                yield {
                    "run": run.folder.name,
                    "normalization": run.recipe.normalization,
                    "relu": str(run.recipe.relu),
                    "seed": run.recipe.seed,
                    "iterations": count,
                    "change": kind,
                    "size": size,
                    "accuracy_percent": percent,
                }


@torch.inference_mode()
def accuracies(network: CapsNet, images: Tensor, labels: Tensor, iterations: Sequence[int]) -> list[float]:
    """Return the accuracy in percent for each number of routing iterations. PrimaryCaps is computed once for all."""
    found = []
    batches = [network.parts(batch) for batch in images.split(500)]
    for count in iterations:
        network.digits.iterations = count
        lengths = torch.cat([network.digits(parts).norm(dim=-1) for parts in batches])
        found.append(100 * accuracy(lengths, labels))
    return found


def summary(rows: Sequence[Row], iterations: int) -> Iterator[str]:
    """Yield lines of text: the mean accuracy over the sizes of each change, and differences of matched pairs."""
    means: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for kind in CHANGES:
        for name in {row["normalization"] for row in rows}:
            for seed in sorted({float(row["seed"]) for row in rows}):
                found = [
                    float(row["accuracy_percent"])
                    for row in rows
                    if (row["change"], row["normalization"], row["seed"], row["iterations"])
                    == (kind, name, seed, iterations)
                ]
                if found:
                    means[kind, str(name)][seed] = mean(found)
    for (kind, name), by_seed in means.items():
        yield f"{kind:28} {name:10} {mean(by_seed.values()):.2f} % (n = {len(by_seed)})"
    for kind in CHANGES:
        for other in ("softmax", "uniform"):
            ours, theirs = means[kind, "max-min"], means[kind, other]
            pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
            if len(pairs) > 1:
                half = float(t.ppf(0.975, len(pairs) - 1)) * stdev(pairs) / len(pairs) ** 0.5
                yield f"{kind:28} max-min − {other}: {mean(pairs):+.2f} ± {half:.2f} (95 %, n = {len(pairs)})"


def draw(rows: Sequence[Row], path: Path, iterations: int) -> None:
    """Draw one panel for each kind of change: mean accuracy of each normalization, and its range over the seeds."""
    from matplotlib.figure import Figure

    from maxmincaps.report.style import line_style

    figure = Figure(figsize=(12, 2.9), layout="constrained")
    for axes, kind in zip(figure.subplots(1, len(CHANGES), sharey=True), CHANGES, strict=True):
        for name in ("uniform", "softmax", "max-min"):
            style = line_style(name)
            found: dict[float, list[float]] = defaultdict(list)
            for row in rows:
                if (row["change"], row["normalization"], row["iterations"]) == (kind, name, iterations):
                    found[float(row["size"])].append(float(row["accuracy_percent"]))
            sizes = sorted(found)
            axes.fill_between(
                sizes, [min(found[s]) for s in sizes], [max(found[s]) for s in sizes], color=style.colour, alpha=0.15
            )
            axes.plot(
                sizes, [mean(found[s]) for s in sizes], style.line, color=style.colour, marker=style.marker,
                markersize=4, label=style.label,
            )  # fmt: skip
        axes.set_xlabel(kind)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("test accuracy (%)")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure the networks of the given runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--iterations", nargs="+", type=int, default=[1, 2, 3, 5])
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    test = fixed_subset(load(Run(arguments.runs[0]).recipe.dataset, "test"), IMAGES)
    rows = [row for run in arguments.runs for row in measure(run, test, arguments.iterations)]
    with (arguments.out / "robustness.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for count in arguments.iterations:
        print(f"{count} iterations at inference", *summary(rows, count), sep="\n  ")
    middle = 3 if 3 in arguments.iterations else arguments.iterations[0]
    draw(rows, arguments.out / "robustness.png", middle)


if __name__ == "__main__":
    main()
