"""`maxmincaps data …`: list, get, check and show the datasets."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD

from maxmincaps.cli.terminal import Count, console, print_table
from maxmincaps.data import download, larochelle
from maxmincaps.data.cache import cache_folder, manifest_of
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import ImageSet, coloured, load
from maxmincaps.errors import InputError, check_name
from maxmincaps.wording import pluralize

Cache = Annotated[Path | None, Parameter(help="Folder of all datasets. Default: $MAXMINCAPS_CACHE, or the platform's.")]
Source = Literal["official", "package", "npm", "debian", "pip", "installed", "regenerated"]
STATISTICS = {
    "mean": "mean",
    "sd": "standard deviation",
    "horizontal": "correlation with the right neighbour",
    "vertical": "correlation with the one below",
}


def list_(*, cache: Cache = None) -> None:
    """List the datasets: size, splits, licence, and whether they are on this machine."""
    root, rows = cache_folder(cache), []
    for dataset in DATASETS.values():
        channels, height, width = dataset.shape
        manifest = manifest_of(download.dataset_folder(dataset, root))
        size = f"{height}×{width}" + (f"×{channels}" if channels > 1 else "")
        state = "no" if manifest is None else manifest.state
        rows.append((dataset.name, size, f"{dataset.train:,} / {dataset.test:,}", dataset.licence, state))
    print_table("", ("name", "images", "train / test", "licence", "on this machine"), rows, box=SIMPLE_HEAD)
    console.print_line(f"kept in {root}")


def get(
    *names: str,
    source: Source | None = None,
    from_dir: Annotated[Path | None, Parameter(name="--from")] = None,
    photographs: Path | None = None,
    cache: Cache = None,
) -> None:
    """Download datasets, verify them, and store them in the cache.

    Args:
        names: Datasets (`maxmincaps data list` shows them), or `all`.
        source: Use this source only; `package` means any package manager. Default: try each source in turn.
        from_dir: Read the published files from this folder instead of downloading them.
        photographs: Make background-mnist with the photographs (.jpg, .png) in this folder.
    """
    if not names:
        raise InputError(f"expected names of datasets, or all; there are {', '.join(DATASETS)}")
    wanted = list(DATASETS) if "all" in names else [check_name(name, DATASETS, "dataset") for name in names]
    fetch = partial(download.get, source=source, from_dir=from_dir, photographs=photographs, cache=cache)
    for name in wanted:
        with console.status(name) as status:
            manifest = fetch(name, requested=True, report=status.update)
        origin = manifest.source if manifest.regenerated else f"from {manifest.source}, {manifest.state}"
        console.print_line(f"{name}: complete, {origin}")


def check(*, cache: Cache = None) -> None:
    """Verify the SHA-256 of every file of every dataset on this machine."""
    damaged = 0
    for name, problems in download.check(cache).items():
        console.print_line(f"{name}: {'; '.join(problems) or 'complete'}")
        damaged += bool(problems)
    if damaged:
        raise InputError(f"{pluralize(damaged, 'damaged dataset')}; `maxmincaps data get NAME` downloads one again")


def show(
    name: str,
    *,
    split: Literal["train", "test"] = "train",
    statistics: Annotated[bool, Parameter(negative=())] = False,
    out: Path | None = None,
    per_class: Count = 10,
    cache: Cache = None,
) -> None:
    """Draw a grid of samples, one row for each class, or print the set's statistics.

    Args:
        name: A dataset, a folder with one subfolder per class, or an .npz file.
        split: Whether to show the training images or the test images.
        statistics: Print mean, standard deviation and neighbour correlations instead of drawing.
        out: The figure to write. Default: NAME.png in the current folder.
        per_class: Number of samples of each class.
    """
    from maxmincaps.report.sample_grid import save_samples

    images = load(name, split, cache=cache)
    if statistics:
        _print_statistics(images)
        return
    console.print_line(f"wrote {save_samples(images, out or Path(f'{Path(name).stem}.png'), per_class)}")


def _print_statistics(images: ImageSet) -> None:
    """Print a set's statistics; those of background-mnist beside the ones of the original files."""
    backgrounds = images.name == "background-mnist"
    border = 4 if backgrounds else None  # MNIST's digits lie in the central 20×20 pixels
    found = larochelle.statistics(coloured(images, grey=True).images[:, 0].numpy(), border)
    title = f"{len(images):,} images" + (f", border of {border} pixels" if border else "")
    columns = ["grey values in 0…1", images.name + " (regenerated)" * images.regenerated]
    rows = [[words, f"{found[field]:.3f}"] for field, words in STATISTICS.items()]
    if backgrounds:
        columns.append("original (measured on 20 images)")
        rows = [[*row, f"{larochelle.REAL[field]:.3f}"] for field, row in zip(STATISTICS, rows, strict=True)]
    counts = images.labels.flatten().bincount(minlength=len(images.classes))
    rows.append(["images of a class", f"{counts.min():,} … {counts.max():,}"])
    print_table(title, columns, rows)
