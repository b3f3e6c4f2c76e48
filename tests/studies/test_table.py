"""Runs as a table: a row for each run, damaged folders skipped, queries answered and nothing else."""

import json
import shutil
from dataclasses import replace

import pytest

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES
from maxmincaps.studies import table as tables
from maxmincaps.studies.query import query
from maxmincaps.studies.query import tables as query_tables
from maxmincaps.studies.study import MAX_MIN, SOFTMAX, Budget, Study
from maxmincaps.training.run import Run
from maxmincaps.training.schema import Environment
from tests.analysis.runs import make_data, make_run, write_run
from tests.conftest import TINY
from tests.studies.conftest import grid

STUDY = Study(
    "tiny", "", "", "", datasets=("mnist-5k",), lines=(SOFTMAX, MAX_MIN), settings={**TINY, "epochs": 8},
    scales={
        "large": (Budget(9, seeds=2, changes=TINY | {"epochs": 9}),),
        "little": (Budget(8, seeds=2, changes=TINY | {"epochs": 8}),),
    },
)  # fmt: skip


def test_every_run_is_a_row_with_its_settings_and_its_result(serial):
    rows = tables.read(serial).rows
    assert {row.fingerprint for row in rows} == {recipe.fingerprint() for recipe in grid()}
    for row in rows:
        assert (row.status, row.epochs_done, row.data.train_images, row.data.test_images) == ("complete", 8, 120, 1000)
        assert row.result.best_test_accuracy >= 0


def test_what_is_half_written_or_foreign_is_skipped_with_a_note(serial, tmp_path):
    shutil.copytree(serial, tmp_path / "runs")
    for name, text in (("half", '{"epochs": '), ("foreign", '{"flavour": "vanilla"}'), ("list", "[]")):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "recipe.json").write_text(text)
    broken = next((tmp_path / "runs").glob("*/result.json"))
    broken.write_text("{")
    reading = tables.read(tmp_path / "runs")
    assert len(reading.rows) == len(grid()) - 1
    assert len(reading.notes) == 4
    assert all("\n" not in note for note in reading.notes)


def test_a_result_with_a_number_missing_is_skipped_with_a_note(tmp_path):
    run = Run(write_run(tmp_path, Recipe(), best=0.9).folder)
    run.write("result.json", json.dumps(run.result.model_dump(exclude={"train_accuracy"})))
    reading = tables.read(tmp_path)
    assert reading.rows == []
    assert "result.json" in reading.notes[0]
    assert "train_accuracy" in reading.notes[0]


def test_a_question_is_answered_from_all_tables(serial):
    answer = query(
        serial,
        "SELECT normalization, count(*), max(epoch) FROM runs JOIN history USING (fingerprint) GROUP BY 1 ORDER BY 1",
    )
    assert answer.rows == [("max-min", 16, 8), ("softmax", 16, 8)]
    assert query(serial, "SELECT value FROM paper WHERE study = 'bounds'").rows == []
    assert query(serial, "SELECT max(value) FROM paper WHERE study = 'datasets'").rows == [(99.55,)]


def test_a_question_about_no_runs_has_no_rows(tmp_path):
    assert query(tmp_path, "SELECT run, best_test_accuracy FROM runs WHERE seed = 0").rows == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_text('{file}')",
        "COPY runs TO '{file}'",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}'",
        "DROP TABLE runs",
        "INSERT INTO runs SELECT * FROM runs",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "INSTALL httpfs",
        "SELECT nothing FROM nowhere",
        "SELEKT",
        "",
    ],
)
def test_sql_can_neither_write_nor_read_files(sql, serial, tmp_path):
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="--sql: ") as error:
        query(serial, sql.format(file=file))
    assert "\n" not in str(error.value)
    assert file.read_text() == "a,b\n1,2\n"


def test_a_study_finds_its_runs_by_recipe(serial):
    rows = tables.study_rows(STUDY, "little", tables.read(serial).rows)
    assert sorted((row.line, row.recipe.seed) for row in rows) == [
        ("Max-Min", 0), ("Max-Min", 1), ("Softmax", 0), ("Softmax", 1)
    ]  # fmt: skip
    assert all(row.recipe.normalization == row.line.lower() for row in rows)


def test_the_scale_that_is_shown_is_one_that_has_runs(serial):
    rows = tables.read(serial).rows
    assert tables.coverage(STUDY, rows) == {"large": (0, 4), "little": (4, 4)}
    assert {row.scale for row in tables.shown_rows(STUDY, rows)} == {"little"}
    assert tables.shown_rows(STUDY, []) == []


