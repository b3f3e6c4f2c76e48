"""From an image file to the lengths of a trained network's classes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.own import read_picture
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.record import TRAINED, Record

Picture = Float[Tensor, "channel height width"]  # pixels in 0…1


@dataclass(frozen=True)
class Predictor:
    """A trained network that takes image files."""

    network: CapsNet
    recipe: Recipe
    classes: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path | str = TRAINED, weights: Literal["best", "last"] = "best") -> Self:
        """Load the network of a record. Default: the one that comes with the package."""
        record = Record(Path(folder))
        return cls(load_network(folder, weights), record.recipe, tuple(record.data["classes"]))

    def picture(self, path: Path | str) -> Picture:
        """Read an image file and bring it to the network's size and colours."""
        channels, height, width = self.network.image_shape
        return as_float(torch.tensor(read_picture(Path(path), "L" if channels == 1 else "RGB", height, width)))

    def lengths(self, picture: Picture) -> Float[Tensor, "parent"]:
        """Give the length of each class."""
        with torch.inference_mode():
            return self.network(for_testing(self.recipe.but(crop=0))(picture.unsqueeze(0))).lengths[0]

    def may_be_swapped(self, picture: Picture) -> bool:
        """Tell whether a picture is mostly light, and the network learned from light strokes on a dark ground."""
        return self.recipe.dataset in DATASETS and len(picture) == 1 and picture.mean().item() > 0.5
