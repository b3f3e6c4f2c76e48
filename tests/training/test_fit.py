"""From a recipe to a run folder: what is written, and that the same recipe gives the same bits."""

import json
import math
import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from maxmincaps import CapsNet, Recipe, fit, fold_multipliers, load_network
from maxmincaps.data.images import splits
from maxmincaps.errors import InputError
from maxmincaps.training import processes
from maxmincaps.training.checkpoint import CHECKPOINT
from maxmincaps.training.evaluate import (
    accuracy,
    class_lengths,
    coupling_statistics,
    evaluation_batch_size,
    lengths_of_batches,
)
from maxmincaps.training.prepare import initial_network
from maxmincaps.training.responses import responses
from tests.conftest import TINY
from tests.training.bits import equal_bits, weights_of


def test_a_run_folder_holds_all_that_a_reader_asks_for(whole):
    assert whole.complete
    assert whole.recipe.epochs == 2
    assert len(whole.history) == 2
    assert {
        "epoch", "train_loss", "margin_loss", "reconstruction_loss", "running_train_accuracy", "test_accuracy",
        "learning_rate", "images_per_s", "peak_memory_mb", "coupling_entropy", "coupling_spread", "dead_children",
    } <= json.loads(whole.read("history.jsonl").splitlines()[0]).keys()  # fmt: skip
    assert 0 <= whole.result.best_test_accuracy <= 1
    assert whole.data.classes == tuple("0123456789")
    assert whole.environment.torch == torch.__version__
    assert not (whole.folder / CHECKPOINT).exists()


def test_the_lengths_of_every_test_image_are_kept(whole):
    kept = load_file(whole.folder / "lengths.safetensors")
    assert kept["lengths"].shape == (1000, 10)
    right = (kept["predictions"] == kept["labels"]).double().mean().item()
    assert right == pytest.approx(whole.result.final_test_accuracy)


def test_the_trace_has_every_iteration_of_one_image(whole):
    trace = load_file(whole.folder / "trace.safetensors")
    assert trace["logits"].shape == trace["couplings"].shape == (3, 72, 10)
    assert not trace["logits"][0].any()
    assert trace["couplings"][0].eq(1).all()


def test_the_trained_network_can_be_loaded(whole):
    network = load_network(whole.folder, "last")
    assert not network.training
    assert all(weights_of(whole)[name].equal(tensor) for name, tensor in fold_multipliers(network).state_dict().items())


def test_weights_of_another_recipe_are_refused(whole, tiny, tmp_path):
    copy = shutil.copytree(whole.folder, tmp_path / "copy")
    recipe = json.loads((copy / "recipe.json").read_text())
    (copy / "recipe.json").write_text(json.dumps({**recipe, "conv_channels": 10**9}))
    with pytest.raises(InputError, match="it is of another recipe"):
        load_network(copy)


@pytest.mark.parametrize("sizes", [{"class_pose": 10**18}, {"padding": "same", "primary_kernel": 10**20 + 1}])
def test_a_network_that_cannot_be_built_is_reported_before_anything_is_written(tiny, tmp_path, sizes):
    with pytest.raises(InputError, match="the recipe's network cannot be built: "):
        fit(tiny(**sizes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"decoder": (-5,)}, r"decoder\.0 should be greater than 0, found -5"),
        ({"shift": 10**25}, "shift should be less than or equal to 10000"),
        ({"threads": 10**12}, "threads should be less than or equal to 4096"),
    ],
)
def test_a_number_that_torch_would_refuse_in_the_middle_of_a_run_is_refused_by_its_name(tiny, setting, says):
    with pytest.raises(InputError, match=says):
        tiny().with_changes(**setting)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(whole, tiny, tmp_path):
    assert equal_bits(fit(tiny(), tmp_path / "again"), whole)
    assert not equal_bits(fit(tiny(seed=1), tmp_path / "other"), whole)


LOW = {"margin_low": 0.0}  # lengths are small at first: absent classes would count for nothing


@pytest.fixture(scope="module")
def low(tmp_path_factory):
    return fit(Recipe(**TINY, **LOW), tmp_path_factory.mktemp("runs") / "low")


@pytest.mark.parametrize(
    "changes",
    [
        {"margin_high": 0.6},
        {"margin_low": 0.05},
        {"down_weight": 0.1},
        {"reconstruction_weight": 0.1},
        {"warmup": 0},
        {"decay": 0.5, "decay_steps": 1},
        {"schedule": "cosine"},
        {"schedule": "constant"},
        {"optimizer": "adamw"},
        {"clip_norm": 1e-4},
        {"class_weights": (2.0,) * 10},
        {"class_weights": "balanced"},
        {"vote_rate": 0.5},
        {"primary_rate": 0.5},
        {"precision": "bf16"},
    ],
    ids=str,
)
def test_a_setting_of_training_changes_what_is_learnt(low, tiny, tmp_path, monkeypatch, changes):
    monkeypatch.setattr(processes, "has_bf16", lambda device: True)
    assert not equal_bits(fit(tiny(**LOW | changes), tmp_path / "run"), low)