def rows_of(folder, recipes):
    return [make_run(folder, recipe) for recipe in recipes]


def test_the_whole_of_a_smaller_scale_is_shown_before_a_part_of_a_larger_one(tmp_path):
    little, large = (rows_of(tmp_path, STUDY.grid(scale)) for scale in ("little", "large"))

    def scale_of(*found):
        (scale,) = {row.scale for row in tables.shown_rows(STUDY, found)}
        return scale

    assert scale_of(*little, *large[:3]) == "little"
    assert scale_of(*little, *large) == "large"
    assert scale_of(*little[:2], *large[:3]) == "large"


def test_further_seeds_of_one_line_do_not_stand_for_another_line(tmp_path):
    little = rows_of(tmp_path, STUDY.grid("little"))
    further = [entry.recipe for entry in STUDY.entries("large", seeds=9) if entry.line is MAX_MIN]
    one_line = rows_of(tmp_path, further)
    assert {row.scale for row in tables.shown_rows(STUDY, [*little, *one_line])} == {"little"}
    assert len(tables.shown_rows(STUDY, one_line)) == 9


def test_of_several_copies_of_a_run_the_one_that_came_furthest_counts(tmp_path):
    complete = make_run(tmp_path, Recipe())
    unfinished = replace(complete, status="unfinished", outcome=None)
    assert tables.deduplicate([complete, unfinished]) == [complete]
    assert tables.deduplicate([unfinished, complete]) == [complete]


def test_a_budget_states_all_that_makes_it_smaller_than_the_papers(serial, tmp_path):
    words = tables.budget_in_words(tables.read(serial).rows[0])
    assert words == "8 epochs of 120 images, best epoch by 50 of 1,000 test images, not the paper's network, no ReLU"
    paper = make_run(tmp_path, Recipe(epochs=8, relu=True))
    assert tables.budget_in_words(paper) == "8 epochs of 60,000 images"
    drawn_again = replace(paper, images=make_data(regenerated=True))
    assert tables.budget_in_words(drawn_again).endswith(", regenerated images")
    skipped = replace(paper, outcome=paper.result.model_copy(update={"skipped_steps": 8, "steps": 9}))
    assert tables.budget_in_words(skipped).endswith(", 8 of 9 steps skipped")
    validated = make_run(tmp_path, Recipe(epochs=8, relu=True, validation=1000))
    assert tables.budget_in_words(validated).endswith(", best epoch by 1,000 validation images")
    quarter = make_run(tmp_path, Recipe(epochs=8, conv_channels=64, types=8))
    assert tables.budget_in_words(quarter).endswith(", quarter-size network, no ReLU")
    assert tables.budget_in_words(quarter, network=False) == "8 epochs of 60,000 images"


def test_a_budget_states_the_precision_that_was_used_and_not_the_one_that_was_asked_for(tmp_path):
    asked = make_run(tmp_path, Recipe(precision="bf16"), machine=Environment(started_at="", precision="fp32"))
    assert "bf16" not in tables.budget_in_words(asked)
    used = replace(asked, machine=Environment(started_at="", precision="bf16"))
    assert tables.budget_in_words(used).endswith("products in bf16")


@pytest.mark.parametrize("other", [{"conv_channels": 512}, {"conv_kernel": 5}, {"decoder": [8]}])
def test_a_network_of_other_sizes_than_the_papers_is_called_so(tmp_path, other):
    assert "not the paper's network" in tables.budget_in_words(make_run(tmp_path, Recipe(**other)))


@pytest.mark.parametrize(
    ("settings", "shape", "is_the_papers"),
    [
        ({"types": 32}, [1, 28, 28], True),
        ({"types": 64}, [1, 28, 28], False),
        ({"types": 64, "dataset": "cifar10"}, [3, 24, 24], True),
        ({"dataset": "cifar10", "crop": 0}, [3, 32, 32], False),
    ],
)
def test_the_papers_sizes_are_known_however_they_are_asked_for(tmp_path, settings, shape, is_the_papers):
    run = make_run(tmp_path, Recipe(**settings), images=make_data(image_shape=tuple(shape)))
    assert tables.has_papers_network(run) is is_the_papers


def test_the_table_of_studies_lists_every_run_of_every_study(tmp_path):
    plan = query_tables(tmp_path)["studies"]
    assert {row["study"] for row in plan} == {study.name for study in STUDIES.values() if study.scale_names()}
    assert json.dumps(plan)
