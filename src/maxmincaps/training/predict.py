"""From an image file to the lengths of a trained network's classes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import crop_of, for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.formats import MOST_PIXELS
from maxmincaps.data.image_files import read_picture
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.run import SHIPPED_RUN, Run

Picture = Float[Tensor, "channel height width"]  # pixels in 0…1


@dataclass(frozen=True)
class Predictor:
    """A trained network that takes image files."""

    network: CapsNet
    recipe: Recipe
    classes: tuple[str, ...]
    size_before_crop: tuple[int, int]

    @classmethod
    def of(cls, folder: Path | str = SHIPPED_RUN, weights: Literal["best", "last"] = "best") -> Self:
        """Load the network of a record. Default: the one that comes with the package."""
        record = Run(Path(folder))
        network, classes = load_network(folder, weights), record.data.classes
        return cls(network, record.recipe, classes, size_before_crop(record))

    def picture(self, path: Path | str) -> Picture:
        """Read an image file as the network was tested: at its dataset's size and colours, then the central window."""
        mode = "L" if self.network.image_shape[0] == 1 else "RGB"
        pixels = read_picture(Path(path), mode, *self.size_before_crop, in_proportion=in_proportion(self.recipe))
        whole = as_float(torch.tensor(pixels, device="cpu"))
        return central(whole, self.recipe)

    def lengths(self, picture: Picture) -> Float[Tensor, "parent"]:
        """Give the length of each class."""
        with torch.inference_mode():
            return self.network(for_testing(self.recipe.with_changes(crop=0))(picture.unsqueeze(0))).lengths[0]

    def may_be_swapped(self, picture: Picture) -> bool:
        """Tell whether a picture is mostly light, and the network learned from light strokes on a dark ground."""
        return self.recipe.dataset in DATASETS and len(picture) == 1 and picture.mean().item() > 0.5


def recognised(longest: float, recipe: Recipe) -> bool:
    """Tell whether the longest class is there at all: training holds absent ones below the lower margin."""
    return longest >= recipe.margin_low


def in_proportion(recipe: Recipe) -> bool:
    """Tell whether a picture keeps its proportions: those of one's own folders were stretched to the network's size."""
    return recipe.dataset in DATASETS


def central(picture: Picture, recipe: Recipe) -> Picture:
    """Cut from a picture what a network sees of its test images; it is whitened later, where it is classified."""
    return for_testing(recipe.with_changes(whiten=False))(picture.unsqueeze(0))[0]


def size_before_crop(record: Run) -> tuple[int, int]:
    """Give (height, width) of a network's test images, before the window that it sees was cut from them."""
    recipe, data = record.recipe, record.data
    _, seen_height, seen_width = data.image_shape
    if data.size_before_crop is not None:
        height, width = data.size_before_crop
    elif recipe.image_size is not None:  # from here on: records from before the size was kept
        height = width = recipe.image_size
    elif recipe.dataset in DATASETS:
        _, height, width = DATASETS[recipe.dataset].shape
    else:
        height, width = seen_height, seen_width  # own images, whose size is not known: the whole is the window
    crop = crop_of(recipe)
    seen = (crop, crop) if crop else (height, width)
    if seen != (seen_height, seen_width) or min(height, width) < min(seen) or height * width > MOST_PIXELS:
        found = f"{height}×{width} cut to {seen[0]}×{seen[1]}"
        raise InputError(f"{record.folder}: expected images seen at {seen_height}×{seen_width}, found {found}")
    return height, width
