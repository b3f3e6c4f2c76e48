"""Images for the explorer: drawings and uploaded pictures, which are not trusted, and test images of a run."""

import base64
import io
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from PIL import Image

from maxmincaps.data.batches import as_float
from maxmincaps.data.cache import cache_folder, manifest_of
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.download import dataset_folder
from maxmincaps.data.image_files import KINDS, as_pixels
from maxmincaps.data.images import ImageSet, test_images_of
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.predict import Picture, central
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run

MOST_BYTES = 8 << 20  # of an uploaded file
MOST_PIXELS = 1 << 25  # of a JPEG, which is decoded at a fraction of its size
MOST_DECODED_PIXELS = 12 << 20
"""Of the decoded picture, which is copied a few times, at up to 4 bytes a pixel, before it has the network's size."""
INK_SHARE = 20 / 28  # MNIST's digits are fitted into 20×20 of their 28×28 pixels, and centred by mass
Shape = tuple[int, int, int]


class PreparedImage(NamedTuple):
    """An image for a network, pixels in 0…1, and a note about what was done to it."""

    image: Picture
    note: str


def prepare_drawing(url: str, shape: Shape) -> PreparedImage | None:
    """Centre a drawing, white on black in a data URL, as MNIST's digits are; return None if nothing is drawn.

    `shape` is the (channels, height, width) that the network takes. An `InputError` says why a picture is refused.
    """
    channels, height, width = shape
    ink = _open(url, "L", shape).convert("L")
    box = ink.getbbox()
    if box is None:
        return None
    cut = ink.crop(box)
    scale = INK_SHARE * min(height, width) / max(cut.size)
    size = (max(1, round(cut.width * scale)), max(1, round(cut.height * scale)))
    small = np.asarray(cut.resize(size, Image.Resampling.BOX), np.float32) / 255
    top, left = (_centred_start(small.sum(axis=1 - axis), side) for axis, side in enumerate((height, width)))
    image = torch.zeros(channels, height, width)
    image[:, top : top + small.shape[0], left : left + small.shape[1]] = torch.from_numpy(small)
    return PreparedImage(image, "your drawing, centred by its mass")


def _centred_start(ink: np.ndarray, side: int) -> int:
    """Return where ink along one axis must begin so that its centre of mass is in the middle of a side."""
    centre = float((ink * (np.arange(len(ink)) + 0.5)).sum()) / max(float(ink.sum()), 1e-6)
    return min(max(round(side / 2 - centre), 0), side - len(ink))


def prepare_upload(url: str, shape: Shape, invert: bool = False, *, in_proportion: bool = False) -> PreparedImage:
    """Bring a picture to the network's size and colours, `invert` it, and stretch it or keep it `in_proportion`."""
    channels, height, width = shape
    mode = "L" if channels == 1 else "RGB"
    picture = _open(url, mode, shape)
    seen = as_pixels(picture, mode, height, width, in_proportion=in_proportion)
    pixels = np.ascontiguousarray(seen, np.float32) / 255
    frame = ", the first frame of an animation" if getattr(picture, "is_animated", False) else ""
    return PreparedImage(torch.from_numpy(1 - pixels if invert else pixels), f"your picture at {width}×{height}{frame}")


def _open(url: str, mode: str, shape: Shape) -> Image.Image:
    """Decode the picture in a data URL if its header states an acceptable size; of an animation, the first frame."""
    head, _, body = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise InputError("expected a picture, found something else")
    if len(body) > MOST_BYTES * 4 / 3 + 4:
        raise InputError(f"expected a picture of at most {MOST_BYTES >> 20} MB, found {len(body) * 3 >> 22} MB")
    if not body:
        raise InputError("expected a picture, found an empty file")
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(body, validate=True)), formats=KINDS)
        if picture.format == "JPEG":
            _check_size(picture.size, MOST_PIXELS)
            picture.draft(mode, (2 * shape[2], 2 * shape[1]))
        _check_size(picture.size, MOST_DECODED_PIXELS)
        picture.seek(0)
        picture.load()
    except InputError:
        raise
    except Exception:
        # Decoders raise many types on damaged files, and their messages may name internals.
        raise InputError(
            f"expected a complete picture ({', '.join(KINDS)}), found something else or damaged data"
        ) from None
    return picture


def _check_size(size: tuple[int, int], most: int) -> None:
    if math.prod(size) > most:
        raise InputError(f"expected at most {most / 1e6:.0f} million pixels, found {size[0]:,}×{size[1]:,}")


@dataclass(frozen=True, eq=False)
class Samples:
    """A test set, and the indices of the images that a run gets wrong."""

    images: ImageSet
    recipe: Recipe
    wrong: Sequence[int]

    @classmethod
    def of(cls, run: Path) -> Self | None:
        """Load the test set of a run, or return None if it is not on this machine: a page downloads nothing."""
        recipe = Run(run).recipe
        if recipe.dataset in DATASETS and manifest_of(dataset_folder(DATASETS[recipe.dataset], cache_folder())) is None:
            return None
        try:
            images = test_images_of(recipe)
        except InputError:
            return None
        try:
            found = responses(run)
            wrong = found.wrong.tolist() if len(found.labels) == len(images) else []
        except InputError:
            wrong = []
        return cls(images, recipe, wrong)

    def prepare(self, number: int) -> PreparedImage:
        """Return a test image as the network sees it."""
        image = central(as_float(self.images.images[number]), self.recipe)
        labels = self.images.labels[number].reshape(-1).tolist()
        names = " and ".join(self.images.classes[label] for label in labels)
        return PreparedImage(image, f"test image {number}, labelled {names}")

    def choose(self, among: Sequence[int] = ()) -> int:
        """Choose an image at random, from the given ones if there are any."""
        return random.choice(among) if among else random.randrange(len(self.images))
