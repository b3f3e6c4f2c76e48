"""What a run adds to its record: at the start, after each epoch, at the end. All of it can be made again, with the
same bits, by a run that was stopped before it was written."""

from contextlib import suppress
from typing import Any

import torch

from maxmincaps.data.batches import as_float
from maxmincaps.data.images import ImageSet, fixed_subset
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import CHECKPOINT, load_tensors, load_weights, save_tensors
from maxmincaps.training.environment import peak_memory_mb
from maxmincaps.training.evaluate import accuracy, coupling_statistics, routing_trace
from maxmincaps.training.prepare import learning_rate_at
from maxmincaps.training.schema import Environment, EpochMetrics, RunData, RunResult
from maxmincaps.training.trainer import Tally, Trainer

COUPLED_IMAGES = 128
"""How many training images the couplings of an epoch are described by."""
TRAIN_ACCURACY_IMAGES = 10_000
"""How many training images the final training accuracy is measured on, when there are more."""


def begin_run(run: Trainer, environment: Environment) -> None:
    """Say what is trained, where, and on what images."""
    if not run.processes.is_global_zero:
        return
    run.record.write("recipe.json", run.recipe.to_json())
    run.record.write("environment.json", _with_earlier_starts(run, environment))
    train = run.splits.train
    run.record.write(
        "data.json",
        RunData(
            name=train.name,
            regenerated=train.regenerated,
            images_sha256=run.splits.digest(),
            classes=tuple(train.classes),
            image_shape=run.plain_network.image_shape,
            size_before_crop=(train.height, train.width),
            train_images=len(train),
            validation_images=len(run.splits.validation or []),
            test_images=len(run.splits.test),
            test_images_per_epoch=0 if run.splits.validation else len(run.selection_set[1]),
            parameters=sum(parameter.numel() for parameter in run.plain_network.parameters()),
            rates={group["name"]: group["rate"] for group in run.optimizer.param_groups},
            vote_sigma=run.plain_network.digits.sigma,
        ),
    )
    if run.state.history:
        _write_history(run)  # a run that was stopped after a checkpoint may not have come to it


def _with_earlier_starts(run: Trainer, now: Environment) -> Environment:
    """Keep what the record says of a run's first start; what is otherwise where it goes on is added to it."""
    if run.state.step == 0:
        return now
    try:
        first = run.record.environment
    except InputError:  # lost or damaged: what is known now is better than nothing
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


def end_epoch(run: Trainer) -> EpochMetrics:
    """Evaluate, keep the weights if they are the best so far, make a checkpoint, and give the epoch's line."""
    state, tally = run.state, run.state.tally
    name, judges = run.selection_set
    judged = accuracy(run.lengths_of(judges), judges.labels)
    state.epoch, state.batch, state.tally = state.epoch + 1, 0, Tally()
    if judged > state.best_accuracy:
        state.best_accuracy, state.best_epoch = judged, state.epoch
        run.save_weights("best")
    couplings = coupling_statistics(
        run.evaluation_network, _as_tested(run, run.splits.train.take(slice(0, COUPLED_IMAGES)))
    )
    before = sum(line.seconds for line in state.history)
    seconds = run.elapsed_s() - before
    line = EpochMetrics(
        epoch=state.epoch,
        train_loss=tally.mean_loss,
        margin_loss=tally.margin / max(tally.seen, 1),
        reconstruction_loss=tally.reconstruction / max(tally.seen, 1),
        running_train_accuracy=tally.correct / max(tally.seen, 1),
        **{f"{name}_accuracy": judged},
        learning_rate=learning_rate_at(run.recipe, state.step, run.steps),
        coupling_entropy=couplings.entropy,
        coupling_spread=couplings.spread,
        dead_children=couplings.dead_children,
        skipped_steps=state.skipped_steps,
        images_per_s=len(run.splits.train) / seconds,
        seconds=seconds,
        peak_memory_mb=peak_memory_mb(run.processes.device),
    )
    state.history.append(line)
    run.save_checkpoint()
    if run.processes.is_global_zero:
        _write_history(run)
    return line


def conclude(run: Trainer) -> None:
    """Measure the final weights on everything, then the best ones, and close the record."""
    run.save_weights("last")
    test, state = run.splits.test, run.state
    some_training_images = fixed_subset(run.splits.train, TRAIN_ACCURACY_IMAGES)
    final_lengths = run.lengths_of(test)
    final_accuracy = accuracy(final_lengths, test.labels)
    train_accuracy = accuracy(run.lengths_of(some_training_images), some_training_images.labels)
    if run.processes.is_global_zero:
        _write_lengths(run, final_lengths)
        _write_trace(run)
    result = RunResult(
        best_test_accuracy=final_accuracy if state.best_epoch == state.epoch else _best_test_accuracy(run),
        best_epoch=state.best_epoch,
        best_chosen_by=run.selection_set[0],
        final_test_accuracy=final_accuracy,
        train_accuracy=train_accuracy,
        train_accuracy_images=len(some_training_images),
        best_running_train_accuracy=max(line.running_train_accuracy for line in state.history),
        epochs=state.epoch,
        steps=state.step,
        skipped_steps=state.skipped_steps,
        seconds=run.elapsed_s(),
    )
    if run.processes.is_global_zero:
        run.record.write("result.json", result)
        with suppress(OSError):  # the record is complete all the same
            (run.record.folder / CHECKPOINT).unlink(missing_ok=True)


def _write_history(run: Trainer) -> None:
    """Write what each epoch came to, and the first steps if they are described."""
    run.record.write("history.jsonl", run.state.history)
    run.write_watched()


def _best_test_accuracy(run: Trainer) -> float:
    """Measure the weights of the best epoch on the whole test set, unless it was the whole test set that chose them."""
    if len(run.selection_set[1]) == len(run.splits.test) and run.selection_set[0] == "test":
        return run.state.best_accuracy
    run.processes.barrier()
    path = run.record.folder / "best.safetensors"
    load_weights(run.evaluation_network, load_tensors(path)[0], path, in_place=True)
    return accuracy(run.lengths_of(run.splits.test), run.splits.test.labels)


def _write_lengths(run: Trainer, lengths: torch.Tensor) -> None:
    """Keep what votes, misclassified images and tuning curves need, so that they need no weights."""
    tensors = {
        "lengths": lengths.half(),
        "predictions": lengths.argmax(dim=1).to(torch.int16),
        "labels": run.splits.test.labels.to(torch.int16),
    }
    save_tensors(run.record.folder / "lengths.safetensors", tensors)


def _write_trace(run: Trainer) -> None:
    """Keep how routing went for the first training image: figures 2 to 4 of the paper."""
    first = run.splits.train.take(slice(0, 1))
    alive, steps = routing_trace(run.evaluation_network, _as_tested(run, first)[0])
    tensors = {
        "alive": alive,
        "logits": torch.stack([step.logits[0] for step in steps]),
        "couplings": torch.stack([step.couplings[0] for step in steps]),
        "label": first.labels,
    }
    save_tensors(run.record.folder / "trace.safetensors", tensors)


def _as_tested(run: Trainer, images: ImageSet) -> torch.Tensor:
    return run.prepare_images(as_float(images.images).to(run.processes.device))
