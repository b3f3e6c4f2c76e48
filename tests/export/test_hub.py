"""Hub folders: the same outputs as the network, and a card that agrees with the run."""

import json
import resource
import shutil
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image
from safetensors.torch import load_file, save_file

from maxmincaps import NORMALIZATIONS, CapsNet, InputError, Normalization, Run, fit, load_network
from maxmincaps.export import hub
from maxmincaps.export.card import card_facts

SMALL = {"conv_channels": 4, "types": 2, "part_pose": 4, "class_pose": 4, "decoder": (8,)}


def same_answers(ours, theirs):
    images = torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        return torch.equal(ours(images).poses, theirs(images).poses)


@pytest.mark.parametrize("settings", [{}, {"normalization": "softmax"}, {"high": 0.1, "start": 0.2, "relu": False}])
def test_a_network_comes_back_from_its_folder_as_it_was(settings, tmp_path):
    network = CapsNet(**SMALL, **settings).eval()
    network.save_pretrained(tmp_path)
    back = CapsNet.from_pretrained(tmp_path)
    assert same_answers(network, back)
    assert back.digits.normalization.start_for(10) == network.digits.normalization.start_for(10)
    assert not back.training


def test_the_card_of_a_run_has_data_recipe_accuracy_budget_licence_and_citation(run, tmp_path, command):
    code, _ = command("export", run, "--to", "hub", "--out", tmp_path / "hub")
    assert code == 0
    assert same_answers(load_network(run), CapsNet.from_pretrained(tmp_path / "hub"))
    own, card = Run(run), (tmp_path / "hub" / "README.md").read_text()
    assert f"{100 * own.result.best_test_accuracy:.2f} % of 1,000 test images" in card
    assert json.loads(card.partition("```json")[2].partition("```")[0]) == json.loads(own.recipe.to_json())
    for words in ("120 images to train", "1 epoch, 3 steps", "license: mit", "arXiv:1903.09662", "LeCun"):
        assert words in card


def test_a_hub_folder_names_its_classes_its_preprocessing_and_its_accuracy(run, tmp_path, command):
    command("export", run, "--to", "hub", "--out", tmp_path / "hub")
    config = json.loads((tmp_path / "hub" / "config.json").read_text())
    assert config["id2label"]["7"] == "7"
    preprocessing = json.loads((tmp_path / "hub" / "preprocessor_config.json").read_text())
    assert (preprocessing["height"], preprocessing["grey"], preprocessing["whiten"]) == (28, True, False)
    card = ModelCard.load(tmp_path / "hub" / "README.md").data
    assert card.pipeline_tag == "image-classification"
    assert card.eval_results[0].metric_value == pytest.approx(Run(run).result.best_test_accuracy)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "hub").iterdir()}
    assert len(modes) == 1, "all files are readable by the same people"


def test_a_hub_folder_classifies_image_files_as_its_run_does(run, tmp_path, command):
    command("export", run, "--to", "hub", "--out", tmp_path / "hub")
    Image.new("L", (50, 31), 200).save(tmp_path / "grey.png")
    words = ["predict", tmp_path / "grey.png", "--json", "--run"]
    printed = [command(*words, folder)[1] for folder in (run, tmp_path / "hub")]
    assert json.loads(printed[0]) == json.loads(printed[1])


def test_a_hub_folder_is_evaluated_and_looked_into_as_its_run_is(run, tmp_path, command):
    command("export", run, "--to", "hub", "--out", tmp_path / "hub")
    printed = [json.loads(command("evaluate", folder, "--json")[1]) for folder in (run, tmp_path / "hub")]
    assert printed[0]["confusion"] == printed[1]["confusion"]
    for name in ("outputs", "tuning", "misclassified"):
        assert command("look", name, tmp_path / "hub")[0] == 0
    assert command("look", "vote", run, tmp_path / "hub")[0] == 0


def test_a_hub_folder_of_a_linear_head_is_exported_into_a_new_folder_and_used(tiny, tmp_path, command):
    run = fit(tiny(head="linear", epochs=1), tmp_path / "run").folder
    shared = tmp_path / "new" / "hub"
    assert "in a new folder" in command("export", run, "--to", "hub", "--out", shared)[1]
    Image.new("L", (28, 28), 200).save(tmp_path / "grey.png")
    assert command("predict", tmp_path / "grey.png", "--run", shared)[0] == 0


def test_a_card_without_a_run_claims_nothing(tmp_path):
    CapsNet(**SMALL).save_pretrained(tmp_path)
    assert "accuracy is not stated" in (tmp_path / "README.md").read_text()


