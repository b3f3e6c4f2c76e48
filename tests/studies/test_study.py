"""The studies as data: every scale can be trained, shared runs are one run, and the paper's values are the paper's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmincaps.capsules.optim import LAYER_RATES
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES, find_study, laptop, paper
from maxmincaps.studies.study import Budget, Line, Study, parse_only, select, unique
from maxmincaps.studies.table import read
from maxmincaps.training.checkpoint import network_for

ROOT = Path(__file__).parents[2]
WITH_RUNS = [(study, scale) for study in STUDIES.values() for scale in study.scale_names()]


@pytest.mark.parametrize(("study", "scale"), WITH_RUNS, ids=lambda value: getattr(value, "name", value))
def test_no_two_runs_of_a_line_are_the_same(study, scale):
    places = [(entry.line.label, entry.recipe.fingerprint()) for entry in study.entries(scale)]
    assert len(places) == len(set(places)) > 0


@pytest.mark.parametrize(("study", "scale"), WITH_RUNS, ids=lambda value: getattr(value, "name", value))
def test_more_seeds_keep_the_runs_there_are(study, scale):
    fewer, more = study.grid(scale, seeds=1), study.grid(scale, seeds=3)
    assert {r.fingerprint() for r in fewer} <= {r.fingerprint() for r in more}
    assert {recipe.seed for recipe in more} == {0, 1, 2}


@pytest.mark.parametrize("study", [s for s in STUDIES.values() if s.scales], ids=lambda study: study.name)
def test_every_value_of_the_paper_has_a_line_that_tests_it(study):
    labels, datasets = {line.label for line in study.lines}, set(study.datasets)
    assert {value.line for value in study.paper} <= labels
    assert {value.dataset for value in study.paper} <= datasets


@pytest.mark.parametrize(("study", "scale"), WITH_RUNS, ids=lambda value: getattr(value, "name", value))
def test_a_scale_with_another_network_than_the_papers_has_a_name_of_its_own(study, scale):
    sizes = {(recipe.conv_channels, recipe.types, recipe.decoder) for recipe in study.grid(scale)}
    paper = {(256, None, (512, 1024))}
    assert sizes != paper if scale in ("minute", "laptop", "quarter") else sizes == paper


def test_what_two_studies_share_is_one_run():
    prints = {
        name: {recipe.fingerprint() for recipe in STUDIES[name].grid("full")}
        for name in ("datasets", "normalizations", "iterations", "bounds", "ablations")
    }
    default = {Recipe(dataset="mnist", epochs=20, seed=seed, relu=True).fingerprint() for seed in range(5)}
    assert default <= set.intersection(*prints.values())


def test_the_figures_inside_networks_train_nothing_of_their_own():
    table_1 = {recipe.fingerprint() for recipe in STUDIES["datasets"].grid("small")}
    for name in ("evolution", "rows", "outputs", "tuning"):
        entries = STUDIES[name].entries("small")
        assert {entry.recipe.fingerprint() for entry in entries} <= table_1
        assert {(entry.line.label, entry.recipe.dataset) for entry in entries} == {
            (label, dataset) for label in ("Softmax", "Max-Min") for dataset in ("mnist", "cifar10")
        }


def test_the_small_scale_of_table_1_differs_by_dataset():
    grid = STUDIES["datasets"].grid("small")
    found = {r.dataset: (r.epochs, r.test_images, sum(r.dataset == o.dataset for o in grid) // 2) for r in grid}
    assert found == {
        "rotated-mnist": (20, 10_000, 2),
        "background-mnist": (20, 10_000, 2),
        "mnist": (10, None, 1),
        "fashion-mnist": (10, None, 1),
        "cifar10": (15, None, 1),
    }


def test_the_mnist_record_is_trained_as_the_paper_says():
    recipes = STUDIES["mnist-record"].grid("paper")
    assert len(recipes) == 20
    assert {
        (r.shift, r.rotate, r.margin_high, r.margin_low, r.batch_size, r.epochs, r.iterations) for r in recipes
    } == {(2, 20.0, 0.8, 0.2, 400, 500, 3)}


def test_the_first_budget_that_fits_a_run_is_its_budget():
    study = Study(
        "s", "", "", "", datasets=("mnist", "cifar10"), lines=(Line("a", {}), Line("b", {"iterations": 1}, 1)),
        scales={"x": (Budget(1, datasets=("cifar10",)), Budget(2, values=(1,)), Budget(3, seeds=2))},
    )  # fmt: skip
    found = [(e.recipe.dataset, e.line.label, e.recipe.epochs, e.recipe.seed) for e in study.entries("x")]
    assert found == [
        ("cifar10", "a", 1, 0), ("cifar10", "b", 1, 0), ("mnist", "b", 2, 0), ("mnist", "a", 3, 0), ("mnist", "a", 3, 1)
    ]  # fmt: skip


def test_a_scale_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(InputError, match="no scale of datasets is called 'huge'; there are paper, full"):
        STUDIES["datasets"].grid("huge")


@given(st.sets(st.sampled_from(["softmax", "max-min"]), min_size=1), st.sets(st.integers(0, 4), min_size=1))
def test_only_keeps_exactly_what_it_names(names, seeds):
    text = ",".join([*(f"normalization={name}" for name in names), *(f"seed={seed}" for seed in seeds)])
    found = [entry.recipe for entry in select(STUDIES["datasets"].entries("full"), parse_only(text))]
    wanted = [r for r in STUDIES["datasets"].grid("full") if r.normalization in names and r.seed in seeds]
    assert [r.fingerprint() for r in found] == [r.fingerprint() for r in wanted]


@pytest.mark.parametrize(("study", "scale"), WITH_RUNS, ids=lambda value: getattr(value, "name", value))
def test_only_can_name_every_line_of_a_study(study, scale):
    entries = study.entries(scale, seeds=1)
    for label in {entry.line.label for entry in entries}:
        found = select(entries, parse_only(f"seed=0,line={label}"))
        assert [entry.line.label for entry in found] == [e.line.label for e in entries if e.line.label == label]


@pytest.mark.parametrize("text", ["dataset", "dataset=", "colour=red", "seed=0,1", "seed=0,1,line=Max-Min"])
def test_a_selection_that_cannot_be_parsed_is_refused_in_one_line(text):
    with pytest.raises(InputError, match=r"--only|no setting is called"):
        parse_only(text)


def test_unique_keeps_the_order():
    recipes = [Recipe(seed=seed) for seed in (2, 1, 2, 0, 1)]
    assert [recipe.seed for recipe in unique(recipes)] == [2, 1, 0]


def test_w_is_fixed_at_what_the_default_recipe_uses_for_q_of_one():
    layer = network_for(Recipe(normalization="max-min"), (1, 28, 28), 10).digits
    assert LAYER_RATES["fast"].vote_sigma(layer) == pytest.approx(paper.VOTE_SIGMA, rel=1e-3)
    assert LAYER_RATES["fast"].vote_rate(layer) == pytest.approx(paper.VOTE_RATE, rel=1e-3)


@pytest.mark.parametrize(("former", "name"), [("choices", "ablations"), ("literal", "as-written")])
def test_former_names_are_still_found(former, name):
    assert find_study(former) is STUDIES[name]


@pytest.mark.parametrize("name", ["datasets", "mnist-record", "normalizations", "iterations", "bounds"])
def test_the_laptop_scale_has_a_quarter_of_the_network_and_all_training_images(name):
    grid = STUDIES[name].grid("laptop")
    assert {(r.dataset == "cifar10", r.conv_channels, r.types, r.precision, r.train_images) for r in grid} <= {
        (False, 64, 8, "bf16", None),
        (True, 64, 16, "bf16", None),
    }
    assert {recipe.seed for recipe in grid} >= {0, 1, 2}


def test_epochs_of_the_laptop_scale_are_the_same_for_all_lines_of_a_dataset():
    names = ("datasets", "normalizations", "iterations", "bounds")
    epochs = {(r.dataset, r.epochs) for name in names for r in STUDIES[name].grid("laptop")}
    assert epochs == set(laptop.EPOCHS.items())


def test_w_is_fixed_at_what_the_quarter_network_uses_for_q_of_one():
    (fixed,) = {r.vote_sigma for r in STUDIES["bounds"].grid("laptop")} - {None}
    recipe = STUDIES["datasets"].grid("laptop")[1]
    assert recipe.normalization == "max-min"
    layer = network_for(recipe, (1, 28, 28), 10).digits
    assert LAYER_RATES["fast"].vote_sigma(layer) == pytest.approx(fixed, rel=1e-3)


def test_table_1_without_and_with_relu_shares_its_runs_with_the_study_of_the_gap():
    table_1 = {recipe.fingerprint() for recipe in STUDIES["datasets"].grid("laptop")}
    assert table_1 <= {recipe.fingerprint() for recipe in STUDIES["gap"].grid("quarter")}


def test_every_reading_of_the_gap_has_softmax_and_max_min_but_for_a_gain_that_changes_softmax_alone():
    labels = {line.label for line in STUDIES["gap"].lines}
    readings = {label.partition(", ")[2] for label in labels if label.startswith("Max-Min")}
    assert {f"Softmax, {reading}" for reading in readings} - labels == {"Softmax, as coded, PrimaryCaps not divided"}
    assert {"Softmax, logits × 4", "Softmax, logits × 16"} <= labels


def test_the_screening_of_inactive_capsules_has_the_recipes_that_were_trained():
    sets = {
        "mnist": {"train_images": 10_000, "validation": 10_000, "epochs": 8, "types": 8},
        "rotated-mnist": {"validation": 2_000, "epochs": 10, "types": 8, "test_images": 2_000},
        "cifar10": {"train_images": 20_000, "validation": 5_000, "epochs": 10, "types": 16},
    }
    quarter = {"conv_channels": 64, "precision": "bf16"}
    white = {"whiten": True, "reconstruction_weight": 0.0}
    wanted = [
        Recipe(dataset=dataset, normalization=name, seed=seed, relu=relu, **sizes, **quarter)
        for dataset, sizes in sets.items()
        for name in ("max-min", "softmax", "uniform")
        for seed in range(3)
        for relu in (True, False)
    ]
    for name in ("max-min", "softmax"):
        for change in ({"initial_values": "sabour", "relu": True}, {"primary_rate": 0.1, "relu": True}):
            wanted += [Recipe(dataset=d, normalization=name, **sizes, **quarter, **change) for d, sizes in sets.items()]
        for relu in (True, False):
            wanted.append(
                Recipe(dataset="cifar10", normalization=name, relu=relu, **sets["cifar10"], **quarter, **white)
            )
    planned = {recipe.fingerprint() for recipe in STUDIES["inactive"].grid("quarter")}
    assert planned == {recipe.fingerprint() for recipe in wanted}


def test_the_study_of_overlapping_digits_has_one_run_without_routing_for_each_seed():
    """At one iteration, W compensates for the first coefficients: all normalizations are the same network."""
    grid = STUDIES["overlap"].grid("quarter")
    routed = {(name, count) for name in ("softmax", "max-min", "leaky-softmax") for count in (3, 5)}
    assert {(r.normalization, r.iterations) for r in grid} == {("uniform", 1), *routed}
    assert {(r.overlap, r.relu, r.validation > 0) for r in grid} == {(True, False, True)}
    sizes = set()
    for name in ("softmax", "max-min", "leaky-softmax", "uniform"):
        layer = network_for(Recipe(normalization=name, iterations=1), (1, 36, 36), 10).digits
        start, rule = layer.normalization.start_for(10), LAYER_RATES["fast"]
        sizes.add((round(start * rule.vote_sigma(layer), 7), round(start * rule.vote_rate(layer), 7)))
    assert len(sizes) == 1


PAPER_STUDIES = ("datasets", "mnist-record", "normalizations", "iterations", "bounds", "ablations", "as-written")


@pytest.mark.parametrize("name", PAPER_STUDIES)
def test_every_committed_run_of_a_study_is_recognised(name):
    rows = [row for row in read(ROOT / "results" / name).rows if row.status != "unfinished"]
    planned = {recipe.fingerprint() for scale in STUDIES[name].scale_names() for recipe in STUDIES[name].grid(scale, 5)}
    others = [row for row in rows if row.fingerprint not in planned]
    assert {(row.recipe.dataset, row.recipe.precision) for row in others} <= {("cifar10", "fp32")}  # beside bf16
    assert rows
