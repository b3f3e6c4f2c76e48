"""Laws of what the explorer shows."""

import json
import shutil

import pytest
import torch

from maxmincaps import InputError
from maxmincaps.app import panels, routed
from maxmincaps.app.routed import AS_TRAINED, Model
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.normalizations import NORMALIZATIONS
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.run import Run

BLUE = "blue"
SMALL = {"conv_channels": 6, "types": 3, "part_pose": 4, "class_pose": 5, "decoder": (16,)}


def model(seed=0, image_shape=(1, 28, 28), classes=10, **settings):
    torch.manual_seed(seed)
    recipe = Recipe(**{**SMALL, **settings})
    sizes = recipe.model_dump(include=(set(SMALL) | set(settings)) - {"margin_low", "margin_high", "overlap"})
    network = CapsNet(image_shape=image_shape, classes=classes, **sizes).eval()
    return Model("small", network, recipe, tuple(map(str, range(classes))))


@pytest.fixture
def image():
    return torch.rand(1, 28, 28, generator=torch.Generator().manual_seed(1))


def look(one, image, normalization=AS_TRAINED):
    """One network alone."""
    return routed.route(image, one, normalization, 5)


def test_the_trained_iteration_is_what_the_network_answers(image):
    one = model()
    found = look(one, image)
    output = one.network(image.unsqueeze(0))
    torch.testing.assert_close(found.lengths[one.recipe.iterations - 1], output.lengths[0])
    drawn = routed.reconstruction(found, one.recipe.iterations - 1)
    torch.testing.assert_close(drawn, output.reconstruction[0])


def test_an_iteration_does_not_depend_on_how_many_follow(image):
    one = model()
    short, long = (routed.route(image, one, AS_TRAINED, iterations) for iterations in (2, 6))
    torch.testing.assert_close(short.couplings, long.couplings[:2])
    torch.testing.assert_close(short.poses, long.poses[:2])


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_contributions_sum_to_the_length_of_the_sum_that_they_make_up(image, normalization):
    found = look(model(), image, normalization)
    length = found.lengths.double().clamp(max=1 - 1e-7)
    before_squash = (length / (1 - length)).sqrt()
    torch.testing.assert_close(found.contributions.sum(dim=1).double(), before_squash, rtol=1e-3, atol=1e-4)


def test_the_contributions_of_all_types_and_positions_sum_to_those_of_all_children(image):
    found = look(model(), image)
    totals = found.contributions[2].sum(dim=0)
    torch.testing.assert_close(found.contributions_on_grid(2).sum(dim=(0, 1, 2)), totals)


