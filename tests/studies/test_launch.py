"""A grid survives lost workers, lost launchers, two launchers at once, Ctrl-C and divergence."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.cluster import connect, local_cluster
from maxmincaps.studies.launch import Outcome, is_in_use, launch, plan
from maxmincaps.studies.table import read
from maxmincaps.training.run import Run
from tests.conftest import TINY
from tests.studies.conftest import bits, grid
from tests.studies.launcher import log_trainings

ROOT = Path(__file__).parents[2]


def until(condition, process):
    """Wait for something that a process brings about."""
    while not condition():
        assert process.poll() is None, "it ended too early"
        time.sleep(0.02)


def begun(folder):
    """Runs that have made an epoch and are not complete."""
    return [p.parent for p in folder.glob("*/history.jsonl") if not Run(p.parent).complete]


def kill_a_worker_in_the_middle_of_a_run(folder):
    """Suspend the process that holds the lock of a run, check that the run is not complete, and kill the process."""
    while True:
        for run in begun(folder):
            for process in psutil.Process().children(recursive=True):
                if not holds(process, run / ".lock"):
                    continue
                process.suspend()
                if not Run(run).complete:
                    process.kill()
                    return
                process.resume()
        time.sleep(0.01)


def holds(process, path):
    try:
        return str(path) in {file.path for file in process.open_files()}
    except psutil.Error:
        return False


def start_launcher(folder, workers, log):
    command = [sys.executable, "-m", "tests.studies.launcher", str(folder), str(workers), str(log)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True)


def times_of_results(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}


def test_a_folder_name_that_another_run_has_is_numbered(tmp_path):
    recipe = grid()[0]
    taken = tmp_path / recipe.run_name
    taken.mkdir()
    (taken / "recipe.json").write_text(recipe.with_changes(ema_decay=0.5).to_json())
    [run] = plan([recipe], tmp_path).values()
    assert (run.folder, run.finished) == (tmp_path / f"{recipe.run_name}-2", False)


def test_finished_runs_are_not_trained_again(serial):
    before, seen, ended = times_of_results(serial), [], []
    outcomes = launch(grid(), serial, on_progress=seen.append, on_finished=lambda *run: ended.append(run))
    assert set(outcomes.values()) == {Outcome("complete")}
    assert times_of_results(serial) == before
    assert ended == []
    assert seen[-1].fraction == pytest.approx(1)


def test_a_run_is_found_by_its_recipe_whatever_its_folder_is_called(serial, tmp_path):
    recipe = grid()[0]
    (tmp_path / "mine").mkdir()
    (serial / recipe.run_name).rename(tmp_path / "mine" / "favourite")
    try:
        assert all(run.finished for run in plan([recipe], tmp_path).values())
    finally:
        (tmp_path / "mine" / "favourite").rename(serial / recipe.run_name)


def test_progress_counts_finished_runs_and_estimates_the_time_left(tmp_path, monkeypatch):
    monkeypatch.setattr("maxmincaps.studies.launch.POLL_S", 0.0)
    seen = []
    launch(grid(epochs=2)[:2], tmp_path, on_progress=seen.append)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert (seen[0].finished, seen[-1].finished, seen[-1].runs) == (0, 2, 2)
    assert any(progress.remaining_s for progress in seen if 0 < progress.fraction < 1)


def test_a_killed_worker_is_replaced_and_no_bit_differs(serial, tmp_path):
    with local_cluster(2) as client, ThreadPoolExecutor(1) as beside:
        launched = beside.submit(launch, grid(), tmp_path, client)
        kill_a_worker_in_the_middle_of_a_run(tmp_path)
        outcomes = launched.result()
    assert set(outcomes.values()) == {Outcome("complete")}
    assert bits(tmp_path) == bits(serial)


def test_a_scheduler_is_reached_by_its_address(tmp_path):
    with local_cluster(1) as workers, connect(workers.scheduler.address) as client:
        assert launch(grid(epochs=1)[:1], tmp_path, client).popitem()[1] == Outcome("complete")


def test_two_local_clusters_side_by_side_listen_on_this_machine_only():
    with local_cluster(1), local_cluster(1):
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [one.laddr for process in processes for one in process.net_connections() if one.status == "LISTEN"]
    assert listening
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_an_address_without_a_scheduler_is_refused_in_a_line(monkeypatch):
    monkeypatch.setattr("maxmincaps.studies.cluster.TIMEOUT_S", 0.5)
    with pytest.raises(InputError, match="no Dask scheduler answers") as error, connect("tcp://127.0.0.1:1"):
        pass
    assert "\n" not in str(error.value)


def test_workers_execute_the_study_file_first(tmp_path):
    file = tmp_path / "my_study.py"
    file.write_text(
        "from maxmincaps import NORMALIZATIONS, Normalization\n"
        "from maxmincaps.studies.study import Study\n"
        "NORMALIZATIONS['halved'] = Normalization(lambda logits: 0 * logits + 0.5)\n"
        "STUDY = Study(name='halved')\n"
    )
    recipe = Recipe(**{**TINY, "epochs": 1, "normalization": "halved"})
    with local_cluster(1) as client:
        [refused] = launch([recipe], tmp_path / "runs", client).values()
        [trained] = launch([recipe], tmp_path / "runs", client, modules=[str(file)]).values()
    assert (refused.status, trained.status) == ("failed", "complete")


def test_a_killed_launcher_loses_nothing_and_its_workers_end(serial, tmp_path):
    folder, log = tmp_path / "runs", tmp_path / "log"
    launcher = start_launcher(folder, 1, log)
    until(lambda: times_of_results(folder), launcher)
    children = psutil.Process(launcher.pid).children(recursive=True)
    launcher.kill()
    launcher.wait()
    assert not psutil.wait_procs(children, timeout=30)[1]
    kept = times_of_results(folder)
    assert len(kept) < len(grid())
    launch(grid(), folder)
    assert kept.items() <= times_of_results(folder).items()
    assert bits(folder) == bits(serial)


def test_two_launchers_on_one_folder_train_each_run_once(serial, tmp_path, monkeypatch):
    folder, log = tmp_path / "runs", tmp_path / "log"
    module = sys.modules["maxmincaps.training.fit"]
    monkeypatch.setattr(module, "begin_run", module.begin_run)  # undone at the end
    other = start_launcher(folder, 0, log)
    until(log.with_suffix(".ready").exists, other)
    log_trainings(log)
    outcomes = launch(grid(), folder)
    assert other.wait() == 0
    assert set(outcomes.values()) == {Outcome("complete")}
    names, processes = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert sorted(names) == sorted(recipe.run_name for recipe in grid())
    assert len(set(processes)) == 2
    assert bits(folder) == bits(serial)


def test_a_folder_in_which_a_run_is_trained_is_in_use(tmp_path):
    run = Run(tmp_path / "run")
    assert not is_in_use(run.folder)
    with run.locked():
        assert is_in_use(run.folder)
    assert not is_in_use(run.folder)


@pytest.fixture
def foreground():
    """Make Ctrl-C raise `KeyboardInterrupt`, as in the foreground of a shell; background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("foreground")
