"""What a training writes into its run folder at the start, after each epoch and at the end.

All of it can be computed again, with the same bits, if the run was stopped before it was written.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from maxmincaps.capsules.losses import longest
from maxmincaps.data.batches import as_float
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import ImageSet, fixed_subset
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors, load_weights, save_tensors
from maxmincaps.training.environment import peak_memory_mb
from maxmincaps.training.evaluate import accuracy, coupling_statistics, routing_trace
from maxmincaps.training.prepare import learning_rate_at
from maxmincaps.training.schema import Environment, EpochMetrics, RunData, RunResult
from maxmincaps.training.step import Tally
from maxmincaps.training.trainer import Trainer

COUPLED_IMAGES = 128
"""The number of training images that the routing coefficients of an epoch are described by."""
TRAIN_ACCURACY_IMAGES = 10_000
"""The largest number of training images that the final training accuracy is measured on."""


def begin_run(trainer: Trainer, environment: Environment) -> None:
    """Write recipe.json, environment.json and data.json."""
    if not trainer.processes.is_global_zero:
        return
    trainer.run.write("recipe.json", trainer.recipe.to_json())
    trainer.run.write("environment.json", _with_earlier_starts(trainer, environment))
    train = trainer.splits.train
    trainer.run.write(
        "data.json",
        RunData(
            name=trainer.recipe.dataset,
            dataset_path=None if trainer.recipe.dataset in DATASETS else str(Path(train.name).absolute()),
            regenerated=train.regenerated,
            images_sha256=trainer.splits.digest(),
            classes=tuple(train.classes),
            image_shape=trainer.plain_network.image_shape,
            size_before_crop=(train.height, train.width),
            train_images=len(train),
            validation_images=len(trainer.splits.validation or []),
            test_images=len(trainer.splits.test),
            test_images_per_epoch=0 if trainer.splits.validation else len(trainer.selection_set[1]),
            parameters=sum(parameter.numel() for parameter in trainer.plain_network.parameters()),
            rates={group["name"]: group["rate"] for group in trainer.optimizer.param_groups},
            init_from_layers=_copied_layers(trainer),
            vote_sigma=trainer.plain_network.digits.sigma,
        ),
    )
    if trainer.state.history:
        trainer.run.write("history.jsonl", trainer.state.history)  # the run may have been stopped before it wrote this


def _copied_layers(trainer: Trainer) -> tuple[str, ...] | None:
    if trainer.state.step:
        with suppress(InputError):  # the file is lost or damaged
            return trainer.run.data.init_from_layers
    return trainer.copied_layers or None


def _with_earlier_starts(trainer: Trainer, now: Environment) -> Environment:
    """Return the environment of the run's first start, with what is different now added to `continued`."""
    if trainer.state.step == 0:
        return now
    try:
        first = trainer.run.environment
    except InputError:  # the file is lost or damaged
        return now
    before: dict[str, Any] = {}
    for part in (first.model_dump(exclude={"continued"}), *first.continued):
        before |= part
    changed = {
        name: value
        for name, value in now.model_dump(exclude={"continued"}).items()
        if name != "started_at" and before.get(name) != value
    }
    if not changed:
        return first
    return first.model_copy(update={"continued": (*first.continued, {"started_at": now.started_at, **changed})})


def end_epoch(trainer: Trainer) -> EpochMetrics:
    """Evaluate, save the weights if they are the best so far, write a checkpoint, and return the epoch's metrics."""
    state, tally = trainer.state, trainer.state.tally
    name, selection_set = trainer.selection_set
    selection_accuracy = accuracy(trainer.lengths_of(selection_set), selection_set.labels)
    state.epoch, state.batch, state.tally = state.epoch + 1, 0, Tally()
    if selection_accuracy > state.best_accuracy:
        state.best_accuracy, state.best_epoch = selection_accuracy, state.epoch
        trainer.save_weights("best")
    couplings = coupling_statistics(
        trainer.evaluation_network, _as_tested(trainer, trainer.splits.train.take(slice(0, COUPLED_IMAGES)))
    )
    before = sum(line.seconds for line in state.history)
    seconds = trainer.elapsed_s() - before
    line = EpochMetrics(
        epoch=state.epoch,
        train_loss=tally.mean_loss,
        margin_loss=tally.margin / max(tally.seen, 1),
        reconstruction_loss=tally.reconstruction / max(tally.seen, 1),
        running_train_accuracy=tally.correct / max(tally.seen, 1),
        **{f"{name}_accuracy": selection_accuracy},
        learning_rate=learning_rate_at(trainer.recipe, state.step, trainer.steps),
        coupling_entropy=couplings.entropy,
        coupling_spread=couplings.spread,
        dead_children=couplings.inactive_children,
        skipped_steps=state.skipped_steps,
        images_per_s=len(trainer.splits.train) / seconds,
        seconds=seconds,
        peak_memory_mb=peak_memory_mb(trainer.processes.device),
    )
    state.history.append(line)
    trainer.save_checkpoint()
    if trainer.processes.is_global_zero:
        trainer.run.write("history.jsonl", state.history)
    return line


