"""The progress bar of `maxmincaps study run`."""

from datetime import timedelta

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from maxmincaps.cli.terminal import console
from maxmincaps.studies.progress import LaunchObserver, Outcome
from maxmincaps.studies.progress import Progress as GridProgress


class LaunchBar(LaunchObserver):
    """Draws one bar for all runs, and prints a line for each run that ends."""

    def __enter__(self) -> "LaunchBar":
        self.bar = Progress(
            TextColumn("{task.fields[finished]} runs"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}   {task.fields[running]}"),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=1.0, finished="…", left="…", running="")
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def progressed(self, progress: GridProgress) -> None:
        """Move the bar."""
        left = "…" if progress.remaining_s is None else str(timedelta(seconds=round(progress.remaining_s)))
        running = f"{len(progress.running)} running" if progress.running else ""
        finished = f"{progress.finished} of {progress.runs}"
        self.bar.update(self.task, completed=progress.fraction, finished=finished, left=left, running=running)

    def finished(self, name: str, outcome: Outcome) -> None:
        """Print how the run ended."""
        console.print_line(f"{name}  {outcome.status}  {outcome.message}")
