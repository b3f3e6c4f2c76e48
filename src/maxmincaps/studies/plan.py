"""Which runs of a grid exist in a folder, and which are missing."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from filelock import FileLock, Timeout

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.progress import LaunchObserver, Progress
from maxmincaps.studies.study import unique
from maxmincaps.training.run import Run, runs_under

REPORT_EVERY_S = 0.5


@dataclass
class Plan:
    """The runs of a grid.

    Args:
        recipes: The recipe of each run, by its name.
        folders: The run folder of each run, by its name.
        weights: Cost of a run by fingerprint, in any unit. Default: epochs times training images.
    """

    recipes: dict[str, Recipe]
    folders: dict[str, Path]
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The names of the runs that are not finished."""
        return [name for name, folder in self.folders.items() if not is_finished(folder)]

    def weight(self, name: str) -> float:
        """Return the cost of a run, compared with the others."""
        recipe = self.recipes[name]
        return self.weights.get(recipe.fingerprint(), recipe.epochs * (recipe.train_images or 60_000))

    def fraction_done(self, name: str) -> float:
        """Return how much of a run is done, from its folder: workers on all machines write there."""
        if is_finished(self.folders[name]):
            return 1.0
        try:
            epochs = (self.folders[name] / "history.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0.0
        return epochs / (self.recipes[name].epochs + 0.2)  # the final evaluation takes time too


def plan(recipes: Iterable[Recipe], folder: Path | str, weights: Mapping[str, float] | None = None) -> Plan:
    """Find the run of each recipe below a folder.

    A run is identified by its recipe, whatever its folder is called. New runs are named after their recipe.
    """
    existing = _existing(Path(folder))
    named = {recipe.run_name: recipe for recipe in unique(recipes)}
    folders = {
        name: existing.get(recipe.fingerprint()) or _unused(Path(folder) / name) for name, recipe in named.items()
    }
    return Plan(named, folders, weights or {})


def is_finished(folder: Path) -> bool:
    """Return whether a run is complete or has diverged."""
    return Run(folder).complete or Run(folder).diverged


def is_in_use(folder: Path) -> bool:
    """Return whether a process is training in a run folder."""
    path = folder / ".lock"
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


def _unused(folder: Path) -> Path:
    """Number a folder name that another run has. Names stay the same when a default changes, fingerprints do not."""
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in chain([folder], numbered) if not Run(path).exists)


def _existing(folder: Path) -> dict[str, Path]:
    """Return the run folders by fingerprint. A finished run is preferred to another copy of it."""
    found: dict[str, Path] = {}
    for run in runs_under(folder):
        try:
            fingerprint = run.recipe.fingerprint()
        except InputError:
            continue  # damaged, or not a run of this package
        if fingerprint not in found or not is_finished(found[fingerprint]):
            found[fingerprint] = run.folder
    return found


class ProgressReporter:
    """Reports to an observer how far a plan is, at most twice a second.

    Args:
        work: The plan.
        observer: Called with the progress.
    """

    def __init__(self, work: Plan, observer: LaunchObserver) -> None:
        self.work, self.observer = work, observer
        self.started_at, self.reported_at = time.monotonic(), float("-inf")
        weights = {name: work.weight(name) for name in work.recipes}
        total = sum(weights.values()) or 1.0
        self.shares = {name: weight / total for name, weight in weights.items()}
        self.fraction_before = self._fraction({name: work.fraction_done(name) for name in self.shares})

    def report(self, *, now: bool = False) -> None:
        """Call the observer if the last call is long enough ago, or `now`."""
        if not now and time.monotonic() - self.reported_at < REPORT_EVERY_S:
            return
        done = {name: self.work.fraction_done(name) for name in self.shares}
        fraction, elapsed = self._fraction(done), time.monotonic() - self.started_at
        gained = fraction - self.fraction_before
        progress = Progress(
            runs=len(done),
            finished=sum(part == 1 for part in done.values()),
            running=tuple(name for name, part in done.items() if 0 < part < 1),
            fraction=fraction,
            elapsed_s=elapsed,
            remaining_s=elapsed * (1 - fraction) / gained if gained > 0 else None,
        )
        self.observer.progressed(progress)
        self.reported_at = time.monotonic()

    def _fraction(self, done: Mapping[str, float]) -> float:
        return sum(self.shares[name] * part for name, part in done.items())
