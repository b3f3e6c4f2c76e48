"""Train a grid on a Dask cluster: processes of this machine, or workers on many machines.

**Dask executes code that launcher, scheduler and workers send each other.** Whoever can connect to the scheduler can
run code on all workers. `local_cluster` listens on this machine only. Between machines, use a trusted network or TLS
(the Dask settings `distributed.comm.tls`).
"""

import logging
import signal
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxmincaps.errors import InputError, import_extra
from maxmincaps.recipe import Recipe
from maxmincaps.studies.launch import POLL_S, Finish, Outcome, Plan, ProgressReporter, train_run
from maxmincaps.studies.study import import_user_module
from maxmincaps.training.observer import Observer

if TYPE_CHECKING:
    import distributed
else:
    distributed = import_extra("cluster", "distributed")

TIMEOUT_S = 10


@contextmanager
def local_cluster(workers: int) -> Iterator[distributed.Client]:
    """Start worker processes on this machine, reachable from this machine only, and yield their client.

    Workers end with the process that started them. Dask replaces a worker that dies.
    """
    import dask

    # Workers may start processes of their own (Recipe.processes), which daemons may not.
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any free port: two launchers may run side by side
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(_IgnoreInterrupt())
        yield client


class _IgnoreInterrupt(distributed.WorkerPlugin):
    """Makes workers ignore Ctrl-C: a terminal sends it to them too, and the launcher handles it."""

    name = "ignore-interrupt"

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def connect(address: str) -> Iterator[distributed.Client]:
    """Connect to a Dask scheduler, such as tcp://HOST:8786 or tls://HOST:8786, and yield its client.

    Raises:
        InputError: If no scheduler answers.
    """
    try:
        client = distributed.Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {address}: no Dask scheduler answers there: {error}") from None
    with client:
        yield client


def train_on_cluster(
    client: distributed.Client,
    work: Plan,
    queue: deque[str],
    reporter: ProgressReporter,
    finish: Finish,
    modules: Sequence[str],
) -> None:
    """Train the queued runs on the workers of a cluster, as many at a time as there are worker threads.

    Dask gives the run of a worker that died to another one, which continues from the last checkpoint.
    """
    stop = distributed.Event(f"maxmincaps-stop-{uuid.uuid4().hex}", client=client)
    running: dict[distributed.Future, str] = {}
    with client.as_current():
        try:
            while queue or running:
                if client.status != "running":
                    raise InputError("the connection to the Dask scheduler is lost; the same command continues")
                while queue and len(running) < sum(client.nthreads().values()):
                    name = queue.popleft()
                    task = (work[name].recipe, work[name].folder, stop.name, modules)
                    # Not pure: a run that was stopped and is submitted again must be trained again.
                    key = f"{name}-{uuid.uuid4().hex}"
                    running[client.submit(_train_on_worker, *task, key=key, pure=False)] = name
                for future in _finished(running):
                    name, outcome = running.pop(future), _outcome(future)
                    if outcome.status in ("busy", "stopped"):
                        queue.append(name)
                        time.sleep(POLL_S)
                    else:
                        finish(name, outcome)
                reporter.report()
        except KeyboardInterrupt:
            stop.set()
            distributed.wait(list(running))
            raise


def _finished(running: dict[distributed.Future, str]) -> set[distributed.Future]:
    """Wait a moment for a run that ends."""
    if not running:
        time.sleep(POLL_S)  # there is no worker
        return set()
    try:
        return set(distributed.wait(list(running), timeout=POLL_S, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return set()


def _outcome(future: distributed.Future) -> Outcome:
    if future.cancelled():
        return Outcome("failed", "Dask cancelled the run")
    error = future.exception()
    return Outcome("failed", f"{type(error).__name__}: {error}") if error else future.result()


def _train_on_worker(recipe: Recipe, folder: Path, stop: str, modules: Sequence[str]) -> Outcome:
    for name in modules:
        import_user_module(name)
    observer = _StopOnEvent(stop)
    return Outcome("stopped") if observer.is_set() else train_run(recipe, folder, observer)


class _StopOnEvent(Observer):
    """Stops a run with a checkpoint when the launcher sets an event, or when the scheduler is gone."""

    def __init__(self, name: str) -> None:
        self.name, self.checked_at = name, time.monotonic()

    def is_set(self) -> bool:
        return distributed.Event(self.name).is_set()

    def should_stop(self) -> bool:
        if time.monotonic() - self.checked_at < POLL_S:
            return False
        self.checked_at = time.monotonic()
        try:
            return self.is_set()
        except (OSError, TimeoutError, RuntimeError, ValueError):
            return True
