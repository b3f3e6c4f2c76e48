"""`maxmincaps predict` as a user meets it: pictures in, classes and lengths out."""

import json
import shutil

import pytest
from PIL import Image

from maxmincaps import Recipe, Run, fit
from maxmincaps.cli.terminal import write_csv
from maxmincaps.training.checkpoint import load_tensors, save_tensors
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.run import SHIPPED_RUN
from tests.conftest import TINY


def test_predict_draws_the_lengths_of_all_classes(command, run, tmp_path):
    Image.new("RGB", (90, 60), "white").save(tmp_path / "white.png")
    code, shown = command("predict", tmp_path / "white.png", "--run", run)
    assert code == 0
    assert "white.png is" in shown
    assert all(f" {digit} 0." in shown for digit in range(10))


def test_predict_knows_digits_without_any_training(command, seven):
    code, shown = command("predict", seven)
    assert code == 0
    assert "seven.png is 7" in shown
    assert "--invert" not in shown


def test_predict_says_that_it_recognises_nothing_where_every_length_is_small(command, tmp_path):
    Image.new("L", (28, 28), 64).save(tmp_path / "grey.png")
    code, shown = command("predict", tmp_path / "grey.png")
    assert code == 0
    assert f"grey.png is not recognised: no length reaches {Run(SHIPPED_RUN).recipe.margin_low}" in shown
    assert all(f" {digit} 0.0" in shown for digit in range(10))


def test_a_file_name_in_brackets_is_a_file_name(command, seven):
    names = [seven.with_name(name) for name in ("[1].png", "[a, b].png")]
    for name in names:
        name.write_bytes(seven.read_bytes())
    code, shown = command("predict", *(name.name for name in names))
    assert code == 0
    assert all(f"{name.name} is 7" in shown for name in names)


def test_predict_asks_whether_dark_strokes_on_light_paper_should_be_swapped(command, seven):
    Image.eval(Image.open(seven), lambda light: 255 - light).save(seven)
    _, shown = command("predict", seven)
    assert "mostly light: if its strokes are dark, add --invert" in shown
    _, shown = command("predict", seven, "--swap")
    assert "seven.png is 7" in shown
    assert "mostly light" not in shown


def test_what_is_not_an_image_is_said(command, tmp_path):
    (tmp_path / "not.png").write_text("hello")
    code, shown = command("predict", tmp_path / "not.png")
    assert code == 2
    assert "not.png: expected an image" in shown
    code, shown = command("predict", tmp_path / "nowhere.png")
    assert code == 2
    assert "nowhere.png" in shown


def test_a_folder_of_images_is_classified_as_json_and_as_csv(command, seven):
    (seven.parent / "more").mkdir()
    for name in ("a.png", "b.PNG", ".hidden.png"):
        (seven.parent / "more" / name).write_bytes(seven.read_bytes())
    code, shown = command("predict", "more", "--json", "--csv", "out.csv")
    assert code == 0, shown
    found = json.loads(shown)
    assert [(one["path"], one["predicted"], one["weights"]) for one in found] == [
        ("more/a.png", "7", "best"),
        ("more/b.PNG", "7", "best"),
    ]
    assert set(found[0]["lengths"]) == set("0123456789")
    assert (seven.parent / "out.csv").read_text().splitlines()[1].startswith("more/a.png,7,")
    (seven.parent / "empty").mkdir()
    assert "expected image files" in command("predict", "empty")[1]


def test_a_folder_of_runs_is_answered_with_their_names(command, run, seven):
    code, shown = command("predict", seven, "--run", run.parent)
    assert (code, f"{run.name}" in shown, "choose one" in shown) == (2, True, True)


def test_evaluate_takes_other_images_and_scores_each_class(command, run, seven):
    for name in ("7", "3"):
        (seven.parent / "new" / name).mkdir(parents=True)
        (seven.parent / "new" / name / "1.png").write_bytes(seven.read_bytes())
    words = ["evaluate", SHIPPED_RUN, "--dataset", "new"]
    code, shown = command(*words)
    assert (code, "50.00 % of 2 images of new (best weights" in shown, "recall" in shown) == (0, True, True), shown
    facts = json.loads(command(*words, "--json")[1])
    seventh = facts["classes"][7]
    assert (facts["accuracy"], seventh["images"], seventh["recall"], seventh["precision"]) == (0.5, 1, 1, 0.5)
    assert facts["confusion"][3][7] == 1
    (seven.parent / "new" / "3").rename(seven.parent / "new" / "cat")
    assert "found 'cat'" in command(*words)[1]