def test_ctrl_c_stops_with_a_checkpoint_and_the_next_launch_continues(serial, tmp_path, monkeypatch):
    interrupted = []

    def interrupt(progress):
        if not interrupted and begun(tmp_path):
            interrupted.append(progress)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("maxmincaps.studies.launch.POLL_S", 0.01)
    with pytest.raises(KeyboardInterrupt):
        launch(grid(), tmp_path, on_progress=interrupt)
    [stopped] = begun(tmp_path)
    assert (stopped / "checkpoint.safetensors").exists()
    launch(grid(), tmp_path)
    assert bits(tmp_path) == bits(serial)


@pytest.mark.usefixtures("foreground")
def test_ctrl_c_on_a_cluster_stops_every_run_with_a_checkpoint(serial, tmp_path):
    """A terminal sends it to the launcher and to its workers."""
    folder = tmp_path / "runs"
    launcher = start_launcher(folder, 2, tmp_path / "log")
    until(lambda: len(begun(folder)) == 2 or times_of_results(folder), launcher)
    os.killpg(launcher.pid, signal.SIGINT)
    assert launcher.wait(timeout=60) == 130
    stopped = begun(folder)
    assert all((run / "checkpoint.safetensors").exists() for run in stopped)
    launch(grid(), folder)
    assert bits(folder) == bits(serial)


def test_a_run_that_diverges_is_recorded_and_does_not_stop_the_grid(tmp_path):
    wild, calm = (Recipe(**{**TINY, "learning_rate": rate, "epochs": 1}) for rate in (1e30, 1e-3))
    outcomes = launch([wild, calm], tmp_path)
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        wild.run_name: "diverged",
        calm.run_name: "complete",
    }
    assert "not finite" in outcomes[wild.run_name].message
    assert {row.recipe.learning_rate: row.status for row in read(tmp_path).rows} == {1e30: "diverged", 1e-3: "complete"}
    assert launch([wild], tmp_path) == {wild.run_name: Outcome("diverged")}


def test_a_run_that_cannot_be_trained_does_not_stop_the_grid(tmp_path):
    wrong, right = Recipe(**{**TINY, "dataset": str(tmp_path / "nowhere")}), Recipe(**{**TINY, "epochs": 1})
    outcomes = launch([wrong, right], tmp_path)
    assert outcomes[wrong.run_name].status == "failed"
    assert "nowhere" in outcomes[wrong.run_name].message
    assert outcomes[right.run_name].status == "complete"


def test_a_run_whose_workers_all_end_is_given_up(tmp_path):
    (tmp_path / "deadly.py").write_text("import os\nos._exit(1)\n")
    with local_cluster(1) as client:
        [outcome] = launch(grid()[:1], tmp_path / "runs", client, modules=[str(tmp_path / "deadly.py")]).values()
    assert outcome.status == "failed"
    assert "KilledWorker" in outcome.message
