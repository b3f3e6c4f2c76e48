"""A figure of sample images, one row for each class."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import UInt8
from matplotlib.figure import Figure
from torch import Tensor

from maxmincaps.data.images import ImageSet
from maxmincaps.errors import InputError

SHOWN_PIXELS = 160  # larger images are reduced to this side first: a figure of whole photographs would need gigabytes
MOST_CLASSES = 200


def save_samples(images: ImageSet, path: Path, per_class: int = 10) -> Path:
    """Draw the first images of each class, write the figure (without a suffix, as .png), and return its path."""
    path = path if path.suffix else path.with_suffix(".png")
    if per_class < 1:
        raise InputError(f"per_class: expected 1 or more, found {per_class}")
    if len(images.classes) > MOST_CLASSES:
        raise InputError(f"{images.name}: expected at most {MOST_CLASSES} classes to draw, found {len(images.classes)}")
    rows = [images.images[(images.labels == label).nonzero()[:per_class, 0]] for label in range(len(images.classes))]
    origin = " (regenerated)" if images.regenerated else ""
    title = f"{images.name}{origin}: {len(images):,} images of {images.height}×{images.width}"
    figure = draw_grid([_reduced(row) for row in rows], images.classes, title)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({error})") from None
    return path


def draw_grid(rows: Sequence[UInt8[Tensor, "image channel height width"]], names: Sequence[str], title: str) -> Figure:
    """Draw rows of images, each with its name on the left."""
    columns = max(len(row) for row in rows)
    cell, gap = 0.62, 0.06  # inches
    label = 0.25 + 0.085 * max(len(name) for name in names)
    width, height = label + columns * cell + 0.15, 0.45 + len(rows) * cell + 0.1
    figure = Figure(figsize=(max(width, 0.09 * len(title)), height), facecolor="white")
    wide = figure.get_figwidth()
    figure.text(0.12 / wide, 1 - 0.26 / height, title, fontsize=10, va="center", weight="bold", parse_math=False)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        bottom = height - 0.45 - (number + 1) * cell
        place = (label - 0.1) / wide, (bottom + cell / 2) / height
        figure.text(*place, name, fontsize=9, ha="right", va="center", parse_math=False)
        for column, image in enumerate(row):
            box = ((label + column * cell) / wide, bottom / height, (cell - gap) / wide, (cell - gap) / height)
            axes = figure.add_axes(box)
            axes.imshow(image.permute(1, 2, 0).numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_axis_off()
    return figure


def _reduced(row: UInt8[Tensor, "image channel height width"]) -> UInt8[Tensor, "image channel height width"]:
    """Reduce images that are larger than `SHOWN_PIXELS`, one at a time."""
    height, width = row.shape[-2:]
    scale = SHOWN_PIXELS / max(height, width)
    if scale >= 1 or not len(row):
        return row
    size = (max(1, round(scale * height)), max(1, round(scale * width)))
    resize = torch.nn.functional.interpolate
    return torch.cat([resize(image, size, mode="bilinear", antialias=True) for image in row.split(1)])
