"""A run in progress: its state and its checkpoint, and what it writes into its folder."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from maxmincaps.capsules.losses import longest
from maxmincaps.data.augment import for_testing, for_training
from maxmincaps.data.batches import Batch, as_float, batch_count, batches, generator_for
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import ImageSet, Splits, fixed_subset, overlapping
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe, in_words, recipe_from
from maxmincaps.training import checkpoint
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors, load_weights, save_tensors
from maxmincaps.training.environment import peak_memory_mb
from maxmincaps.training.evaluate import accuracy, class_lengths, coupling_statistics, routing_trace
from maxmincaps.training.prepare import class_weights_for, initial_network, learning_rate_at
from maxmincaps.training.processes import Processes
from maxmincaps.training.run import Run
from maxmincaps.training.schema import Environment, EpochMetrics, RunData, RunResult
from maxmincaps.training.step import Learner, Tally

COUPLED_IMAGES = 128  # training images on which statistics of the routing coefficients are measured after each epoch
TRAIN_ACCURACY_IMAGES = 10_000  # the largest number of training images that the final training accuracy is measured on


class State(BaseModel):
    """How far a run is. It is stored in the checkpoint as JSON, which keeps every bit of a float."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    epoch: int = 0
    batch: int = 0
    step: int = 0
    skipped_steps: int = 0
    elapsed_s: float = 0.0
    tally: Tally = Tally()
    history: list[EpochMetrics] = []
    best_accuracy: float = -1.0
    best_epoch: int = 0