def conclude(trainer: Trainer) -> None:
    """Evaluate the final weights, then the best ones, on the whole test set, and write result.json."""
    trainer.save_weights("last")
    test, state = trainer.splits.test, trainer.state
    some_training_images = fixed_subset(trainer.splits.train, TRAIN_ACCURACY_IMAGES)
    final_lengths = trainer.lengths_of(test)
    final_accuracy = accuracy(final_lengths, test.labels)
    train_accuracy = accuracy(trainer.lengths_of(some_training_images), some_training_images.labels)
    if trainer.processes.is_global_zero:
        _write_lengths(trainer, final_lengths)
        _write_trace(trainer)
    result = RunResult(
        best_test_accuracy=final_accuracy if state.best_epoch == state.epoch else _best_test_accuracy(trainer),
        best_epoch=state.best_epoch,
        best_chosen_by=trainer.selection_set[0],
        final_test_accuracy=final_accuracy,
        train_accuracy=train_accuracy,
        train_accuracy_images=len(some_training_images),
        best_running_train_accuracy=max(line.running_train_accuracy for line in state.history),
        epochs=state.epoch,
        steps=state.step,
        skipped_steps=state.skipped_steps,
        seconds=trainer.elapsed_s(),
    )
    if trainer.processes.is_global_zero:
        trainer.run.write("result.json", result)
        if not trainer.recipe.keep_checkpoint or trainer.recipe.schedule == "cosine":
            with suppress(OSError):  # the run is complete in any case
                (trainer.run.folder / CHECKPOINT).unlink(missing_ok=True)


def _best_test_accuracy(trainer: Trainer) -> float:
    """Return the test accuracy of the best epoch. It is known already if the whole test set chose that epoch."""
    if len(trainer.selection_set[1]) == len(trainer.splits.test) and trainer.selection_set[0] == "test":
        return trainer.state.best_accuracy
    trainer.processes.barrier()
    path = trainer.run.folder / "best.safetensors"
    load_weights(trainer.evaluation_network, load_tensors(path)[0], path, in_place=True)
    return accuracy(trainer.lengths_of(trainer.splits.test), trainer.splits.test.labels)


def _write_lengths(trainer: Trainer, lengths: torch.Tensor) -> None:
    """Write the class lengths of all test images: majority votes and tuning curves then need no weights."""
    labels = trainer.splits.test.labels
    tensors = {
        "lengths": lengths.half(),
        "predictions": longest(lengths, labels).to(torch.int16),
        "labels": labels.to(torch.int16),
    }
    save_tensors(trainer.run.folder / "lengths.safetensors", tensors)


def _write_trace(trainer: Trainer) -> None:
    """Write logits and routing coefficients of the first training image (figures 2 to 4 of the paper)."""
    first = trainer.splits.train.take(slice(0, 1))
    active, steps = routing_trace(trainer.evaluation_network, _as_tested(trainer, first)[0])
    tensors = {
        "alive": active,
        "logits": torch.stack([step.logits[0] for step in steps]),
        "couplings": torch.stack([step.couplings[0] for step in steps]),
        "label": first.labels,
    }
    save_tensors(trainer.run.folder / "trace.safetensors", tensors)


def _as_tested(trainer: Trainer, images: ImageSet) -> torch.Tensor:
    return trainer.prepare_images(as_float(images.images).to(trainer.processes.device))
