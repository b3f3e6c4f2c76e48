"""Imported by the process from which children are forked: what it has done, they need not do again."""

import tempfile
from pathlib import Path

import torch

from tests.faults.scenarios import Caching, Grid, publish_digits, small_recipe, write_images

torch.set_num_threads(1)  # threads do not survive a fork

with tempfile.TemporaryDirectory() as folder:
    Grid(small_recipe(write_images(Path(folder) / "images.npz"), epochs=1), seeds=1).act(Path(folder))
    Caching(publish_digits(Path(folder) / "published")).act(Path(folder))
