"""A run that is stopped loses nothing, is continued with the same bits, and never takes another's folder."""

import signal

import numpy as np
import pytest

from maxmincaps import Recipe, fit
from maxmincaps.errors import InputError
from maxmincaps.training import fit as fit_module
from maxmincaps.training import trainer
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors, save_tensors
from maxmincaps.training.observer import Observer
from maxmincaps.training.run import Run
from tests.training.bits import equal_bits


class StopAt(Observer):
    """Presses Ctrl-C after a number of steps."""

    def __init__(self, step):
        self.step = step

    def stepped(self, loss):
        self.step -= 1
        if self.step == 0:
            signal.raise_signal(signal.SIGINT)


def stopped(recipe, folder, step):
    """Stop a run after a number of steps and return it."""
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, folder, observer=StopAt(step))
    return Run(folder)


@pytest.fixture
def half(tiny, tmp_path):
    """A run that was stopped after two steps."""
    return stopped(tiny(), tmp_path / "run", 2)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_ctrl_c_loses_nothing_and_the_resumed_run_has_the_same_bits(whole, tiny, tmp_path, step):
    assert not stopped(tiny(), tmp_path / "run", step).complete
    resumed = fit(tiny(), tmp_path / "run", resume=True)
    assert equal_bits(resumed, whole)
    assert equal_bits(resumed, whole, "best")
    assert timeless(resumed) == timeless(whole)


def timeless(run):
    """The history without what depends on the machine's speed."""
    return [line.model_dump(exclude={"images_per_s", "seconds", "peak_memory_mb"}) for line in run.history]


def test_the_ema_of_the_weights_survives_a_stop(tiny, tmp_path):
    recipe = tiny(ema_decay=0.9, schedule="cosine", warmup=2)
    whole = fit(recipe, tmp_path / "whole")
    stopped(recipe, tmp_path / "run", 4)
    assert equal_bits(fit(recipe, tmp_path / "run", resume=True), whole)


def test_a_checkpoint_of_an_earlier_version_is_continued(half, whole, tiny):
    """Its recipe and its state have names of earlier versions."""
    tensors, note = load_tensors(half.folder / CHECKPOINT)
    note["recipe"] |= {
        "average": note["recipe"].pop("ema_decay"),
        "pace": note["recipe"].pop("layer_rates"),
        "watch": 0,
    }
    note["state"]["watched"] = []
    save_tensors(half.folder / CHECKPOINT, tensors, note)
    assert equal_bits(fit(tiny(), half.folder, resume=True), whole)


@pytest.mark.parametrize("changes", [{"epoch": 1}, {"step": 1}, {"best_accuracy": None}, {"unknown": 1}])
def test_a_checkpoint_whose_state_a_run_is_never_in_is_refused(half, tiny, changes):
    tensors, note = load_tensors(half.folder / CHECKPOINT)
    note["state"] |= changes
    save_tensors(half.folder / CHECKPOINT, tensors, note)
    with pytest.raises(InputError, match=CHECKPOINT):
        fit(tiny(), half.folder, resume=True)


class StopAtTheEnd(Observer):
    """Presses Ctrl-C when the last step has been made."""

    def epoch_ended(self, line):
        if line.epoch == 2:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_a_run_is_measured_finishes_it_and_stops_what_would_come_next(tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), tmp_path / "run", observer=StopAtTheEnd())
    assert Run(tmp_path / "run").complete


def test_the_environment_states_what_was_different_when_a_run_was_continued(half, tiny, monkeypatch):
    began = half.environment
    begin = trainer.begin_run

    def elsewhere(run, environment):
        begin(run, environment.model_copy(update={"processor": "another", "precision": "bf16"}))

    monkeypatch.setattr(fit_module, "begin_run", elsewhere)
    resumed = fit(tiny(), half.folder, resume=True)
    (part,) = resumed.environment.continued
    assert resumed.environment.model_copy(update={"continued": ()}) == began
    assert part.keys() == {"started_at", "processor", "precision"}
    assert resumed.environment.precisions == "fp32, then bf16"


def test_a_run_continued_in_the_same_environment_records_no_change(half, tiny):
    began = half.environment
    assert fit(tiny(), half.folder, resume=True).environment == began


def test_a_run_does_not_go_on_with_other_images_than_it_began_with(tiny, tmp_path):
    path, generator = tmp_path / "own.npz", np.random.default_rng(0)

    def write_images():
        np.savez(path, images=generator.integers(0, 255, (60, 28, 28), dtype=np.uint8), labels=np.arange(60) % 3)

    write_images()
    recipe = tiny(dataset=str(path), train_images=None, test_images=None, batch_size=20)
    run = stopped(recipe, tmp_path / "run", 2)
    data = run.data
    write_images()
    with pytest.raises(InputError, match="was trained on other images than"):
        fit(recipe, tmp_path / "run", resume=True)
    assert run.data == data


