"""Train the missing runs of a grid, in this process or on a Dask cluster.

`fit` is idempotent, locked and resumable, so a launcher only submits what is missing. A process that is killed loses at
most the time since its last checkpoint, and two launchers never train the same run at the same time.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from maxmincaps.errors import DivergedError, InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.plan import Plan, ProgressReporter, is_in_use, plan
from maxmincaps.studies.progress import SILENT, LaunchObserver, Outcome
from maxmincaps.training.fit import fit
from maxmincaps.training.observer import SILENT as NO_OBSERVER
from maxmincaps.training.observer import Observer
from maxmincaps.training.run import InUseError, Run

if TYPE_CHECKING:
    from distributed import Client

POLL_S = 0.5
Finish = Callable[[str, Outcome], None]
"""Called with the name of a run and how it ended."""


def launch(
    recipes: Iterable[Recipe],
    folder: Path | str,
    client: "Client | None" = None,
    *,
    observer: LaunchObserver = SILENT,
    weights: Mapping[str, float] | None = None,
    study_file: Path | str | None = None,
) -> dict[str, Outcome]:
    """Train every run of a grid that is not finished.

    A run that another launcher trains is waited for. Ctrl-C stops all runs with a checkpoint.

    Args:
        recipes: The grid.
        folder: The folder of the runs. On a cluster, all workers must see it under the same path.
        client: A client of a Dask cluster (`maxmincaps.studies.cluster`). Default: train in this process, one run
            after the other.
        observer: Called with the progress and with each run that ends.
        weights: Cost of a run by fingerprint, for the estimate of the time left.
        study_file: A study file that workers execute first, so that a normalization which it registers is known.

    Returns:
        How each run ended, by its name.

    Raises:
        KeyboardInterrupt: If it was interrupted. All checkpoints are written then.
    """
    work = plan(recipes, Path(folder).resolve(), weights)
    missing = work.missing
    outcomes = {
        name: Outcome("complete" if Run(place).complete else "diverged")
        for name, place in work.folders.items()
        if name not in missing
    }

    def finish(name: str, outcome: Outcome) -> None:
        outcomes[name] = outcome
        observer.finished(name, outcome)

    reporter = ProgressReporter(work, observer)
    try:
        if client is None:
            _train_here(work, reporter, finish)
        else:
            from maxmincaps.studies.cluster import train_on_cluster

            train_on_cluster(client, work, reporter, finish, study_file)
    finally:
        reporter.report(now=True)
    return outcomes


def _train_here(work: Plan, reporter: ProgressReporter, finish: Finish) -> None:
    queue = deque(work.missing)
    while queue:
        name = next_free(queue, work)
        if name is None:
            time.sleep(POLL_S)
            reporter.report()
            continue
        outcome = train_run(work.recipes[name], work.folders[name], _ReportProgress(reporter))
        if outcome.status == "stopped":
            raise KeyboardInterrupt
        if outcome.status == "busy":
            queue.append(name)
        else:
            finish(name, outcome)


def next_free(queue: deque[str], work: Plan) -> str | None:
    """Remove and return the first run of a queue that no process is training."""
    name = next((name for name in queue if not is_in_use(work.folders[name])), None)
    if name is not None:
        queue.remove(name)
    return name


class _ReportProgress(Observer):
    def __init__(self, reporter: ProgressReporter) -> None:
        self.reporter = reporter

    def stepped(self, loss: float) -> None:  # noqa: ARG002
        self.reporter.report()


def train_run(recipe: Recipe, folder: Path, observer: Observer = NO_OBSERVER) -> Outcome:
    """Train a run, or continue it, and return how that ended. Errors of the run become outcomes."""
    if Run(folder).diverged:
        return Outcome("diverged")
    try:
        fit(recipe, folder, resume=True, observer=observer)
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
