"""Small copies of runs: what tables and figures need, without loss, and no weights."""

import lzma

import pytest
import torch

from maxmincaps.cli import study as commands
from maxmincaps.errors import InputError
from maxmincaps.files import read_compressed
from maxmincaps.studies import STUDIES
from maxmincaps.studies.collect import collect, copy_small
from maxmincaps.studies.study import Budget, Line, Study
from maxmincaps.studies.table import read
from maxmincaps.training.checkpoint import load_tensors
from maxmincaps.training.responses import responses
from maxmincaps.training.run import Run, runs_under
from tests.studies.conftest import grid, write_run
from tests.studies.test_study_file import ROOT

SETTINGS = grid()[0].model_dump(exclude={"dataset", "seed", "normalization", "epochs"})
STUDY = Study(
    name="copied",
    datasets=("mnist-5k",),
    lines=tuple(Line(name, {"normalization": name}) for name in ("softmax", "max-min")),
    settings=SETTINGS,
    scales={"little": (Budget(epochs=8, seeds=2, train_images=200, test_images=None),)},
    files=("lengths.safetensors",),
)


def test_a_small_copy_has_the_same_numbers_and_no_weights(serial, tmp_path):
    run = runs_under(serial)[0]
    small = copy_small(run, tmp_path / "small", ["lengths.safetensors", "trace.safetensors"])
    assert small.result == run.result
    assert small.history == run.history
    assert small.summary().has("lengths.safetensors")
    assert not list(small.folder.glob("*.safetensors"))
    assert torch.equal(responses(small.folder).lengths, responses(run.folder).lengths)
    traces = (load_tensors(one.folder / "trace.safetensors")[0] for one in (run, small))
    ours, theirs = traces
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_copy_of_a_small_copy_is_the_same(serial, tmp_path):
    small = copy_small(runs_under(serial)[0], tmp_path / "small", ["lengths.safetensors"])
    again = copy_small(small, tmp_path / "again", ["lengths.safetensors"])
    files = [{path.name: path.read_bytes() for path in one.folder.iterdir()} for one in (small, again)]
    assert files[0] == files[1]


def test_runs_are_collected_once_and_keep_what_a_figure_needs(tmp_path):
    recipes = STUDY.grid("little")
    for recipe in recipes[:3]:
        write_run(tmp_path / "runs", recipe, 0.9)
    (tmp_path / "runs" / recipes[0].fingerprint() / "lengths.safetensors").write_bytes(b"numbers")
    (tmp_path / "runs" / recipes[0].fingerprint() / "best.safetensors").write_bytes(b"weights")
    (tmp_path / "runs" / recipes[2].fingerprint() / "result.json").unlink()
    made = collect(STUDY, tmp_path / "runs", tmp_path / "results")
    assert {run.folder.parent.name for run in made} == {"copied"}
    assert {run.recipe.fingerprint() for run in made} == {recipe.fingerprint() for recipe in recipes[:2]}
    assert {path.suffix for path in (tmp_path / "results").rglob("*.*")} == {".json", ".xz"}
    assert collect(STUDY, tmp_path / "runs", tmp_path / "results") == []


def test_the_command_collects_the_runs_of_a_study(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(STUDIES, "copied", STUDY)
    write_run(tmp_path / "runs", STUDY.grid("little")[0], 0.9)
    commands.collect("copied", source=tmp_path / "runs", out=tmp_path / "results")
    assert "1 runs copied" in capsys.readouterr().out
    assert len(read(tmp_path / "results").rows) == 1


@pytest.mark.parametrize("content", [b"no archive", lzma.compress(b"whole")[:-4], lzma.compress(bytes(1000))])
def test_a_damaged_or_exploding_archive_is_refused(content, tmp_path):
    (tmp_path / "file.xz").write_bytes(content)
    with pytest.raises(InputError, match=r"file\.xz: is"):
        read_compressed(tmp_path / "file.xz", most=100)


@pytest.mark.parametrize("folder", ["results", "research/runs"])
def test_committed_runs_are_small(folder):
    """At most 100 kB a run as a rule; more where a figure of the paper is drawn from every test image."""
    for run in runs_under(ROOT / folder):
        size = sum(path.stat().st_size for path in run.folder.iterdir())
        assert size < (250_000 if Run(run.folder).summary().has("lengths.safetensors") else 100_000)
        assert not list(run.folder.glob("*.safetensors"))
