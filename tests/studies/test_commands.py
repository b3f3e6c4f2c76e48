"""`maxmincaps study` and `maxmincaps look`, as functions: what they say and what they leave."""

import csv
import shutil
import subprocess
import sys

import pytest

from maxmincaps.cli import look, main
from maxmincaps.cli import study as verbs
from maxmincaps.cli.terminal import console
from maxmincaps.errors import InputError
from maxmincaps.studies import STUDIES
from maxmincaps.studies.cost import Speed
from maxmincaps.training.run import Run
from tests.conftest import TINY
from tests.studies.conftest import grid
from tests.studies.test_table import STUDY


@pytest.fixture(autouse=True)
def wide_terminal_and_known_speed(monkeypatch):
    monkeypatch.setattr(console, "width", 200)
    monkeypatch.setattr("maxmincaps.studies.cost.measure_speed", lambda recipe: Speed(100.0, 1000.0))
    monkeypatch.setitem(STUDIES, "tiny", STUDY)


@pytest.fixture
def runs(serial, tmp_path):
    return shutil.copytree(serial, tmp_path / "runs")


def test_the_list_names_every_study(capsys):
    verbs.list_()
    output = capsys.readouterr().out
    assert all(name in output for name in STUDIES)


@pytest.mark.parametrize("name", [*STUDIES, "all"])
def test_a_study_is_shown_with_its_claim_and_command(name, capsys):
    verbs.show(name)
    assert "Command" in capsys.readouterr().out


def test_a_study_is_shown_with_its_own_datasets_alone(capsys):
    verbs.show("normalizations")
    output = capsys.readouterr().out
    assert "mnist: 4 epochs of 2,000 training images" in output
    assert "cifar10" not in output


def test_the_help_of_a_study_names_every_scale_that_the_list_shows(capsys):
    with pytest.raises(SystemExit):
        main(["study", "run", "--help"])
    output = capsys.readouterr().out
    assert all(scale in output for study in STUDIES.values() if study is not STUDY for scale in study.scale_names())


def test_a_study_runs_what_is_missing_and_nothing_else(runs, capsys):
    missing = runs / grid()[1].run_name
    shutil.rmtree(missing)
    others = {path: path.stat().st_mtime_ns for path in runs.glob("*/result.json")}
    verbs.run("tiny", scale="little", out=runs, yes=True)
    output = capsys.readouterr().out
    assert "1 of 4 runs missing" in output
    assert "estimated from finished runs" in output
    assert Run(missing).complete
    assert others.items() <= {path: path.stat().st_mtime_ns for path in runs.glob("*/result.json")}.items()
    verbs.run("tiny", scale="little", out=runs)
    assert "all 4 runs are there" in capsys.readouterr().out


def test_the_status_lists_done_unfinished_and_missing_runs(runs, capsys):
    first, second, *_ = (runs / recipe.run_name for recipe in grid())
    (first / "result.json").unlink()
    shutil.rmtree(second)
    (runs / "foreign").mkdir()
    (runs / "foreign" / "recipe.json").write_text("{")
    verbs.status("tiny", scale="little", out=runs)
    output = capsys.readouterr().out
    assert output.count("complete") == 2
    assert "epoch 8 of 8" in output
    assert "missing" in output
    assert "skipped: " in output
    assert "not the paper's network" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tabel"}, "no study is called 'tabel'; there are datasets"),
        ({"name": "tiny", "scale": "huge"}, "no scale of tiny is called 'huge'; there are large, little"),
        ({"name": "all", "scale": "huge"}, "no scale is called 'huge'; there are paper, full"),
        ({"name": "tiny", "scale": "little", "only": "seed=7"}, "no run fits --only seed=7"),
        ({"name": "architecture"}, "study architecture needs no runs"),
        ({"name": "tiny", "scale": "little"}, "pass --yes"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(InputError, match=message) as error:
        verbs.run(**{"out": tmp_path, **arguments})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["evolution", "rows", "outputs", "tuning"])