def test_a_file_is_not_a_run_folder(command, seven):
    code, shown = command("predict", seven, "--run", seven)
    assert (code, "is not a run folder: it is a file" in shown) == (2, True)


def test_class_names_that_a_spreadsheet_would_run_are_escaped(tmp_path):
    write_csv(tmp_path / "x.csv", [{"class": "=cmd()", "value": -1.5}, {"class": "fine", "value": 2}])
    assert (tmp_path / "x.csv").read_text() == "class,value\n'=cmd(),-1.5\nfine,2\n"


@pytest.mark.parametrize("table", ["tuning", "outputs", "misclassified", "evolution", "rows", "vote"])
def test_tables_of_a_run_whose_images_moved_take_their_new_place(command, run, tmp_path, table):
    copy = Run(shutil.copytree(run, tmp_path / "run"))
    copy.write("recipe.json", copy.recipe.with_changes(dataset="gone.npz").to_json())
    copy.write("data.json", copy.data.model_copy(update={"dataset_path": str(tmp_path / "gone.npz")}))
    copy.write("result.json", copy.result.model_copy(update={"best_epoch": 1}))
    code, shown = command("look", table, copy.folder)
    assert (code, "--dataset" in shown) == (2, True)
    assert command("look", table, copy.folder, "--dataset", Run(run).recipe.dataset)[0] == 0


@pytest.mark.parametrize("table", ["tuning", "outputs", "misclassified", "evolution", "rows"])
def test_every_table_names_its_weights_and_takes_those_of_the_best_epoch(command, run, tmp_path, table):
    copy = Run(shutil.copytree(run, tmp_path / "run"))
    tensors, note = load_tensors(copy.folder / "best.safetensors")
    tensors["digits.weights"] = tensors["digits.weights"] * 0.5
    save_tensors(copy.folder / "best.safetensors", tensors, note)
    copy.write("result.json", copy.result.model_copy(update={"best_epoch": 1}))
    shown = {weights: command("look", table, copy.folder, "--weights", weights)[1] for weights in ("best", "last")}
    assert all(f"({weights} weights)" in words for weights, words in shown.items())
    assert shown["best"].replace("best", "last") != shown["last"]
    assert command("look", table, copy.folder)[1] == shown["best"]
    (copy.folder / "best.safetensors").unlink()
    assert command("look", table, copy.folder)[1] == shown["last"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A run on overlapping digits, and an image of two of them."""
    folder = tmp_path_factory.mktemp("pairs")
    run = fit(Recipe(**TINY, overlap=True), folder / "run")
    image = images_seen(run).test.images[0, 0].numpy()
    Image.fromarray(image).save(folder / "two.png")
    return run.folder, folder / "two.png"


def test_predict_names_both_digits_of_a_network_of_overlapping_ones(command, pairs):
    run, image = pairs
    code, shown = command("predict", image, "--run", run, "--json")
    (found,) = json.loads(shown)
    longest = sorted(found["lengths"], key=found["lengths"].get, reverse=True)[:2]
    assert (code, [name for name in longest if found["lengths"][name] >= 0.1]) == (0, found["present"])
    code, shown = command("predict", image, "--run", run, "--json", "--top", 1)
    assert len(json.loads(shown)[0]["present"]) <= 1


def test_evaluate_scores_each_class_of_overlapping_images_without_a_confusion_matrix(command, pairs):
    run, _ = pairs
    code, shown = command("evaluate", run, "--json")
    found = json.loads(shown)
    assert (code, found["confusion"]) == (0, None)
    assert sum(each["images"] for each in found["classes"]) == 2 * found["images"]
    code, shown = command("evaluate", run)
    assert (code, "recall" in shown, "Confusion" in shown) == (0, True, False)


def test_predict_refuses_to_print_no_class(command, seven):
    code, shown = command("predict", seven, "--top", 0)
    assert code != 0
    assert "top" in shown
