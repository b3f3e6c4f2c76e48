"""Observers: TensorBoard, a notebook, several at once; and the representation of a run."""

import sys
from types import SimpleNamespace

import pytest

from maxmincaps import CombinedObserver, InputError, NotebookProgress, Observer, Run, TensorBoard, fit
from maxmincaps.cli import main


@pytest.fixture
def notebook(monkeypatch):
    """A notebook that keeps what it is shown."""
    shown = []

    def display(thing, display_id):
        shown.append(thing._repr_html_())
        return SimpleNamespace(update=lambda thing: shown.append(thing._repr_html_()))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return shown


@pytest.fixture
def watched(tiny, tmp_path, notebook):
    pytest.importorskip("tensorboard")
    observer = CombinedObserver(TensorBoard(tmp_path / "board"), NotebookProgress())
    return fit(tiny(dataset="mnist-5k"), tmp_path / "run", observer=observer)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_step_and_every_figure_of_an_epoch_reaches_the_board_and_the_notebook(watched, tmp_path, notebook):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    losses = board.Scalars("step/loss")
    assert [event.step for event in losses] == list(range(1, 7))
    accuracies = [event.value for event in board.Scalars("epoch/test_accuracy")]
    assert accuracies == pytest.approx([line.test_accuracy for line in watched.history])
    assert "step 6 of 6" in notebook[-1]
    assert notebook[-1].count("<tr>") == 3

    assert "mnist-5k, max-min, r = 3, seed 0, 2 epochs: best" in str(watched)
    assert watched._repr_html_().count("<tr>") == 3


class Plans(Observer):
    def __init__(self, wants):
        self.wants_plan, self.plans, self.starts = wants, [], 0

    def started(self, recipe, steps, done):
        self.starts += 1

    def planned(self, plan):
        self.plans.append(plan)


def test_a_plan_is_measured_for_those_who_want_it_only(tiny, tmp_path):
    keen, calm = Plans(True), Plans(False)
    fit(tiny(epochs=1), tmp_path / "run", observer=CombinedObserver(keen, calm))
    assert (len(keen.plans), len(calm.plans), calm.starts) == (1, 0, 1)
    assert keen.plans[0].parameters > 0


def test_outside_notebooks_the_progress_is_silent(tiny, tmp_path, capsys):
    fit(tiny(epochs=1), tmp_path / "run", observer=NotebookProgress())
    assert capsys.readouterr().out == ""


def test_a_folder_without_a_run_is_reported_as_such(tmp_path):
    assert str(Run(tmp_path)).endswith("no run")


def test_a_missing_board_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"pip install -e '\.\[tensorboard\]'"):
        TensorBoard(tmp_path)


@pytest.fixture
def command(tiny, tmp_path, capsys):
    """Train by the command; return the exit code and the output."""

    def call(*words):
        (tmp_path / "tiny.json").write_text(tiny(epochs=1).to_json())
        with pytest.raises(SystemExit) as ended:
            main(["train", "--recipe", str(tmp_path / "tiny.json"), "--out", str(tmp_path / "run"), "--quiet", *words])
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out + printed.err

    return call


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_command_writes_a_board_on_request(command, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    code, output = command("--tensorboard", str(tmp_path / "board"))
    assert code == 0, output
    board = EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    assert len(board.Scalars("step/loss")) == 3
    assert "epoch/test_accuracy" in board.Tags()["scalars"]


def test_a_board_that_is_not_installed_is_said_before_anything_is_trained(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code, output = command("--tensorboard", str(tmp_path / "board"))
    assert code == 2
    assert "pip install -e '.[tensorboard]'" in output
    assert not (tmp_path / "run").exists()