class Trainer(Learner):
    """Everything that the training loop uses: a learner, its run folder, its images, and the state of the run.

    The network starts with new weights, with those of another network (`init_from`) or with those of the checkpoint.
    """

    def __init__(self, processes: Processes, recipe: Recipe, run: Run, splits: Splits) -> None:
        network, started = initial_network(recipe, splits.train), (run.folder / CHECKPOINT).exists()
        self.copied_layers: tuple[str, ...] = ()
        """The layers that start with the weights of another network."""
        if recipe.init_from and not started:
            self.copied_layers = checkpoint.apply_init_from(network, recipe.init_from, splits.train.classes)
        super().__init__(recipe, processes, network, class_weights_for(recipe, splits.train))
        self.run, self.splits, self.saved_at = run, splits, time.monotonic()
        self.state = State()
        if started:
            self._load_checkpoint()

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches of an epoch. The last may be smaller."""
        return batch_count(len(self.splits.train), self.recipe.batch_size)

    @property
    def steps(self) -> int:
        """The number of steps of the whole run."""
        return self.recipe.epochs * self.steps_per_epoch

    @property
    def is_out_of_patience(self) -> bool:
        """Whether early stopping ends the run: too many epochs without a better validation accuracy."""
        return 0 < self.recipe.patience <= self.state.epoch - self.state.best_epoch

    @property
    def selection_set(self) -> tuple[str, ImageSet]:
        """The images that choose the best epoch, after their name: validation or, as in the paper, test images."""
        if self.splits.validation:
            return "validation", self.splits.validation
        test = self.splits.test
        return "test", fixed_subset(test, self.recipe.test_images or len(test))

    def batches(self) -> Iterator[Batch]:
        """Return the batches of this epoch that have not been trained on yet."""
        images = self.splits.train
        if self.splits.single:
            images = overlapping(self.splits.single, generator_for(self.recipe.seed, "overlap", self.state.epoch))
        return batches(
            images,
            self.recipe.batch_size,
            seed=self.recipe.seed,
            epoch=self.state.epoch,
            device=self.processes.device,
            augment=for_training(self.recipe),
            rank=self.processes.rank,
            world=self.processes.count,
            skip=self.state.batch,
        )

    def lengths_of(self, images: ImageSet) -> Tensor:
        """Return the class lengths of all images, (image, class). Each process computes its share."""
        share = -(-len(images) // self.processes.count)
        # All shares must be equally long to be gathered, so the last one repeats the last image.
        first = self.processes.rank * share
        own = torch.arange(first, first + share, device="cpu").clamp(max=len(images) - 1)
        lengths = class_lengths(self.evaluation_network, images.take(own), for_testing(self.recipe))
        return self.processes.concatenate(lengths)[: len(images)]

    def as_tested(self, images: ImageSet) -> Tensor:
        """Return images on the device, prepared as for evaluation."""
        return for_testing(self.recipe)(as_float(images.images).to(self.processes.device))

    def elapsed_s(self) -> float:
        """Return the seconds spent on this run, including those before it was stopped and continued."""
        return self.state.elapsed_s + time.monotonic() - self.saved_at

    def save(self, name: str, tensors: dict[str, Tensor], note: dict[str, Any] | None = None) -> None:
        """Write a safetensors file into the run folder, in the first process only."""
        if self.processes.is_first:
            save_tensors(self.run.folder / f"{name}.safetensors", tensors, note)

    def save_weights(self, name: str) -> None:
        """Write the weights of the evaluation network into the run folder."""
        self.save(name, self.evaluation_network.state_dict(), {"epoch": self.state.epoch})

    def save_checkpoint(self) -> None:
        """Write the checkpoint, from which another process can continue the run."""
        self.state.elapsed_s, self.saved_at = self.elapsed_s(), time.monotonic()
        if self.processes.is_first:
            moments = checkpoint.optimizer_tensors(self.optimizer)
            parts = {"network": self.plain_network.state_dict(), "optimizer": moments}
            if self.averaged:
                parts["averaged"] = self.averaged.state_dict()
            tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
            note = {"recipe": self.recipe.model_dump(mode="json"), "state": self.state.model_dump(mode="json")}
            save_tensors(self.run.folder / CHECKPOINT, tensors, note)

    def _load_checkpoint(self) -> None:
        path = self.run.folder / CHECKPOINT
        tensors, note = load_tensors(path)

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

        # The checkpoint holds the whole recipe, because a fingerprint changes when a later version changes a default.
        theirs = recipe_from(note.get("recipe"), str(path))
        if theirs.schedule != "cosine":  # the learning rates of other schedules do not depend on the number of epochs
            theirs = theirs.with_changes(epochs=self.recipe.epochs)
        if theirs.fingerprint() != self.recipe.fingerprint():
            raise InputError(
                f"{path}: is of recipe {theirs.fingerprint()}, expected recipe {self.recipe.fingerprint()}; "
                "choose another folder"
            )
        load_weights(self.plain_network, part("network."), path, in_place=True)
        checkpoint.restore_optimizer(self.optimizer, part("optimizer."), path)
        if self.averaged:
            load_weights(self.averaged, part("averaged."), path, in_place=True)
        self.state = self._state_of(note.get("state"), path)

    def _state_of(self, note: Any, path: Path) -> State:
        """Validate a state. A state that is impossible under this recipe is refused: such a run might never end."""
        if isinstance(note, dict):
            note.pop("watched", None)  # written by earlier versions
        try:
            state = State.model_validate(note)
        except ValidationError as error:
            raise InputError(f"{path}: {in_words(error)}") from None
        at = (state.epoch, state.batch, state.step, len(state.history))
        fits = 0 <= state.epoch <= self.recipe.epochs and 0 <= state.batch <= self.steps_per_epoch
        expected = (state.epoch, state.batch, state.epoch * self.steps_per_epoch + state.batch, state.epoch)
        if not fits or at != expected:
            raise InputError(f"{path}: epoch, batch, step and lines of history are {at}, which do not fit together")
        return state


# What a run writes at the start, after each epoch and at the end. All of it can be computed again, with the same bits,
# if the run is stopped before it is written.


def begin_run(trainer: Trainer, environment: Environment) -> None:
    """Write recipe.json, environment.json and data.json."""
    run, network, train, test = trainer.run, trainer.plain_network, trainer.splits.train, trainer.splits.test
    copied = trainer.copied_layers or None
    if trainer.state.step:
        with suppress(InputError):  # the file is lost or damaged
            environment = run.environment.continued_in(environment)
        with suppress(InputError):
            copied = run.data.init_from_layers
    run.write("recipe.json", trainer.recipe.to_json())
    run.write("environment.json", environment)
    run.write(
        "data.json",
        RunData(
            name=trainer.recipe.dataset,
            dataset_path=None if trainer.recipe.dataset in DATASETS else str(Path(train.name).absolute()),
            regenerated=train.regenerated,
            images_sha256=trainer.splits.digest(),
            classes=tuple(train.classes),
            image_shape=network.image_shape,
            size_before_crop=(train.height, train.width),
            train_images=len(train),
            validation_images=len(trainer.splits.validation or []),
            test_images=len(test),
            test_images_per_epoch=0 if trainer.splits.validation else len(trainer.selection_set[1]),
            parameters=sum(parameter.numel() for parameter in network.parameters()),
            rates={group["name"]: group["rate"] for group in trainer.optimizer.param_groups},
            init_from_layers=copied,
            vote_sigma=network.digits.sigma,
        ),
    )
    if trainer.state.history:
        run.write("history.jsonl", trainer.state.history)  # the run may have been stopped before it wrote this


def end_epoch(trainer: Trainer) -> EpochMetrics:
    """Evaluate, save the weights if they are the best so far, write a checkpoint, and return the epoch's metrics."""
    state, tally = trainer.state, trainer.state.tally
    name, selection_set = trainer.selection_set
    selection_accuracy = accuracy(trainer.lengths_of(selection_set), selection_set.labels)
    state.epoch, state.batch, state.tally = state.epoch + 1, 0, Tally()
    if selection_accuracy > state.best_accuracy:
        state.best_accuracy, state.best_epoch = selection_accuracy, state.epoch
        trainer.save_weights("best")
    some_images = trainer.as_tested(trainer.splits.train.take(slice(0, COUPLED_IMAGES)))
    entropy, spread, inactive = coupling_statistics(trainer.evaluation_network, some_images)
    seconds = trainer.elapsed_s() - sum(line.seconds for line in state.history)
    line = EpochMetrics(
        epoch=state.epoch,
        train_loss=tally.mean_loss,
        margin_loss=tally.margin / tally.seen,
        reconstruction_loss=tally.reconstruction / tally.seen,
        running_train_accuracy=tally.correct / tally.seen,
        **{f"{name}_accuracy": selection_accuracy},
        learning_rate=learning_rate_at(trainer.recipe, state.step, trainer.steps),
        coupling_entropy=entropy,
        coupling_spread=spread,
        dead_children=inactive,
        skipped_steps=state.skipped_steps,
        images_per_s=len(trainer.splits.train) / seconds,
        seconds=seconds,
        peak_memory_mb=peak_memory_mb(trainer.processes.device),
    )
    state.history.append(line)
    trainer.save_checkpoint()
    if trainer.processes.is_first:
        trainer.run.write("history.jsonl", state.history)
    return line


