"""What the chapters of the report show of some runs, and what a missing or strange run affects."""

import os
import re
import shutil
from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.analysis.runs import RunTable
from maxmincaps.recipe import Recipe
from maxmincaps.report import chapters
from maxmincaps.report.chapters import accuracy, routing
from maxmincaps.report.items import ReportData, matched_networks
from maxmincaps.report.record_chapter import mnist_record
from maxmincaps.report.variations import ablations, iterations, other_normalizations
from maxmincaps.studies import STUDIES
from maxmincaps.studies.table import budget_in_words
from maxmincaps.training.run import Run
from maxmincaps.training.schema import EpochMetrics
from tests.analysis.runs import diverge, make_run, make_study, write_lengths


def report_data(runs, **others):
    return ReportData(RunTable(tuple(runs)), STUDIES, **others)


def by_name(items):
    return {item.name: item for item in items}


def on_dataset(run, dataset, **changes):
    return replace(run, recipe=run.recipe.with_changes(dataset=dataset), **changes)


def test_the_path_of_a_run_folder_works_from_the_current_directory(rows, runs, monkeypatch):
    run = replace(rows[0], folder=runs / "deep down" / "run")
    data = report_data(rows, folder=runs)
    for here, expected in ((runs.parent, "'runs/deep down/run'"), (runs, "'deep down/run'")):
        monkeypatch.chdir(here)
        assert data.path(run) == expected
    (runs.parent / "elsewhere").mkdir(exist_ok=True)
    monkeypatch.chdir(runs.parent / "elsewhere")
    assert data.path(run) == "'../runs/deep down/run'"


