"""The training loop: from a recipe to a run folder.

A run may be stopped at any instant. Everything that decides its bits is a function of the recipe, the epoch and the
number of the batch, or is in the checkpoint. So a continued run ends, on a CPU, with the same bits as one that was
never stopped. (A GPU may add in another order each time.)
"""

import time
from functools import partial
from pathlib import Path

from maxmincaps.data.batches import Batch
from maxmincaps.data.images import Splits
from maxmincaps.errors import DivergedError, InputError
from maxmincaps.recipe import IDENTITY, Recipe
from maxmincaps.training.checkpoint import CHECKPOINT
from maxmincaps.training.environment import environment
from maxmincaps.training.evaluate import images_seen
from maxmincaps.training.observer import SILENT, Observer
from maxmincaps.training.prepare import check_recipe, plan_training, threads_of
from maxmincaps.training.processes import Processes, StopRequest, launch, precision_on, processes_for, stop_requests
from maxmincaps.training.run import DIVERGED, Run
from maxmincaps.training.schema import Divergence
from maxmincaps.training.trainer import Trainer, begin_run, conclude, end_epoch


def fit(recipe: Recipe, folder: Path | str, *, resume: bool = False, observer: Observer = SILENT) -> Run:
    """Train the network of a recipe and write the run into a folder.

    Args:
        recipe: Every setting of the training.
        folder: The run folder. If it holds the complete run of this recipe, that run is returned at once.
        resume: Whether to continue the run in the folder: an unfinished one, or a finished one of fewer epochs if its
            checkpoint was kept and the schedule of the learning rate does not depend on the number of epochs.
        observer: Called at every step and epoch.

    Returns:
        The complete run.

    Raises:
        InputError: If a setting or a dataset is wrong, or if the folder holds something else.
        DivergedError: If the loss or a gradient is not finite.
        KeyboardInterrupt: If the run was stopped by a signal or by the observer. Nothing is lost.

    Example:
        >>> run = fit(Recipe(epochs=1, train_images=256, conv_channels=8, types=2), "runs/first")
        >>> run.complete, run.result.steps, 0 <= run.result.best_test_accuracy <= 1
        (True, 2, True)
    """
    run = Run(Path(folder))
    _check_folder(run, recipe, resume)
    if _is_finished(run, recipe):
        return run
    images = images_seen(run, recipe=recipe)
    check_recipe(recipe, images)
    processes = processes_for(recipe)
    with run.locked(), stop_requests() as request:
        if not _is_finished(run, recipe):
            (run.folder / "result.json").unlink(missing_ok=True)  # of a run that is continued after its end
            task = partial(_train, recipe=recipe, run=run, images=images, observer=observer, request=request)
            try:
                launch(processes, task, request)
            except DivergedError as error:
                message = str(error).partition(";")[0]
                run.write(DIVERGED, Divergence(message=message, epochs_done=len(run.history)))
                raise
    if request:
        raise KeyboardInterrupt  # too late to stop this run, but not a caller's next one
    return run


def _train(
    processes: Processes, recipe: Recipe, run: Run, images: Splits, observer: Observer, request: StopRequest
) -> None:
    """Train in one of the processes: for each epoch, for each batch, make a step; evaluate; write."""
    observer = observer if processes.is_first else SILENT
    with threads_of(recipe):
        trainer = Trainer(processes, recipe, run, images)
        if processes.is_first:
            begin_run(trainer, environment(processes.device, precision_on(processes.device, recipe)))
        observer.started(recipe, trainer.steps, trainer.state.step)
        try:
            if observer.wants_plan and not trainer.state.step:
                observer.planned(plan_training(trainer.plain_network, recipe, len(images.train)))
            while trainer.state.epoch < recipe.epochs and not trainer.is_out_of_patience:
                for batch in trainer.batches():
                    observer.stepped(_step(trainer, batch, observer))
                    _save_if_due(trainer, stop=bool(request) or observer.should_stop())
                if not trainer.state.tally.seen:  # the next epoch would skip all its steps too, with the same weights
                    raise _diverged(trainer, f"no step of epoch {trainer.state.epoch + 1} had a finite loss")
                observer.epoch_ended(end_epoch(trainer))
            conclude(trainer)
        finally:
            observer.ended()


def _step(trainer: Trainer, batch: Batch, observer: Observer) -> float:
    """Make one step and return its mean loss."""
    recipe, state = trainer.recipe, trainer.state
    result = trainer.learn(
        batch.images,
        batch.labels,
        state.step,
        trainer.steps,
        targets=batch.targets,
        processes=trainer.processes,
        batch_size=min(recipe.batch_size, len(trainer.splits.train) - state.batch * recipe.batch_size),
        on_gradients=partial(observer.gradients_computed, trainer.plain_network, batch),
    )
    if result.finite:
        state.tally += result.tally
    elif recipe.non_finite == "skip":
        state.skipped_steps += 1
    else:
        where = f"epoch {state.epoch + 1}, step {state.step + 1} (loss {result.tally.mean_loss})"
        raise _diverged(trainer, f"the loss or its gradient is not finite at {where}")
    state.batch, state.step = state.batch + 1, state.step + 1
    return result.tally.mean_loss


def _save_if_due(trainer: Trainer, *, stop: bool) -> None:
    """Write a checkpoint if any process finds it due, and stop if any process is asked to."""
    due = time.monotonic() - trainer.saved_at >= trainer.recipe.checkpoint_seconds
    stops, save = trainer.processes.sum(stop, due)
    if save or stops:
        trainer.save_checkpoint()
    if stops:
        raise KeyboardInterrupt


def _diverged(trainer: Trainer, why: str) -> DivergedError:
    """Write the last good weights and return the error that ends the run."""
    trainer.save_weights("last")
    return DivergedError(f"{why}; the last good weights are in {trainer.run.folder / 'last.safetensors'}")


def _is_finished(run: Run, recipe: Recipe) -> bool:
    return run.complete and run.recipe.epochs >= recipe.epochs


def _check_folder(run: Run, recipe: Recipe, resume: bool) -> None:
    """Refuse a folder that holds something else, or a run that must not be continued."""
    if not run.exists:
        if run.folder.exists() and any(path.name[0] != "." for path in run.folder.iterdir()):
            raise InputError(f"{run.folder}: is not empty and is not a run folder; choose another folder")
        return
    theirs = run.recipe
    differences = [name for name in IDENTITY if getattr(theirs, name) != getattr(recipe, name)]
    if differences == ["epochs"] and recipe.epochs > theirs.epochs:
        before = f"{run.folder}: holds a run of {theirs.epochs} epochs, not {recipe.epochs}"
        if recipe.schedule == "cosine":
            raise InputError(
                f"{before}; it cannot be continued, as the schedule cosine has lowered its learning rate to the end; "
                "train in another folder, or with --schedule decay or constant"
            )
        if run.complete and not (run.folder / CHECKPOINT).exists():
            raise InputError(f"{before}; it was finished without --keep-checkpoint; train in another folder")
        if not resume:
            raise InputError(f"{before}; add --resume to continue it, or choose another folder")
    elif differences:
        how = ", ".join(f"{name} {getattr(theirs, name)!r}, not {getattr(recipe, name)!r}" for name in differences)
        raise InputError(f"{run.folder}: holds a run of another recipe ({how}); choose another folder")
    if run.diverged and not resume:
        raise run.missing("result.json")
    if not run.complete and not resume:
        raise InputError(f"{run.folder}: holds an unfinished run; add --resume to continue it")
