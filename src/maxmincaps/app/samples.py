"""Test images for the explorer: those of a run's own test set, if they are on this machine."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from maxmincaps.app.uploads import PreparedImage
from maxmincaps.data.batches import as_float
from maxmincaps.data.cache import cache_folder, manifest_of
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.download import dataset_folder
from maxmincaps.data.images import ImageSet, images_of
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.predict import central
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run


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
            images = images_of(recipe, "test")
        except InputError:
            return None
        return cls(images, recipe, _wrong(run, len(images)))

    def prepare(self, number: int) -> PreparedImage:
        """Return a test image as the network sees it."""
        image = central(as_float(self.images.images[number]), self.recipe)
        label = self.images.classes[int(self.images.labels[number])]
        return PreparedImage(image, f"test image {number}, labelled {label}")

    def choose(self, among: Sequence[int] = ()) -> int:
        """Choose an image at random, from the given ones if there are any."""
        return random.choice(among) if among else random.randrange(len(self.images))


def _wrong(run: Path, images: int) -> list[int]:
    try:
        found = responses(run)
    except InputError:
        return []
    return found.wrong.tolist() if len(found.labels) == images else []
