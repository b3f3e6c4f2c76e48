"""What the chapters of the report show of some runs, and what a missing or strange run costs."""

import re
import shutil

import numpy as np
import pytest
import torch

from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.recipe import Recipe
from maxmincaps.report import chapters
from maxmincaps.report.chapters import accuracy, inside, iterations, others
from maxmincaps.report.material import Material
from maxmincaps.report.mistakes_chapter import mnist_record
from maxmincaps.report.selection import matched_pairs
from maxmincaps.studies import STUDIES
from tests.analysis.runs import write_diverged, write_lengths, write_run, write_study


def test_a_runs_folder_is_named_from_here_and_without_a_machines_own_path(rows, runs, monkeypatch):
    row = rows[0] | {"folder": str(runs / "deep down" / "run")}
    material = Material(rows, STUDIES, records=runs)
    assert material.path(row) == "'runs/deep down/run'"
    monkeypatch.chdir(runs)
    assert material.path(row) == "'deep down/run'"
    assert material.path(row | {"folder": "../runs/run"}) == "../runs/run"


def test_figure_9_shows_the_vote_that_table_2_tells(tmp_path, monkeypatch):
    """Table 2 shows the smaller scale, which is whole; of the larger one only the three that vote are there."""
    whole = write_study(tmp_path, "mnist-record", "small", lambda entry: 99)
    larger = write_study(tmp_path, "mnist-record", "full", lambda entry: 99)
    three = [larger["Max-Min", None, "mnist", seed] for seed in range(3)]
    for errors, rows in ((3, whole.values()), (1, three)):
        for row in rows:
            labels = (torch.arange(10_000) < errors).long()
            write_lengths(tmp_path / row.fingerprint, torch.eye(1, 10).expand(10_000, 10), labels)
    images = torch.zeros(10_000, 1, 28, 28, dtype=torch.uint8)
    monkeypatch.setattr("maxmincaps.report.mistakes_chapter.test_images", lambda row: images)
    plates = {plate.name: plate for plate in mnist_record(Material([*whole.values(), *three], STUDIES))}
    told = {line[1]: line[4] for line in plates["table-2"].content.rows}
    wrong = int(re.match(r"The (\d+) images", plates["figure-9"].caption)[1])
    assert told["vote of 3, ours, seeds 0 to 2"] == f"{wrong / 100:.3f}†"
    assert plates["figure-9"].command == "maxmincaps study run misclassified --scale small"


def test_a_run_that_stands_on_two_lines_is_counted_once_and_one_that_diverged_apart(tmp_path):
    rows = write_study(tmp_path, "bounds", "full", lambda entry: 99)
    write_diverged(rows, ("start value", 0.1, "mnist", 0))
    plates = {plate.name: plate for plate in others(Material(list(rows.values()), STUDIES))}
    assert plates["bounds"].budget.endswith("(runs: 64 and 1 diverged)")
    cells, budget = ("99.00 ± 0.00",) * 5, "20 epochs"
    assert plates["bounds-in-numbers"].content.rows == (
        ("MNIST", "upper bound q", *cells, "5", budget),
        ("MNIST", "upper bound q, W kept", *cells, "5", budget),
        ("MNIST", "start value", *cells, "5 or 4 and 1 diverged", budget),
    )


def test_iterations_have_a_panel_for_each_dataset_that_was_run_and_tell_which_were_not(tmp_path):
    rows = write_study(tmp_path, "iterations", "small", lambda entry: 99 - entry.line.value / 10)
    plates = {plate.name: plate for plate in iterations(Material(list(rows.values()), STUDIES))}
    for name in ("figure-7", "figure-8"):
        assert [axes.get_title(loc="left") for axes in plates[name].content.axes] == ["(a) MNIST", "(b) rMNIST"]
        assert plates[name].caption.endswith(" Not run: fMNIST, bMNIST, CIFAR10.")


