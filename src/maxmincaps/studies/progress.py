"""How a grid gets on, and who hears of it. The launcher tells; what to print is decided elsewhere. No torch here."""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Outcome(NamedTuple):
    """How a run on a worker ended."""

    status: Literal["complete", "diverged", "busy", "stopped", "failed"]
    """`busy`: another process trains it. `stopped`: its checkpoint is saved."""
    message: str = ""


@dataclass(frozen=True)
class Progress:
    """How far a grid is."""

    runs: int
    over: int
    """Runs that need no more work."""
    running: tuple[str, ...]
    """Runs that have begun and are not over."""
    share: float
    """Of all work, 0 to 1."""
    elapsed_s: float
    left_s: float | None
    """Seconds to go, at the speed so far. None: too early to tell."""


class LaunchObserver:
    """Hears how a grid gets on, and does nothing with it. Subclass it to draw or log; calls come from two threads."""

    def progressed(self, progress: Progress) -> None:
        """Some time has passed."""

    def finished(self, name: str, outcome: Outcome) -> None:
        """A run is over, one way or another."""

    def retried(self, name: str, reason: str) -> None:
        """A worker was lost; another takes the run up from its checkpoint."""


SILENT = LaunchObserver()
