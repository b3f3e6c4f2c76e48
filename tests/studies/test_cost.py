"""The time that runs take is estimated from finished runs of this machine, else from a few timed steps."""

import pytest
import torch

from maxmincaps.recipe import Recipe
from maxmincaps.studies.cost import Speed, count_images, estimate_cost, estimate_seconds, measure_speed, workload_of
from maxmincaps.studies.table import read
from tests.conftest import TINY
from tests.studies.conftest import grid


def unexpected(recipe):
    raise AssertionError(f"{recipe.run_name} was timed")


def test_each_network_without_finished_runs_is_timed_once():
    measured = []

    def measure(recipe):
        measured.append(recipe)
        return Speed(100.0, 1000.0)

    recipes = [
        Recipe(**{**TINY, "seed": seed, "normalization": name}) for seed in (0, 1) for name in ("sum", "softmax")
    ]
    cost = estimate_cost([*recipes, recipes[0].with_changes(iterations=5)], [], measure)
    assert len(measured) == 2
    assert len(cost.seconds) == 5
    assert not cost.from_runs


def test_finished_runs_of_the_same_workload_give_the_estimate(serial):
    rows = read(serial).rows
    longer = grid()[0].with_changes(epochs=16, seed=9)
    cost = estimate_cost([longer], rows, unexpected)
    seconds = sorted(row.result.seconds for row in rows)
    assert 2 * seconds[0] <= cost.seconds[longer.fingerprint()] <= 2 * seconds[-1]
    assert cost.from_runs == {longer.fingerprint()}


@pytest.mark.parametrize(
    "change", [{"iterations": 5}, {"batch_size": 10}, {"threads": 2}, {"test_images": 20}, {"overlap": True}]
)
def test_another_workload_is_not_estimated_from_these_runs(serial, change):
    recipe = grid()[0].with_changes(**change)
    cost = estimate_cost([recipe], read(serial).rows, lambda _: Speed(1.0, 1.0))
    assert not cost.from_runs


def test_a_workload_names_the_device_that_was_found_not_the_one_that_was_asked_for(monkeypatch):
    """`auto` is the CPU where there is no accelerator; another accelerator is another workload."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))

    def workload_on(found, asked="auto"):
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: found)
        return workload_of(Recipe(**TINY).with_changes(device=asked))

    assert workload_on(None) == workload_on(None, asked="cpu")
    assert len({workload_on(found) for found in (None, torch.device("cuda", 0), torch.device("cuda", 1))}) == 3


def test_the_time_counts_training_the_evaluation_of_each_epoch_and_the_final_one():
    recipe = Recipe(dataset="mnist", epochs=10, train_images=1_000, test_images=500)
    assert estimate_seconds(recipe, Speed(100.0, 1000.0)) == 10 * 10 + 10 * 0.5 + 2 * 10 + 1
    assert estimate_seconds(recipe.with_changes(test_images=None), Speed(100.0, 1000.0)) == 10 * 10 + 10 * 10 + 10 + 1


def test_a_validation_set_is_evaluated_each_epoch_and_leaves_the_number_of_training_images():
    recipe = Recipe(dataset="mnist", epochs=1, train_images=1_000, validation=5_000)
    assert estimate_seconds(recipe, Speed(100.0, 1000.0)) == 10 + 5 + 2 * 10 + 1


def test_speeds_of_this_machine_are_positive_for_grey_and_colour_without_any_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXMINCAPS_CACHE", str(tmp_path / "empty"))
    for dataset in ("mnist", "cifar10"):
        assert min(measure_speed(Recipe(**{**TINY, "dataset": dataset}))) > 0


def test_a_training_in_several_processes_is_timed_in_one():
    assert min(measure_speed(Recipe(**{**TINY, "processes": 2}))) > 0


def test_overlapping_images_are_counted_at_the_size_of_their_canvas():
    shape, *_ = count_images(Recipe(dataset="multi-mnist"))
    assert shape == (1, 36, 36)
