"""Studies in a user's own file, and those in research/."""

from pathlib import Path

import pytest
import torch

from maxmincaps import NORMALIZATIONS
from maxmincaps.analysis.lines import line_cells
from maxmincaps.capsules.routing import routing_steps
from maxmincaps.cli import study as commands
from maxmincaps.cli.terminal import console
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies import find_study
from maxmincaps.studies.table import read, study_rows
from tests.studies.conftest import write_run

ROOT = Path(__file__).parents[2]
FILES = [path for path in sorted((ROOT / "research").glob("*.py")) if "\nSTUDY = " in path.read_text()]
TEXT = '''"""Does a wider first layer help?"""

from maxmincaps.studies.study import Budget, Line, Study

STUDY = Study(
    name="widths",
    datasets=("mnist-5k",),
    lines=tuple(Line(f"{width} kernels", {"conv_channels": width}) for width in (64, 128)),
    scales={"three": (Budget(epochs=3, seeds=2),)},
)
'''


@pytest.fixture(autouse=True)
def registry():
    """Remove the normalizations that a study file registers."""
    before = dict(NORMALIZATIONS)
    yield
    NORMALIZATIONS.clear()
    NORMALIZATIONS.update(before)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_study.py"
    path.write_text(TEXT)
    return str(path)


def test_a_study_file_is_shown_with_its_docstring_and_its_only_scale(file, capsys):
    commands.show(file)
    output = capsys.readouterr().out
    assert "Does a wider first layer help?" in output
    commands.status(file, out=Path(file).parent)
    assert capsys.readouterr().out.count("missing") == 4


def test_a_study_file_reports_means_and_differences_from_the_first_line(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(console, "width", 200)
    for width, accuracies in ((64, (0.90, 0.92)), (128, (0.93, 0.93))):
        for seed, best in enumerate(accuracies):
            write_run(tmp_path, Recipe(dataset="mnist-5k", epochs=3, seed=seed, conv_channels=width), best)
    study = find_study(file)
    first, second = line_cells(study_rows(study, "three", read(tmp_path).rows), study.lines[0].label)
    assert (first["best"], first["less the first line"], first["n"]) == ("91.00 ± 1.41", "", "2")
    assert (second["best"], second["less the first line"]) == ("93.00 ± 0.00", "+2.00 ± 1.41")
    commands.report(file, out=tmp_path)
    assert "+2.00 ± 1.41" in capsys.readouterr().out
    commands.report(file, out=tmp_path, csv=tmp_path / "table.csv")
    assert "+2.00 ± 1.41" in (tmp_path / "table.csv").read_text()


def test_a_study_without_finished_runs_has_no_report(file, tmp_path):
    with pytest.raises(InputError, match="no finished run"):
        commands.report(file, out=tmp_path / "runs")


@pytest.mark.parametrize(
    ("text", "message"),
    [("STUDY = 1", "assigns a Study"), ("", "assigns a Study"), ("1 / 0", "ZeroDivisionError"), ("(", "SyntaxError")],
)
def test_a_file_that_is_no_study_file_is_refused_in_a_line(text, message, tmp_path):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        find_study(str(tmp_path / "bad.py"))
    assert "\n" not in str(error.value)


def test_a_study_file_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"nowhere\.py: cannot be imported"):
        find_study("nowhere.py")


@pytest.mark.parametrize("name", ["my_study", "my_study.txt"])
def test_only_a_path_that_ends_in_py_is_executed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("raise SystemExit")
    with pytest.raises(InputError, match="no study is called"):
        find_study(name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_research_study_recognises_its_committed_runs(path):
    study = find_study(str(path))
    folder = ROOT / "research" / "runs" / study.name
    if not folder.is_dir():
        pytest.skip("its runs are not committed")
    rows = read(folder).rows
    planned = {recipe.fingerprint() for recipe in study.grid(study.default_scale())}
    assert rows
    assert {row.fingerprint for row in rows} <= planned


def test_whole_matrix_max_min_spans_0_to_1_over_each_image():
    find_study(str(ROOT / "research" / "whole_matrix.py"))
    votes = torch.randn(3, 6, 4, 5, generator=torch.Generator().manual_seed(0))
    *_, last = routing_steps(votes, "whole-matrix-max-min", 3)
    assert last.couplings.shape[:3] == (3, 6, 4)
    flat = last.couplings.flatten(1)
    torch.testing.assert_close(torch.stack([flat.amin(1), flat.amax(1)]), torch.tensor([[0.0] * 3, [1.0] * 3]))


def test_the_recipe_thorough_is_the_one_that_was_studied():
    study, named = find_study(str(ROOT / "research" / "layer_wise_rates.py")), Recipe.from_file("thorough")
    assert named == Recipe(epochs=named.epochs, **study.settings, **study.lines[-1].settings)
