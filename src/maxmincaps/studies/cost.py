"""Estimates of the time that runs take on this machine: from finished runs, else from a few timed steps."""

import timeit
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from statistics import median
from typing import NamedTuple

import torch

from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import MOST_SHIFT, ImageSet, load
from maxmincaps.recipe import NetworkSettings, Recipe
from maxmincaps.training.environment import environment
from maxmincaps.training.evaluate import evaluation_batch_size
from maxmincaps.training.prepare import initial_network, threads_of
from maxmincaps.training.processes import processes_for
from maxmincaps.training.run import RunSummary
from maxmincaps.training.step import Learner, train_step
from maxmincaps.training.trainer import TRAIN_ACCURACY_IMAGES

# The normalization hardly changes the time of a step; sizes, iterations and backpropagation do.
_IRRELEVANT = {"normalization", "low", "high", "start", "routing_bias", "relu", "squash_parts", "primary_scale"}
_RELEVANT = (
    *sorted({*NetworkSettings.model_fields} - _IRRELEVANT),
    *("batch_size", "precision", "crop", "dataset", "overlap", "validation", "test_images", "processes"),
)
Workload = tuple[object, ...]
"""What decides the seconds per training image of a run: network, images, evaluation, threads, machine."""


class Speed(NamedTuple):
    """Images per second on this machine."""

    training: float
    testing: float


class Cost(NamedTuple):
    """The estimated seconds of each run, by fingerprint, and which of them are estimated from finished runs."""

    seconds: dict[str, float]
    from_runs: set[str]


def estimate_cost(
    recipes: Iterable[Recipe], rows: Iterable[RunSummary], measure: Callable[[Recipe], Speed] | None = None
) -> Cost:
    """Estimate the time of each run.

    Finished runs of the same workload on this type of processor are used. A network for which there is none is timed
    by `measure` (default: `measure_speed`).
    """
    finished: dict[Workload, list[float]] = defaultdict(list)  # seconds per training image, evaluation included
    for row in rows:
        images = row.recipe.epochs * (row.images.train_images if row.images else 0)
        if row.complete and row.machine and images and row.result.seconds:
            machine = (row.machine.processor, row.machine.device, row.machine.threads)
            finished[*_sizes(row.recipe), *machine].append(row.result.seconds / images)
    speeds: dict[Workload, Speed] = {}
    cost = Cost({}, set())
    for recipe in recipes:
        workload, fingerprint = workload_of(recipe), recipe.fingerprint()
        if workload in finished:
            _, train, *_ = count_images(recipe)
            cost.seconds[fingerprint] = median(finished[workload]) * recipe.epochs * train
            cost.from_runs.add(fingerprint)
            continue
        if workload not in speeds:
            speeds[workload] = (measure or measure_speed)(recipe)
        cost.seconds[fingerprint] = estimate_seconds(recipe, speeds[workload])
    return cost


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
    _, train, test, _ = count_images(recipe)
    evaluated = recipe.validation or min(recipe.test_images or test, test)
    # The weights of the best epoch are evaluated once more if it was not the whole test set that chose them.
    final = test * (1 if evaluated == test and not recipe.validation else 2) + min(train, TRAIN_ACCURACY_IMAGES)
    return recipe.epochs * train / speed.training + (recipe.epochs * evaluated + final) / speed.testing


def count_images(recipe: Recipe) -> tuple[tuple[int, int, int], int, int, int]:
    """Return shape, training images, test images and classes; a dataset of the catalogue is not downloaded for it."""
    if recipe.dataset in DATASETS:
        known = DATASETS[recipe.dataset]
        shape, train, test, classes = known.shape, known.train, known.test, known.classes
    else:
        how = {"image_size": recipe.image_size, "grey": recipe.grey}
        own, others = (load(recipe.dataset, split, **how) for split in ("train", "test"))
        shape, train, test, classes = (own.channels, own.height, own.width), len(own), len(others), own.classes
    left = train - recipe.validation
    if recipe.overlap:
        shape = (shape[0], shape[1] + 2 * MOST_SHIFT, shape[2] + 2 * MOST_SHIFT)
    return shape, min(recipe.train_images or left, left), test, len(classes)


def measure_speed(recipe: Recipe) -> Speed:
    """Time a few training steps and a forward pass, with random pixels."""
    here, (shape, _, _, classes) = processes_for(recipe.with_changes(processes=1)), count_images(recipe)
    pixels = torch.zeros(1, *shape, dtype=torch.uint8)
    one = ImageSet(pixels, torch.zeros(1, dtype=torch.long), tuple(map(str, range(classes))), recipe.dataset)
    with threads_of(recipe):
        plain = initial_network(recipe, one)
        learner = Learner(recipe, here, plain, None)
        generator = torch.Generator().manual_seed(0)
        batch = torch.rand(recipe.batch_size, *plain.image_shape, generator=generator).to(here.device)
        labels = torch.randint(classes, (recipe.batch_size,), generator=generator).to(here.device)
        tested = batch[:1].expand(evaluation_batch_size(shape), -1, -1, -1).contiguous()

        def step() -> None:
            train_step(learner.network, learner.optimizer, batch, labels)

        @torch.inference_mode()
        def test() -> None:
            plain(tested).lengths.sum().item()  # waits until the device has finished, as a training step does

        step()  # the first step allocates memory and chooses kernels
        # The fastest of three: other work of the machine can only slow them down.
        training, testing = (min(timeit.repeat(task, number=1, repeat=3)) for task in (step, test))
        return Speed(recipe.batch_size / training, len(tested) / testing)
