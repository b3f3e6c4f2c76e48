"""Who looks on while a network is trained. The loop tells; what to print is decided elsewhere."""

from maxmincaps.recipe import Recipe
from maxmincaps.training.schema import EpochMetrics


class Observer:
    """Hears of every step and epoch, and does nothing with it. Subclass it to print, plot or log.

    It may be sent to another process before the run starts, so open files and screens in `started`.
    """

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """A run of `steps` steps begins; `done` of them lie in an earlier, stopped part of it."""

    def stepped(self, loss: float) -> None:
        """A step has been made."""

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """An epoch has been made; `metrics` is its line in the history."""

    def should_stop(self) -> bool:
        """Asked before every step: `True` stops the run after it, as Ctrl-C does, with a checkpoint."""
        return False

    def ended(self) -> None:
        """The run is over, whether it was completed, stopped or broken off."""


class CombinedObserver(Observer):
    """Several onlookers as one."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.started(recipe, steps, done)

    def stepped(self, loss: float) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.stepped(loss)

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.epoch_ended(metrics)

    def should_stop(self) -> bool:
        """Stop if any of them wants to."""
        return any(observer.should_stop() for observer in self.observers)

    def ended(self) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.ended()


SILENT = Observer()
