"""What is disturbed: a training, a grid of trainings, a dataset on its way into the cache.

Each can be begun and can be taken up again by the same call, `act`; each leaves something whose bits can be compared,
`bits`; and of each one can ask at any moment whether anything in its folder is half and looks whole, `check`.
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
from maxmincaps.studies.launch import launch
from maxmincaps.studies.progress import Outcome
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors
from maxmincaps.training.fit import fit
from maxmincaps.training.run import Run, runs_under
from maxmincaps.training.verify import verify_run

TIMES = {"images_per_s", "seconds", "peak_memory_mb"}
"""What a record says that is not the same twice."""
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
    """One run: checkpoints, weights, records."""

    recipe: Recipe
    phase = "training"

    def act(self, folder: Path) -> None:
        """Train, from wherever the folder was left."""
        fit(self.recipe, folder / "run", resume=True)

    def check(self, folder: Path) -> None:
        """Read whatever is there; what says that it is complete must be so."""
        for record in runs_under(folder):
            check_record(record)

    def bits(self, folder: Path) -> dict[str, Any]:
        """Give all of every record but times."""
        return {str(record.folder.relative_to(folder)): record_bits(record) for record in runs_under(folder)}

    def is_done(self, folder: Path) -> bool:
        """Tell whether the run came to its end."""
        return Run(folder / "run").complete


@dataclass(frozen=True)
class Grid(Training):
    """Several runs, given to one launcher."""

    seeds: int = 2
    phase = "grid_launching"

    @property
    def recipes(self) -> list[Recipe]:
        """Which runs these are."""
        return [self.recipe.with_changes(seed=seed) for seed in range(self.seeds)]

    def act(self, folder: Path) -> None:
        """Launch what is missing; a run that fails with a line of ours is an outcome."""
        outcomes = launch(self.recipes, folder / "grid")
        failures = [outcome.message for outcome in outcomes.values() if outcome != Outcome("complete")]
        if failures:
            raise InterruptedGridError(failures)

    def is_done(self, folder: Path) -> bool:
        """Tell whether all runs came to their end."""
        return all(Run(folder / "grid" / recipe.run_name).complete for recipe in self.recipes)


class InterruptedGridError(Exception):
    """Some runs of a grid did not come to their end; each says why."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines)
        self.lines = lines


@dataclass(frozen=True)
class Caching:
    """A dataset that is taken from published files into the cache, and once more in place of itself."""

    published: Path
    phase = "dataset_caching"

    def act(self, folder: Path) -> None:
        """Bring it into the cache, whether or not it is there."""
        with small_digits(self.published):
            for _ in range(2):
                download.get("mnist", from_dir=self.published, cache=folder / "cache")

    def check(self, folder: Path) -> None:
        """What has a manifest must be whole."""
        place = folder / "cache" / "mnist"
        with small_digits(self.published) as dataset:
            if (place / "manifest.json").exists():
                assert download.problems(dataset, place) == []

    def bits(self, folder: Path) -> dict[str, Any]:
        """Give every file below the folder."""
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def is_done(self, folder: Path) -> bool:
        """Tell whether the dataset is in the cache."""
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
    """Let the published digits be MNIST, which no other source has."""
    sha256 = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in published.iterdir()}
    dataset = replace(DATASETS["mnist"], train=6, test=4, sha256=sha256, sources=())
    with patch.dict(DATASETS, {"mnist": dataset}):
        yield dataset


def check_record(record: Run) -> None:
    """Read every file of a record that is there under its own name; a complete one must be true."""
    _ = record.recipe, record.history
    for path in record.folder.glob("[!.]*.json"):
        json.loads(path.read_text())
    for path in record.folder.glob("[!.]*.safetensors"):
        load_tensors(path)
    if record.complete:
        assert len(list(verify_run(record.folder))) == 5


def record_bits(record: Run) -> dict[str, Any]:
    """Give everything that a record says but how long it took, and the names of its files.

    A process that is lost between the result and the removal of the checkpoint leaves a complete record with a
    checkpoint, which takes room and means nothing.
    """
    paths = sorted(path for path in record.folder.iterdir() if path.name != CHECKPOINT)
    tensors = {
        f"{path.name} {name}": tensor.numpy().tobytes()
        for path in paths
        if path.suffix == ".safetensors"
        for name, tensor in load_file(path).items()
    }
    history = [line.model_dump(exclude=TIMES) for line in record.history]
    result = record.result.model_dump(exclude=TIMES)
    names = [path.name for path in paths]
    return {"history": history, "result": result, "data": record.data, "files": names, **tensors}