def conclude(trainer: Trainer) -> None:
    """Evaluate the final weights, then the best ones, on the whole test set, and write result.json."""
    trainer.save_weights("last")
    test, state = trainer.splits.test, trainer.state
    some_images = fixed_subset(trainer.splits.train, TRAIN_ACCURACY_IMAGES)
    lengths = trainer.lengths_of(test)
    final_accuracy = accuracy(lengths, test.labels)
    train_accuracy = accuracy(trainer.lengths_of(some_images), some_images.labels)
    # Majority votes and tuning curves then need no weights.
    answers = {"predictions": longest(lengths, test.labels).to(torch.int16), "labels": test.labels.to(torch.int16)}
    trainer.save("lengths", {"lengths": lengths.half(), **answers})
    trainer.save("trace", _trace(trainer))
    if test.objects is not None:
        _save_separation(trainer)
    result = RunResult(
        best_test_accuracy=final_accuracy if state.best_epoch == state.epoch else _best_test_accuracy(trainer),
        best_epoch=state.best_epoch,
        best_chosen_by=trainer.selection_set[0],
        final_test_accuracy=final_accuracy,
        train_accuracy=train_accuracy,
        train_accuracy_images=len(some_images),
        best_running_train_accuracy=max(line.running_train_accuracy for line in state.history),
        epochs=state.epoch,
        steps=state.step,
        skipped_steps=state.skipped_steps,
        seconds=trainer.elapsed_s(),
    )
    if trainer.processes.is_first:
        trainer.run.write("result.json", result)
        if not trainer.recipe.keep_checkpoint or trainer.recipe.schedule == "cosine":
            with suppress(OSError):  # the run is complete in any case
                (trainer.run.folder / CHECKPOINT).unlink(missing_ok=True)


def _save_separation(trainer: Trainer) -> None:
    from maxmincaps.training.separation import SEPARATION, separation, separation_tensors  # few trainings need it

    found = separation(trainer.evaluation_network, trainer.splits.test, for_testing(trainer.recipe))
    if found:
        trainer.save(SEPARATION, separation_tensors(found))


def _best_test_accuracy(trainer: Trainer) -> float:
    """Return the test accuracy of the best epoch. It is known already if the whole test set chose that epoch."""
    if len(trainer.selection_set[1]) == len(trainer.splits.test) and trainer.selection_set[0] == "test":
        return trainer.state.best_accuracy
    trainer.processes.wait()
    path = trainer.run.folder / "best.safetensors"
    load_weights(trainer.evaluation_network, load_tensors(path)[0], path, in_place=True)
    return accuracy(trainer.lengths_of(trainer.splits.test), trainer.splits.test.labels)


def _trace(trainer: Trainer) -> dict[str, Tensor]:
    """Return logits and routing coefficients of the first training image (figures 2 to 4 of the paper)."""
    first = trainer.splits.train.take(slice(0, 1))
    active, steps = routing_trace(trainer.evaluation_network, trainer.as_tested(first)[0])
    return {
        "alive": active,
        "logits": torch.stack([step.logits[0] for step in steps]),
        "couplings": torch.stack([step.couplings[0] for step in steps]),
        "label": first.labels,
    }
