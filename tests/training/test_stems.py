"""Whole trainings with another stem or head than the paper's: batch norm is saved, resumed and evaluated."""

import pytest
import torch

from maxmincaps import CapsNet, Observer, fit, load_network
from maxmincaps.cli.terminal import ProgressBar


class StopAfter(Observer):
    def __init__(self, steps):
        self.left = steps

    def stepped(self, loss):
        self.left -= 1

    def should_stop(self):
        return self.left <= 0


def weights_of(folder):
    return load_network(folder, "last").state_dict()


def test_a_run_with_batch_norm_goes_on_with_the_same_bits_after_a_stop(tiny, tmp_path):
    recipe = tiny(stem="deep", epochs=2)
    fit(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, tmp_path / "stopped", observer=StopAfter(2))
    fit(recipe, tmp_path / "stopped", resume=True)
    whole, stopped = weights_of(tmp_path / "whole"), weights_of(tmp_path / "stopped")
    assert any("running_mean" in name for name in whole)
    assert all(whole[name].equal(stopped[name]) for name in whole)


def test_a_network_with_a_deep_stem_is_saved_and_loaded(tmp_path):
    torch.manual_seed(0)
    network = CapsNet(stem="deep", conv_channels=8, types=2, decoder=(16,))
    images = torch.rand(4, 1, 28, 28)
    network.train()(images)
    network.eval().save_pretrained(tmp_path)
    torch.testing.assert_close(CapsNet.from_pretrained(tmp_path)(images), network(images))


def test_a_linear_head_trains_by_a_recipe(tiny, tmp_path):
    run = fit(tiny(stem="deep", head="linear", epochs=1), tmp_path / "run")
    assert 0 <= run.result.final_test_accuracy <= 1
    assert load_network(tmp_path / "run").digits.weights.shape[2] == 1


def test_size_memory_and_time_are_printed_before_the_first_step(tiny, tmp_path, capsys):
    fit(tiny(epochs=1), tmp_path / "run", observer=ProgressBar())
    printed = " ".join(capsys.readouterr().out.split())
    assert "72 children" in printed
    assert "of memory" in printed
