import csv
import io
import json
import re
import shutil
from dataclasses import replace
from statistics import fmean, stdev

import pytest
import torch

from maxmincaps.analysis.runs import RunTable, study_runs_by_network, voters
from maxmincaps.analysis.vote import vote
from maxmincaps.recipe import Recipe
from maxmincaps.report import run_tables, tables
from maxmincaps.report.items import matched_networks
from maxmincaps.report.poll import table_3
from maxmincaps.report.table import NOT_RUN, Table
from maxmincaps.studies import STUDIES
from maxmincaps.studies.table import read
from maxmincaps.training.responses import responses
from tests.analysis.runs import diverge, make_run, make_study, write_lengths
from tests.report.conftest import small_studies


def of(study, runs):
    """A study and its runs of each size of network."""
    return study, study_runs_by_network(study, list(runs))


def cells(found: Table, **wanted: str) -> dict[str, str]:
    """The one line that has the wanted words, by the names of its columns."""
    lines = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    (line,) = [line for line in lines if all(line[name] == word for name, word in wanted.items())]
    return line


@pytest.mark.parametrize("line", ["Softmax", "Max-Min"])
def test_table_1_has_the_means_of_the_runs_beside_the_papers(of_study, runs, line):
    results = [
        json.loads((path.parent / "result.json").read_text())
        for path in runs.rglob("recipe.json")
        if (recipe := json.loads(path.read_text()))["normalization"] == line.lower()
        and (recipe["iterations"], recipe["shift"], recipe["relu"], recipe["high"], recipe["start"])
        == (3, 0, True, None, None)
        and (recipe["primary_rate"], recipe["warmup"], recipe["validation"], recipe["ema_decay"])
        == (None, 50, 0, 0.999)
    ]
    found = cells(tables.table_1(*of_study("datasets")), Normalization=line)
    for column, measure in (("Ours, best", "best_test_accuracy"), ("Ours, final", "final_test_accuracy")):
        values = [100 * result[measure] for result in results]
        assert found[column] == f"{fmean(values):.2f} ± {stdev(values):.2f}†"
    assert found["Paper, best"] == {"Softmax": "99.28 ± 0.06", "Max-Min": "99.55 ± 0.02"}[line]
    assert found["n"] == "2"
    assert "2 epochs of 100 images" in found["Our budget"]
    assert "not the paper's network" in found["Our budget"]


def test_a_budget_below_the_papers_is_marked_and_the_papers_own_is_not(rows):
    below, at_paper = (tables.table_1(*of(small_studies(scale)["datasets"], rows)) for scale in ("small", "paper"))
    assert all("†" in row[3] for row in below.rows)
    assert any("not the paper's budget" in note for note in below.notes)
    assert not any("†" in cell for row in at_paper.rows for cell in row)
    assert not any("not the paper's budget" in note for note in at_paper.notes)


def test_what_was_not_run_says_so_beside_the_papers_number():
    found = tables.table_4(*of(STUDIES["normalizations"], []))
    assert all(NOT_RUN in row for row in found.rows)
    assert cells(found, Normalization="Max-Min")["Paper, best"] == "99.55 ± 0.02"
    assert (
        NOT_RUN
        in cells(tables.table_2(*of(STUDIES["mnist-record"], [])), Measure="vote of 3, ours, seeds 0 to 2")["Mean"]
    )


def test_a_single_run_has_no_standard_deviation(of_study):
    assert re.fullmatch(
        r"\d+\.\d\d†", cells(tables.table_4(*of_study("normalizations")), Normalization="Sum")["Ours, best"]
    )


def test_table_2_has_the_extremes_of_the_errors_and_the_vote_of_three(of_study):
    study, (runs,) = of_study("mnist-record")
    found = tables.table_2(study, [runs])
    errors = [100 - 100 * row.result.final_test_accuracy for row in runs.of("mnist-5k", "Max-Min")]
    line = cells(found, Normalization="Max-Min", Measure="ours, final epoch")
    assert line["Largest"] == f"{max(errors):.3f}†"
    assert line["Smallest"] == f"{min(errors):.3f}†"
    assert line["Mean"] == f"{fmean(errors):.3f}†"
    assert line["Sd"] == f"{stdev(errors):.3f}†"
    together = vote([responses(row.folder) for row in voters(runs)])
    assert cells(found, Measure="vote of 3, ours, seeds 0 to 2")["Mean"] == f"{together.error_percent:.3f}†"
    assert cells(found, Measure="vote of 3, the paper's")["Mean"] == "0.170"


