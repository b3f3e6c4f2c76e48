"""The recipe: names of earlier versions, fingerprints, and what it says of wrong settings."""

import json

import pytest

from maxmincaps import Recipe
from maxmincaps.errors import InputError
from maxmincaps.recipe import NAMED, recipe_from, settings_in
from maxmincaps.studies.paper import MNIST_RECORD


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"normalisation": "softmax"}, "no setting is called 'normalisation'.*did you mean normalization"),
        ({"epochs": 0}, "epochs should be greater than or equal to 1, found 0"),
        ({"patience": 2}, "patience needs a validation set"),
        ({"start": 1e308}, "start should be less than or equal to"),
        ({"class_weights": "1,heavy"}, "class_weights.*should be a valid number"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_one_line_and_not_a_report_of_pydantics(settings, says):
    with pytest.raises(InputError, match=says) as found:
        Recipe(**settings)
    assert "\n" not in str(found.value)
    assert "pydantic" not in str(found.value)


def test_settings_of_the_first_version_are_read_and_keep_their_fingerprint():
    old = {"average": 0.5, "pace": "slow", "watch": 3, "relu": True}  # files have every setting
    recipe = recipe_from(old, "recipe.json")
    assert (recipe.ema_decay, recipe.layer_rates) == (0.5, "slow")
    assert recipe.fingerprint() == "3938cb7122a5"  # that of version 0.1
    assert Recipe.from_json(recipe.to_json()) == recipe
    with pytest.warns(DeprecationWarning, match="average is called ema_decay"):
        assert Recipe(average=0.5).ema_decay == 0.5
    with pytest.warns(DeprecationWarning, match="watch has no effect"):
        assert Recipe(watch=3) == Recipe()


def test_the_name_of_a_run_is_readable_and_different_for_different_recipes():
    name = Recipe(dataset="photos/cats.npz", normalization="softmax").run_name
    assert name.startswith("cats-softmax-r3-s0-")
    assert name != Recipe(dataset="photos/cats.npz", normalization="softmax", flip=True).run_name
    assert Recipe(device="cpu", keep_checkpoint=True).run_name == Recipe().run_name


def test_class_weights_are_a_list_in_a_file_and_separated_by_commas_on_the_command_line():
    assert Recipe(class_weights="1,2.5").class_weights == Recipe(class_weights=[1, 2.5]).class_weights == (1.0, 2.5)
    assert Recipe(class_weights="balanced").class_weights == "balanced"


@pytest.mark.parametrize("digits", [4_000, 5_000])
def test_a_seed_of_thousands_of_digits_is_refused_in_one_short_line(tmp_path, digits):
    for name, text in (("recipe.toml", f"seed = {'9' * digits}"), ("recipe.json", json.dumps({"seed": 0}))):
        (tmp_path / name).write_text(text.replace(": 0", f": {'9' * digits}"))
        with pytest.raises(InputError, match=r"seed|digits") as found:
            Recipe.from_file(tmp_path / name)
        assert len(str(found.value)) < 500


def test_the_mnist_record_recipe_is_the_papers_line_of_the_study():
    recipe = Recipe.from_file("mnist-record")
    assert recipe in MNIST_RECORD.grid("paper")
    assert Recipe.from_file("record") == recipe, "its name in the first version"


@pytest.mark.parametrize("name", NAMED)
def test_a_recipe_of_the_package_uses_the_present_names(name):
    assert settings_in(name).keys() <= Recipe.model_fields.keys()
