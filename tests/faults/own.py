"""Images of one's own and a network for them, so small that a run takes no time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from maxmincaps import Recipe

SMALL = {"conv_channels": 4, "conv_kernel": 3, "types": 2, "primary_kernel": 3, "part_pose": 4, "class_pose": 4}


def write_own(path: Path, images: int = 30, names: Sequence[str] = ()) -> Path:
    """Write images of noise, in turn of each class: of those that are named, or of three without names."""
    pixels = np.random.default_rng(0).integers(0, 256, (images, 12, 12), dtype=np.uint8)
    named = {"classes": np.array(names)} if names else {}
    np.savez(path, images=pixels, labels=np.arange(images) % (len(names) or 3), **named)
    return path


def own_recipe(path: Path, epochs: int) -> Recipe:
    """Describe a training on such images."""
    return Recipe(**SMALL, dataset=str(path), decoder=(8,), batch_size=8, epochs=epochs, threads=1)
