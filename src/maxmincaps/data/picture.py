"""A look at a dataset: samples of each class, and figures beside those of the genuine backgrounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from maxmincaps.data import larochelle
from maxmincaps.data.images import ImageSet, coloured
from maxmincaps.errors import InputError, import_extra

BORDER = 4  # MNIST's digits lie in the central 20×20 pixels
WORDS = {
    "mean": "mean",
    "sd": "standard deviation",
    "horizontal": "correlation with the right neighbour",
    "vertical": "correlation with the one below",
}


def samples(images: ImageSet, per_class: int) -> list[ImageSet]:
    """Give the first few images of each class."""
    return [images.take(torch.nonzero(images.labels == label)[:per_class, 0]) for label in range(len(images.classes))]


def save_samples(images: ImageSet, path: Path, per_class: int = 10) -> Path:
    """Draw the first images of each class, a row a class, and write the picture, as a .png where no ending is named."""
    path = path if path.suffix else path.with_suffix(".png")
    if per_class < 1:
        raise InputError(f"per_class: expected 1 or more, found {per_class}")
    figure = draw_samples(images, per_class)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({error})") from None
    return path


def draw_samples(images: ImageSet, per_class: int = 10) -> Any:
    """Draw the first images of each class, a row a class."""
    rows = samples(images, per_class)
    made = " (regenerated)" if images.regenerated else ""
    title = f"{images.name}{made}: {len(images):,} images of {images.height}×{images.width}"
    return draw_grid([row.images for row in rows], images.classes, title)


def draw_grid(rows: Sequence[torch.Tensor], names: Sequence[str], title: str) -> Any:
    """Draw rows of images, each with its name before it."""
    figures = import_extra("report", "matplotlib.figure")
    columns = max(len(row) for row in rows)
    cell, gap = 0.62, 0.06  # inches
    label = 0.25 + 0.085 * max(len(name) for name in names)
    width, height = label + columns * cell + 0.15, 0.45 + len(rows) * cell + 0.1
    figure = figures.Figure(figsize=(max(width, 0.09 * len(title)), height), facecolor="white")
    wide = figure.get_figwidth()
    figure.text(0.12 / wide, 1 - 0.26 / height, title, fontsize=10, va="center", weight="bold", parse_math=False)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        bottom = height - 0.45 - (number + 1) * cell
        place = (label - 0.1) / wide, (bottom + cell / 2) / height
        figure.text(*place, name, fontsize=9, ha="right", va="center", parse_math=False)
        for column, image in enumerate(row):
            box = ((label + column * cell) / wide, bottom / height, (cell - gap) / wide, (cell - gap) / height)
            axes = figure.add_axes(box)
            axes.imshow(
                image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest"
            )
            axes.set_axis_off()
    return figure


def statistics_table(images: ImageSet) -> Table:
    """Put the set's figures in a table; those of background-mnist beside the genuine ones."""
    backgrounds = images.name == "background-mnist"
    grey = coloured(images, grey=True).images[:, 0].numpy()
    found = larochelle.statistics(grey, BORDER if backgrounds else None)
    made = " (regenerated)" if images.regenerated else ""
    where = f", border of {BORDER} pixels" if backgrounds else ""
    table = Table("grey values in 0…1", f"{images.name}{made}", title=f"{len(images):,} images{where}")
    if backgrounds:
        table.add_column("genuine (measured on 20)")
    for field, words in WORDS.items():
        genuine = [f"{larochelle.REAL[field]:.3f}"] if backgrounds else []
        table.add_row(words, f"{getattr(found, field):.3f}", *genuine)
    counts = torch.bincount(images.labels, minlength=len(images.classes))
    table.add_row("images of a class", f"{counts.min():,} … {counts.max():,}", *[""] * backgrounds)
    return table
