"""Classify image files with a trained network."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import crop_of, for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.formats import MOST_PIXELS
from maxmincaps.data.image_files import PICTURES, is_picture, read_picture
from maxmincaps.errors import InputError
from maxmincaps.files import read_text
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.run import SHIPPED_RUN, Run
from maxmincaps.training.schema import RunFile

PREPROCESSING = "preprocessor_config.json"
Picture = Float[Tensor, "channel height width"]  # pixels in 0…1


class Preprocessing(RunFile):
    """preprocessor_config.json of a hub folder: what is done to an image file before the network sees it."""

    dataset: str
    classes: tuple[str, ...]
    height: int = Field(ge=1, le=1 << 13)
    width: int = Field(ge=1, le=1 << 13)
    """Images are resized to height × width, in proportion if the dataset is one of the catalogue."""
    grey: bool
    crop: int = Field(ge=0)
    """Side of the central window that is cut then; 0 for none."""
    whiten: bool
    """Whether each image is scaled to mean 0 and variance 1."""
    rescale_factor: float = 1 / 255
    margin_low: float = Field(ge=0, le=1)
    """An image is not recognised if no length reaches this."""

    @classmethod
    def of(cls, run: Run, dataset: str) -> Self:
        """Describe the preprocessing of a run. `dataset` is the name that others may read."""
        height, width = size_before_crop(run)
        recipe, data = run.recipe, run.data
        return cls(
            dataset=dataset,
            classes=data.classes,
            height=height,
            width=width,
            grey=data.image_shape[0] == 1,
            crop=crop_of(recipe) or 0,
            whiten=recipe.whiten,
            margin_low=recipe.margin_low,
        )


@dataclass(frozen=True)
class Predictor:
    """A trained network with the preprocessing of its images.

    Args:
        network: The network.
        recipe: The recipe that it was trained by: crop, whitening and margins are used.
        classes: The name of each class.
        size_before_crop: (height, width) to which images are resized before the central window is cut.
    """

    network: CapsNet
    recipe: Recipe
    classes: tuple[str, ...]
    size_before_crop: tuple[int, int]

    @classmethod
    def of(cls, folder: Path | str = SHIPPED_RUN, weights: Literal["best", "last"] = "best") -> Self:
        """Load the network of a run folder or of an exported hub folder. Default: the one of the package."""
        run, path = Run(Path(folder)), Path(folder) / PREPROCESSING
        if run.exists or not path.exists():
            return cls(load_network(folder, weights), run.recipe, run.data.classes, size_before_crop(run))
        network = CapsNet.from_pretrained(folder)
        stored = Preprocessing.parse(read_text(path), path)
        if len(stored.classes) != network.config["classes"]:
            raise InputError(f"{path}: expected {network.config['classes']} classes, found {len(stored.classes)}")
        recipe = Recipe(dataset=stored.dataset, crop=stored.crop, whiten=stored.whiten, margin_low=stored.margin_low)
        return cls(network, recipe, stored.classes, (stored.height, stored.width))

    def picture(self, path: Path | str) -> Picture:
        """Read an image file at the size and in the colours of the test images, and cut the central window."""
        mode = "L" if self.network.image_shape[0] == 1 else "RGB"
        pixels = read_picture(Path(path), mode, *self.size_before_crop, in_proportion=in_proportion(self.recipe))
        whole = as_float(torch.tensor(pixels, device="cpu"))
        return central(whole, self.recipe)

    def lengths(self, picture: Picture) -> Float[Tensor, "parent"]:
        """Return the length of each class capsule for one image with pixels in 0…1, before whitening."""
        with torch.inference_mode():
            return self.network(for_testing(self.recipe.with_changes(crop=0))(picture.unsqueeze(0))).lengths[0]

    def predict(self, path: Path | str, *, invert: bool = False, top: int | None = None) -> "Prediction":
        """Classify an image file.

        Args:
            path: The image file.
            invert: Whether to exchange light and dark first.
            top: How many classes the image may have. Default: 2 for a network of overlapping images, else 1.
        """
        picture = self.picture(path)
        lengths = self.lengths(1 - picture if invert else picture).tolist()
        longest = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)[: top or 1 + self.recipe.overlap]
        present = tuple(self.classes[each] for each in longest if recognised(lengths[each], self.recipe))
        # The digits of the catalogue are light strokes on dark ground.
        grey_digits = self.recipe.dataset in DATASETS and len(picture) == 1
        looks_inverted = not invert and grey_digits and picture.mean().item() > 0.5
        return Prediction(str(path), present, dict(zip(self.classes, lengths, strict=True)), looks_inverted)


@dataclass(frozen=True)
class Prediction:
    """The classification of one image file."""

    path: str
    present: tuple[str, ...]
    """The classes of the longest capsules, the longest first; none whose length is below the lower margin."""
    lengths: dict[str, float]
    """The length of each class capsule. It grows with the evidence for the class, and is not a probability."""
    looks_inverted: bool = False
    """Whether light and dark may have to be exchanged."""

    @property
    def predicted(self) -> str | None:
        """The class of the longest capsule; None if no length reaches the lower margin of the training."""
        return self.present[0] if self.present else None


def image_files(paths: Iterable[Path]) -> list[Path]:
    """Replace folders by the image files below them, in order. A folder without any is refused."""
    found: list[Path] = []
    for path in paths:
        files = [path]
        if path.is_dir() and not (files := [file for file in path.rglob("*") if is_picture(file)]):
            raise InputError(f"{path}: expected image files ({', '.join(PICTURES)}) in this folder, found none")
        found += sorted(files)
    return found


def recognised(longest: float, recipe: Recipe) -> bool:
    """Return whether the longest class is present: training holds absent classes below the lower margin."""
    return longest >= recipe.margin_low


def in_proportion(recipe: Recipe) -> bool:
    """Return whether an image keeps its proportions. Images of one's own folders are stretched, as in training."""
    return recipe.dataset in DATASETS


def central(picture: Picture, recipe: Recipe) -> Picture:
    """Cut the window that the network sees of its test images. Whitening follows where the image is classified."""
    return for_testing(recipe.with_changes(whiten=False))(picture.unsqueeze(0))[0]


def size_before_crop(run: Run) -> tuple[int, int]:
    """Return (height, width) of a network's test images, before the central window is cut."""
    recipe, data = run.recipe, run.data
    shown = data.image_shape[1:]
    if data.size_before_crop is not None:
        height, width = data.size_before_crop
    elif recipe.image_size is not None:  # from here on: runs of earlier versions, which did not store the size
        height = width = recipe.image_size
    else:  # of own images of unknown size, the window is the whole image
        height, width = DATASETS[recipe.dataset].shape[1:] if recipe.dataset in DATASETS else shown
    crop = crop_of(recipe)
    seen = (crop, crop) if crop else (height, width)
    if seen != shown or min(height, width) < min(seen) or height * width > MOST_PIXELS:
        found = f"{height}×{width} cut to {seen[0]}×{seen[1]}"
        raise InputError(f"{run.folder}: expected images seen at {shown[0]}×{shown[1]}, found {found}")
    return height, width
