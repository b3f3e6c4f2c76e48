"""How the runs of a grid ended and how far they are. This module does not import torch."""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Outcome(NamedTuple):
    """How an attempt to train a run ended.

    Args:
        status: `busy`: another process trains the run. `stopped`: it was stopped, and its checkpoint is written.
        message: Why it diverged or failed.
    """

    status: Literal["complete", "diverged", "busy", "stopped", "failed"]
    message: str = ""


@dataclass(frozen=True)
class Progress:
    """How far a grid is.

    Args:
        runs: Number of runs.
        finished: Runs that are complete or have diverged.
        running: Names of the runs that have begun and are not finished.
        fraction: Fraction of all work that is done, 0 to 1.
        elapsed_s: Seconds since the launch.
        remaining_s: Estimate of the seconds left, at the speed so far. None: too early to tell.
    """

    runs: int
    finished: int
    running: tuple[str, ...]
    fraction: float
    elapsed_s: float
    remaining_s: float | None


class LaunchObserver:
    """Base class of observers of a launch. Both methods do nothing; override those that you need."""

    def progressed(self, progress: Progress) -> None:
        """Called about twice a second."""

    def finished(self, name: str, outcome: Outcome) -> None:
        """Called when a run is complete, has diverged or cannot be trained."""


SILENT = LaunchObserver()
