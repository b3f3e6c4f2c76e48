"""The state of a run in progress, and its checkpoint."""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor, nn

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import for_testing, for_training
from maxmincaps.data.batches import Batch, batch_count, batches, generator_for
from maxmincaps.data.images import ImageSet, Splits, fixed_subset, overlapping
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe, in_words, recipe_from
from maxmincaps.training.checkpoint import (
    CHECKPOINT,
    apply_init_from,
    load_tensors,
    load_weights,
    optimizer_tensors,
    restore_optimizer,
    save_tensors,
)
from maxmincaps.training.evaluate import class_lengths
from maxmincaps.training.prepare import class_weights_for, initial_network, losses_for, optimizer_for
from maxmincaps.training.processes import Processes
from maxmincaps.training.run import Run
from maxmincaps.training.schema import EpochMetrics
from maxmincaps.training.step import ComputeLosses, Tally


@dataclass
class State:
    """How far a run is. It is stored in the checkpoint as JSON, which keeps every bit of a float."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)
    epoch: int = 0
    batch: int = 0
    step: int = 0
    skipped_steps: int = 0
    elapsed_s: float = 0.0
    tally: Tally = field(default_factory=Tally)
    history: list[EpochMetrics] = field(default_factory=list)
    best_accuracy: float = -1.0
    best_epoch: int = 0

    @classmethod
    def from_note(cls, note: Any, path: Path) -> Self:
        """Validate the JSON of a state.

        Raises:
            InputError: If a field is missing, unknown or wrong. The message names the file.
        """
        expected = {each.name for each in fields(cls)}
        if isinstance(note, dict):
            note = {name: value for name, value in note.items() if name != "watched"}  # written by earlier versions
        if not isinstance(note, dict) or note.keys() != expected:
            raise InputError(f"{path}: expected a state of {', '.join(sorted(expected))}, found another")
        try:
            return TypeAdapter(cls).validate_python(note)
        except ValidationError as error:
            raise InputError(f"{path}: {in_words(error)}") from None


@dataclass
class Trainer:
    """Everything that the training loop uses."""

    processes: Processes
    recipe: Recipe
    run: Run
    splits: Splits
    network: nn.Module
    optimizer: torch.optim.Optimizer
    compute_losses: ComputeLosses
    state: State
    averaged: CapsNet | None = None
    """The network with the EMA of the weights, if the recipe asks for one."""
    copied_layers: tuple[str, ...] = ()
    """The layers that start with the weights of another network (`init_from`)."""
    saved_at: float = field(default_factory=time.monotonic)

    @classmethod
    def prepare(cls, processes: Processes, recipe: Recipe, run: Run, splits: Splits) -> Self:
        """Build the network and its optimizer, with new weights or with those of the checkpoint."""
        network, copied = initial_network(recipe, splits.train), ()
        if recipe.init_from and not (run.folder / CHECKPOINT).exists():
            copied = apply_init_from(network, recipe.init_from, splits.train.classes)
        network, optimizer = processes.setup(network, optimizer_for(recipe, network))
        losses = partial(losses_for, recipe, class_weights=class_weights_for(recipe, splits.train))
        trainer = cls(processes, recipe, run, splits, network, optimizer, losses, State(), copied_layers=copied)
        trainer.averaged = deepcopy(trainer.plain_network) if recipe.ema_decay else None
        if (run.folder / CHECKPOINT).exists():
            trainer.load_checkpoint()
        return trainer

    @property
    def plain_network(self) -> CapsNet:
        """The network itself, without the wrapper of autocast or of several processes."""
        return cast(CapsNet, self.network.module)

    @property
    def evaluation_network(self) -> CapsNet:
        """The network that is evaluated and whose weights are saved."""
        return self.averaged or self.plain_network

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
    def prepare_images(self) -> Callable[[Tensor], Tensor]:
        """The preprocessing of images that are not trained on."""
        return for_testing(self.recipe)

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
            rank=self.processes.global_rank,
            world=self.processes.world_size,
            skip=self.state.batch,
        )

    def lengths_of(self, images: ImageSet) -> Tensor:
        """Return the class lengths of all images, (image, class). Each process computes its share."""
        share = -(-len(images) // self.processes.world_size)
        # All shares must be equally long to be gathered, so the last one repeats the last image.
        first = self.processes.global_rank * share
        own = torch.arange(first, first + share, device="cpu").clamp(max=len(images) - 1)
        lengths = class_lengths(self.evaluation_network, images.take(own), self.prepare_images)
        gathered = cast(Tensor, self.processes.all_gather(lengths.to(self.processes.device)))
        return gathered.flatten(0, 1)[: len(images)].cpu()

    @property
    def selection_set(self) -> tuple[str, ImageSet]:
        """The images that choose the best epoch, after their name: validation or, as in the paper, test images."""
        if self.splits.validation:
            return "validation", self.splits.validation
        test = self.splits.test
        return "test", fixed_subset(test, self.recipe.test_images or len(test))

    def images_in_batch(self) -> int:
        """Return the number of images of the next batch over all processes. The last batch of an epoch may be short."""
        return min(self.recipe.batch_size, len(self.splits.train) - self.state.batch * self.recipe.batch_size)

    def elapsed_s(self) -> float:
        """Return the seconds spent on this run, including those before it was stopped and continued."""
        return self.state.elapsed_s + time.monotonic() - self.saved_at

    def checkpoint_is_due(self) -> bool:
        """Return whether `checkpoint_seconds` have passed since the last checkpoint."""
        return time.monotonic() - self.saved_at >= self.recipe.checkpoint_seconds

    def save_checkpoint(self) -> None:
        """Write the checkpoint, from which another process can continue the run."""
        self.state.elapsed_s, self.saved_at = self.elapsed_s(), time.monotonic()
        if self.processes.is_global_zero:
            parts = {"network": self.plain_network.state_dict(), "optimizer": optimizer_tensors(self.optimizer)}
            if self.averaged:
                parts["averaged"] = self.averaged.state_dict()
            tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
            note = {
                "recipe": self.recipe.model_dump(mode="json"),
                "state": TypeAdapter(State).dump_python(self.state, mode="json"),
            }
            save_tensors(self.run.folder / CHECKPOINT, tensors, note)

    def load_checkpoint(self) -> None:
        """Load weights, optimizer and state from the checkpoint."""
        path = self.run.folder / CHECKPOINT
        tensors, note = load_tensors(path)
        # The checkpoint holds the whole recipe, because a fingerprint changes when a later version changes a default.
        theirs = recipe_from(note.get("recipe"), str(path))
        if theirs.schedule != "cosine":  # the learning rates of other schedules do not depend on the number of epochs
            theirs = theirs.with_changes(epochs=self.recipe.epochs)
        if theirs.fingerprint() != self.recipe.fingerprint():
            raise InputError(f"{path}: is of recipe {theirs.fingerprint()}, expected {self.recipe.fingerprint()}")
        load_weights(self.plain_network, _below(tensors, "network."), path, in_place=True)
        restore_optimizer(self.optimizer, _below(tensors, "optimizer."), path)
        if self.averaged:
            load_weights(self.averaged, _below(tensors, "averaged."), path, in_place=True)
        self.state = self._state_of(note.get("state"), path)

    def _state_of(self, note: Any, path: Path) -> State:
        """Validate a state. One that a run of this recipe is never in is refused, because it might never end."""
        state = State.from_note(note, path)
        at = (state.epoch, state.batch, state.step, len(state.history))
        epochs, steps = self.recipe.epochs, self.steps_per_epoch
        if (
            not (0 <= state.epoch <= epochs and 0 <= state.batch <= steps)
            or state.step != state.epoch * steps + state.batch
            or len(state.history) != state.epoch
        ):
            raise InputError(f"{path}: epoch, batch, step and lines of history are {at}, which do not fit together")
        return state

    def save_weights(self, name: str) -> None:
        """Write the weights of the evaluation network into the run folder."""
        if self.processes.is_global_zero:
            path = self.run.folder / f"{name}.safetensors"
            save_tensors(path, self.evaluation_network.state_dict(), {"epoch": self.state.epoch})


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
