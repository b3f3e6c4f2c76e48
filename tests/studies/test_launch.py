"""A grid survives what happens to grids: lost workers, lost launchers, two launchers at once, Ctrl-C, divergence."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from maxmincaps.recipe import Recipe
from maxmincaps.studies import launch as launches
from maxmincaps.studies import worker as workers
from maxmincaps.studies.executors import Here, LocalProcesses, cluster
from maxmincaps.studies.launch import launch, plan, run_name
from maxmincaps.studies.progress import LaunchObserver, Outcome
from maxmincaps.studies.table import table
from maxmincaps.training.run import Run
from tests.conftest import TINY
from tests.studies.conftest import bits, grid
from tests.studies.launcher import log_trainings

ROOT = Path(__file__).parents[2]


class Listener(LaunchObserver):
    def __init__(self):
        self.seen, self.ended, self.again = [], {}, []

    def progressed(self, progress):
        self.seen.append(progress)

    def finished(self, name, outcome):
        self.ended[name] = outcome

    def retried(self, name, reason):
        self.again.append(name)


def until(condition, process):
    """Wait for something that a process brings about."""
    while not condition():
        assert process.poll() is None, "it ended too early"
        time.sleep(0.02)


def begun(folder):
    """Runs that have made an epoch and are not over."""
    return [p.parent for p in folder.glob("*/history.jsonl") if not Run(p.parent).complete]


def kill_a_worker_in_the_middle_of_a_run(folder):
    """Stop the process that holds a run's lock, see that the run is not over, and kill it."""
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


def test_a_name_that_a_run_had_before_a_default_changed_keeps_nobody_from_training(tmp_path):
    recipe = grid()[0]
    taken = tmp_path / run_name(recipe)
    taken.mkdir()
    (taken / "recipe.json").write_text(recipe.with_changes(average=0.5).to_json())
    work = plan([recipe], tmp_path)
    assert list(work.folders.values()) == [tmp_path / f"{run_name(recipe)}-2"]
    assert work.missing


def test_what_is_done_is_not_done_again(serial):
    before, listener = times_of_results(serial), Listener()
    outcomes = launch(grid(), serial, observer=listener)
    assert set(outcomes.values()) == {Outcome("complete")}
    assert times_of_results(serial) == before
    assert listener.ended == {}
    assert listener.seen[-1].share == 1


def test_a_run_is_found_by_its_recipe_whatever_its_folder_is_called(serial, tmp_path):
    recipe = grid()[0]
    (tmp_path / "mine").mkdir()
    (serial / run_name(recipe)).rename(tmp_path / "mine" / "favourite")
    try:
        assert plan([recipe], tmp_path).missing == []
    finally:
        (tmp_path / "mine" / "favourite").rename(serial / run_name(recipe))


def test_a_killed_worker_of_a_dask_cluster_is_replaced_and_no_bit_differs(serial, tmp_path):
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as machines,
        cluster(machines.scheduler_address) as executor,
        ThreadPoolExecutor(1) as beside,
    ):
        launched = beside.submit(launch, grid(), tmp_path, executor)
        kill_a_worker_in_the_middle_of_a_run(tmp_path)
        outcomes = launched.result()
    assert set(outcomes.values()) == {Outcome("complete")}
    assert bits(tmp_path) == bits(serial)


def test_a_killed_process_of_this_machine_is_replaced_and_no_bit_differs(serial, tmp_path):
    listener = Listener()
    with LocalProcesses(1) as executor, ThreadPoolExecutor(1) as beside:
        launched = beside.submit(launch, grid(), tmp_path, executor, observer=listener)
        kill_a_worker_in_the_middle_of_a_run(tmp_path)
        outcomes = launched.result()
    assert set(outcomes.values()) == {Outcome("complete")}
    assert len(listener.again) == 1
    assert bits(tmp_path) == bits(serial)


def test_a_killed_launcher_loses_nothing_and_does_nothing_twice(serial, tmp_path):
    folder, log = tmp_path / "runs", tmp_path / "log"
    launcher = start_launcher(folder, 1, log)
    until(lambda: times_of_results(folder), launcher)
    launcher.kill()
    launcher.wait()
    kept = times_of_results(folder)
    assert len(kept) < len(grid())
    launch(grid(), folder)
    assert kept.items() <= times_of_results(folder).items()
    assert bits(folder) == bits(serial)


