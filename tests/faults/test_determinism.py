"""Same recipe, same bits: in another process, from every point where a run may be stopped, by every launcher."""

from contextlib import suppress

import pytest
from safetensors.torch import load_file

from maxmincaps import fit
from maxmincaps.studies.cluster import connect, local_cluster
from maxmincaps.studies.launch import Outcome, launch
from maxmincaps.training.observer import Observer
from maxmincaps.training.run import Run
from tests.faults.children import child
from tests.faults.scenarios import Grid, Training, run_bits, small_recipe, write_images

SETTINGS = [
    {},
    {"normalization": "softmax", "iterations": 1, "seed": 1},
    {"validation": 8, "shift": 2, "rotate": 20.0, "brightness": 0.3, "seed": 2},
    {"ema_decay": 0.9, "schedule": "cosine", "warmup": 2},
    {"precision": "bf16", "initial_values": "sabour", "routing_bias": True},
    {"convolution": "direct", "full_backpropagation": True, "flip": True, "crop": 19},
    {"optimizer": "adamw", "clip_norm": 0.1, "class_weights": "balanced", "schedule": "constant"},
]
"""Recipes that draw on everything random or stateful in a run."""


class StopsAfter(Observer):
    """Wants to stop after so many steps."""

    def __init__(self, steps):
        self.left = steps

    def stepped(self, loss):
        self.left -= 1

    def should_stop(self):
        return self.left <= 0


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images") / "images.npz")


def test_another_process_makes_the_same_bits(images, tmp_path, scale, tally):
    settings = SETTINGS[: scale(2, None)]
    for number, changes in enumerate(settings):
        training = Training(small_recipe(images, **changes))
        here, there = tmp_path / f"here {number}", tmp_path / f"there {number}"
        training.act(here)
        process = child(training.act, there)
        process.join()
        assert process.exitcode == 0
        assert training.bits(there) == training.bits(here)
    tally("recipes", tried=len(settings), with_other_bits=0)


def test_a_run_may_be_stopped_after_each_step_and_after_every_step(images, tmp_path, scale, tally):
    stops = 0
    for number, changes in enumerate(SETTINGS[: scale(1, None)]):
        recipe = small_recipe(images, **changes)
        whole = run_bits(fit(recipe, tmp_path / f"whole {number}"))
        for step in range(1, 5):
            folder = tmp_path / f"{number} {step}"
            with suppress(KeyboardInterrupt):
                fit(recipe, folder, observer=StopsAfter(step))
            assert not Run(folder).complete
            assert run_bits(fit(recipe, folder, resume=True)) == whole
            stops += 1
        folder = tmp_path / f"{number} always"
        while not Run(folder).complete:
            with suppress(KeyboardInterrupt):
                fit(recipe, folder, resume=True, observer=StopsAfter(1))
                stops -= 1
            stops += 1
        assert run_bits(Run(folder)) == whole
    tally("stops", tried=stops, with_other_bits=0)


def test_every_launcher_makes_the_same_bits(images, tmp_path, scale, tally):
    grid = Grid(small_recipe(images), seeds=scale(2, 6))
    grid.act(tmp_path / "here")
    launchers = {"processes": _on_processes, "scheduler": _on_a_scheduler}
    for name in scale(["processes"], launchers):
        outcomes = launchers[name](grid.recipes, tmp_path / name / "grid")
        assert set(outcomes.values()) == {Outcome("complete")}
        assert grid.bits(tmp_path / name) == grid.bits(tmp_path / "here")
    tally("runs by processes and by Dask", tried=len(grid.recipes) * scale(1, 2), with_other_bits=0)


def _on_processes(recipes, folder):
    with local_cluster(2) as client:
        return launch(recipes, folder, client)


def _on_a_scheduler(recipes, folder):
    with local_cluster(2) as workers, connect(workers.scheduler.address) as client:
        return launch(recipes, folder, client)


def test_a_number_of_threads_has_its_own_bits_and_always_the_same(images, tmp_path, scale, tally):
    """Threads divide sums, and so rounding depends on how many there are; nothing else does."""
    last, tried, epochs = {}, 0, scale(2, 10)
    for threads in scale((1, 2), (1, 2, 3, 4)):
        recipe = small_recipe(images, threads=threads, epochs=epochs)
        runs = [fit(recipe, tmp_path / f"{threads} {again}") for again in range(scale(2, 4))]
        assert all(run_bits(run) == run_bits(runs[0]) for run in runs)
        last[threads] = load_file(runs[0].folder / "last.safetensors")
        tried += len(runs)
    furthest = max((weights[name] - last[1][name]).abs().max().item() for weights in last.values() for name in weights)
    assert furthest < 1e-2
    tally("runs with the same number of threads", tried=tried, with_other_bits=0)
    tally("between numbers of threads", steps=2 * epochs, largest_difference_of_a_weight=furthest)
