"""TensorBoard as an onlooker: the loss of every step and the figures of every epoch."""

from pathlib import Path

from maxmincaps.errors import import_extra
from maxmincaps.recipe import Recipe
from maxmincaps.training.observer import Observer
from maxmincaps.training.schema import EpochMetrics


class TensorBoard(Observer):
    """Writes a run for `tensorboard --logdir FOLDER`. A run that is continued goes on where it stopped."""

    def __init__(self, folder: Path | str) -> None:
        import_extra("tensorboard", "tensorboard")
        self.folder = Path(folder)

    def started(self, recipe: Recipe, steps: int, done: int) -> None:  # noqa: ARG002
        """Open the log, with the recipe as its text."""
        from torch.utils.tensorboard import SummaryWriter

        self.step = done
        self.writer = SummaryWriter(str(self.folder), purge_step=done + 1 if done else None)
        self.writer.add_text("recipe", f"```json\n{recipe.to_json()}```", done)

    def stepped(self, loss: float) -> None:
        """Write the loss of the step."""
        self.step += 1
        self.writer.add_scalar("step/loss", loss, self.step)

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Write every figure of the epoch's line, over the steps."""
        for name, value in metrics.model_dump(exclude_none=True).items():
            if name != "epoch":
                self.writer.add_scalar(f"epoch/{name}", value, self.step)

    def ended(self) -> None:
        """Close the log."""
        self.writer.close()
