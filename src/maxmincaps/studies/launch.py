"""Train the missing runs of a grid, in this process or on a Dask cluster.

`fit` is idempotent, locked and resumable, so a launcher only submits what is missing. A process that is killed loses at
most the time since its last checkpoint, and two launchers never train the same run at the same time.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from maxmincaps.errors import DivergedError, InputError
from maxmincaps.files import file_lock, reporting_write_errors
from maxmincaps.recipe import Recipe
from maxmincaps.studies.study import unique
from maxmincaps.training.fit import fit
from maxmincaps.training.observer import Observer
from maxmincaps.training.run import InUseError, Run, runs_under

if TYPE_CHECKING:
    from distributed import Client

POLL_S = 0.5
"""Seconds between two reports of the progress, and between two attempts to train a run that is in use elsewhere."""


class Outcome(NamedTuple):
    """How an attempt to train a run ended, and why it diverged or failed.

    The status is `complete`, `diverged`, `failed`, `busy` (another process trains the run) or `stopped` (its checkpoint
    is written).
    """

    status: str
    message: str = ""


class Progress(NamedTuple):
    """How far a grid is: numbers of runs, the part of all work that is done, and an estimate of the seconds left."""

    runs: int
    finished: int
    running: int
    fraction: float
    remaining_s: float | None


@dataclass(frozen=True)
class PlannedRun:
    """A run of a grid, its folder, and its cost compared with the others."""

    recipe: Recipe
    folder: Path
    weight: float

    @property
    def finished(self) -> bool:
        """Whether the run is complete or has diverged."""
        return Run(self.folder).status != "unfinished"

    def fraction_done(self) -> float:
        """Return how much of the run is done, from its folder: workers on all machines write there."""
        if self.finished:
            return 1.0
        try:
            epochs = (self.folder / "history.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0.0
        return epochs / (self.recipe.epochs + 0.2)  # the final evaluation takes time too


Plan = dict[str, PlannedRun]
"""The runs of a grid by their names."""
Finish = Callable[[str, Outcome], None]
"""Called with the name of a run and how it ended."""


def plan(recipes: Iterable[Recipe], folder: Path | str, weights: Mapping[str, float] | None = None) -> Plan:
    """Find the run of each recipe below a folder.

    A run is identified by its recipe, whatever its folder is called. New runs are named after their recipe. `weights`
    are costs by fingerprint. Default: epochs times training images.
    """
    existing: dict[str, Path] = {}
    for run in runs_under(Path(folder)):
        try:
            fingerprint = run.recipe.fingerprint()
        except InputError:
            continue  # damaged, or not a run of this package
        if fingerprint not in existing or Run(existing[fingerprint]).status == "unfinished":
            existing[fingerprint] = run.folder
    return {
        recipe.run_name: PlannedRun(
            recipe,
            existing.get(recipe.fingerprint()) or _unused(Path(folder) / recipe.run_name),
            (weights or {}).get(recipe.fingerprint(), recipe.epochs * (recipe.train_images or 60_000)),
        )
        for recipe in unique(recipes)
    }


def _unused(folder: Path) -> Path:
    """Return the folder, with a number added if another run has it.

    The name of a folder may state a fingerprint that its run no longer has, because a default has changed since.
    """
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in chain([folder], numbered) if not Run(path).exists)


def launch(
    recipes: Iterable[Recipe],
    folder: Path | str,
    client: "Client | None" = None,
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_finished: Finish = lambda *_: None,
    weights: Mapping[str, float] | None = None,
    modules: Sequence[str] = (),
) -> dict[str, Outcome]:
    """Train every run of a grid that is not finished.

    Runs that another launcher is training are waited for, not trained twice. Ctrl-C stops all runs with a checkpoint.

    Args:
        recipes: The grid.
        folder: The folder of the runs. On a cluster, all workers must see it under the same path.
        client: A client of a Dask cluster (`maxmincaps.studies.cluster`). Default: train in this process, one run
            after the other.
        on_progress: Called about twice a second.
        on_finished: Called when a run is complete, has diverged or cannot be trained.
        weights: Cost of a run by fingerprint, for the estimate of the time left.
        modules: Modules or .py files that workers import first, such as those that register a normalization.

    Returns:
        How each run ended, by its name.

    Raises:
        KeyboardInterrupt: If it was interrupted. All checkpoints are written then.
    """
    work = plan(recipes, Path(folder).resolve(), weights)
    outcomes = {name: Outcome(Run(run.folder).status) for name, run in work.items() if run.finished}
    queue = deque(name for name in work if name not in outcomes)

    def finish(name: str, outcome: Outcome) -> None:
        outcomes[name] = outcome
        on_finished(name, outcome)

    reporter = ProgressReporter(work, on_progress)
    try:
        if client is None:
            _train_here(work, queue, reporter, finish)
        else:
            from maxmincaps.studies.cluster import train_on_cluster

            train_on_cluster(client, work, queue, reporter, finish, modules)
    finally:
        reporter.report(now=True)
    return outcomes


def _train_here(work: Plan, queue: deque[str], reporter: "ProgressReporter", finish: Finish) -> None:
    while queue:
        name = queue.popleft()
        outcome = train_run(work[name].recipe, work[name].folder, reporter)
        if outcome.status == "stopped":
            raise KeyboardInterrupt
        if outcome.status == "busy":
            queue.append(name)
            time.sleep(POLL_S)
            reporter.report()
        else:
            finish(name, outcome)


def train_run(recipe: Recipe, folder: Path, observer: Observer) -> Outcome:
    """Train a run, or continue it, and return how that ended. Errors of the run become outcomes."""
    if Run(folder).diverged:
        return Outcome("diverged")
    try:
        if is_in_use(folder):  # before the images are read
            return Outcome("busy")
        fit(recipe, folder, resume=True, observer=observer)
    except InUseError:
        return Outcome("busy")
    except DivergedError as error:
        return Outcome("diverged", str(error).partition(";")[0])
    except KeyboardInterrupt:
        return Outcome("stopped")
    except Exception as error:
        return Outcome("failed", str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
    return Outcome("complete")


def is_in_use(folder: Path) -> bool:
    """Return whether a process is training in a run folder."""
    path = folder / ".lock"
    if not path.exists():
        return False
    try:
        with reporting_write_errors(folder), file_lock(path, 0, InUseError(f"{folder}: is in use")):
            return False
    except InUseError:
        return True


class ProgressReporter(Observer):
    """Reports how far a plan is, at most every `POLL_S` seconds."""

    def __init__(self, work: Plan, on_progress: Callable[[Progress], None]) -> None:
        self.work, self.on_progress = work, on_progress
        self.started_at, self.reported_at = time.monotonic(), float("-inf")
        self.fraction_before = 0.0
        self.fraction_before = self._progress().fraction

    def stepped(self, loss: float) -> None:  # noqa: ARG002
        """Report after a step of a run in this process."""
        self.report()

    def report(self, *, now: bool = False) -> None:
        """Report if the last report is long enough ago, or `now`."""
        if now or time.monotonic() - self.reported_at >= POLL_S:
            self.on_progress(self._progress())
            self.reported_at = time.monotonic()

    def _progress(self) -> Progress:
        done = {name: run.fraction_done() for name, run in self.work.items()}
        total = sum(run.weight for run in self.work.values()) or 1.0
        fraction = sum(self.work[name].weight * part for name, part in done.items()) / total
        gained, elapsed = fraction - self.fraction_before, time.monotonic() - self.started_at
        return Progress(
            runs=len(done),
            finished=sum(part == 1 for part in done.values()),
            running=sum(0 < part < 1 for part in done.values()),
            fraction=fraction,
            remaining_s=elapsed * (1 - fraction) / gained if gained > 0 else None,
        )
