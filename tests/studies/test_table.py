"""Records as a table: every run a row, foreign folders skipped, questions answered and nothing else."""

import json
import shutil
from pathlib import Path

import pytest

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies import STUDIES
from maxmincaps.studies import table as records
from maxmincaps.studies.study import MAX_MIN, SOFTMAX, Budget, Study
from maxmincaps.training.run import Run
from tests.analysis.runs import write_run
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
    rows = records.table(serial)
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
    reading = records.read(tmp_path / "runs")
    assert len(reading.rows) == len(grid()) - 1
    assert len(reading.notes) == 4
    assert all("\n" not in note for note in reading.notes)


def test_a_result_with_a_number_missing_is_skipped_with_a_note(tmp_path):
    record = Run(Path(write_run(tmp_path, Recipe(), best=0.9)["folder"]))
    record.write("result.json", {name: value for name, value in record.result.items() if name != "train_accuracy"})
    reading = records.read(tmp_path)
    assert reading.rows == []
    assert "result.json: expected 'train_accuracy'" in reading.notes[0]


def test_a_question_is_answered_from_all_tables(serial):
    answer = records.query(
        serial,
        "SELECT normalization, count(*), max(epoch) FROM runs JOIN history USING (fingerprint) GROUP BY 1 ORDER BY 1",
    )
    assert answer.rows == [("max-min", 16, 8), ("softmax", 16, 8)]
    assert records.query(serial, "SELECT value FROM paper WHERE study = 'bounds'").rows == []
    assert records.query(serial, "SELECT max(value) FROM paper WHERE study = 'datasets'").rows == [(99.55,)]


def test_a_question_about_no_runs_has_no_rows(tmp_path):
    assert records.query(tmp_path, "SELECT run, best_test_accuracy FROM runs WHERE seed = 0").rows == []


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
        records.query(serial, sql.format(file=file))
    assert "\n" not in str(error.value)
    assert file.read_text() == "a,b\n1,2\n"


def test_a_study_finds_its_runs_by_recipe(serial):
    rows = records.study_rows(STUDY, "little", records.table(serial))
    assert sorted((row.line, row.recipe.seed) for row in rows) == [
        ("Max-Min", 0), ("Max-Min", 1), ("Softmax", 0), ("Softmax", 1)
    ]  # fmt: skip
    assert all(row.recipe.normalization == row.line.lower() for row in rows)


def test_the_scale_that_is_shown_is_one_that_has_runs(serial):
    rows = records.table(serial)
    assert records.coverage(STUDY, rows) == {"large": (0, 4), "little": (4, 4)}
    assert {row.scale for row in records.shown_rows(STUDY, rows)} == {"little"}
    assert records.shown_rows(STUDY, []) == []


def test_the_whole_of_a_smaller_scale_is_shown_before_a_part_of_a_larger_one(serial):
    rows = records.table(serial)
    large = STUDY.grid("large")
    more = [{**row, "fingerprint": recipe.fingerprint()} for row, recipe in zip(rows, large, strict=True)]

    def scale_of(*found):
        (scale,) = {row.scale for row in records.shown_rows(STUDY, found)}
        return scale

    assert scale_of(*rows, *more[:3]) == "little"
    assert scale_of(*rows, *more) == "large"
    assert scale_of(*rows[:2], *more[:3]) == "large"


def test_further_seeds_of_one_line_do_not_stand_for_another_line(serial):
    rows = records.table(serial)
    further = [entry.recipe for entry in STUDY.entries("large", seeds=9) if entry.line is MAX_MIN]
    one_line = [{**rows[0], "seed": recipe.seed, "fingerprint": recipe.fingerprint()} for recipe in further]
    assert {row.scale for row in records.shown_rows(STUDY, [*rows, *one_line])} == {"little"}
    assert len(records.shown_rows(STUDY, one_line)) == 9


def test_a_budget_is_told_with_all_that_makes_it_smaller_than_the_paper(serial):
    row = records.table(serial)[0]
    words = "8 epochs of 120 images, best epoch by 50 of 1,000 test images, not the paper's network"
    assert records.budget_in_words(row) == words
    paper = row | {name: getattr(Recipe(), name) for name in ("conv_channels", "types", "part_pose", "class_pose")}
    paper |= {"decoder": [512, 1024], "judged_on": 1000, "regenerated": True}
    assert records.budget_in_words(paper) == "8 epochs of 120 images, regenerated images"
    assert records.budget_in_words(row | {"skipped_steps": 8, "steps": 9}) == words + ", 8 of 9 steps skipped"
    held_out = paper | {"validation": 1000, "regenerated": False}
    assert records.budget_in_words(held_out) == "8 epochs of 120 images, best epoch by 1,000 validation images"


def test_a_budget_tells_what_the_products_were_computed_in_and_not_what_was_asked_for(serial):
    row = records.table(serial)[0]
    assert row.precisions == "fp32"
    assert "bf16" not in records.budget_in_words(row | {"precision": "bf16"})
    assert records.budget_in_words(row | {"used_precision": "bf16"}).endswith("products in bf16")


@pytest.mark.parametrize("other", [{"conv_channels": 512}, {"conv_kernel": 5}, {"decoder": [8]}])
def test_a_network_of_other_sizes_than_the_papers_is_called_so_and_not_smaller(tmp_path, other):
    row = write_run(tmp_path, Recipe(epochs=8), best=0.9)
    assert records.budget_in_words(row) == "8 epochs"
    assert records.budget_in_words(row | other) == "8 epochs, not the paper's network"


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
    row = write_run(tmp_path, Recipe(**settings), best=0.9) | {"image_shape": shape}
    assert records.has_papers_network(row) is is_the_papers


def test_the_plan_names_every_run_of_every_study(tmp_path):
    plan = records.tables(tmp_path)["studies"]
    assert {row.study for row in plan} == {study.name for study in STUDIES.values() if study.scale_names()}
    assert json.dumps(plan)
