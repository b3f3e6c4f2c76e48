"""Output of the commands: progress bars, tables, bars of lengths, CSV and JSON."""

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from maxmincaps.errors import CONTROLS
from maxmincaps.files import write_atomic
from maxmincaps.recipe import Recipe
from maxmincaps.training.observer import Observer
from maxmincaps.training.schema import EpochMetrics
from maxmincaps.wording import percent, pluralize

if TYPE_CHECKING:
    from maxmincaps.training.prepare import TrainingPlan

RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Weights = Annotated[Literal["best", "last"], Parameter(help="Weights of the best epoch or of the last one.")]
Count = Annotated[int, Parameter(validator=Number(gte=1))]  # an option that takes a number of at least 1
WIDE = 200
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Terminal(Console):
    """A console that prints text literally: names from files can neither style it nor change the terminal's state."""

    def __init__(self) -> None:
        # Files and pipes have no width, so tables take what they need.
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
        super().__init__(markup=False, emoji=False, highlight=False, width=width)

    def print_line(self, line: str | Text) -> None:
        """Print a line without breaking it, so that paths and commands can be copied."""
        self.print(line, soft_wrap=True)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Convert a string to rich text without control characters."""
        return super().render_str(text.translate(CONTROLS), **settings)


console = Terminal()


def styled(*parts: str | tuple[str, str]) -> Text:
    """Join texts, some of them with a style: `styled(("✓", "green"), " done")`."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((words.translate(CONTROLS), style) for words, style in pairs))


class ProgressBar(Observer):
    """Draws a bar for the steps and a line for each epoch."""

    wants_plan = True

    def __init__(self, title: str | None = None) -> None:
        self.title = title
        self.progress: Progress | None = None

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """Open the bar; it runs in the process that trains."""
        title = self.title or f"{recipe.dataset} · {recipe.normalization}"
        length = f"{pluralize(recipe.epochs, 'epoch')} of {pluralize(steps // recipe.epochs, 'step')}"
        where = f"continued at step {done} of {steps}" if done else length
        console.print(styled((title, "bold"), f" · {where}"))
        if steps < recipe.warmup:
            few = f"{pluralize(steps, 'step')}, fewer than the {recipe.warmup} of warm-up"
            console.print(f"{few}: use more epochs or smaller batches (--epochs, --batch-size)", style="yellow")
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            *(TextColumn("left"), TimeRemainingColumn(), TextColumn("loss {task.fields[loss]}")),
        )
        self.progress = Progress(*columns, console=console, transient=True)
        self.task = self.progress.add_task("steps", total=steps, completed=done, loss="…")
        self.progress.start()

    def planned(self, plan: "TrainingPlan") -> None:
        """Print what the training is expected to need, and warnings."""
        console.print(f"  {plan.summary()}")
        for warning in plan.warnings:
            console.print(f"  {warning}", style="yellow")

    def stepped(self, loss: float) -> None:
        """Move the bar."""
        assert self.progress is not None
        self.progress.update(self.task, advance=1, loss=f"{loss:.4f}")

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Print the metrics of the epoch."""
        name = "test" if metrics.validation_accuracy is None else "validation"
        console.print(
            f"  epoch {metrics.epoch:>3}   {name} {percent(metrics.selection_accuracy):>8}   "
            f"training {percent(metrics.running_train_accuracy):>8}   loss {metrics.train_loss:.4f}   "
            f"{metrics.images_per_s:.0f} images/s"
        )

    def ended(self) -> None:
        """Remove the bar."""
        if self.progress:
            self.progress.stop()


def bar(value: float, width: int = 30) -> str:
    """Draw a number in 0…1 as a bar."""
    eighths = round(max(0.0, min(1.0, value)) * width * 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows to a file, whole or not at all, with the names of the columns in the first line.

    A spreadsheet would run text that begins with =, +, - or @ as a formula. Such text gets an apostrophe before it.
    """
    file = io.StringIO(newline="")
    columns = list(rows[0]) if rows else []
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_without_formula, columns))
    writer.writerows([_without_formula(row[name]) for name in columns] for row in rows)
    write_atomic(path, file.getvalue().encode("utf-8", "replace"))


def _without_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value


def print_json(value: Any) -> None:
    """Print a value as JSON, unbroken and without colours, for other programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_table(title: str, columns: Iterable[str], rows: Iterable[Sequence[Any]], **style: Any) -> None:
    """Print a table. Columns whose name starts with # are aligned to the right."""
    shown = Table(title=title, title_justify="left", title_style="bold", header_style="bold", **style)
    for column in columns:
        justify = "right" if column.startswith("#") else "left"
        shown.add_column(column.removeprefix("#"), justify=justify, overflow="fold")  # names are there to be copied
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    console.print(shown)
