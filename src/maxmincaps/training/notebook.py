"""A run that is watched in a notebook: one bar and one table, redrawn in place."""

from html import escape
from typing import Any

from maxmincaps.recipe import Recipe
from maxmincaps.training.observer import Observer
from maxmincaps.training.run import history_html
from maxmincaps.training.schema import EpochMetrics


class NotebookProgress(Observer):
    """Shows a bar and a row for each epoch under the cell. Outside notebooks it draws nothing, and nothing fails."""

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """Open the display."""
        self.title = f"{recipe.dataset} · {recipe.normalization}"
        self.steps, self.done, self.loss = steps, done, float("nan")
        self.lines: list[EpochMetrics] = []
        self.handle = self._opened()

    def stepped(self, loss: float) -> None:
        """Move the bar, a hundred times over the whole run."""
        self.done, self.loss = self.done + 1, loss
        if self.done % max(1, self.steps // 100) == 0:
            self._redraw()

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Add a row."""
        self.lines.append(metrics)
        self._redraw()

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done}" max="{self.steps}" style="width: 20em"></progress>'
        return (
            f"<b>{escape(self.title)}</b><br>{bar} step {self.done} of {self.steps}, loss {self.loss:.4f}"
            + history_html(self.lines)
        )

    def _opened(self) -> Any:
        try:
            from IPython.display import display  # pyrefly: ignore[missing-import]
        except ImportError:
            return None
        return display(self, display_id=True)

    def _redraw(self) -> None:
        if self.handle:
            self.handle.update(self)
