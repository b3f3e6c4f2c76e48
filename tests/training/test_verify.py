"""A sound run passes verification; an unsound one is refused in one line, and never taken for sound."""

import json
import shutil

import numpy as np
import pytest

from maxmincaps import InputError, fit
from maxmincaps.training.checkpoint import load_tensors, save_tensors
from maxmincaps.training.responses import evaluate_run, verify_run


def test_a_run_is_verified_by_loading_and_measuring_again(whole):
    assert len(list(verify_run(whole.folder))) == 5


def test_a_network_is_not_measured_again_on_images_that_have_come_since(tiny, tmp_path):
    """Of a folder that is divided again, images that the network was trained on would be test images."""
    images = np.random.default_rng(0).integers(0, 256, (40, 24, 24), dtype=np.uint8)
    own = tmp_path / "own.npz"
    np.savez(own, images=images, labels=np.arange(40) % 2)
    sizes = {"train_images": None, "test_images": None, "crop": 0}
    run = fit(tiny(dataset=str(own), epochs=1, batch_size=16, **sizes), tmp_path / "run")
    assert len(evaluate_run(run.folder).labels) == run.data.test_images
    np.savez(own, images=images[:-5], labels=np.arange(35) % 2)
    for ask in (lambda: evaluate_run(run.folder), lambda: list(verify_run(run.folder))):
        with pytest.raises(InputError, match=r"run: was trained on other images than .* has now"):
            ask()


def test_images_that_were_moved_are_named_and_the_run_is_sound_again(tiny, tmp_path):
    from maxmincaps.export.program import export_run

    images = np.random.default_rng(0).integers(0, 256, (40, 24, 24), dtype=np.uint8)
    own, moved = tmp_path / "own.npz", tmp_path / "moved.npz"
    np.savez(own, images=images, labels=np.arange(40) % 2)
    sizes = {"train_images": None, "test_images": None, "crop": 0}
    run = fit(tiny(dataset=str(own), epochs=1, batch_size=16, **sizes), tmp_path / "run")
    own.rename(moved)
    with pytest.raises(InputError):
        list(verify_run(run.folder))
    assert len(list(verify_run(run.folder, moved))) == 5
    assert len(evaluate_run(run.folder, dataset=moved).labels) == run.data.test_images, "and not all 40"
    assert export_run(run.folder, "torch", tmp_path / "net.pt2", dataset=moved).checked_on == "test images"


def test_predictions_that_are_not_one_for_each_label_do_not_pass_verification(tiny, tmp_path):
    run = fit(tiny(epochs=1), tmp_path / "run")
    path = run.folder / "lengths.safetensors"
    tensors, note = load_tensors(path)
    for kept in (5, 1):  # one prediction would be held against every label
        save_tensors(path, {**tensors, "predictions": tensors["predictions"][:kept]}, note)
        with pytest.raises(InputError, match=rf"lengths\.safetensors: expected .*, found .*\({kept},\)"):
            list(verify_run(run.folder))


def test_a_run_with_only_best_or_last_weights_names_them(whole, tmp_path):
    copy = shutil.copytree(whole.folder, tmp_path / "copy")
    (copy / "best.safetensors").unlink()
    with pytest.raises(InputError, match=r"no such file; the run has last\.safetensors \(--weights last\)"):
        evaluate_run(copy)
    (copy / "last.safetensors").unlink()
    with pytest.raises(InputError, match="runs are shared without weights"):
        evaluate_run(copy)


def test_a_false_result_does_not_pass_verification(whole, tmp_path):
    copy = shutil.copytree(whole.folder, tmp_path / "copy")
    (copy / "result.json").write_text(json.dumps({**whole.result.model_dump(), "best_test_accuracy": 0.999}))
    with pytest.raises(InputError, match=r"says best_test_accuracy 99\.9"):
        list(verify_run(copy))


@pytest.mark.parametrize("epoch", [0, 1000])
def test_a_best_epoch_that_was_never_trained_does_not_pass_verification(tiny, tmp_path, epoch):
    run = fit(tiny(test_images=None, epochs=1), tmp_path / "run")
    (run.folder / "result.json").write_text(json.dumps({**run.result.model_dump(), "best_epoch": epoch}))
    with pytest.raises(InputError, match=f"says best_epoch {epoch} of 1"):
        list(verify_run(run.folder))


def test_a_best_accuracy_that_the_history_does_not_have_does_not_pass_by_an_image(tiny, tmp_path):
    run = fit(tiny(test_images=None), tmp_path / "run")
    assert list(verify_run(run.folder))
    near = run.result.best_test_accuracy - 0.001
    (run.folder / "result.json").write_text(json.dumps({**run.result.model_dump(), "best_test_accuracy": near}))
    with pytest.raises(InputError, match="says best_test_accuracy"):
        list(verify_run(run.folder))


def test_one_image_of_a_thousand_may_fall_otherwise_on_another_machine_and_two_may_not(whole, tmp_path):
    copy = shutil.copytree(whole.folder, tmp_path / "copy")
    right = whole.result.best_test_accuracy

    def say(accuracy):
        (copy / "result.json").write_text(json.dumps({**whole.result.model_dump(), "best_test_accuracy": accuracy}))

    for other in (right - 0.001, right + 0.001):
        say(other)
        assert list(verify_run(copy))
    say(right + 0.002)
    with pytest.raises(InputError, match="says best_test_accuracy"):
        list(verify_run(copy))
