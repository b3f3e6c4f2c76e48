"""From a recipe to a record: what is left on the disk, and that the same recipe gives the same bits."""

import json
import math
import os
import signal
import threading
import time
from multiprocessing import active_children

import pytest
import torch
from safetensors.torch import load_file

from maxmincaps import NORMALIZATIONS, CapsNet, Normalization, Recipe, fit, load_network
from maxmincaps.data.images import splits
from maxmincaps.errors import DivergedError, InputError
from maxmincaps.training.checkpoint import CHECKPOINT
from maxmincaps.training.observer import Observer
from maxmincaps.training.prepare import initial_network, learning_rate_at, optimizer_for
from maxmincaps.training.record import Record
from maxmincaps.training.verify import verified


def weights_of(record, which="last"):
    return load_file(record.folder / f"{which}.safetensors")


def equal_bits(ours, theirs, which="last"):
    ours, theirs = weights_of(ours, which), weights_of(theirs, which)
    return ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped."""
    from tests.conftest import TINY

    return fit(Recipe(**TINY), tmp_path_factory.mktemp("runs") / "whole")


def test_a_record_holds_all_that_a_reader_asks_for(whole):
    assert whole.complete
    assert whole.recipe.epochs == 2
    assert len(whole.history) == 2
    assert {
        "epoch", "train_loss", "margin_loss", "reconstruction_loss", "running_train_accuracy", "test_accuracy",
        "learning_rate", "images_per_s", "peak_memory_mb", "coupling_entropy", "coupling_spread", "dead_children",
    } <= whole.history[0].keys()  # fmt: skip
    assert {"best_test_accuracy", "final_test_accuracy", "train_accuracy", "epochs", "seconds"} <= whole.result.keys()
    assert whole.data["classes"] == list("0123456789")
    assert {"torch", "processor", "threads", "commit", "started_at"} <= whole.environment.keys()
    assert not (whole.folder / CHECKPOINT).exists()


def test_the_lengths_of_every_test_image_are_kept(whole):
    kept = load_file(whole.folder / "lengths.safetensors")
    assert kept["lengths"].shape == (1000, 10)
    right = (kept["predictions"] == kept["labels"]).double().mean().item()
    assert right == pytest.approx(whole.result["final_test_accuracy"])


def test_the_trace_has_every_iteration_of_one_image(whole):
    trace = load_file(whole.folder / "trace.safetensors")
    assert trace["logits"].shape == trace["couplings"].shape == (3, 72, 10)
    assert not trace["logits"][0].any()
    assert trace["couplings"][0].eq(1).all()


def test_a_record_is_verified_by_loading_and_measuring_again(whole):
    assert len(list(verified(whole.folder))) == 5


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(whole, tiny, tmp_path):
    assert equal_bits(fit(tiny(), tmp_path / "again"), whole)
    assert not equal_bits(fit(tiny(seed=1), tmp_path / "other"), whole)


class StopAt(Observer):
    """Presses Ctrl-C after so many steps."""

    def __init__(self, step):
        self.step = step

    def stepped(self, loss):
        self.step -= 1
        if self.step == 0:
            signal.raise_signal(signal.SIGINT)


def test_the_average_and_what_was_watched_survive_a_stop(tiny, tmp_path):
    recipe = tiny(average=0.9, schedule="cosine", warmup=2, watch=5)
    whole = fit(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, tmp_path / "run", observer=StopAt(4))
    resumed = fit(recipe, tmp_path / "run", resume=True)
    assert equal_bits(resumed, whole)
    assert resumed.read("steps.jsonl") == whole.read("steps.jsonl")


def test_the_first_steps_are_described_and_the_watching_changes_nothing(whole, tiny, tmp_path):
    watched = fit(tiny(watch=4), tmp_path / "run")
    lines = [json.loads(line) for line in watched.read("steps.jsonl").splitlines()]
    assert equal_bits(watched, whole)
    assert len(lines) == 4
    assert lines[0]["gradients"].keys() == {"conv1", "primary", "votes", "decoder"}
    assert all(0 < line["class_length"] < line["longest_class_length"] < 1 for line in lines)
    assert all(0 <= low <= middle <= high <= 1 for line in lines for low, middle, high in [line["couplings"]])


def test_the_average_is_that_of_the_steps(tiny, tmp_path):
    """With a share so small that the rule for the first steps never applies, a step makes nearly all of it."""
    step = tiny(epochs=1, train_images=50, warmup=0)
    plain = fit(step.but(average=0.0), tmp_path / "one step")
    averaged = fit(step.but(average=0.05), tmp_path / "averaged")
    start = initial_network(tiny(), splits(tiny()).train).state_dict()
    for name, after in weights_of(plain).items():
        torch.testing.assert_close(weights_of(averaged)[name], start[name].lerp(after, 0.95))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_ctrl_c_loses_nothing_and_the_resumed_run_has_the_same_bits(whole, tiny, tmp_path, step):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), tmp_path / "run", observer=StopAt(step))
    assert not Record(tmp_path / "run").complete
    resumed = fit(tiny(), tmp_path / "run", resume=True)
    assert equal_bits(resumed, whole)
    assert equal_bits(resumed, whole, "best")
    timeless = [
        {name: value for name, value in line.items() if name not in ("images_per_s", "seconds", "peak_memory_mb")}
        for line in resumed.history
    ]
    for line, undisturbed in zip(timeless, whole.history, strict=True):
        assert line.items() <= undisturbed.items()


def test_a_complete_run_is_not_trained_again(whole, tiny):
    before = (whole.folder / "result.json").stat().st_mtime_ns
    assert fit(tiny(), whole.folder) == whole
    assert (whole.folder / "result.json").stat().st_mtime_ns == before


def test_another_recipe_never_overwrites_a_run(whole, tiny):
    with pytest.raises(InputError, match="another recipe \\(epochs 2, not 3\\); choose another folder"):
        fit(tiny(epochs=3), whole.folder)


def test_an_unfinished_run_is_continued_only_when_asked(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), tmp_path / "run", observer=StopAt(2))
    with pytest.raises(InputError, match="unfinished run; add --resume"):
        fit(tiny(), tmp_path / "run")


def test_a_folder_with_other_things_in_it_is_left_alone(tiny, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not empty"):
        fit(tiny(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_processes_cannot_train_in_one_folder(tiny, tmp_path):
    record = Record(tmp_path / "run")
    with record.locked(), pytest.raises(InputError, match="another process is training here"):
        fit(tiny(), record.folder)


def half_a_run(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), tmp_path / "run", observer=StopAt(2))
    return tmp_path / "run" / CHECKPOINT


def test_a_checkpoint_cut_in_half_is_said_and_kept(tiny, tmp_path):
    checkpoint = half_a_run(tiny, tmp_path)
    half = checkpoint.read_bytes()[: checkpoint.stat().st_size // 2]
    checkpoint.write_bytes(half)
    with pytest.raises(InputError, match=r"checkpoint\.safetensors: is not a whole safetensors file"):
        fit(tiny(), tmp_path / "run", resume=True)
    assert checkpoint.read_bytes() == half


def test_a_checkpoint_of_another_recipe_is_said(tiny, tmp_path):
    checkpoint = half_a_run(tiny, tmp_path)
    (tmp_path / "run" / "recipe.json").write_text(tiny(seed=5).to_json())
    with pytest.raises(InputError, match="is of recipe"):
        fit(tiny(seed=5), tmp_path / "run", resume=True)
    assert checkpoint.exists()


def test_a_checkpoint_is_taken_up_by_a_version_whose_defaults_give_recipes_another_fingerprint(
    tiny, tmp_path, monkeypatch
):
    half_a_run(tiny, tmp_path)
    before = Recipe.fingerprint
    monkeypatch.setattr(Recipe, "fingerprint", lambda recipe: before(recipe)[::-1])
    assert fit(tiny(), tmp_path / "run", resume=True).complete


@pytest.fixture
def exploding():
    """A normalization whose couplings become infinite after some steps."""
    calls = []

    def explode(logits):
        calls.extend([1] * (logits.ndim == 3))  # in routing, and not when the layer asks for its typical couplings
        return logits * (math.inf if len(calls) == 5 else 1)

    NORMALIZATIONS["exploding"] = Normalization(explode)
    yield "exploding"
    del NORMALIZATIONS["exploding"]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_weights(exploding, tiny, tmp_path):
    with pytest.raises(DivergedError, match=r"not finite at epoch 1, step 3 .*last good weights are in"):
        fit(tiny(normalization=exploding), tmp_path / "run")
    assert all(tensor.isfinite().all() for tensor in weights_of(Record(tmp_path / "run")).values())
    assert not Record(tmp_path / "run").complete


def test_a_step_that_is_not_finite_can_be_skipped_and_is_counted(exploding, tiny, tmp_path):
    record = fit(tiny(normalization=exploding, non_finite="skip"), tmp_path / "run")
    assert record.result["skipped_steps"] == 1
    assert all(tensor.isfinite().all() for tensor in weights_of(record).values())


def test_of_a_watched_run_the_steps_that_were_skipped_are_left_out(exploding, tiny, tmp_path):
    record = fit(tiny(normalization=exploding, non_finite="skip", watch=6), tmp_path / "run")
    assert record.result["skipped_steps"] == 1
    assert len(record.steps) == 5
    assert all(math.isfinite(step["loss"]) for step in record.steps)


def test_a_watched_run_that_diverges_keeps_the_steps_before(exploding, tiny, tmp_path):
    with pytest.raises(DivergedError, match="step 2 "):  # not 3: watching routes too
        fit(tiny(normalization=exploding, watch=6), tmp_path / "run")
    assert len(Record(tmp_path / "run").steps) == 1


def test_validation_images_decide_what_is_best_and_the_test_set_only_reports(tiny, tmp_path):
    record = fit(tiny(validation=60), tmp_path / "run")
    assert record.result["best_chosen_by"] == "validation"
    assert "validation_accuracy" in record.history[0]
    assert "test_accuracy" not in record.history[0]


def test_two_processes_give_the_result_of_one_within_rounding(whole, tiny, tmp_path):
    twice = fit(tiny(processes=2), tmp_path / "two")
    for name, ours in weights_of(twice).items():
        torch.testing.assert_close(ours, weights_of(whole)[name], rtol=1e-3, atol=1e-4)
    for line, alone in zip(twice.history, whole.history, strict=True):
        assert line["train_loss"] == pytest.approx(alone["train_loss"], rel=1e-4)


class AtOnce(Observer):
    """Wants to stop after the first step."""

    def wants_to_stop(self):
        return True


def test_two_processes_stop_when_the_observer_wants_it(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(processes=2), tmp_path / "run", observer=AtOnce())
    assert (tmp_path / "run" / CHECKPOINT).exists()
    assert not active_children()


def test_a_signal_to_the_first_process_stops_all_before_the_record_is_given_free(tiny, tmp_path):
    def press():
        while not (tmp_path / "run" / "data.json").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(processes=2, epochs=100), tmp_path / "run")
    assert not active_children()
    assert (tmp_path / "run" / CHECKPOINT).exists()


def test_a_divergence_in_two_processes_is_told_as_in_one(tiny, tmp_path):
    with pytest.raises(DivergedError, match="last good weights are in"):
        fit(tiny(processes=2, learning_rate=1e30), tmp_path / "run")


def test_a_batch_too_small_for_the_processes_is_told_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(InputError, match="the last batch of an epoch has 1 of 17 images, too few for 2 processes"):
        fit(tiny(processes=2, train_images=17, batch_size=8), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_learning_rate_decays_continuously_down_to_its_floor(tiny):
    recipe = tiny(learning_rate=0.001, decay=0.96, decay_steps=2000, min_learning_rate=1e-6, warmup=0)
    assert learning_rate_at(recipe, 0, 1) == 0.001
    assert learning_rate_at(recipe, 1000, 1) == pytest.approx(0.001 * 0.96**0.5)
    assert learning_rate_at(recipe, 2000, 1) == pytest.approx(0.00096)
    assert learning_rate_at(recipe, 10**7, 1) == 1e-6


def test_a_cosine_ends_at_the_floor_and_a_warm_up_begins_low(tiny):
    recipe = tiny(schedule="cosine", warmup=9, learning_rate=0.001, min_learning_rate=1e-6)
    assert learning_rate_at(recipe, 0, 1000) == pytest.approx(0.0001)
    assert learning_rate_at(recipe, 500, 1000) == pytest.approx(0.0005)
    assert learning_rate_at(recipe, 1000, 1000) == 1e-6


def test_sabours_initial_values_are_those_of_the_spec(tiny):
    recipe = tiny(initial_values="sabour", conv_channels=64, vote_sigma=0.1)
    network = initial_network(recipe, splits(recipe).train)
    assert network.conv1.weight.std().item() == pytest.approx(0.05 * 0.88, rel=0.05)  # cut off at two sigma
    assert network.primary.convolution.weight.abs().max() <= 0.2
    assert network.digits.weights.std().item() == pytest.approx(0.1, rel=0.1)
    assert network.primary.convolution.bias.eq(0.1).all()


def rates(recipe, **sizes):
    network = CapsNet(normalization=recipe.normalization, **sizes)
    return {group["name"]: group["rate"] for group in optimizer_for(recipe, network).param_groups}


def test_large_layers_learn_more_slowly_the_more_terms_their_sums_have(tiny):
    ours = rates(tiny())
    assert (ours["others"], ours["primary"]) == (1, 6000 / (256 * 81))
    assert rates(tiny(), conv_channels=8, types=2)["primary"] == 1
    assert rates(tiny(), types=128)["votes"] == pytest.approx(ours["votes"] * 30_000 / (128 * 36 * 8))
    assert rates(tiny(vote_rate=0.25, primary_rate=0.5)) == {"others": 1, "primary": 0.5, "votes": 0.25}


def test_w_moves_the_further_the_smaller_the_couplings_are_that_it_acts_through(tiny):
    assert rates(tiny(normalization="uniform"))["votes"] == 1
    assert rates(tiny(normalization="softmax"))["votes"] == pytest.approx(10)
    assert rates(tiny())["votes"] == pytest.approx(2.5, rel=0.01)


def test_the_trained_network_can_be_loaded(whole):
    network = load_network(whole.folder, "last")
    assert not network.training
    assert all(weights_of(whole)[name].equal(tensor) for name, tensor in network.state_dict().items())


def test_weights_of_another_recipe_are_refused(whole, tiny, tmp_path):
    import shutil

    shutil.copytree(whole.folder, tmp_path / "copy")
    recipe = json.loads((tmp_path / "copy" / "recipe.json").read_text())
    (tmp_path / "copy" / "recipe.json").write_text(json.dumps({**recipe, "conv_channels": 10**9}))
    with pytest.raises(InputError, match="it is of another recipe"):
        load_network(tmp_path / "copy")


def test_a_false_result_does_not_pass_verification(whole, tmp_path):
    import shutil

    shutil.copytree(whole.folder, tmp_path / "copy")
    result = whole.result
    (tmp_path / "copy" / "result.json").write_text(json.dumps({**result, "best_test_accuracy": 0.999}))
    with pytest.raises(InputError, match=r"says best_test_accuracy 99\.9"):
        list(verified(tmp_path / "copy"))