def test_weights_that_do_not_fit_whole_are_refused(tmp_path):
    CapsNet(**SMALL).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["digits.weights"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="does not hold the weights"):
        CapsNet.from_pretrained(tmp_path)


@pytest.mark.parametrize("wrong", [{"class_pose": 10**9}, {"classes": 500_000}, {"classes": 10**9}])
def test_a_config_that_asks_for_more_than_there_is_takes_no_memory(wrong, tmp_path):
    CapsNet(**SMALL).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **wrong}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"does not hold the weights|at most 1,000,000 parents"):
        CapsNet.from_pretrained(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_a_normalization_is_saved_by_name_or_not_at_all(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="put yours into NORMALIZATIONS"):
        CapsNet(**SMALL, normalization=lambda logits: logits).save_pretrained(tmp_path / "unnamed")
    monkeypatch.setitem(NORMALIZATIONS, "cubed", Normalization(lambda logits: logits**3))
    network = CapsNet(**SMALL, normalization="cubed").eval()
    network.save_pretrained(tmp_path / "named")
    assert same_answers(network, CapsNet.from_pretrained(tmp_path / "named"))


def test_a_network_loaded_with_a_normalization_of_one_s_own_is_not_saved_as_another(tmp_path):
    CapsNet(**SMALL).save_pretrained(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    network = CapsNet.from_pretrained(tmp_path, normalization=lambda logits: logits**3)
    with pytest.raises(InputError, match="put yours into NORMALIZATIONS"):
        network.save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_card_is_not_written_over_something(run, tmp_path, command):
    (tmp_path / "mine").write_text("mine")
    code, printed = command("export", run, "--to", "hub", "--out", tmp_path)
    assert (code, "is not an empty folder" in printed) == (2, True)


def test_an_unfinished_run_is_refused_and_leaves_no_folder(run, tmp_path, command):
    unfinished = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("result.json"))
    code, printed = command("export", unfinished, "--to", "hub", "--out", tmp_path / "hub")
    assert (code, "the run is unfinished (1 of 1 epoch)" in printed) == (2, True)
    assert not (tmp_path / "hub").exists()


class Hub:
    """A hub on this machine: it keeps what it is sent, and remembers under what name."""

    folder = None
    received = ()

    def __init__(self, **_):
        pass

    def create_repo(self, repo_id, **settings):
        Hub.received = (repo_id, settings.get("private"))
        return SimpleNamespace(repo_id=repo_id)

    def upload_folder(self, *, repo_id, folder_path, **_):
        assert repo_id == Hub.received[0]
        shutil.copytree(folder_path, Hub.folder)
        return "commit"


def test_what_is_pushed_to_the_hub_is_config_weights_and_card_and_nothing_else(run, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "HfApi", Hub)
    monkeypatch.setattr(Hub, "folder", tmp_path / "hub")
    network = load_network(run)
    facts = card_facts(run)
    assert network.push_to_hub("you/capsules", private=True, model_card_kwargs=facts) == "commit"
    assert Hub.received == ("you/capsules", True)
    assert sorted(path.name for path in Hub.folder.rglob("*")) == ["README.md", "config.json", "model.safetensors"]
    assert facts["accuracy"] in (Hub.folder / "README.md").read_text()
    assert same_answers(network, CapsNet.from_pretrained(Hub.folder))


def test_a_network_that_cannot_be_saved_makes_no_repository(monkeypatch):
    monkeypatch.setattr(hub, "HfApi", Hub)
    monkeypatch.setattr(Hub, "received", ())
    with pytest.raises(InputError, match=r"you/capsules: .*put yours into NORMALIZATIONS"):
        CapsNet(**SMALL, normalization=lambda logits: logits).push_to_hub("you/capsules")
    assert Hub.received == ()


def test_a_network_comes_from_the_hub_by_its_name(run, tmp_path, monkeypatch):
    load_network(run).save_pretrained(tmp_path / "hub")
    asked = []

    def download(repo_id, filename, **_):
        asked.append((repo_id, filename))
        return str(tmp_path / "hub" / filename)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.setattr(hub, "get_session", MagicMock)
    assert same_answers(load_network(run), CapsNet.from_pretrained("you/capsules"))
    assert asked == [("you/capsules", "config.json"), ("you/capsules", "model.safetensors")]


def test_a_hub_that_cannot_be_reached_is_an_error_within_seconds(command, tmp_path, monkeypatch):
    """The library would retry for half a minute."""
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:1")
    began = time.monotonic()
    code, printed = command("train", "--init-from", "owner/name", "--epochs", 1, "--out", tmp_path / "run")
    assert (code, "owner/name: neither a run folder nor a hub model" in printed) == (2, True), printed
    assert time.monotonic() - began < 15
