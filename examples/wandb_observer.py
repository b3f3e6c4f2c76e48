"""Log a training to Weights & Biases with an observer of your own. Needs `pip install wandb`."""

import tempfile

from maxmincaps import Observer, Recipe, fit


class WandbObserver(Observer):
    """Sends the loss of each step and the metrics of each epoch."""

    def __init__(self, project):
        self.project = project

    def started(self, recipe, steps, done):  # noqa: ARG002
        import wandb

        self.step = done
        # The same id continues the same log when a stopped run is resumed.
        self.log = wandb.init(
            project=self.project, id=recipe.run_name, resume="allow", config=recipe.model_dump(mode="json")
        )

    def stepped(self, loss):
        self.step += 1
        self.log.log({"step/loss": loss}, step=self.step)

    def epoch_ended(self, metrics):
        epoch = {f"epoch/{name}": value for name, value in metrics.model_dump(exclude_none=True).items()}
        self.log.log(epoch, step=self.step)

    def ended(self):
        self.log.finish()


if __name__ == "__main__":
    small = Recipe(conv_channels=16, types=2, train_images=250, test_images=100, epochs=2, batch_size=50)
    with tempfile.TemporaryDirectory() as folder:
        run = fit(small, folder + "/run", observer=WandbObserver("maxmincaps"))
        print(f"test accuracy after epoch {run.result.epochs}: {run.result.final_test_accuracy:.1%}")
