"""From a grid of recipes to their records, on any executor. What is done is never done again; nothing is lost."""

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.studies.executors import Here
from maxmincaps.studies.progress import SILENT, LaunchObserver, Outcome, Progress
from maxmincaps.studies.study import unique
from maxmincaps.studies.worker import train_run
from maxmincaps.training.interrupt import defer_interrupt
from maxmincaps.training.run import Run, runs_under

ATTEMPTS = 4
"""How often a run is given to a worker before its deaths are taken for the run's own fault."""
LOOK_EVERY_S = 0.5
TRY_AGAIN_S = 10.0
"""Until a run that another process has is tried again: it costs reading its images. That it is over is seen at once."""


@dataclass
class Plan:
    """Which runs a grid has, where their records lie, and which are over."""

    recipes: dict[str, Recipe]
    """By the name of the record's folder."""
    folders: dict[str, Path]
    weights: Mapping[str, float] = field(default_factory=dict)
    """What a run costs, by its fingerprint, in any unit. Default: its epochs times its training images."""

    @property
    def missing(self) -> list[str]:
        """Name the runs that are not over."""
        return [name for name, folder in self.folders.items() if not is_over(folder)]

    def weight(self, name: str) -> float:
        """Tell what a run costs, compared with the others."""
        recipe = self.recipes[name]
        return self.weights.get(recipe.fingerprint(), recipe.epochs * (recipe.train_images or 60_000))

    def done_share(self, name: str) -> float:
        """Tell how much of a run is done, from its record."""
        if is_over(self.folders[name]):
            return 1.0
        try:
            epochs = (self.folders[name] / "history.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0.0
        # What comes after the last epoch is work too.
        return epochs / (self.recipes[name].epochs + 0.2)


def run_name(recipe: Recipe) -> str:
    """Return the name of a recipe's run folder."""
    return recipe.run_name


def is_over(folder: Path) -> bool:
    """Tell whether a run has ended, well or badly."""
    record = Run(folder)
    return record.complete or record.diverged


def plan(recipes: Iterable[Recipe], folder: Path | str, weights: Mapping[str, float] | None = None) -> Plan:
    """Find each recipe's record below the folder, whatever its name there; new ones are called after their recipe."""
    present = _present(Path(folder))
    named = {run_name(recipe): recipe for recipe in unique(recipes)}
    folders = {name: present.get(recipe.fingerprint()) or _free(Path(folder) / name) for name, recipe in named.items()}
    return Plan(named, folders, weights or {})


def _free(folder: Path) -> Path:
    """Number a folder whose name is taken, by a run that was called so before a default changed."""
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in chain([folder], numbered) if not Run(path).exists)


def launch(
    recipes: Iterable[Recipe],
    folder: Path | str,
    executor: Executor | None = None,
    *,
    observer: LaunchObserver = SILENT,
    weights: Mapping[str, float] | None = None,
    attempts: int = ATTEMPTS,
) -> dict[str, Outcome]:
    """Train every run of a grid that is not over, and tell how each ended.

    The executor may be any of `concurrent.futures`; by default runs are trained here, one after the other. A run that
    another launcher trains is waited for. Ctrl-C stops all runs with a checkpoint, then raises KeyboardInterrupt.
    """
    # Absolute, as a worker may stand elsewhere.
    work = plan(recipes, Path(folder).resolve(), weights)
    stop_file = Path(folder).resolve() / f".stop-{uuid.uuid4().hex}"
    with _watched(work, observer):
        return _Launch(work, executor or Here(), observer, attempts, stop_file).run()