def test_two_launchers_on_one_folder_train_each_run_once(serial, tmp_path, monkeypatch):
    folder, log = tmp_path / "runs", tmp_path / "log"
    module = sys.modules["maxmincaps.training.fit"]
    monkeypatch.setattr(module, "begin_run", module.begin_run)  # put back at the end
    other = start_launcher(folder, 0, log)
    until(log.with_suffix(".ready").exists, other)
    log_trainings(log)
    outcomes = launch(grid(), folder)
    assert other.wait() == 0
    assert set(outcomes.values()) == {Outcome("complete")}
    names, processes = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert sorted(names) == sorted(run_name(recipe) for recipe in grid())
    assert len(set(processes)) == 2
    assert bits(folder) == bits(serial)


@pytest.fixture
def foreground():
    """Let Ctrl-C raise, as for a command in a shell's foreground; jobs in its background are started deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize("executor", [Here(), ThreadPoolExecutor(1)], ids=["here", "elsewhere"])
def test_ctrl_c_stops_with_a_checkpoint_and_the_next_launch_goes_on(executor, serial, tmp_path, monkeypatch):
    class Interrupts(LaunchObserver):
        interrupted = False

        def progressed(self, progress):
            if not self.interrupted and begun(tmp_path):
                self.interrupted = True
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(launches, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(workers, "LOOK_EVERY_S", 0.01)
    with executor, pytest.raises(KeyboardInterrupt):
        launch(grid(), tmp_path, executor, observer=Interrupts())
    [stopped] = begun(tmp_path)
    assert (stopped / "checkpoint.safetensors").exists()
    assert not list(tmp_path.glob(".stop-*"))
    launch(grid(), tmp_path)
    assert bits(tmp_path) == bits(serial)


INTERRUPTED = """
import sys
from pathlib import Path
from maxmincaps.studies.executors import LocalProcesses
from maxmincaps.studies.launch import launch
from tests.studies.conftest import grid
try:
    with LocalProcesses(2) as executor:
        launch(grid(), Path(sys.argv[1]), executor)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.usefixtures("foreground")
def test_ctrl_c_while_processes_are_starting_is_answered_by_the_launcher_alone(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "runs")]
    launcher = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True)
    until(lambda: len(starting(launcher.pid)) == 2, launcher)
    os.killpg(launcher.pid, signal.SIGINT)  # as a terminal does
    _, said = launcher.communicate()
    assert (launcher.returncode, said) == (130, "")
    assert not list((tmp_path / "runs").iterdir())


def starting(launcher):
    """The processes of a launcher whose Python has begun."""
    children = psutil.Process(launcher).children()
    return [child for child in children if any("spawn_main" in word for word in child.cmdline())]


def test_a_run_that_diverges_is_recorded_and_does_not_stop_the_grid(tmp_path):
    wild, calm = (Recipe(**{**TINY, "learning_rate": rate, "epochs": 1}) for rate in (1e30, 1e-3))
    outcomes = launch([wild, calm], tmp_path)
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        run_name(wild): "diverged",
        run_name(calm): "complete",
    }
    assert "not finite" in outcomes[run_name(wild)].message
    assert {row.recipe.learning_rate: row.status for row in table(tmp_path)} == {1e30: "diverged", 1e-3: "complete"}
    assert launch([wild], tmp_path) == {run_name(wild): Outcome("diverged")}
    why = Run(tmp_path / run_name(wild)).missing("result.json")
    assert f"the run diverged ({outcomes[run_name(wild)].message})" in str(why)


def test_a_run_that_cannot_be_trained_does_not_stop_the_grid(tmp_path):
    wrong, right = Recipe(**{**TINY, "dataset": str(tmp_path / "nowhere")}), Recipe(**{**TINY, "epochs": 1})
    outcomes = launch([wrong, right], tmp_path)
    assert outcomes[run_name(wrong)].status == "failed"
    assert "no dataset is called" in outcomes[run_name(wrong)].message
    assert outcomes[run_name(right)].status == "complete"


def test_a_run_whose_workers_all_die_is_given_up(tmp_path, monkeypatch):
    def dies(*_):
        raise RuntimeError("no such worker")

    monkeypatch.setattr(launches, "train_run", dies)
    listener = Listener()
    [outcome] = launch(grid()[:1], tmp_path, Here(), observer=listener, attempts=3).values()
    assert outcome.status == "failed"
    assert "3 workers were lost with it, the last: RuntimeError: no such worker" in outcome.message
    assert len(listener.again) == 2