def test_commands_of_studies_train_into_the_folder_that_is_reported(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    study = STUDIES["datasets"]
    assert report_data([], folder=runs).study_command(study, ["full"]) == "maxmincaps study run datasets --scale full"
    monkeypatch.chdir(runs)
    assert report_data([], folder=runs).study_command(study).endswith("--scale small --out .")


def test_figure_9_shows_the_vote_of_table_2(tmp_path, monkeypatch):
    """Table 2 shows the smaller scale, which is whole; of the larger one only the three that vote are there."""
    whole = make_study(tmp_path, "mnist-record", "small", lambda entry: 99)
    larger = make_study(tmp_path, "mnist-record", "full", lambda entry: 99)
    three = [larger["Max-Min", None, "mnist", seed] for seed in range(3)]
    for errors, runs in ((3, whole.values()), (1, three)):
        for run in runs:
            labels = (torch.arange(10_000) < errors).long()
            write_lengths(run.folder, torch.eye(1, 10).expand(10_000, 10), labels)
    images = torch.zeros(10_000, 1, 28, 28, dtype=torch.uint8)
    split = SimpleNamespace(test=SimpleNamespace(images=images))
    monkeypatch.setattr("maxmincaps.report.record_chapter.images_seen", lambda run: split)
    items = by_name(mnist_record(report_data([*whole.values(), *three])))
    errors = {line[1]: line[4] for line in items["table-2"].content.rows}
    wrong = int(re.match(r"The (\d+) images", items["figure-9"].caption)[1])
    assert errors["vote of 3, ours, seeds 0 to 2"] == f"{wrong / 100:.3f}†"
    assert items["figure-9"].command == "maxmincaps study run misclassified --scale small"
    assert items["figure-9"].below_paper, "the paper has a number of errors"


def test_a_run_that_stands_on_two_lines_is_counted_once_and_one_that_diverged_apart(tmp_path):
    runs = make_study(tmp_path, "bounds", "full", lambda entry: 99)
    diverge(runs, ("start value", 0.1, "mnist", 0))
    items = by_name(other_normalizations(report_data(runs.values())))
    assert items["bounds"].budget.endswith("(runs: 64 and 1 diverged)")
    assert not items["bounds"].below_paper, "the paper has no number here"
    cells = ("99.00 ± 0.00",) * 5
    assert [line[2:8] for line in items["bounds-in-numbers"].content.rows] == [
        (*cells, "5"),
        (*cells, "5"),
        (*cells, "5 or 4 and 1 diverged"),
    ]


def test_a_single_run_at_each_bound_is_a_table_and_no_figure(tmp_path):
    runs = make_study(tmp_path, "bounds", "small", lambda entry: 99, seeds=1)
    assert {"bounds-in-numbers"} == set(by_name(other_normalizations(report_data(runs.values())))) - {"table-4"}


def test_iterations_have_a_panel_for_each_dataset_that_was_run_and_name_the_others(tmp_path):
    runs = make_study(tmp_path, "iterations", "small", lambda entry: 99 - entry.line.value / 10)
    items = by_name(iterations(report_data(runs.values())))
    for name in ("figure-7", "figure-8"):
        assert [axes.get_title(loc="left") for axes in items[name].content.axes] == ["(a) MNIST", "(b) rMNIST"]
        assert items[name].caption.endswith(" Not run: fMNIST, bMNIST, CIFAR10.")


def test_figures_7_and_8_show_the_uniform_control_of_the_same_budget_alone(tmp_path):
    runs = make_study(tmp_path, "iterations", "small", lambda entry: 99 - entry.line.value / 10)
    one = runs["Softmax", 3, "mnist", 0].recipe
    uniform = [make_run(tmp_path, one.with_changes(normalization="uniform", seed=seed), 0.97) for seed in (0, 1)]
    uniform += [make_run(tmp_path, one.with_changes(normalization="uniform", epochs=99), 0.5)]
    items = by_name(iterations(report_data([*runs.values(), *uniform])))
    first, second = items["figure-7"].content.axes
    level = [line for line in first.lines if "Uniform" in line.get_label()]
    assert [*level[0].get_ydata()] == pytest.approx([97.0, 97.0])
    assert not [line for line in second.lines if "Uniform" in line.get_label()]


def test_figure_8_takes_training_and_test_accuracy_of_the_same_weights(tmp_path):
    runs = make_study(tmp_path, "iterations", "small", lambda entry: 90.0, lambda entry: 0.95)
    changed = []
    for run in runs.values():
        outcome = run.outcome.model_copy(update={"best_running_train_accuracy": 1.0, "best_test_accuracy": 0.99})
        changed.append(replace(run, outcome=outcome))
    rows = by_name(iterations(report_data(changed)))["figure-8-in-numbers"].content.rows
    assert {cell for row in rows for cell in row[2:6]} == {"5.00 ± 0.00"}


def test_an_ablation_without_a_result_keeps_its_line_and_others_are_compared_by_shared_seeds(tmp_path):
    def accuracy(entry):
        return 99 - entry.recipe.seed - 0.5 * (entry.line.label == "reconstruction 20×")

    runs = make_study(tmp_path, "ablations", "small", accuracy, seeds=3)
    diverge(runs, *[("no ReLU", None, "mnist", seed) for seed in range(3)])
    left_out = next(label for label, *_ in runs if "uniform" in label)
    kept = [
        run
        for (label, _, _, seed), run in runs.items()
        if label != left_out and (label, seed) != ("reconstruction 20×", 2)
    ]
    items = by_name(ablations(report_data(kept)))
    (axes,) = items["ablations"].content.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "default, 98.00 %  (n = 3)"
    labels = {names[text.get_position()[1]]: text.get_text() for text in axes.texts}
    assert labels == {"no ReLU  (n = 0 and 3 diverged)": "no result", f"{left_out}  (n = 0)": "not run"}
    drawn = {names[line.get_ydata()[0]]: line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"}
    assert drawn["reconstruction 20×  (n = 2)"] == pytest.approx(-0.5)
    first = items["ablations-in-numbers"].content.rows[0]
    assert (*first[:3], first[4]) == ("default", "98.00 ± 1.00", "98.00 ± 1.00", "3")


def test_poll_answers_about_unidentified_networks_do_not_count_as_the_papers_budget():
    asked = Question(7, 1, 3, np.zeros(10), np.zeros((1, 28, 28), np.uint8), np.arange(10))
    poll = Poll("mnist-5k", tuple("0123456789"), 3, (asked,), True, 45, 45)
    table_3 = by_name(mnist_record(report_data([], poll=poll)))["table-3"]
    assert table_3.below_paper
    assert table_3.content.rows[-1][:2] == ("#7", "ours, MNIST-5k")
    assert ["†" in row[3] for row in table_3.content.rows] == [False] * 6 + [True]


@pytest.mark.parametrize("second", ["mnist", "elsewhere/mnist-5k.npz", "数字.npz"])
def test_two_datasets_have_different_file_names_though_their_files_have_the_same(rows, second):
    pair = list(matched_networks(rows)["mnist-5k"].values())
    names = report_data([*pair, *(on_dataset(run, second) for run in pair)]).file_names
    assert len(set(names.values())) == len(names) == 2
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names.values())


def test_a_second_dataset_has_figures_of_its_own_and_the_first_has_the_papers_number(rows):
    pair = list(matched_networks(rows)["mnist-5k"].values())
    both = report_data([*pair, *(on_dataset(run, "mnist") for run in pair)])
    assert [item.name for item in routing(both)] == ["figure-2", "figure-2-mnist-5k", "figure-4"]


@pytest.mark.parametrize("lost", ["trace.safetensors", "lengths.safetensors"])
def test_figures_show_networks_whose_folders_hold_what_they_are_drawn_from(rows, tmp_path, lost):
    pair = matched_networks(rows)["mnist-5k"]
    poorer = tmp_path / "poorer"
    shutil.copytree(pair["max-min"].folder, poorer)
    (poorer / lost).unlink()
    longer = [on_dataset(run, "mnist", folder=poorer) for run in pair.values()]
    assert [*report_data([*longer, *pair.values()]).networks] == ["mnist-5k"]


def test_runs_without_lengths_lose_the_misclassified_images_and_not_table_2(tmp_path):
    runs = make_study(tmp_path, "mnist-record", "small", lambda entry: 99.5)
    items = by_name(mnist_record(report_data(runs.values())))
    assert items["table-2"].content.rows
    assert "figure-9" not in items


def test_the_curves_are_of_the_runs_of_table_1(tmp_path, monkeypatch):
    """Though others of the same dataset are nearer to the default recipe."""
    for name in ("accuracies_by_epoch", "training_accuracies_by_epoch", "inactive_by_epoch"):
        monkeypatch.setattr(chapters, name, lambda run: [100 * run.result.best_test_accuracy] * 3)
    of_table_1 = make_study(tmp_path, "datasets", "small", lambda entry: 64.0)
    recipes = [Recipe(dataset="cifar10", epochs=15, normalization=name) for name in ("softmax", "max-min")]
    nearer = [make_run(tmp_path, recipe, best=0.5) for recipe in recipes]
    items = by_name(accuracy(report_data([*of_table_1.values(), *nearer])))
    lines = [line for axes in items["training-curves"].content.axes for line in axes.lines]
    assert {height for line in lines for height in line.get_ydata()} == {64.0}


def test_a_figure_of_validation_accuracies_does_not_call_them_test_accuracies(rows):
    for validation, label in ((0, "test accuracy (%)"), (100, "accuracy (%)")):
        runs = [replace(run, recipe=run.recipe.with_changes(validation=validation)) for run in rows]
        items = by_name(accuracy(report_data(runs)))
        for name in ("training-curves", "test-against-training"):
            assert items[name].content.axes[0].get_ylabel() == label


def test_the_polarisation_figure_shows_every_run_of_a_panel(data):
    figure = by_name(accuracy(data))["polarisation"].content
    lines = [line for axes in figure.axes if axes.axison for line in axes.lines]
    drawn = sorted(round(100 - y, 6) for line in lines for y in line.get_ydata())
    known = [round(100 * run.result.final_test_accuracy, 6) for run in data.runs]
    assert 4 <= len(drawn) <= len(known)
    assert set(drawn) <= set(known)
    assert all(-0.01 <= x <= 1.01 for line in lines for x in line.get_xdata())


def test_panels_of_the_polarisation_figure_have_different_titles_and_labels_that_do_not_overlap(tmp_path):
    """Softmax's runs all have a polarisation near 0, so the labels of their iterations need room."""
    runs = []
    for relu, count, normalization in product((True, False), (1, 3, 5, 10), ("softmax", "max-min")):
        recipe = Recipe(normalization=normalization, iterations=count, relu=relu, epochs=1)
        run = make_run(tmp_path, recipe, 0.98 - 0.0001 * count)
        run.folder.mkdir()
        entropy = np.log(10) * (1 - 0.001 * count * (1 + 30 * (normalization == "max-min")))
        metrics = {"epoch": 1, "running_train_accuracy": 1, "test_accuracy": 0.9, "dead_children": 0, "seconds": 1}
        Run(run.folder).write("history.jsonl", [EpochMetrics(**metrics, coupling_entropy=entropy)])
        runs.append(run)
    figure = by_name(accuracy(report_data(runs)))["polarisation"].content
    first, second = [axes for axes in figure.axes if axes.axison]
    assert "ReLU" in first.get_title(loc="left") != second.get_title(loc="left").replace("(b)", "(a)")
    figure.draw_without_rendering()
    labels = [text.get_window_extent() for text in first.texts]
    assert len(labels) == 8
    assert not any(one.overlaps(other) for one, other in combinations(labels, 2))


def test_a_quarter_size_network_is_said_to_be_one_and_stands_beside_the_papers(tmp_path):
    paper = make_study(tmp_path, "datasets", "small", lambda entry: 90.0)
    quarter = []
    for run in paper.values():
        types = 16 if run.recipe.dataset == "cifar10" else 8
        recipe = run.recipe.with_changes(conv_channels=64, types=types)
        quarter.append(replace(make_run(tmp_path, recipe, 0.8), images=run.images))
    assert all("quarter-size network" in budget_in_words(run) for run in quarter)
    assert not any("network" in budget_in_words(run) for run in paper.values())


def test_settings_of_the_study_of_inactive_capsules_are_compared_by_matched_pairs_of_validation_accuracies(tmp_path):
    runs = make_study(tmp_path, "inactive", "quarter", lambda entry: 90.0)
    for (line, _, _, seed), run in runs.items():
        validated = 0.8 + 0.01 * seed + 0.05 * line.startswith("Max-Min")
        lines = [
            EpochMetrics(
                epoch=epoch + 1,
                running_train_accuracy=0.9,
                validation_accuracy=validated,
                test_accuracy=0.5,
                dead_children=0.25,
                seconds=1,
            )
            for epoch in range(run.recipe.epochs)
        ]
        run.folder.mkdir(parents=True)
        Run(run.folder).write("history.jsonl", lines)
    items = by_name(ablations(report_data(runs.values())))
    row = next(row for row in items["inactive-compared"].content.rows if row[:2] == ("MNIST", "no ReLU"))
    assert row[2:6] == ("86.00 ± 1.00", "81.00 ± 1.00", "81.00 ± 1.00", "+5.00 (+5.00 to +5.00, n = 3)")
    table = items["inactive"].content
    assert {row[table.columns.index("Inactive")] for row in table.rows} <= {"25.00 ± 0.00", "25.00"}
    drawn = items["inactive-by-setting"].content.axes[0].lines[0].get_ydata()
    assert set(drawn) == {25.0}


def test_no_command_names_an_absolute_path(data, runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    commands = [item.command for chapter in chapters.CHAPTERS for item in chapter.items(data)]
    assert commands
    assert not any(os.sep + "tmp" in command for command in commands)
