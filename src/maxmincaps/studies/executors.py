"""Where runs go: this process, processes of this machine, or a Dask cluster. All are `concurrent.futures` executors."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from maxmincaps.errors import InputError, import_extra
from maxmincaps.studies.worker import begin_process, to_the_end


class Here(Executor):
    """Runs everything at once, in this process and thread, so that Ctrl-C reaches the run itself."""

    width = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it, and give back what is done already."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class LocalProcesses(Executor):
    """Runs things in processes of this machine, each a pool of its own: one that dies takes no other with it."""

    def __init__(self, workers: int) -> None:
        self.width = workers
        self._pools = [_one_process() for _ in range(workers)]
        self._waiting: list[list[Future[Any]]] = [[] for _ in range(workers)]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give it to the process with the least to do; a dead process is replaced."""
        self._waiting = [[future for future in line if not future.done()] for line in self._waiting]
        slot = min(range(self.width), key=lambda number: len(self._waiting[number]))
        with _deaf_at_birth():  # a pool starts its process when it is given something
            try:
                future = self._pools[slot].submit(to_the_end, fn, *args, **kwargs)
            except BrokenProcessPool:
                self._pools[slot] = _one_process()
                future = self._pools[slot].submit(to_the_end, fn, *args, **kwargs)
        self._waiting[slot].append(future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the processes end."""
        for pool in self._pools:
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Give the workers of a Dask scheduler as an executor; they must see the same folder under the same name."""
    distributed = import_extra("cluster", "distributed")
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--cluster {address}: no Dask scheduler answers there: {error}") from None
    try:
        # Not pure: a run that was stopped and is submitted again must run again.
        yield client.get_executor(pure=False)
    finally:
        client.close()


def threads_for(workers: int) -> int:
    """Divide this machine's cores among its workers."""
    return max(1, _cores() // workers)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _deaf_at_birth() -> Iterator[None]:
    """Keep Ctrl-C from the processes that are started here until they are told how to answer it (`begin_process`)."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _one_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=begin_process)
