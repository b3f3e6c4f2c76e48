"""Estimates of the time that runs take on this machine: from finished runs, else from a few timed steps."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import NamedTuple

import torch

from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import ImageSet, load
from maxmincaps.recipe import NetworkSettings, Recipe
from maxmincaps.training.environment import environment
from maxmincaps.training.evaluate import evaluation_batch_size
from maxmincaps.training.prepare import initial_network, threads_of
from maxmincaps.training.processes import processes_for
from maxmincaps.training.run import RunSummary
from maxmincaps.training.step import Learner, train_step
from maxmincaps.training.trainer import TRAIN_ACCURACY_IMAGES

STEPS = 3
# The normalization hardly changes the time of a step; sizes, iterations and backpropagation do.
_IRRELEVANT = {"normalization", "low", "high", "start", "routing_bias", "relu", "squash_parts", "primary_scale"}
_RELEVANT = (
    *sorted({*NetworkSettings.model_fields} - _IRRELEVANT),
    *("batch_size", "precision", "crop", "dataset", "validation", "test_images", "processes"),
)
Workload = tuple[object, ...]
"""What decides the seconds per training image of a run: network, images, evaluation, threads, machine."""


class Speed(NamedTuple):
    """Images per second on this machine."""

    training: float
    testing: float


class ImageCounts(NamedTuple):
    """Shape and numbers of the images of a recipe."""

    shape: tuple[int, int, int]
    train: int
    test: int
    classes: int


@dataclass(frozen=True)
class Cost:
    """The estimated time of a grid.

    Args:
        seconds: Seconds of each run, by fingerprint.
        from_runs: The fingerprints whose estimate comes from finished runs. The others were timed for a few steps.
    """

    seconds: dict[str, float]
    from_runs: frozenset[str] = frozenset()

    @property
    def hours(self) -> float:
        """The sum over all runs."""
        return sum(self.seconds.values()) / 3600


def estimate_cost(
    recipes: Iterable[Recipe], rows: Iterable[RunSummary], measure: Callable[[Recipe], Speed] | None = None
) -> Cost:
    """Estimate the time of each run.

    Args:
        recipes: The runs to estimate.
        rows: Runs that exist. Finished ones of the same workload on this type of processor are used.
        measure: Times a network for which there is no such run. Default: `measure_speed`.
    """
    finished = _seconds_per_image(rows)
    speeds: dict[Workload, Speed] = {}
    seconds, from_runs = {}, set()
    for recipe in recipes:
        workload = workload_of(recipe)
        images = recipe.epochs * count_images(recipe).train
        if workload in finished:
            seconds[recipe.fingerprint()] = median(finished[workload]) * images
            from_runs.add(recipe.fingerprint())
            continue
        if workload not in speeds:
            speeds[workload] = (measure or measure_speed)(recipe)
        seconds[recipe.fingerprint()] = estimate_seconds(recipe, speeds[workload])
    return Cost(seconds, frozenset(from_runs))


def _seconds_per_image(rows: Iterable[RunSummary]) -> dict[Workload, list[float]]:
    """Return the seconds per training image of finished runs, evaluation included, by workload."""
    found: dict[Workload, list[float]] = {}
    for row in rows:
        images = row.recipe.epochs * (row.images.train_images if row.images else 0)
        if row.complete and row.machine and images and row.result.seconds:
            machine = (row.machine.processor, row.machine.device, row.machine.threads)
            found.setdefault((*_sizes(row.recipe), *machine), []).append(row.result.seconds / images)
    return found


def workload_of(recipe: Recipe) -> Workload:
    """Return what decides the seconds per training image of a recipe on this machine."""
    device = processes_for(recipe.with_changes(processes=1)).device
    threads = recipe.threads or max(1, torch.get_num_threads() // recipe.processes)
    return (*_sizes(recipe), *_machine(device), threads)


def _sizes(recipe: Recipe) -> Workload:
    return tuple(getattr(recipe, name) for name in _RELEVANT)


@cache
def _machine(device: torch.device) -> tuple[str, str]:
    """Return the names of processor and device as runs store them."""
    found = environment(device)
    return found.processor, found.device


def estimate_seconds(recipe: Recipe, speed: Speed) -> float:
    """Return the time of a run: training, the evaluation after each epoch, and the final one."""
    images = count_images(recipe)
    evaluated = recipe.validation or min(recipe.test_images or images.test, images.test)
    training = recipe.epochs * images.train / speed.training
    # The weights of the best epoch are evaluated once more if it was not the whole test set that chose them.
    final = images.test * (1 if evaluated == images.test and not recipe.validation else 2)
    final += min(images.train, TRAIN_ACCURACY_IMAGES)
    return training + (recipe.epochs * evaluated + final) / speed.testing


def count_images(recipe: Recipe) -> ImageCounts:
    """Return the images of a recipe, without downloading a dataset of the catalogue."""
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
    return ImageCounts(shape, min(recipe.train_images or left, left), test, classes)


def measure_speed(recipe: Recipe) -> Speed:
    """Time a few training steps and a forward pass, with random pixels."""
    here, images = processes_for(recipe.with_changes(processes=1)), count_images(recipe)
    pixels = torch.zeros(1, *images.shape, dtype=torch.uint8)
    one = ImageSet(pixels, torch.zeros(1, dtype=torch.long), tuple(map(str, range(images.classes))), recipe.dataset)
    with threads_of(recipe):
        plain = initial_network(recipe, one)
        learner = Learner(recipe, here, plain, None)
        generator = torch.Generator().manual_seed(0)
        batch = torch.rand(recipe.batch_size, *plain.image_shape, generator=generator).to(here.device)
        labels = torch.randint(images.classes, (recipe.batch_size,), generator=generator).to(here.device)
        tested = batch[:1].expand(evaluation_batch_size(images.shape), -1, -1, -1).contiguous()

        def step() -> None:
            train_step(learner.network, learner.optimizer, batch, labels)

        @torch.inference_mode()
        def test() -> None:
            plain(tested)

        step()  # the first step allocates memory and chooses kernels
        training, testing = (_fastest(task, here.device) for task in (step, test))
        return Speed(recipe.batch_size / training, len(tested) / testing)


def _fastest(task: Callable[[], None], device: torch.device) -> float:
    """Return the seconds of the fastest of a few calls: other work of the machine can only slow them down."""
    times = []
    for _ in range(STEPS):
        _synchronize(device)
        before = time.perf_counter()
        task()
        _synchronize(device)
        times.append(time.perf_counter() - before)
    return min(times)


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