def test_a_run_has_the_threads_of_its_recipe(tiny, tmp_path):
    assert fit(tiny(threads=2, epochs=1), tmp_path / "run").environment.threads == 2


def test_the_couplings_of_active_children_are_described_and_inactive_ones_are_counted():
    parts = torch.tensor([[[1.0, 0], [0, 2], [0, 0]]])  # the last child is inactive
    step = SimpleNamespace(couplings=torch.tensor([[[1.0, 0], [0.5, 0.5], [9, 0]]]))
    network = SimpleNamespace(parts=lambda _: parts, digits=SimpleNamespace(steps=lambda _: [step]))
    found = coupling_statistics(network, torch.zeros(1, 1, 2, 2))
    assert found == pytest.approx((math.log(2) / 2, 0.5, 1 / 3))


@pytest.mark.parametrize(("side", "together"), [(28, 500), (32, 500), (64, 125), (1000, 1)])
def test_large_images_are_evaluated_few_at_a_time(side, together):
    assert evaluation_batch_size((3, side, side)) == together


@pytest.mark.parametrize(
    ("built", "machine", "processor", "expected"),
    [(False, "arm64", True, False), (True, "x86_64", False, False), (True, "AMD64", True, True)],
)
def test_bf16_is_used_where_the_processor_has_it(monkeypatch, built, machine, processor, expected):
    """Not in builds without oneDNN, as on a Mac, nor where AVX-512 would emulate it."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: built)
    monkeypatch.setattr(processes.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: processor)
    assert processes.has_bf16(torch.device("cpu")) is expected


def test_the_ema_of_the_weights_is_that_of_the_steps(tiny, tmp_path):
    """With a decay so small that the rule for the first steps never applies."""
    step = tiny(epochs=1, train_images=50, warmup=0)
    plain = fit(step.with_changes(ema_decay=0.0), tmp_path / "one step")
    averaged = fit(step.with_changes(ema_decay=0.05), tmp_path / "averaged")
    start = initial_network(tiny(), splits(tiny()).train).state_dict()
    for name, after in weights_of(plain).items():
        torch.testing.assert_close(weights_of(averaged)[name], start[name].lerp(after, 0.95))


def test_a_network_trained_in_half_precision_is_evaluated_as_its_loaded_weights_are(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "has_bf16", lambda device: True)
    recipe = tiny(precision="bf16", ema_decay=0, epochs=1)
    folder = fit(recipe, tmp_path / "half").folder
    again = class_lengths(load_network(folder, "last"), splits(recipe).test)
    torch.testing.assert_close(responses(folder).lengths, again, rtol=0, atol=3e-4)  # kept in 16 bits


def test_validation_images_decide_what_is_best_and_the_test_set_only_reports(tiny, tmp_path):
    recipe = tiny(validation=60)
    run, validation = fit(recipe, tmp_path / "run"), splits(recipe).validation
    lengths = class_lengths(load_network(run.folder, "last"), validation)
    assert run.history[-1].validation_accuracy == accuracy(lengths, validation.labels)
    assert run.result.best_chosen_by == "validation"
    assert run.history[0].test_accuracy is None


class Doubled(CapsNet):
    def forward(self, images, labels=None):
        output = super().forward(images, labels)
        return output._replace(lengths=2 * output.lengths)


def test_evaluation_does_not_reconstruct_and_heeds_hooks_and_other_networks():
    sizes = {"image_shape": (1, 12, 12), "conv_channels": 4, "conv_kernel": 3, "types": 2, "primary_kernel": 3}
    network, images, decoded = CapsNet(**sizes), torch.rand(5, 1, 12, 12), []
    network.decoder.register_forward_hook(lambda *_: decoded.append(True))
    lengths = network(images).lengths.detach()
    decoded.clear()
    assert torch.equal(lengths_of_batches(network, [images]), lengths)
    assert not decoded
    doubled = Doubled(**sizes)
    doubled.load_state_dict(network.state_dict())
    assert torch.equal(lengths_of_batches(doubled, [images]), 2 * lengths)
    network.register_forward_hook(lambda _network, _images, output: output._replace(lengths=3 * output.lengths))
    assert torch.equal(lengths_of_batches(network, [images]), 3 * lengths)
