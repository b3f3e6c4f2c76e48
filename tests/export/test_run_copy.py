"""Small copies of runs are enough for every command that uses a network; so is the run in the package."""

import shutil
from types import SimpleNamespace

import pytest
import torch

from maxmincaps import InputError, Run, load, load_network
from maxmincaps.data.augment import for_testing
from maxmincaps.training.evaluate import accuracy, class_lengths
from maxmincaps.training.run import SHIPPED_RUN

MOST_BYTES = 17_000_000


def test_a_small_copy_is_half_as_large_and_answers_nearly_as_before(run, tmp_path, command):
    small = tmp_path / "small"
    code, shown = command("export", run, "--to", "run", "--out", small)
    assert code == 0
    assert "of 1,000 test images right" in shown
    images = torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        before, after = (load_network(folder)(images).lengths for folder in (run, small))
    assert torch.allclose(before, after, atol=0.01)
    assert not torch.equal(before, after)
    weights = "best.safetensors"
    assert (small / weights).stat().st_size < 0.51 * (run / weights).stat().st_size
    assert Run(small).recipe == Run(run).recipe
    assert "half precision" in (small / "README.md").read_text()
    assert command("evaluate", small)[0] == 0


def test_what_lies_in_the_way_is_not_written_over(run, tmp_path, command):
    (tmp_path / "mine.txt").write_text("mine")
    code, shown = command("export", run, "--to", "record", "--out", tmp_path)
    assert code == 2
    assert "is not an empty folder" in shown


def test_an_unfinished_run_is_not_shared(tmp_path, run):
    from maxmincaps.export.card import save_small_run

    (tmp_path / "run").mkdir()
    for name in ("recipe.json", "data.json", "environment.json"):
        (tmp_path / "run" / name).write_bytes((run / name).read_bytes())
    with pytest.raises(InputError, match="unfinished"):
        save_small_run(tmp_path / "run", tmp_path / "small")
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("part", ["save_tensors", "class_lengths"])
def test_a_small_copy_that_could_not_be_made_leaves_nothing(tmp_path, run, monkeypatch, part):
    from maxmincaps.export import card

    def fails(*_):
        raise InputError("no space left")

    monkeypatch.setattr(card, part, fails)
    with pytest.raises(InputError, match="no space left"):
        card.save_small_run(run, tmp_path / "small")
    assert not any(tmp_path.iterdir())


def test_a_small_copy_does_not_contain_the_path_of_the_users_images(tmp_path, run, monkeypatch):
    from maxmincaps.export import card

    shutil.copytree(run, tmp_path / "run")
    own = Run(tmp_path / "run")
    own.write("recipe.json", own.recipe.with_changes(dataset="secret/patients").to_json())
    own.write("data.json", own.data.model_copy(update={"name": "secret/patients", "dataset_path": "/secret/patients"}))
    monkeypatch.setattr(card, "images_seen", lambda *_: SimpleNamespace(test=load("mnist-5k", "test")))
    shared = card.save_small_run(own.folder, tmp_path / "small", "last")
    texts = [path.read_text() for path in shared.folder.iterdir() if path.suffix != ".safetensors"]
    assert not any("secret" in text for text in texts)
    assert any('load_network("this folder", "last")' in text for text in texts)


def test_a_run_whose_images_are_not_here_is_shared_after_a_check_on_random_ones(tmp_path, run):
    from maxmincaps.export.card import save_small_run

    own = Run(shutil.copytree(run, tmp_path / "run"))
    own.write("recipe.json", own.recipe.with_changes(dataset="gone.npz").to_json())
    own.write("data.json", own.data.model_copy(update={"dataset_path": str(tmp_path / "gone.npz")}))
    shared = save_small_run(own.folder, tmp_path / "small")
    assert shared.accuracy is None
    assert "random images" in shared.checked
    assert f"{100 * own.result.best_test_accuracy:.2f} %" in (tmp_path / "small" / "README.md").read_text()


def test_couplings_are_refused_where_they_would_be_ignored(run, tmp_path, command):
    code, shown = command("export", run, "--to", "record", "--couplings", "--out", tmp_path / "small")
    assert (code, "--couplings is for onnx and torch programs" in shown) == (2, True)


def test_the_network_that_comes_with_the_package_is_small_and_its_card_agrees_with_its_run():
    run, card = Run(SHIPPED_RUN), (SHIPPED_RUN / "README.md").read_text()
    assert sum(path.stat().st_size for path in SHIPPED_RUN.iterdir()) <= MOST_BYTES
    assert run.recipe.dataset == "mnist"
    assert f"best weights of epoch {run.result.best_epoch} of {run.result.epochs}" in card
    # As the file has it: settings that were added later are in neither.
    assert (SHIPPED_RUN / "recipe.json").read_text().strip() in card


def test_the_network_that_comes_with_the_package_knows_digits():
    digits = load("mnist-5k", "test")
    found = class_lengths(load_network(), digits, for_testing(Run(SHIPPED_RUN).recipe))
    assert accuracy(found, digits.labels) > 0.99
