"""Observers, which `fit` calls at each step and epoch. Printing and logging happen there, not in `fit`."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxmincaps.errors import import_extra
from maxmincaps.recipe import Recipe
from maxmincaps.training.run import history_html
from maxmincaps.training.schema import EpochMetrics

if TYPE_CHECKING:  # commands that train nothing use progress bars too, and do not wait for torch
    from torch import nn

    from maxmincaps.data.batches import Batch
    from maxmincaps.training.prepare import TrainingPlan


class Observer:
    """Base class of observers. Every method does nothing; override those that you need.

    An observer may be sent to another process before the run starts, so open files and screens in `started`.

    >>> class PrintLoss(Observer):
    ...     def stepped(self, loss: float) -> None:
    ...         print(loss)
    """

    wants_plan = False
    """Whether `planned` is called. The plan is measured, which takes a few passes through the network."""

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """Called when a run begins.

        Args:
            recipe: The settings of the run.
            steps: Steps of the whole run.
            done: Steps that were made before the run was stopped and continued.
        """

    def planned(self, plan: "TrainingPlan") -> None:
        """Called after `started` with what the training is expected to need, if `wants_plan` and the run is new."""

    def gradients_computed(self, network: "nn.Module", batch: "Batch", loss: float) -> None:
        """Called in each step when the gradients are there and finite, before the weights are updated.

        Args:
            network: The network; `parameter.grad` holds the gradients. Do not change it.
            batch: The images and labels of this process.
            loss: The mean loss over the batch.
        """

    def stepped(self, loss: float) -> None:
        """Called after each step with the mean loss over the batch."""

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Called after each epoch with its line of history.jsonl."""

    def should_stop(self) -> bool:
        """Called after each step. Return `True` to stop the run here with a checkpoint, as Ctrl-C does."""
        return self.wants_to_stop()

    def wants_to_stop(self) -> bool:
        """Return whether to stop; deprecated: override `should_stop`."""
        return False

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "wants_to_stop" in vars(cls):
            warnings.warn("Observer.wants_to_stop is now should_stop", DeprecationWarning, stacklevel=2)

    def ended(self) -> None:
        """Called when the run is over, whether it was completed, stopped or failed."""


SILENT = Observer()


def _call_each(name: str) -> Callable[..., None]:
    """Return a method that calls the method of this name of each observer."""

    def call(self: "CombinedObserver", *arguments: Any) -> None:
        for observer in self.observers:
            getattr(observer, name)(*arguments)

    return call


class CombinedObserver(Observer):
    """Passes every call on to several observers, in their order."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers
        self.wants_plan = any(observer.wants_plan for observer in observers)

    started = _call_each("started")
    gradients_computed = _call_each("gradients_computed")
    stepped = _call_each("stepped")
    epoch_ended = _call_each("epoch_ended")
    ended = _call_each("ended")

    def planned(self, plan: "TrainingPlan") -> None:
        """Pass the plan on to the observers that want one."""
        for observer in self.observers:
            if observer.wants_plan:
                observer.planned(plan)

    def should_stop(self) -> bool:
        """Return whether any observer asks to stop."""
        return any(observer.should_stop() for observer in self.observers)


class TensorBoard(Observer):
    """Writes the loss of each step and the metrics of each epoch for `tensorboard --logdir FOLDER`.

    A run that is continued goes on in the same log.
    """

    def __init__(self, folder: Path | str) -> None:
        import_extra("tensorboard", "tensorboard")
        self.folder = Path(folder)

    def started(self, recipe: Recipe, steps: int, done: int) -> None:  # noqa: ARG002
        """Open the log and write the recipe as its text."""
        from torch.utils.tensorboard import SummaryWriter

        self.step = done
        self.writer = SummaryWriter(str(self.folder), purge_step=done + 1 if done else None)
        self.writer.add_text("recipe", f"```json\n{recipe.to_json()}```", done)

    def stepped(self, loss: float) -> None:
        """Write the loss of the step."""
        self.step += 1
        self.writer.add_scalar("step/loss", loss, self.step)

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Write every metric of the epoch at its last step."""
        for name, value in metrics.model_dump(exclude_none=True).items():
            if name != "epoch":
                self.writer.add_scalar(f"epoch/{name}", value, self.step)

    def ended(self) -> None:
        """Close the log."""
        self.writer.close()


class NotebookProgress(Observer):
    """Shows a progress bar and a table of epochs under the cell of a notebook. Outside notebooks it shows nothing."""

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """Open the display."""
        self.title = f"{recipe.dataset} · {recipe.normalization}"
        self.steps, self.done, self.loss = steps, done, float("nan")
        self.lines: list[EpochMetrics] = []
        self.handle: Any = None
        with suppress(ImportError):
            from IPython.display import display  # pyrefly: ignore[missing-import]

            self.handle = display(self, display_id=True)

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
        line = f"<b>{escape(self.title)}</b><br>{bar} step {self.done} of {self.steps}, loss {self.loss:.4f}"
        return line + history_html(self.lines)

    def _redraw(self) -> None:
        if self.handle:
            self.handle.update(self)
