"""Train a grid on a Dask cluster: processes of this machine, or workers on many machines.

**Dask executes code that launcher, scheduler and workers send each other.** Whoever can connect to the scheduler can
run code on all workers. `local_cluster` listens on this machine only. Between machines, use a trusted network or TLS:
the Dask settings `distributed.comm.tls`, or `connect(address, security=distributed.Security(...))`.
"""

import logging
import os
import signal
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxmincaps.errors import InputError, import_extra
from maxmincaps.recipe import Recipe
from maxmincaps.studies.launch import POLL_S, Finish, next_free, train_run
from maxmincaps.studies.plan import Plan, ProgressReporter
from maxmincaps.studies.progress import Outcome
from maxmincaps.studies.study import load_study
from maxmincaps.training.observer import Observer

if TYPE_CHECKING:
    from distributed import Client, Event, Future

TIMEOUT_S = 10


@contextmanager
def local_cluster(workers: int) -> Iterator["Client"]:
    """Start worker processes on this machine, reachable from this machine only, and yield their client.

    Workers end with the process that started them. Dask replaces a worker that dies.
    """
    distributed = import_extra("cluster", "distributed")
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
        client.register_plugin(_interrupt_plugin())
        yield client


def _interrupt_plugin() -> Any:
    """Return a plugin by which workers ignore Ctrl-C: a terminal sends it to them too, and the launcher handles it."""
    from distributed import WorkerPlugin

    class IgnoreInterrupt(WorkerPlugin):
        name = "ignore-interrupt"

        def setup(self, worker: Any) -> None:  # noqa: ARG002
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return IgnoreInterrupt()


@contextmanager
def connect(address: str, security: Any = None) -> Iterator["Client"]:
    """Connect to a Dask scheduler and yield its client.

    Args:
        address: Such as tcp://HOST:8786, or tls://HOST:8786.
        security: A `distributed.Security` with certificates. Default: that of Dask's settings.

    Raises:
        InputError: If no scheduler answers.
    """
    distributed = import_extra("cluster", "distributed")
    try:
        client = distributed.Client(address, timeout=TIMEOUT_S, set_as_default=False, security=security)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {address}: no Dask scheduler answers there: {error}") from None
    with client:
        yield client


def threads_for(workers: int) -> int:
    """Return this machine's cores divided by the number of workers, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // workers)


def train_on_cluster(
    client: "Client", work: Plan, reporter: ProgressReporter, finish: Finish, study_file: Path | str | None = None
) -> None:
    """Train the missing runs of a plan on the workers of a cluster, as many at a time as there are worker threads.

    Dask gives the run of a worker that died to another one, which continues from the last checkpoint.
    """
    from distributed import Event, wait

    stop = Event(f"maxmincaps-stop-{uuid.uuid4().hex}", client=client)
    file = str(Path(study_file).resolve()) if study_file else None
    queue, running = deque(work.missing), {}
    with client.as_current():
        try:
            while queue or running:
                _submit(client, work, queue, running, stop, file)
                for future in _finished(running):
                    name, outcome = running.pop(future), _outcome(future)
                    if outcome.status in ("busy", "stopped"):
                        queue.append(name)
                    else:
                        finish(name, outcome)
                reporter.report()
        except KeyboardInterrupt:
            stop.set()
            wait(list(running))
            raise


def _submit(
    client: "Client", work: Plan, queue: deque[str], running: "dict[Future, str]", stop: "Event", file: str | None
) -> None:
    if client.status != "running":
        raise InputError("the connection to the Dask scheduler is lost; the same command continues")
    slots = sum(client.nthreads().values()) if queue else 0
    while len(running) < slots and (name := next_free(queue, work)) is not None:
        task = (work.recipes[name], work.folders[name], stop.name, file)
        # Not pure: a run that was stopped and is submitted again must be trained again.
        running[client.submit(_train_on_worker, *task, key=f"{name}-{uuid.uuid4().hex}", pure=False)] = name


def _finished(running: "dict[Future, str]") -> "set[Future]":
    """Wait a moment for a run that ends."""
    from distributed import wait

    if not running:
        time.sleep(POLL_S)  # no worker, or all runs are trained by other launchers
        return set()
    try:
        return set(wait(list(running), timeout=POLL_S, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return set()


def _outcome(future: "Future") -> Outcome:
    if future.cancelled():
        return Outcome("failed", "Dask cancelled the run")
    error = future.exception()
    return Outcome("failed", f"{type(error).__name__}: {error}") if error else future.result()


def _train_on_worker(recipe: Recipe, folder: Path, stop: str, study_file: str | None) -> Outcome:
    if study_file:
        load_study(study_file)
    observer = _StopOnEvent(stop)
    return Outcome("stopped") if observer.is_set() else train_run(recipe, folder, observer)


class _StopOnEvent(Observer):
    """Stops a run with a checkpoint when the launcher sets an event, or when the scheduler is gone."""

    def __init__(self, name: str) -> None:
        self.name, self.checked_at = name, time.monotonic()

    def is_set(self) -> bool:
        from distributed import Event

        return Event(self.name).is_set()

    def should_stop(self) -> bool:
        if time.monotonic() - self.checked_at < POLL_S:
            return False
        self.checked_at = time.monotonic()
        try:
            return self.is_set()
        except (OSError, TimeoutError, RuntimeError, ValueError):
            return True