def test_a_normalization_applied_to_a_run_that_has_it_changes_nothing(image):
    one = model(normalization="softmax")
    left, right = look(one, image), look(one, image, "softmax")
    assert torch.equal(left.poses, right.poses)
    assert left.normalization == right.normalization == "softmax"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"padding": "same"},
        {"conv_kernel": 5, "conv_stride": 2, "primary_kernel": 3},
        {"stem": "deep", "primary_kernel": 3},
        {"conv_kernel": 27},  # too large for the image: the network takes smaller ones
    ],
)
def test_a_child_sees_its_receptive_field_and_nothing_else(settings):
    one = model(relu=False, **settings)
    types, rows, columns = one.network.grid
    pixels = torch.rand(1, 1, 28, 28).requires_grad_()
    first_layers = one.network.stem or one.network.conv1
    if one.network.stem:  # a slope everywhere
        first_layers = torch.nn.Sequential(*(m for m in first_layers if isinstance(m, torch.nn.Conv2d)))
    parts = one.network.primary(torch.nn.functional.elu(first_layers(pixels)))
    for row, column in {(0, 0), (rows - 1, 0), (rows // 2, columns - 1)}:
        (slope,) = torch.autograd.grad(
            parts[0, routed.child_index(one, types - 1, row, column)].sum(), pixels, retain_graph=True
        )
        seen = (slope[0, 0] != 0).nonzero()
        field = routed.receptive_field(one, row, column)
        first = [max(0, field.top), max(0, field.left)]
        last = [min(28, field.top + field.size) - 1, min(28, field.left + field.size) - 1]
        assert seen.amin(dim=0).tolist() == first
        assert seen.amax(dim=0).tolist() == last


def test_a_child_s_number_and_its_place_are_the_same_thing(image):
    found = look(model(), image)
    for number in range(found.logits.shape[1]):
        child = routed.child_at(found, 0, number, 3)
        assert routed.child_index(found.model, child.type, child.row, child.column) == number


def test_the_strongest_children_are_active_and_none_left_out_is_stronger(image):
    found = look(model(), image)
    alive = found.agreements[2].abs().amax(dim=1) > 0
    chosen = routed.strongest_children(found, 2, 4, count=5)
    assert len(chosen) == 5
    assert all(alive[child.index] for child in chosen)
    others = [n for n in range(len(alive)) if alive[n] and n not in {child.index for child in chosen}]
    assert max(found.couplings[2, others, 4].tolist()) <= min(child.coupling for child in chosen) + 1e-4


def test_a_blank_image_of_a_network_without_an_active_child_has_no_strongest():
    one = model(relu=True)
    with torch.no_grad():
        one.network.primary.convolution.bias.fill_(-1e3)
    found = look(one, torch.zeros(1, 28, 28))
    assert routed.strongest_children(found, 2, 0) == []
    assert torch.isfinite(found.contributions).all()


@pytest.mark.parametrize("quantity", ["logits", "couplings"])
def test_a_histogram_loses_nothing_and_keeps_its_bins_over_iterations(image, quantity):
    found = look(model(), image)
    shown = [routed.histogram(found, step, quantity, 3) for step in range(5)]
    for counts in shown:
        assert sum(counts.all_parents) == found.logits[0].numel()
        assert sum(counts.one_parent) == found.logits.shape[1]
        assert all(one <= every for one, every in zip(counts.one_parent, counts.all_parents, strict=True))
        assert (counts.low, counts.high) == (shown[0].low, shown[0].high)


def test_the_middle_of_every_perturbation_is_the_capsule_itself(image):
    found = look(model(), image)
    laid = routed.perturbations(found, 2)
    assert laid.shape == (5, 11, 1, 28, 28)
    plain = routed.reconstruction(found, 2)
    torch.testing.assert_close(laid[:, 5], plain.expand(5, 1, 28, 28))
    pose = found.poses[2, found.predicted(2)].tolist()
    pose[3] += 0.25
    torch.testing.assert_close(laid[3, -1], routed.reconstruction(found, 2, pose))
    assert not torch.allclose(laid[3, -1], plain)


def test_runs_of_other_images_are_not_shown_together(runs, monkeypatch):
    strange = model(image_shape=(1, 32, 32))
    found = routed.load_models(runs)
    assert [one.name for one in found] == ["max-min", "softmax"]
    monkeypatch.setattr(
        Model, "load", classmethod(lambda cls, folder, name, weights: found[0] if name == "max-min" else strange)
    )
    with pytest.raises(InputError, match="32×32×1"):
        routed.load_models(runs)


def test_a_network_without_routing_is_refused(tmp_path, runs):
    shutil.copytree(runs[0], tmp_path / "linear")
    linear = Run(tmp_path / "linear")
    linear.write("recipe.json", linear.recipe.with_changes(head="linear").to_json())
    with pytest.raises(InputError, match="linear"):
        routed.load_models([linear.folder])


def test_the_explorer_shows_the_weights_that_are_asked_for(tmp_path, runs):
    shutil.copytree(runs[0], tmp_path / "run")
    shutil.copy(runs[1] / "last.safetensors", tmp_path / "run")  # one epoch alone would have the same weights twice
    for weights, source in (("best", runs[0]), ("last", runs[1])):
        shown = routed.load_models([tmp_path / "run"], weights)[0].network.conv1.weight
        assert torch.equal(shown, load_network(source, weights).conv1.weight)


def test_runs_are_named_by_what_they_differ_in_and_by_their_folders_where_a_recipe_tells_nothing(runs, tmp_path):
    other, copy = tmp_path / "other", tmp_path / "max-min"
    for folder in (other, copy):
        shutil.copytree(runs[0], folder)
    recipe = json.loads((other / "recipe.json").read_text())
    (other / "recipe.json").write_text(json.dumps(recipe | {"seed": 7}))
    named = {
        (runs[0],): ["max-min"],
        (runs[0], other): ["max-min, seed 0", "max-min, seed 7"],
        (*runs, other): ["max-min, seed 0", "softmax, seed 0", "max-min, seed 7"],
        (runs[0], copy, other): ["max-min (1)", "max-min (2)", "other"],
    }
    for folders, names in named.items():
        assert [found.name for found in routed.load_models(folders)] == names


def test_a_child_is_said_to_prefer_a_class_only_where_it_does(image):
    found = look(model(), image)
    alive = int(found.agreements[2].abs().amax(dim=1).argmax())
    assert "the same coefficient for every class" in panels.one_child(found, BLUE, 0, alive)
    name = found.model.classes[int(found.couplings[2, alive].argmax())]
    assert f"largest coefficient for {name}" in panels.one_child(found, BLUE, 2, alive)


def test_a_card_names_a_class_only_where_one_is_longer_than_absent_ones_are_held(image):
    found = look(model(margin_low=0), image)
    assert f">{found.predicted(2)}</b> <span>length {found.lengths[2].max():.2f}<" in panels.answer(found, BLUE, 2)
    found = look(model(margin_low=1, margin_high=1), image)
    assert f">nothing</b> <span>recognised, length {found.lengths[2].max():.2f}<" in panels.answer(found, BLUE, 2)


@pytest.mark.parametrize(
    ("normalization", "step", "words"),
    [
        (AS_TRAINED, 2, "max-min · after 3 iterations<"),
        (AS_TRAINED, 0, "max-min · after 1 iteration; trained with 3 iterations<"),
        ("max-min", 2, "max-min · after 3 iterations<"),
        ("softmax", 2, "softmax · after 3 iterations; trained with max-min<"),
        ("softmax", 1, "softmax · after 2 iterations; trained with max-min and 3 iterations<"),
    ],
)
def test_a_card_names_the_settings_that_its_network_was_not_trained_with(image, normalization, step, words):
    found = look(model(normalization="max-min", iterations=3), image, normalization)
    assert words in panels.answer(found, BLUE, step)


def test_a_card_of_a_network_of_overlapping_images_has_two_classes_and_a_reconstruction_of_each(image):
    one = model(overlap=True, margin_low=0.0)
    found = look(one, image)
    present = found.present(2)
    assert present == found.lengths[2].argsort(descending=True)[:2].tolist()
    drawn = routed.reconstructions(found, 2, present)
    torch.testing.assert_close(drawn[0], routed.reconstruction(found, 2))
    card = panels.answer(found, BLUE, 2)
    first, second = sorted(present)
    assert f"{first}</b>" in card
    assert f'and <b style="color:blue">{second}</b>' in card
    assert f"The reconstruction of {first}" in card
    assert f"{second} alone" in card


def test_a_card_of_a_network_of_single_images_has_one_class_and_one_reconstruction(image):
    found = look(model(margin_low=0.0), image)
    card = panels.answer(found, BLUE, 2)
    assert card.count("The reconstruction of") == card.count("length ") == 1
    assert "alone" not in card
