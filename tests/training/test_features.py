"""Early stopping, fine-tuning, class weights, clipping, own images: settings beyond the paper's."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from maxmincaps import CapsNet, InputError, Run, fit
from maxmincaps.data.images import splits
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.prepare import class_weights_for, learning_rate_at, losses_for
from maxmincaps.training.responses import evaluate_run, verify_run
from maxmincaps.training.step import train_step
from tests.conftest import TINY
from tests.training.bits import equal_bits, weights_of


def test_early_stopping_waits_for_a_better_validation_accuracy(tiny, tmp_path):
    recipe = tiny(epochs=30, validation=60, patience=2, learning_rate=1e-5, min_learning_rate=0.0, ema_decay=0.0)
    run = fit(recipe, tmp_path / "run")
    accuracies = [line.validation_accuracy for line in run.history]
    best = int(np.argmax(accuracies)) + 1
    assert len(accuracies) == run.result.epochs == min(best + 2, 30) < 30
    assert run.result.best_epoch == best
    assert fit(recipe, run.folder) == run, "a run that stopped early is complete"


def test_train_says_that_it_stopped_early(tiny, tmp_path, command):
    recipe = tiny(epochs=30, validation=60, patience=1, learning_rate=1e-5, min_learning_rate=0.0, ema_decay=0.0)
    (tmp_path / "recipe.json").write_text(recipe.to_json())
    code, shown = command("train", "--recipe", tmp_path / "recipe.json", "--out", tmp_path / "run", "--quiet")
    assert (code, "stopped early: no better validation accuracy for 1 epoch run:" in shown) == (0, True)


def test_overlapping_images_train_and_a_continued_run_ends_with_the_same_bits(tiny, tmp_path):
    recipe = tiny(overlap=True, epochs=2, keep_checkpoint=True)
    whole = fit(recipe, tmp_path / "whole")
    fit(recipe.with_changes(epochs=1), tmp_path / "parts")
    continued = fit(recipe, tmp_path / "parts", resume=True)
    assert equal_bits(continued, whole)
    assert whole.data.image_shape == (1, 36, 36)
    assert list(verify_run(whole.folder)), "weights, lengths and stated accuracies agree"


def test_the_constant_schedule_is_constant_after_the_warm_up(tiny):
    recipe = tiny(schedule="constant", warmup=2, learning_rate=0.01)
    assert learning_rate_at(recipe, 0, 10) < learning_rate_at(recipe, 2, 10) == learning_rate_at(recipe, 10**6, 10)


def test_balanced_weights_are_inversely_proportional_to_the_images_of_a_class(tiny):
    train = splits(tiny()).train
    weights = class_weights_for(tiny(class_weights="balanced"), train)
    counts = torch.bincount(train.labels, minlength=10)
    torch.testing.assert_close(weights * counts, torch.full((10,), len(train) / 10))
    assert weights[train.labels].mean().item() == pytest.approx(1)
    assert class_weights_for(tiny(), train) is None


def test_a_class_weight_multiplies_the_margin_loss_of_its_images(tiny):
    torch.manual_seed(0)
    network, images = CapsNet(conv_channels=4, types=2, decoder=(8,)), torch.rand(2, 1, 28, 28)
    labels, weights = torch.tensor([3, 5]), torch.ones(10)
    weights[3] = 7
    single = [losses_for(tiny(), network(images[[i]]), images[[i]], labels[[i]]).margin for i in (0, 1)]
    both = losses_for(tiny(), network(images), images, labels, class_weights=weights).margin
    torch.testing.assert_close(both, (7 * single[0] + single[1]) / 2)


def test_wrong_numbers_of_class_weights_are_refused_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(InputError, match="class_weights: expected 10 numbers"):
        fit(tiny(class_weights=(1, 2)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_clipping_bounds_the_norm_of_the_gradients_and_the_observer_sees_them_clipped():
    torch.manual_seed(0)
    network = CapsNet(conv_channels=4, types=2, decoder=(8,))
    seen = []

    def norm(_):
        seen.append(torch.nn.utils.get_total_norm([each.grad for each in network.parameters()]).item())

    images, labels = torch.rand(4, 1, 28, 28), torch.arange(4)
    sgd = torch.optim.SGD(network.parameters(), lr=0.0)
    for clip in (None, 1e-3, 1e9):
        result = train_step(network, sgd, images, labels, clip_norm=clip, on_gradients=norm)
    assert seen == pytest.approx([result.gradient_norm, 1e-3, result.gradient_norm], rel=1e-3)


def test_a_step_that_is_not_finite_changes_no_weights():
    network = CapsNet(conv_channels=4, types=2, decoder=(8,))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    images = torch.full((2, 1, 28, 28), float("nan"))
    result = train_step(network, torch.optim.Adam(network.parameters()), images, torch.arange(2))
    assert not result.finite
    assert all(tensor.equal(before[name]) for name, tensor in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


# Fine-tuning


def test_fine_tuning_starts_from_all_weights_of_a_run_with_the_same_classes(whole, tiny, tmp_path):
    still = tiny(init_from=str(whole.folder), learning_rate=1e-30, min_learning_rate=0.0, epochs=1, ema_decay=0.0)
    tuned = fit(still, tmp_path / "tuned")
    assert tuned.data.init_from_layers == ("conv1", "primary", "digits", "decoder")
    assert equal_bits(tuned, whole, "best")


def write_own(path, classes=3, names=None):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (60, 28, 28), dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(60) % classes)
    return {"dataset": str(path), "train_images": None, "test_images": None, "batch_size": 20}


def test_new_classes_get_a_new_last_layer(whole, tiny, tmp_path):
    own = write_own(tmp_path / "own.npz")
    recipe = tiny(**own, init_from=str(whole.folder), learning_rate=1e-30, min_learning_rate=0.0, ema_decay=0.0)
    tuned = fit(recipe, tmp_path / "tuned")
    assert tuned.data.init_from_layers == ("conv1", "primary")
    ours, theirs = weights_of(tuned), weights_of(whole, "best")
    assert ours["conv1.weight"].equal(theirs["conv1.weight"])
    assert ours["digits.weights"].shape[1] == 3


def test_fine_tuning_from_a_hub_folder_equals_fine_tuning_from_the_run(whole, tiny, tmp_path):
    from maxmincaps import load_network

    load_network(whole.folder).save_pretrained(tmp_path / "hub")
    runs = [
        fit(tiny(init_from=str(source), epochs=1), tmp_path / name)
        for name, source in (("from hub", tmp_path / "hub"), ("from run", whole.folder))
    ]
    assert equal_bits(*runs)


def test_a_stopped_fine_tuning_is_continued_without_its_source(whole, tiny, tmp_path):
    from tests.training.test_stopped import stopped

    source = shutil.copytree(whole.folder, tmp_path / "source")
    recipe = tiny(init_from=str(source))
    expected = fit(recipe, tmp_path / "expected")
    stopped(recipe, tmp_path / "run", 2)
    resumed = fit(recipe, tmp_path / "run", resume=True)
    assert equal_bits(resumed, expected)
    assert resumed.data.init_from_layers == expected.data.init_from_layers


@pytest.mark.parametrize(
    ("changes", "says"), [({"conv_channels": 4}, "conv1"), ({"init_from": "no/such/run"}, "init_from no/such/run")]
)
def test_a_source_that_does_not_fit_is_refused_before_anything_is_written(whole, tiny, tmp_path, changes, says):
    with pytest.raises(InputError, match=says):
        fit(tiny(**{"init_from": str(whole.folder), **changes}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Own images


def test_a_run_on_own_images_is_found_again_from_another_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_own(tmp_path / "own.npz")
    recipe = tiny(dataset="own.npz", train_images=None, test_images=None, batch_size=20)
    fit(recipe, tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(evaluate_run(tmp_path / "run").labels) == 12
    moved = (tmp_path / "own.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(InputError, match=r"not at .*own\.npz any more; pass --dataset"):
        images_seen(Run(tmp_path / "run"))
    assert len(images_seen(Run(tmp_path / "run"), moved).test) == 12
    write_own(moved, classes=4)
    with pytest.raises(InputError, match="other images"):
        images_seen(Run(tmp_path / "run"), moved)


# The command


MODULES = """
import json, sys
from maxmincaps.cli import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code
print(json.dumps(sorted(sys.modules)))
"""


def test_train_loads_nothing_from_above_training(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({**TINY, "epochs": 1}))
    words = ["train", "--quiet", "--recipe", tmp_path / "tiny.json", "--out", tmp_path / "run"]
    done = subprocess.run([sys.executable, "-c", MODULES, *words], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    above = ("studies", "report", "analysis", "export", "app", "benchmark")
    assert not {f"maxmincaps.{name}" for name in above} & set(loaded)
    assert not {"duckdb", "matplotlib", "distributed", "lightning_fabric", "sklearn", "gradio"} & set(loaded)
    assert len([name for name in loaded if name.split(".")[0] == "maxmincaps"]) <= 50


def test_train_continues_a_finished_run_with_more_epochs(command, tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({**TINY, "epochs": 1}))
    code, output = command("train", "--quiet", "--recipe", tmp_path / "tiny.json", "--out", tmp_path / "run")
    assert code == 0, output
    code, output = command("train", "--quiet", "--out", tmp_path / "run", "--epochs", 2, "--resume")
    assert (code, Run(tmp_path / "run").result.epochs) == (0, 2), output
    code, output = command("train", "--quiet", "--out", tmp_path / "run", "--resume")
    assert "nothing was trained" in output


@pytest.mark.parametrize("flags", [("--start", "1e308"), ("--device", "hpu"), ("--device", "xla")])
def test_a_flag_that_torch_refuses_is_reported_in_one_line(command, tmp_path, flags):
    code, output = command("train", "--out", tmp_path / "run", *flags)
    assert code == 2
    assert "Traceback" not in output
    assert flags[0].strip("-") in output


def test_the_old_names_of_flags_are_still_read(command, tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({**TINY, "epochs": 1}))
    words = ["train", "--quiet", "--recipe", tmp_path / "tiny.json", "--out", tmp_path / "run"]
    assert command(*words, "--average", "0.5", "--pace", "slow")[0] == 0
    recipe = Run(tmp_path / "run").recipe
    assert (recipe.ema_decay, recipe.layer_rates) == (0.5, "slow")
