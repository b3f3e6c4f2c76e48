"""The chapter on overlapping digits: accuracies, verdicts, and digits taken apart."""

from dataclasses import replace

import pytest

from maxmincaps import Recipe, fit
from maxmincaps.analysis.runs import RunTable
from maxmincaps.report.items import ReportData, matched_networks
from maxmincaps.report.overlap import overlapping
from maxmincaps.studies import STUDIES
from maxmincaps.studies.collect import collect
from maxmincaps.studies.study import Budget
from maxmincaps.studies.table import read
from tests.report.conftest import NETWORK

CHANGES = {**NETWORK, "validation": 50, "batch_size": 50, "threads": 1}
STUDY = replace(
    STUDIES["overlap"],
    datasets=("mnist-5k",),
    scales={"tiny": (Budget(epochs=1, seeds=3, train_images=100, changes=CHANGES, lines=("Softmax", "Max-Min")),)},
    notes={},
)


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Small copies of three seeds of Softmax and Max-Min at r = 3: the report must not need weights."""
    folder = tmp_path_factory.mktemp("overlap")
    for recipe in STUDY.grid("tiny"):
        if recipe.iterations == 3:
            fit(recipe, folder / "runs" / recipe.run_name)
    collect(STUDY, folder / "runs", folder / "results")
    return folder / "results"


def data_of(folder):
    return ReportData(RunTable(tuple(read(folder).rows)), {"overlap": STUDY}, folder=folder)


def test_committed_runs_give_a_figure_a_table_and_verdicts(collected):
    figure, lines, verdicts = overlapping(data_of(collected))
    assert {item.name: type(item.content).__name__ for item in (figure, lines, verdicts)} == {
        "overlap-taken-apart": "Figure",
        "overlap": "Table",
        "overlap-compared": "Table",
    }
    assert [row[:2] for row in lines.content.rows] == [("Softmax", "3"), ("Max-Min", "3")]
    assert "–" not in " ".join(cell for row in lines.content.rows for cell in row[2:9])
    assert [row[2] for row in verdicts.content.rows] == ["3"] * 3
    assert {row[-1] for row in verdicts.content.rows} <= {"supported", "refuted", "inconclusive"}
    assert all("n = 3" in row[3] for row in verdicts.content.rows)


def test_runs_of_earlier_versions_without_the_file_have_accuracies_and_no_figure(collected, tmp_path):
    for path in collected.rglob("*.json*"):
        copy = tmp_path / path.relative_to(collected)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    lines, verdicts = overlapping(data_of(tmp_path))
    assert all("–" in row for row in lines.content.rows)
    assert [row[0].partition(" ")[0] for row in verdicts.content.rows] == ["better"]


def test_a_folder_without_such_runs_has_no_such_chapter(tmp_path):
    assert overlapping(data_of(tmp_path)) == []


def test_overlapping_images_are_not_mixed_with_the_papers_figures(collected):
    assert matched_networks(data_of(collected).runs) == {}


def test_without_routing_there_is_no_strongest_parent(tmp_path):
    line = next(line for line in STUDY.lines if line.value == 1)
    study = replace(STUDY, scales={"tiny": (Budget(epochs=1, train_images=100, changes=CHANGES, values=(1,)),)})
    (recipe,) = study.grid("tiny")
    assert recipe == Recipe(**{**recipe.model_dump(), **line.settings})
    fit(recipe, tmp_path / "run")
    data = ReportData(RunTable(tuple(read(tmp_path).rows)), {"overlap": study}, folder=tmp_path)
    lines, _ = overlapping(data)
    (row,) = lines.content.rows
    assert row[4:-2] == ("–",) * 7
