"""What a grid will cost on this machine: a few steps of each network, timed, and kept beside the records."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock

from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import ImageSet, load
from maxmincaps.recipe import NetworkSettings, Recipe
from maxmincaps.training.environment import environment
from maxmincaps.training.evaluate import at_once
from maxmincaps.training.prepare import initial_network, optimizer_for, threads_of
from maxmincaps.training.processes import processes_for
from maxmincaps.training.results import TRAIN_ACCURACY_IMAGES
from maxmincaps.training.run import write_atomic
from maxmincaps.training.step import train_step

CACHE = ".speeds.json"
STEPS = 3
# The normalization hardly changes the time of a step; sizes, iterations and backpropagation do.
_NO_MATTER = {"normalization", "low", "high", "start", "routing_bias", "relu", "squash_parts", "primary_scale"}


class Speed(NamedTuple):
    """Images a second on this machine."""

    training: float
    testing: float


class Images(NamedTuple):
    """How many images of which shape a recipe works with."""

    shape: tuple[int, int, int]
    train: int
    test: int
    classes: int


@dataclass(frozen=True)
class Cost:
    """What a grid costs."""

    seconds: dict[str, float]
    """Of each run, by fingerprint."""
    speeds: dict[str, Speed]
    """Of each run's network, by fingerprint."""

    @property
    def hours(self) -> float:
        """Give the sum."""
        return sum(self.seconds.values()) / 3600


def cost(recipes: Iterable[Recipe], folder: Path | str, measure: Callable[[Recipe], Speed] | None = None) -> Cost:
    """Estimate each run from the speed of its network here, measured once and kept in the folder."""
    path = Path(folder) / CACHE
    known = _kept(path)
    seconds, speeds = {}, {}
    for recipe in recipes:
        key = network_key(recipe)
        if key not in known:
            known[key] = (measure or measured_speed)(recipe)
            _keep(path, {key: known[key]})
        speeds[recipe.fingerprint()] = known[key]
        seconds[recipe.fingerprint()] = seconds_of(recipe, known[key])
    return Cost(seconds, speeds)


def seconds_of(recipe: Recipe, speed: Speed) -> float:
    """Add up training, the look at the test images after each epoch, and the final figures."""
    images = images_of(recipe)
    judged = recipe.validation or min(recipe.test_images or images.test, images.test)
    training = recipe.epochs * images.train / speed.training
    # The best epoch's weights are measured once more if it was not the whole test set that chose them.
    final = images.test * (1 if judged == images.test and not recipe.validation else 2) + min(
        images.train, TRAIN_ACCURACY_IMAGES
    )
    return training + (recipe.epochs * judged + final) / speed.testing


def images_of(recipe: Recipe) -> Images:
    """Tell what images a recipe has, without fetching a dataset that is in the catalog."""
    if recipe.dataset in DATASETS:
        dataset = DATASETS[recipe.dataset]
        shape, train, test, classes = dataset.shape, dataset.train, dataset.test, len(dataset.classes)
    else:
        both = [
            load(recipe.dataset, split, image_size=recipe.image_size, grey=recipe.grey) for split in ("train", "test")
        ]
        shape = (both[0].channels, both[0].height, both[0].width)
        train, test, classes = len(both[0]), len(both[1]), len(both[0].classes)
    left = train - recipe.validation
    return Images(shape, min(recipe.train_images or left, left), test, classes)


def measured_speed(recipe: Recipe) -> Speed:
    """Time a few steps of training and a look at some images, with random pixels."""
    here, images = processes_for(recipe), images_of(recipe)
    pixels = torch.zeros(1, *images.shape, dtype=torch.uint8)
    one = ImageSet(pixels, torch.zeros(1, dtype=torch.long), tuple(map(str, range(images.classes))), recipe.dataset)
    with threads_of(recipe):
        plain = initial_network(recipe, one)
        network, optimizer = here.setup(plain, optimizer_for(recipe, plain))
        generator = torch.Generator().manual_seed(0)
        seen = torch.rand(recipe.batch_size, *plain.image_shape, generator=generator).to(here.device)
        labels = torch.randint(images.classes, (recipe.batch_size,), generator=generator).to(here.device)

        def step() -> None:
            train_step(network, optimizer, seen, labels)

        judged = at_once(images.shape)  # as a run judges itself

        @torch.inference_mode()
        def look() -> None:
            plain(seen[:1].expand(judged, -1, -1, -1).contiguous())

        step()  # the first one takes memory and chooses kernels
        training, testing = (_seconds(task, here.device) for task in (step, look))
        return Speed(recipe.batch_size / training, judged / testing)


def network_key(recipe: Recipe) -> str:
    """Name what decides the speed: the network's sizes, the batch, and this machine."""
    names = [*(set(NetworkSettings.model_fields) - _NO_MATTER), "batch_size", "precision", "crop", "threads"]
    told = {name: recipe.model_dump(mode="json")[name] for name in sorted(names)}
    told |= {
        "shape": images_of(recipe).shape,
        "machine": _machine(processes_for(recipe.with_changes(processes=1)).device),
    }
    told |= {"cores": torch.get_num_threads()}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
    return f"{recipe.dataset} r{recipe.iterations} {digest}"


@cache
def _machine(device: torch.device) -> tuple[str, str]:
    """Name the processor and the device, as the records do."""
    found = environment(device)
    return found.processor, found.device


def _seconds(task: Callable[[], None], device: torch.device) -> float:
    """Time the fastest of a few: whatever else the machine does can only slow them down."""
    times = []
    for _ in range(STEPS):
        _wait_for(device)
        before = time.perf_counter()
        task()
        _wait_for(device)
        times.append(time.perf_counter() - before)
    return min(times)


def _wait_for(device: torch.device) -> None:
    """Let an accelerator finish: it takes orders faster than it carries them out."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _keep(path: Path, speeds: dict[str, Speed]) -> None:
    """Add speeds to the file; another launcher may be doing the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        write_atomic(path, json.dumps(_kept(path) | speeds, indent=1).encode())


def _kept(path: Path) -> dict[str, Speed]:
    try:
        return {key: Speed(*map(float, speed)) for key, speed in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # measured again