def test_table_3_keeps_the_papers_rows_and_needs_no_poll():
    found = table_3(None)
    assert cells(found, Image="#9729")["On the prediction"] == "0.82 / 0.80"
    assert len(found.rows) == 6


def test_regenerated_images_are_named_so_wherever_their_numbers_stand(runs, studies, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    for path in (tmp_path / "runs").rglob("data.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "regenerated": True}))
    found = tables.table_1(*of(studies["datasets"], read(tmp_path / "runs").rows))
    assert all(row[0] == "MNIST-5k (regenerated)" for row in found.rows)
    assert any("other random choices" in note for note in found.notes)


def test_diverged_runs_are_counted_and_have_no_number(runs, studies, rows):
    diverged = [replace(run, status="diverged", outcome=None) if run.recipe.seed else run for run in rows]
    found = tables.table_1(*of(studies["datasets"], diverged))
    assert cells(found, Normalization="Max-Min")["n"] == "1 and 1 diverged"


def test_a_line_whose_runs_all_diverged_is_not_called_not_run(tmp_path):
    rows = make_study(tmp_path, "normalizations", "small", lambda entry: 99)
    diverge(rows, *[("Sum", None, "mnist", seed) for seed in range(3)])
    line = cells(tables.table_4(*of(STUDIES["normalizations"], rows.values())), Normalization="Sum")
    assert (line["Ours, best"], line["Ours, final"], line["n"]) == ("no result", "no result", "0 and 3 diverged")
    rows = make_study(tmp_path, "mnist-record", "small", lambda entry: 99)
    diverge(rows, ("Softmax", None, "mnist", 0))
    found = tables.table_2(*of(STUDIES["mnist-record"], rows.values()))
    assert cells(found, Normalization="Softmax", Measure="ours, best epoch")["Mean"] == "no result"


def test_the_vote_of_seeds_0_to_2_is_of_no_other_seeds(tmp_path):
    rows = make_study(tmp_path, "mnist-record", "full", lambda entry: 99)
    for row in rows.values():
        write_lengths(tmp_path / row.fingerprint, torch.eye(10), torch.arange(10))
    diverge(rows, ("Max-Min", None, "mnist", 0))
    found = tables.table_2(*of(STUDIES["mnist-record"], rows.values()))
    line = cells(found, Measure="vote of 3, ours, seeds 0 to 2")
    assert (line["Mean"], line["n"]) == ("needs three networks", "2")
    nothing = tables.table_2(*of(STUDIES["mnist-record"], []))
    assert cells(nothing, Measure="vote of 3, ours, seeds 0 to 2")["Mean"] == NOT_RUN


@pytest.mark.parametrize(("seeds", "mark"), [(5, ""), (4, "†")])
def test_fewer_seeds_than_the_paper_has_are_not_its_budget(tmp_path, seeds, mark):
    rows = make_study(tmp_path, "datasets", "paper", lambda entry: 90.0, seeds=seeds)
    found = tables.table_1(*of(STUDIES["datasets"], rows.values()))
    line = cells(found, Dataset="CIFAR10", Normalization="Max-Min")
    assert line["Ours, best"] == f"90.00 ± 0.00{mark}"


def test_a_run_that_is_not_over_is_listed_as_unfinished_and_not_as_diverged(rows):
    runs = [replace(run, status="unfinished", outcome=None) if run.recipe.seed else run for run in rows]
    found = run_tables.all_runs(RunTable(tuple(runs)))
    counts = {row[found.columns.index("n")] for row in found.rows}
    assert "1 and 2 unfinished" in counts
    assert "diverged" not in " ".join(counts)


def test_runs_that_belong_to_no_study_stand_in_table_1_as_their_own(rows):
    pair = matched_networks(rows)["mnist-5k"]
    found = tables.table_1(STUDIES["datasets"], [], [RunTable((run,)) for run in pair.values()])
    line = cells(found, Dataset="MNIST-5k, own recipe", Normalization="Max-Min, r = 3")
    assert line["Paper, best"] == "–"
    assert len(found.rows) == len(pair), "datasets that were not run have one line together, below the table"
    assert any(note.startswith("Not run: ") and "CIFAR10" in note for note in found.notes)
    assert line["Ours, best"] == f"{100 * pair['max-min'].result.best_test_accuracy:.2f}†"


def test_all_runs_are_listed_once(rows):
    found = run_tables.all_runs(rows)
    assert sum(int(row[found.columns.index("n")]) for row in found.rows) == len(rows)
    assert any("relu True" in row[2] for row in found.rows)


def test_every_way_out_has_every_cell(of_study):
    found = tables.table_1(*of_study("datasets"))
    assert list(csv.reader(io.StringIO(found.to_csv()))) == [list(found.columns), *map(list, found.rows)]
    lines = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    assert [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in (lines[0], *lines[2:])] == [
        found.columns,
        *found.rows,
    ]
    html = re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", found.to_html())
    assert html == [cell.replace("'", "&#39;") for line in (found.columns, *found.rows) for cell in line]
    assert found.to_latex().count(r"\\" + "\n") == len(found.rows) + 1


def test_words_that_mean_something_to_latex_html_or_markdown_are_escaped():
    found = Table("t", "50 % & more", ("a_b",), (("x | <y> #1",),))
    assert r"50 \% \& more" in found.to_latex()
    assert r"a\_b" in found.to_latex()
    assert "x | &lt;y&gt; #1" in found.to_html()
    assert r"x \| <y> #1" in found.to_markdown()


def test_networks_stand_in_the_order_of_table_1_and_others_behind_them(rows):
    names = ("mnist-5k", "cifar10", "background-mnist", "mnist", "own.npz", "rotated-mnist")
    runs = [replace(run, recipe=run.recipe.with_changes(dataset=name)) for name in names for run in rows]
    expected = ["mnist", "rotated-mnist", "background-mnist", "cifar10", "mnist-5k", "own.npz"]
    assert list(matched_networks(RunTable(tuple(runs)))) == expected


@pytest.mark.parametrize("other", [{"reconstruction_weight": 0.01}, {"shift": 2}, {"conv_channels": 300}])
def test_networks_of_the_default_recipe_are_preferred_to_others_that_were_trained_longer(tmp_path, other):
    runs = [
        make_run(tmp_path, Recipe(normalization=name, epochs=epochs, **settings))
        for epochs, settings in ((2, {}), (9, other))
        for name in ("softmax", "max-min")
    ]
    assert {run.recipe.epochs for run in matched_networks(RunTable(tuple(runs)))["mnist-5k"].values()} == {2}


def test_matched_networks_differ_in_the_normalization_alone_and_follow_the_paper(rows):
    pair = matched_networks(rows)["mnist-5k"]
    assert list(pair) == ["softmax", "max-min"]
    assert pair["softmax"].recipe.with_changes(normalization="max-min") == pair["max-min"].recipe
    assert (pair["max-min"].recipe.iterations, pair["max-min"].recipe.shift, pair["max-min"].recipe.high) == (
        3,
        0,
        None,
    )


def test_results_of_both_sizes_of_network_stand_beside_each_other(tmp_path):
    study = STUDIES["datasets"]
    smaller = replace(study.scales["small"][1], epochs=11, changes={"conv_channels": 64, "types": 8})
    both = replace(study, scales={"small": study.scales["small"][1:2], "laptop": (smaller,)})
    runs = [make_run(tmp_path, recipe, 0.9) for recipe in both.grid("small")]
    runs += [make_run(tmp_path, recipe, 0.8) for recipe in both.grid("laptop")]
    found = tables.table_1(*of(both, runs))
    lines = [row[3:] for row in found.rows if row[:2] == ("MNIST", "Max-Min")]
    assert [line[0] for line in lines] == ["90.00†", "80.00†"]
    assert "quarter-size network" not in lines[0][-1]
    assert "quarter-size network" in lines[1][-1]
    short = [row for row in tables.table_1_in_short(*of(both, runs)).rows if row[0] == "MNIST"]
    assert [row[1] for row in short] == ["paper's size, ReLU", "quarter-size, ReLU"]


def test_precision_and_recall_of_a_class_come_from_the_confusion_matrix(tmp_path):
    write_lengths(tmp_path, torch.eye(3)[[0, 0, 1, 1, 1]], torch.tensor([0, 1, 1, 1, 2]))
    found = run_tables.scores_by_class({"Max-Min": responses(tmp_path)})
    assert found.columns == ("Class", "Images", "Precision", "Recall", "F1")
    assert found.rows == (
        ("0", "1", "50.00", "100.00", "66.67"),
        ("1", "3", "66.67", "66.67", "66.67"),
        ("2", "1", "–", "0.00", "0.00"),
    )
