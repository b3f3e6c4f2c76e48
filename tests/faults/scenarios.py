"""The disturbed actions: a training, a grid of trainings, and the caching of a dataset.

`act` begins or continues the action. `bits` returns its outcome for comparison. `check` may be called at any moment and
fails if an incomplete file looks complete.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from safetensors.torch import load_file

from maxmincaps.data import catalog, download
from maxmincaps.data.catalog import DATASETS, Dataset
from maxmincaps.recipe import Recipe
from maxmincaps.studies.launch import Outcome, launch
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors
from maxmincaps.training.fit import fit
from maxmincaps.training.responses import verify_run
from maxmincaps.training.run import Run, runs_under

TIMES = {"images_per_s", "seconds", "peak_memory_mb"}
"""Metrics of a run that differ between repetitions."""
SMALL = {
    "conv_channels": 4,
    "types": 2,
    "part_pose": 4,
    "class_pose": 4,
    "decoder": (8,),
    "batch_size": 16,
    "epochs": 2,
    "warmup": 0,
    "threads": 1,
    "checkpoint_seconds": 0.0,
}


def write_images(path: Path, images: int = 40) -> Path:
    """Write two kinds of small pictures that a network can tell apart, for trainings of a tenth of a second."""
    random = np.random.default_rng(0)
    labels = np.arange(images) % 2
    pictures = random.integers(0, 80, (images, 20, 20), np.uint8)
    pictures[labels == 1, 5:15, 5:15] += 150
    np.savez(path, images=pictures, labels=labels)
    return path


def small_recipe(images: Path, **changes: Any) -> Recipe:
    """Describe a training with two epochs of two steps, and a checkpoint after each step."""
    return Recipe(dataset=str(images), **{**SMALL, **changes})


@dataclass(frozen=True)
class Training:
    """One run: checkpoints, weights, metrics."""

    recipe: Recipe
    phase = "training"

    def act(self, folder: Path) -> None:
        """Train, or continue the run in the folder."""
        fit(self.recipe, folder / "run", resume=True)

    def check(self, folder: Path) -> None:
        """Read all runs in the folder, and verify those that claim to be complete."""
        for run in runs_under(folder):
            check_run(run)

    def bits(self, folder: Path) -> dict[str, Any]:
        """Return the content of every run except for times."""
        return {str(run.folder.relative_to(folder)): run_bits(run) for run in runs_under(folder)}

    def is_done(self, folder: Path) -> bool:
        """Return whether the run is complete."""
        return Run(folder / "run").complete


@dataclass(frozen=True)
class Grid(Training):
    """Several runs, given to one launcher."""

    seeds: int = 2
    phase = "grid_launching"

    @property
    def recipes(self) -> list[Recipe]:
        """The recipes of the runs."""
        return [self.recipe.with_changes(seed=seed) for seed in range(self.seeds)]

    def act(self, folder: Path) -> None:
        """Launch the missing runs. Failed runs raise `InterruptedGridError`."""
        outcomes = launch(self.recipes, folder / "grid")
        failures = [outcome.message for outcome in outcomes.values() if outcome != Outcome("complete")]
        if failures:
            raise InterruptedGridError(failures)

    def is_done(self, folder: Path) -> bool:
        """Return whether all runs are complete."""
        return all(Run(folder / "grid" / recipe.run_name).complete for recipe in self.recipes)


class InterruptedGridError(Exception):
    """Some runs of a grid failed, for the reasons in `lines`."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines)
        self.lines = lines


@dataclass(frozen=True)
class Caching:
    """Caching of a dataset from published files, and its replacement by itself."""

    published: Path
    phase = "dataset_caching"

    def act(self, folder: Path) -> None:
        """Copy the dataset into the cache, even if it is there."""
        with small_digits(self.published):
            for _ in range(2):
                download.get("mnist", from_dir=self.published, cache=folder / "cache")

    def check(self, folder: Path) -> None:
        """Check that a dataset with a manifest is complete."""
        place = folder / "cache" / "mnist"
        with small_digits(self.published) as dataset:
            if (place / "manifest.json").exists():
                assert download.problems(dataset, place) == []

    def bits(self, folder: Path) -> dict[str, Any]:
        """Return the bytes of every file below the folder."""
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def is_done(self, folder: Path) -> bool:
        """Return whether the dataset is in the cache."""
        return (folder / "cache" / "mnist" / "manifest.json").exists()


def publish_digits(folder: Path) -> Path:
    """Write the files of a dataset like MNIST with 6 and 4 images."""
    pixels = np.random.default_rng(0).integers(0, 256, (10, 28, 28), dtype=np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    folder.mkdir()
    for name, content in catalog.idx_files((pixels[:6], labels[:6]), (pixels[6:], labels[6:])).items():
        (folder / name).write_bytes(content)
    return folder


@contextmanager
def small_digits(published: Path) -> Iterator[Dataset]:
    """Replace MNIST in the catalogue by the published digits, without other sources."""
    sha256 = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in published.iterdir()}
    dataset = replace(DATASETS["mnist"], train=6, test=4, sha256=sha256, sources=())
    with patch.dict(DATASETS, {"mnist": dataset}):
        yield dataset


def check_run(run: Run) -> None:
    """Read every file of a run except temporary ones; verify the run if it is complete."""
    _ = run.recipe, run.history
    for path in run.folder.glob("[!.]*.json"):
        json.loads(path.read_text())
    for path in run.folder.glob("[!.]*.safetensors"):
        load_tensors(path)
    if run.complete:
        assert len(list(verify_run(run.folder))) == 5


def run_bits(run: Run) -> dict[str, Any]:
    """Return the content of a run except for times, and the names of its files.

    The checkpoint does not count: a process that is killed after writing the result and before removing the checkpoint
    leaves it in a complete run, where it has no effect.
    """
    paths = sorted(path for path in run.folder.iterdir() if path.name != CHECKPOINT)
    tensors = {
        f"{path.name} {name}": tensor.numpy().tobytes()
        for path in paths
        if path.suffix == ".safetensors"
        for name, tensor in load_file(path).items()
    }
    history = [line.model_dump(exclude=TIMES) for line in run.history]
    result = run.result.model_dump(exclude=TIMES)
    names = [path.name for path in paths]
    return {"history": history, "result": result, "data": run.data, "files": names, **tensors}
