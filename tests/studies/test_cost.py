"""What a grid costs: from this machine's own speed, measured once."""

import math

import torch

from maxmincaps.recipe import Recipe
from maxmincaps.studies.cost import Speed, cost, measured_speed, network_key, seconds_of
from tests.conftest import TINY


def test_the_speed_of_a_network_is_measured_once_and_kept(tmp_path):
    measured = []

    def measure(recipe):
        measured.append(recipe)
        return Speed(100.0, 1000.0)

    grid = [Recipe(**{**TINY, "seed": seed, "normalization": name}) for seed in (0, 1) for name in ("sum", "softmax")]
    first = cost(grid, tmp_path, measure)
    again = cost(grid, tmp_path, measure)
    assert first == again
    assert len(measured) == 1
    assert math.isclose(first.hours * 3600, sum(first.seconds.values()))
    cost([grid[0].with_changes(iterations=5)], tmp_path, measure)
    assert len(measured) == 2


def test_a_speed_is_one_of_the_device_that_was_found_not_of_the_one_asked_for(monkeypatch):
    """`auto` is the processor where there is no accelerator; another accelerator is measured for itself."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))

    def key_where(found, asked="auto"):
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: found)
        return network_key(Recipe(**TINY).with_changes(device=asked))

    assert key_where(None) == key_where(None, asked="cpu")
    assert len({key_where(found) for found in (None, torch.device("cuda", 0), torch.device("cuda", 1))}) == 3


def test_two_launchers_keep_what_both_measured(tmp_path):
    """The second reads the list before the first has written it, and writes after."""
    recipes = [Recipe(**TINY), Recipe(**TINY).with_changes(iterations=5)]

    def interrupted(_):
        cost(recipes[:1], tmp_path, lambda _: Speed(1.0, 2.0))
        return Speed(3.0, 4.0)

    cost(recipes[1:], tmp_path, interrupted)
    found = cost(recipes, tmp_path, lambda _: Speed(9.0, 9.0)).speeds
    assert list(found.values()) == [Speed(1.0, 2.0), Speed(3.0, 4.0)]


def test_a_broken_list_of_speeds_is_measured_again(tmp_path):
    (tmp_path / ".speeds.json").write_text("{")
    assert cost([Recipe(**TINY)], tmp_path, lambda _: Speed(1.0, 1.0)).seconds


def test_the_cost_counts_training_each_epochs_look_and_the_final_figures():
    recipe = Recipe(dataset="mnist", epochs=10, train_images=1_000, test_images=500)
    assert seconds_of(recipe, Speed(100.0, 1000.0)) == 10 * 10 + 10 * 0.5 + 2 * 10 + 1
    assert seconds_of(recipe.with_changes(test_images=None), Speed(100.0, 1000.0)) == 10 * 10 + 10 * 10 + 10 + 1


def test_held_out_images_cost_a_look_an_epoch_and_leave_the_training_images_their_number():
    recipe = Recipe(dataset="mnist", epochs=1, train_images=1_000, validation=5_000)
    assert seconds_of(recipe, Speed(100.0, 1000.0)) == 10 + 5 + 2 * 10 + 1


def test_speeds_of_this_machine_are_positive_for_grey_and_colour_without_any_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXMINCAPS_CACHE", str(tmp_path / "empty"))
    for dataset in ("mnist", "cifar10"):
        assert min(measured_speed(Recipe(**{**TINY, "dataset": dataset}))) > 0
