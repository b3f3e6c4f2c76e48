"""A download's progress bar, in the form that pooch asks for."""

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn


class DownloadBar:
    """Progress bar of one file on standard error, shown on a terminal only."""

    def __init__(self, name: str) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task(name, total=None)
        self.total = 0

    def update(self, count: int) -> None:
        """Count bytes that have arrived."""
        self._progress.start()
        self._progress.update(self._task, advance=count, total=self.total)

    def reset(self) -> None:
        """Return to zero bytes; pooch calls this before its last update."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()
