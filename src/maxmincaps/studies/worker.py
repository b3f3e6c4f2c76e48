"""What a worker does, wherever it is: one run, from wherever it was left, until it is over or somebody stops it."""

import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from maxmincaps.errors import DivergedError, InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.progress import Outcome
from maxmincaps.training.fit import fit
from maxmincaps.training.observer import Observer
from maxmincaps.training.run import InUseError, Run

LOOK_EVERY_S = 0.2
_at_work = threading.Lock()


class Obedient(Observer):
    """Stops a run when the launcher's stop file appears, or when the process that started this one is gone."""

    def __init__(self, stop_file: Path) -> None:
        self.stop_file, self.looked_at = stop_file, 0.0

    def should_stop(self) -> bool:
        """Look at the file now and then: a shared folder may be slow."""
        if time.monotonic() - self.looked_at < LOOK_EVERY_S:
            return False
        self.looked_at = time.monotonic()
        return self.stop_file.exists() or is_orphan()


def train_run(recipe: Recipe, folder: Path, stop_file: Path) -> Outcome:
    """Train a run to its end, or tell why not. A run's own errors are outcomes: what is raised means a lost worker."""
    if stop_file.exists():
        return Outcome("stopped")
    if Run(folder).diverged:
        return Outcome("diverged")
    try:
        fit(recipe, folder, resume=True, observer=Obedient(stop_file))
    except InUseError:
        return Outcome("busy")
    except DivergedError as error:
        return Outcome("diverged", str(error).partition(";")[0])
    except KeyboardInterrupt:
        return Outcome("stopped")
    except InputError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("complete")


def to_the_end(task: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Do a task, and keep this process alive until it is done, even if its parent is gone."""
    with _at_work:
        return task(*args, **kwargs)


def is_orphan() -> bool:
    """Tell whether the process that started this one is gone."""
    parent = parent_process()
    return parent is not None and not parent.is_alive()


def begin_process() -> None:
    """Prepare a process for runs: Ctrl-C is the launcher's to answer, and without a launcher there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # it was held back until here; a run listens to it by itself
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    # An idle process of a pool whose owner was killed would wait for work for ever.
    parent = parent_process()
    if parent is not None:
        parent.join()
        with _at_work:
            os._exit(0)
