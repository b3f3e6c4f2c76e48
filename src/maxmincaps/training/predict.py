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
from maxmincaps.data.own import read_picture
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.record import Record


@dataclass(frozen=True)
class Predictor:
    """A trained network that takes image files."""

    network: CapsNet
    recipe: Recipe
    classes: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path | str, weights: Literal["best", "last"] = "best") -> Self:
        """Load the network of a record."""
        record = Record(Path(folder))
        return cls(load_network(folder, weights), record.recipe, tuple(record.data["classes"]))

    def lengths_of_file(self, path: Path | str) -> Float[Tensor, "parent"]:
        """Read an image, bring it to the network's size and colours, and give the length of each class."""
        channels, height, width = self.network.image_shape
        pixels = torch.tensor(read_picture(Path(path), "L" if channels == 1 else "RGB", height, width))
        images = for_testing(self.recipe.but(crop=0))(as_float(pixels).unsqueeze(0))
        with torch.inference_mode():
            return self.network(images).lengths[0]