def test_a_complete_run_is_not_trained_again(whole, tiny):
    before = (whole.folder / "result.json").stat().st_mtime_ns
    assert fit(tiny(), whole.folder) == whole
    assert (whole.folder / "result.json").stat().st_mtime_ns == before


def test_another_recipe_never_overwrites_a_run(whole, tiny):
    with pytest.raises(InputError, match="another recipe \\(seed 0, not 3\\); choose another folder"):
        fit(tiny(seed=3), whole.folder, resume=True)
    with pytest.raises(InputError, match="epochs 2, not 1"):
        fit(tiny(epochs=1), whole.folder, resume=True)


@pytest.fixture
def finished(tiny, tmp_path):
    """A finished run that can be continued."""
    return fit(tiny(keep_checkpoint=True), tmp_path / "run")


def test_a_finished_run_is_continued_with_the_bits_of_one_that_was_longer_from_the_start(finished, tiny, tmp_path):
    longer = fit(tiny(epochs=3), tmp_path / "longer")
    with pytest.raises(InputError, match="2 epochs, not 3; add --resume"):
        fit(tiny(epochs=3), finished.folder)
    continued = fit(tiny(epochs=3, keep_checkpoint=True), finished.folder, resume=True)
    assert equal_bits(continued, longer)
    assert equal_bits(continued, longer, "best")
    assert timeless(continued) == timeless(longer)
    assert continued.result.model_dump(exclude={"seconds"}) == longer.result.model_dump(exclude={"seconds"})
    assert (continued.recipe.epochs, len(fit(tiny(epochs=4), finished.folder, resume=True).history)) == (3, 4)


def test_a_finished_run_that_is_stopped_while_it_is_continued_is_unfinished_and_loses_nothing(finished, tiny, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(epochs=3), finished.folder, resume=True, observer=StopAt(1))
    assert finished.status == "unfinished"
    assert equal_bits(fit(tiny(epochs=3), finished.folder, resume=True), fit(tiny(epochs=3), tmp_path / "longer"))


def test_a_finished_run_without_a_checkpoint_or_with_a_cosine_schedule_is_not_continued(whole, tiny, tmp_path):
    with pytest.raises(InputError, match="without --keep-checkpoint"):
        fit(tiny(epochs=3), whole.folder, resume=True)
    cosine = tiny(schedule="cosine", keep_checkpoint=True)
    run = fit(cosine, tmp_path / "cosine")
    assert not (run.folder / CHECKPOINT).exists()
    with pytest.raises(InputError, match="cosine"):
        fit(cosine.with_changes(epochs=3), run.folder, resume=True)
    assert run.complete


def test_an_unfinished_run_is_continued_only_when_asked(half, tiny):
    with pytest.raises(InputError, match="unfinished run; add --resume"):
        fit(tiny(), half.folder)


def test_a_folder_with_other_things_in_it_is_left_alone(tiny, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not empty"):
        fit(tiny(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_processes_cannot_train_in_one_folder(tiny, tmp_path):
    run = Run(tmp_path / "run")
    with run.locked(), pytest.raises(InputError, match="another process is training here"):
        fit(tiny(), run.folder)


def test_what_a_killed_process_left_half_written_is_cleared_away(half, whole, tiny):
    for name in (".checkpoint.safetensors.new-0a1b", ".history.jsonl.new"):
        (half.folder / name).write_bytes(b"half")
    resumed = fit(tiny(), half.folder, resume=True)
    assert {path.name for path in resumed.folder.iterdir()} == {path.name for path in whole.folder.iterdir()}


def test_a_write_that_fails_leaves_nothing_beside_the_file(tmp_path):
    (tmp_path / "result.json").mkdir()
    with pytest.raises(InputError, match=r"result\.json: cannot be written"):
        Run(tmp_path).write("result.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_checkpoint_cut_in_half_is_said_and_kept(half, tiny):
    checkpoint = half.folder / CHECKPOINT
    cut = checkpoint.read_bytes()[: checkpoint.stat().st_size // 2]
    checkpoint.write_bytes(cut)
    with pytest.raises(InputError, match=r"checkpoint\.safetensors: is not a complete safetensors file"):
        fit(tiny(), half.folder, resume=True)
    assert checkpoint.read_bytes() == cut


def test_a_checkpoint_of_another_recipe_is_said(half, tiny):
    (half.folder / "recipe.json").write_text(tiny(seed=5).to_json())
    with pytest.raises(InputError, match="is of recipe"):
        fit(tiny(seed=5), half.folder, resume=True)
    assert (half.folder / CHECKPOINT).exists()


def test_a_checkpoint_is_taken_up_by_a_version_whose_defaults_give_recipes_another_fingerprint(half, tiny, monkeypatch):
    before = Recipe.fingerprint
    monkeypatch.setattr(Recipe, "fingerprint", lambda recipe: before(recipe)[::-1])
    assert fit(tiny(), half.folder, resume=True).complete