def test_a_choice_without_a_result_keeps_its_line_and_one_with_seeds_of_its_own_is_compared_by_shared_ones(tmp_path):
    def accuracy(entry):
        return 99 - entry.recipe.seed - 0.5 * (entry.line.label == "reconstruction 20×")

    rows = write_study(tmp_path, "ablations", "small", accuracy, seeds=3)
    write_diverged(rows, *[("no ReLU", None, "mnist", seed) for seed in range(3)])
    kept = [
        row
        for (label, _, _, seed), row in rows.items()
        if label != "uniform couplings" and (label, seed) != ("reconstruction 20×", 2)
    ]
    plates = {plate.name: plate for plate in others(Material(kept, STUDIES))}
    (axes,) = plates["choices"].content.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "default, 98.00 %  (n = 3)"
    told = {names[text.get_position()[1]]: text.get_text() for text in axes.texts}
    assert told == {"no ReLU  (n = 0 and 3 diverged)": "no result", "uniform couplings  (n = 0)": "not run"}
    drawn = {names[line.get_ydata()[0]]: line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"}
    assert drawn["reconstruction 20×  (n = 2)"] == pytest.approx(-0.5)
    assert plates["choices-in-numbers"].content.rows[0][:4] == ("default", "98.00 ± 1.00", "98.00 ± 1.00", "3")


def test_what_people_said_of_networks_that_nobody_can_name_is_not_taken_for_the_papers_budget():
    asked = Question(7, 1, 3, np.zeros(10), np.zeros((1, 28, 28), np.uint8), np.arange(10))
    poll = Poll("mnist-5k", tuple("0123456789"), 3, True, (asked,), 45, 45)
    table_3 = next(plate for plate in mnist_record(Material([], STUDIES, poll)) if plate.name == "table-3")
    assert table_3.below_paper
    assert table_3.content.rows[-1][:2] == ("#7", "ours, MNIST-5k")
    assert ["†" in row[3] for row in table_3.content.rows] == [False] * 6 + [True]


@pytest.mark.parametrize("second", ["mnist", "elsewhere/mnist-5k.npz", "all.npz", "数字.npz"])
def test_two_datasets_have_names_of_their_own_though_their_files_be_called_alike(rows, second):
    pair = list(matched_pairs(rows)["mnist-5k"].values())
    names = Material([*pair, *({**row, "dataset": second} for row in pair)], STUDIES).names
    assert len(set(names.values())) == len(names) == 2
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and name != "all" for name in names.values())


def test_a_second_dataset_has_figures_of_its_own_and_the_first_has_the_papers_number(rows):
    pair = list(matched_pairs(rows)["mnist-5k"].values())
    both = Material([*pair, *({**row, "dataset": "mnist"} for row in pair)], STUDIES)
    names = [plate.name for plate in inside(both)]
    assert names == ["figure-2", "figure-2-all", "figure-2-mnist-5k", "figure-2-mnist-5k-all", "figure-4"]


@pytest.mark.parametrize("lost", ["trace.safetensors", "lengths.safetensors"])
def test_figures_look_into_networks_whose_records_hold_what_they_are_drawn_from(rows, tmp_path, lost):
    pair = matched_pairs(rows)["mnist-5k"]
    poorer = tmp_path / "poorer"
    shutil.copytree(pair["max-min"]["folder"], poorer)
    (poorer / lost).unlink()
    longer = [{**row, "dataset": "mnist", "folder": str(poorer)} for row in pair.values()]
    assert [*Material([*longer, *pair.values()], STUDIES).matched_pairs] == ["mnist-5k"]


def test_records_without_lengths_cost_the_figures_of_mistakes_and_not_table_2(tmp_path):
    rows = write_study(tmp_path, "mnist-record", "small", lambda entry: 99.5)
    plates = {plate.name: plate for plate in mnist_record(Material(list(rows.values()), STUDIES))}
    assert plates["table-2"].content.rows
    assert plates["figure-9"].content is None


def test_the_curves_are_of_the_runs_that_table_1_tells(tmp_path, monkeypatch):
    """Though others of the same dataset be nearer to the default recipe."""
    monkeypatch.setattr(chapters, "accuracies_by_epoch", lambda row: [100 * row.result.best_test_accuracy] * 3)
    monkeypatch.setattr(chapters, "training_and_test_by_epoch", lambda row: [(99.0, 90.0)] * 3)
    told = write_study(tmp_path, "datasets", "small", lambda entry: 64.0)
    recipes = [Recipe(dataset="cifar10", epochs=15, normalization=name) for name in ("softmax", "max-min")]
    nearer = [write_run(tmp_path, recipe, best=0.5) for recipe in recipes]
    plates = {plate.name: plate for plate in accuracy(Material([*told.values(), *nearer], STUDIES))}
    lines = [line for axes in plates["training-curves"].content.axes for line in axes.lines]
    assert {height for line in lines for height in line.get_ydata()} == {64.0}


def test_a_figure_of_accuracies_on_held_out_images_does_not_call_them_test_accuracies(rows, monkeypatch):
    monkeypatch.setattr(chapters, "accuracies_by_epoch", lambda row: [90.0, 91.0])
    monkeypatch.setattr(chapters, "training_and_test_by_epoch", lambda row: [(95.0, 90.0), (96.0, 91.0)])
    for held_out, label in ((0, "test accuracy (%)"), (100, "accuracy (%)")):
        plates = {p.name: p for p in accuracy(Material([row | {"validation": held_out} for row in rows], STUDIES))}
        for name in ("training-curves", "test-against-training"):
            assert plates[name].content.axes[0].get_ylabel() == label