def test_a_look_is_printed_or_written(name, serial, tmp_path, capsys):
    run, file = serial / grid()[1].run_name, tmp_path / "table.csv"
    seen_by(name, run)
    assert run.name in capsys.readouterr().out
    seen_by(name, run, "--csv", file)
    table = read(file)
    assert len(table) >= 10
    assert f"{len(table)} rows" in capsys.readouterr().out


def seen_by(name, *words):
    """Call `maxmincaps look NAME`."""
    with pytest.raises(SystemExit) as ended:
        main(["look", name, *map(str, words)])
    assert not ended.value.code


def read(file):
    """Return the rows of a table that was written."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_a_look_shows_what_was_asked_for(serial, tmp_path):
    run, file = serial / grid()[1].run_name, tmp_path / "table.csv"

    def seen(name, column, *words):
        seen_by(name, run, "--csv", file, *words)
        return {row[column] for row in read(file)}

    assert seen("rows", "child", "--child", 5, "--child", 2) == {"5", "2"}
    assert len(seen("rows", "child", "--count", 2)) == 2
    assert seen("outputs", "image", "--image", 7) == {"7"}
    assert len(seen("evolution", "low", "--bins", 4)) < len(seen("evolution", "low", "--bins", 9))


def test_iterations_are_counted_from_one_as_in_the_figures(serial, tmp_path):
    run, file = serial / grid()[0].run_name, tmp_path / "table.csv"
    seen_by("evolution", run, "--csv", file)
    iterations = Run(run).recipe.iterations
    assert {int(row["iteration"]) for row in read(file)} == set(range(1, iterations + 1))


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("rows", ["parent"]),
        ("outputs", ["parent", "label"]),
        ("tuning", ["parent", "label"]),
        ("misclassified", ["prediction", "label"]),
    ],
)
def test_a_look_calls_classes_by_their_names(name, columns, serial, tmp_path, capsys):
    run = Run(shutil.copytree(serial / grid()[0].run_name, tmp_path / "run"))
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    run.write("data.json", run.data.model_copy(update={"classes": tuple(names)}))
    seen_by(name, run.folder)
    assert "seven" in capsys.readouterr().out
    seen_by(name, run.folder, "--csv", tmp_path / "table.csv")
    for column in columns:
        assert {row[column] for row in read(tmp_path / "table.csv")} <= set(names)


def test_mistakes_of_one_and_of_several_are_counted(serial, capsys, tmp_path):
    folders = [serial / recipe.run_name for recipe in grid()]
    wrong = round(1000 * (1 - Run(folders[0]).result.final_test_accuracy))
    seen_by("misclassified", folders[0])
    assert f"{wrong} of 1000 test images wrong" in capsys.readouterr().out
    seen_by("vote", *folders, "--csv", tmp_path / "vote.csv")
    output = capsys.readouterr().out
    assert f"{wrong} wrong" in output
    assert "every three of them" in output


def test_a_table_that_cannot_be_written_is_refused_in_a_line(serial, tmp_path):
    options = look.Options(csv=tmp_path / "nowhere" / "table.csv")
    with pytest.raises(InputError, match=r"table\.csv: cannot be written"):
        look.tuning(serial / grid()[0].run_name, options=options)


def test_workers_import_what_the_command_imports(tmp_path):
    (tmp_path / "my_norms.py").write_text(
        "from maxmincaps import NORMALIZATIONS, Normalization\n"
        "NORMALIZATIONS['halved'] = Normalization(lambda logits: 0 * logits + 0.5)\n"
    )
    (tmp_path / "halved.py").write_text(
        "from maxmincaps.studies.study import Budget, Line, Study\n"
        "STUDY = Study('halved', datasets=('mnist-5k',), lines=(Line('halved', {'normalization': 'halved'}),),\n"
        f"    scales={{'small': (Budget(1, changes={TINY | {'epochs': 1}}),)}})\n"
    )
    words = ["study", "run", "halved.py", "--workers", "2", "--yes", "--import", "my_norms.py"]
    done = subprocess.run([sys.executable, "-m", "maxmincaps", *words], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert len(list(tmp_path.glob("runs/*/result.json"))) == 1
