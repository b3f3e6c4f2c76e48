"""One run in progress: what it has, what it has come to, and how it is put away and taken up again."""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Self, cast

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor, nn

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import for_testing, for_training
from maxmincaps.data.batches import Batch, batch_count, batches
from maxmincaps.data.images import ImageSet, Splits, fixed_subset
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe, in_words, recipe_from
from maxmincaps.training.checkpoint import (
    CHECKPOINT,
    load_tensors,
    load_weights,
    optimizer_tensors,
    restore_optimizer,
    save_tensors,
)
from maxmincaps.training.evaluate import class_lengths
from maxmincaps.training.prepare import initial_network, optimizer_for
from maxmincaps.training.processes import Processes
from maxmincaps.training.run import Run
from maxmincaps.training.schema import EpochMetrics, WatchedStep


@dataclass
class Tally:
    """Sums over images, of one step or of an epoch so far, over all processes."""

    loss: float = 0.0
    margin: float = 0.0
    reconstruction: float = 0.0
    correct: float = 0.0
    seen: float = 0.0

    @property
    def mean_loss(self) -> float:
        """The loss of an image, on average."""
        return self.loss / max(self.seen, 1)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


@dataclass
class State:
    """How far a run has come. It goes into the checkpoint as JSON, which keeps every bit of a float."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)
    epoch: int = 0
    batch: int = 0
    step: int = 0
    skipped_steps: int = 0
    elapsed_s: float = 0.0
    tally: Tally = field(default_factory=Tally)
    history: list[EpochMetrics] = field(default_factory=list)
    watched: list[WatchedStep] = field(default_factory=list)
    best_accuracy: float = -1.0
    best_epoch: int = 0

    @classmethod
    def from_note(cls, note: Any, path: Path) -> Self:
        """Read what `asdict` wrote, or say what in it is not."""
        expected = {each.name for each in fields(cls)}
        if not isinstance(note, dict) or note.keys() != expected:
            raise InputError(f"{path}: expected a state of {', '.join(sorted(expected))}, found another")
        try:
            return TypeAdapter(cls).validate_python(note)
        except ValidationError as error:
            raise InputError(f"{path}: {in_words(error)}") from None


@dataclass
class Trainer:
    """Everything that the training loop works with."""

    processes: Processes
    recipe: Recipe
    record: Run
    splits: Splits
    network: nn.Module
    optimizer: torch.optim.Optimizer
    state: State
    averaged: CapsNet | None = None
    """The moving average of the network, if the recipe asks for one."""
    saved_at: float = field(default_factory=time.monotonic)

    @classmethod
    def prepare(cls, processes: Processes, recipe: Recipe, record: Run, splits: Splits) -> Self:
        """Build the network and its optimizer, new or as the checkpoint has them."""
        network = initial_network(recipe, splits.train)
        network, optimizer = processes.setup(network, optimizer_for(recipe, network))
        run = cls(processes, recipe, record, splits, network, optimizer, State())
        run.averaged = deepcopy(run.plain_network) if recipe.average else None
        if (record.folder / CHECKPOINT).exists():
            run.load_checkpoint()
        return run

    @property
    def plain_network(self) -> CapsNet:
        """The network itself, without what distributes it."""
        return cast(CapsNet, self.network.module)

    @property
    def evaluation_network(self) -> CapsNet:
        """The network whose answers count and whose weights are kept."""
        return self.averaged or self.plain_network

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; the last may be smaller."""
        return batch_count(len(self.splits.train), self.recipe.batch_size)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.recipe.epochs * self.steps_per_epoch

    @property
    def prepare_images(self) -> Callable[[Tensor], Tensor]:
        """What is done to images that are not trained on."""
        return for_testing(self.recipe)

    def batches(self) -> Iterator[Batch]:
        """Give the batches of this epoch that have not been trained on yet."""
        return batches(
            self.splits.train,
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
        """Give the class lengths of all images; each process looks at its share of them."""
        share = -(-len(images) // self.processes.world_size)
        # The last share is filled up with the last image, as all must be equally long to be gathered.
        first = self.processes.global_rank * share
        own = torch.arange(first, first + share, device="cpu").clamp(max=len(images) - 1)
        lengths = class_lengths(self.evaluation_network, images.take(own), self.prepare_images)
        gathered = cast(Tensor, self.processes.all_gather(lengths.to(self.processes.device)))
        return gathered.flatten(0, 1)[: len(images)].cpu()

    @property
    def selection_set(self) -> tuple[str, ImageSet]:
        """Which images decide what the best epoch is: the held-out ones, or, as in the paper, the test set."""
        if self.splits.validation:
            return "validation", self.splits.validation
        test = self.splits.test
        return "test", fixed_subset(test, self.recipe.test_images or len(test))

    def over_processes(self, *numbers: float) -> list[float]:
        """Add up each number over all processes."""
        summed = self.processes.all_reduce(torch.tensor(numbers, dtype=torch.float64, device="cpu"), reduce_op="sum")
        return cast(Tensor, summed).tolist()

    def images_in_batch(self) -> int:
        """Count the images of the batch that is next, over all processes: the last one of an epoch may be short."""
        return min(self.recipe.batch_size, len(self.splits.train) - self.state.batch * self.recipe.batch_size)

    def elapsed_s(self) -> float:
        """Give the seconds spent on this run, in all the parts that stops have divided it into."""
        return self.state.elapsed_s + time.monotonic() - self.saved_at

    def checkpoint_is_due(self) -> bool:
        """Tell whether the last checkpoint is too old to lose what came after it."""
        return time.monotonic() - self.saved_at >= self.recipe.checkpoint_seconds

    def save_checkpoint(self) -> None:
        """Put the run away, so that another process can go on from here."""
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
            save_tensors(self.record.folder / CHECKPOINT, tensors, note)

    def load_checkpoint(self) -> None:
        """Take the run up where its checkpoint left it."""
        path = self.record.folder / CHECKPOINT
        tensors, note = load_tensors(path)
        # The note has the whole recipe, as the fingerprint of that time would be another after a default has changed.
        theirs, ours = recipe_from(note.get("recipe"), str(path)).fingerprint(), self.recipe.fingerprint()
        if theirs != ours:
            raise InputError(f"{path}: is of recipe {theirs}, expected {ours}")
        load_weights(self.plain_network, _below(tensors, "network."), path, in_place=True)
        restore_optimizer(self.optimizer, _below(tensors, "optimizer."), path)
        if self.averaged:
            load_weights(self.averaged, _below(tensors, "averaged."), path, in_place=True)
        self.state = self._state_of(note.get("state"), path)

    def _state_of(self, note: Any, path: Path) -> State:
        """Read a state, and refuse one that a run of this recipe is never in: it could go on without end."""
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
        """Write the network's weights into the record."""
        if self.processes.is_global_zero:
            path = self.record.folder / f"{name}.safetensors"
            save_tensors(path, self.evaluation_network.state_dict(), {"epoch": self.state.epoch})

    def write_watched(self) -> None:
        """Write what the first steps found into the record, if they are watched."""
        if self.state.watched and self.processes.is_global_zero:
            self.record.write("steps.jsonl", self.state.watched)


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