class _Launch:
    """One launch in progress."""

    def __init__(
        self, work: Plan, executor: Executor, observer: LaunchObserver, attempts: int, stop_file: Path
    ) -> None:
        self.work, self.executor, self.observer = work, executor, observer
        self.attempts, self.stop_file = attempts, stop_file
        self.queue = deque(work.missing)
        self.tried = dict.fromkeys(work.recipes, 0)
        self.in_flight: dict[Future[Outcome], str] = {}
        self.elsewhere: dict[str, float] = {}  # runs that other processes train, and when to look at them again
        self.outcomes = {
            name: Outcome("complete" if Run(place).complete else "diverged")
            for name, place in work.folders.items()
            if name not in self.queue
        }

    def run(self) -> dict[str, Outcome]:
        """Keep the workers busy until every run is over."""
        try:
            while self.queue or self.in_flight or self.elsewhere:
                self._look_elsewhere()
                self._submit()
                for future in wait(self.in_flight, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED).done:
                    self._take(self.in_flight.pop(future), future)
                if not self.in_flight:
                    time.sleep(LOOK_EVERY_S if self.elsewhere and not self.queue else 0)
        except KeyboardInterrupt:
            self._stop()
            raise
        finally:
            with suppress(OSError):  # it is seldom there, and nobody else looks for its name
                self.stop_file.unlink()
        return self.outcomes

    def _submit(self) -> None:
        width = getattr(self.executor, "width", len(self.work.recipes))
        while self.queue and len(self.in_flight) < width:
            name = self.queue.popleft()
            # A worker that is started and not known here would not be waited for. What is done here stops by itself.
            with nullcontext() if isinstance(self.executor, Here) else defer_interrupt():
                run = self.work.recipes[name], self.work.folders[name], self.stop_file
                self.in_flight[self.executor.submit(train_run, *run)] = name

    def _take(self, name: str, future: Future[Outcome]) -> None:
        """Understand how a run came back."""
        lost = future.cancelled() or future.exception() is not None
        outcome = Outcome("stopped") if lost else future.result()
        if outcome.status == "busy":
            self.elsewhere[name] = time.monotonic() + TRY_AGAIN_S
        elif outcome.status != "stopped":
            self._close(name, outcome)
        elif isinstance(self.executor, Here) and not lost:
            raise KeyboardInterrupt
        else:
            self._try_again(name, "its worker was stopped" if not lost else _reason(future))

    def _try_again(self, name: str, reason: str) -> None:
        self.tried[name] += 1
        if self.tried[name] >= self.attempts:
            self._close(name, Outcome("failed", f"{self.attempts} workers were lost with it, the last: {reason}"))
            return
        self.observer.retried(name, reason)
        self.queue.appendleft(name)

    def _look_elsewhere(self) -> None:
        """Take up what other launchers have finished or left."""
        for name, when in list(self.elsewhere.items()):
            if is_over(self.work.folders[name]) or when <= time.monotonic():
                del self.elsewhere[name]
                self.queue.append(name)

    def _close(self, name: str, outcome: Outcome) -> None:
        self.outcomes[name] = outcome
        self.observer.finished(name, outcome)

    def _stop(self) -> None:
        """Let every run save its checkpoint. What has not begun sees the file and does not begin."""
        self.stop_file.parent.mkdir(parents=True, exist_ok=True)
        self.stop_file.touch()
        wait(self.in_flight)


def _reason(future: Future[Outcome]) -> str:
    error = None if future.cancelled() else future.exception()
    return f"{type(error).__name__}: {error}" if error else "it was cancelled"


def _present(folder: Path) -> dict[str, Path]:
    """Find the records that are there, by fingerprint; those that are over come first."""
    found: dict[str, Path] = {}
    for record in runs_under(folder):
        try:
            fingerprint = record.recipe.fingerprint()
        except InputError:
            continue  # half written or not ours
        if fingerprint not in found or not is_over(found[fingerprint]):
            found[fingerprint] = record.folder
    return found


@contextmanager
def _watched(work: Plan, observer: LaunchObserver) -> Iterator[None]:
    """Tell the observer now and then how far the records are: they say it for every worker on every machine."""
    done, started_at = threading.Event(), time.monotonic()
    weights = {name: work.weight(name) for name in work.recipes}
    total = sum(weights.values()) or 1.0

    def share_now() -> dict[str, float]:
        return {name: work.done_share(name) for name in weights}

    before = sum(weights[name] * share for name, share in share_now().items()) / total

    def look() -> None:
        shares = share_now()
        share = sum(weights[name] * part for name, part in shares.items()) / total
        elapsed = time.monotonic() - started_at
        left = elapsed * (1 - share) / (share - before) if share > before else None
        running = tuple(name for name, part in shares.items() if 0 < part < 1)
        over = sum(part == 1 for part in shares.values())
        observer.progressed(Progress(len(shares), over, running, share, elapsed, left))

    def keep_looking() -> None:
        while not done.wait(LOOK_EVERY_S):
            look()

    watcher = threading.Thread(target=keep_looking, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        look()
