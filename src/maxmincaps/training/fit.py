"""From a recipe to a record: the training loop.

A run may be stopped at any instant. Everything that decides its bits is a function of the recipe, the epoch and the
number of the batch, or lies in the checkpoint; so the run that continues ends, on a CPU, with the same bits as one that
was never stopped. (A GPU may add in another order each time.)
"""

import math
from functools import partial
from pathlib import Path

import torch

from maxmincaps.data.batches import Batch
from maxmincaps.data.images import Splits, splits
from maxmincaps.errors import DivergedError, InputError
from maxmincaps.recipe import IDENTITY, Recipe
from maxmincaps.training.average import update_ema
from maxmincaps.training.environment import environment
from maxmincaps.training.interrupt import StopRequest, stop_requests
from maxmincaps.training.observer import SILENT, Observer
from maxmincaps.training.prepare import check_network, losses_for, set_learning_rate, threads_of
from maxmincaps.training.processes import Processes, launch, precision_on, processes_for
from maxmincaps.training.results import begin_run, conclude, end_epoch
from maxmincaps.training.run import DIVERGED, Run
from maxmincaps.training.run_images import refuse_other_images
from maxmincaps.training.schema import Divergence
from maxmincaps.training.trainer import Tally, Trainer
from maxmincaps.training.watch import describe


def fit(recipe: Recipe, folder: Path | str, *, resume: bool = False, observer: Observer = SILENT) -> Run:
    """Train what the recipe says and leave a record in `folder`; a complete record of the same recipe is given back.

    An unfinished run there is continued if `resume` says so, and is left alone otherwise.
    """
    record = Run(Path(folder))
    _refuse_another_run(record, recipe, resume)
    if record.complete:
        return record
    # All that can be wrong with a recipe shows here, before anything is written.
    images = splits(recipe)
    check_network(recipe, images.train)
    _refuse_small_batches(recipe, len(images.train))
    refuse_other_images(record, images)
    processes = processes_for(recipe)
    with record.locked(), stop_requests() as request:
        if not record.complete:
            task = partial(_train, recipe=recipe, record=record, images=images, observer=observer, request=request)
            try:
                launch(processes, task, request)
            except DivergedError as error:
                message = str(error).partition(";")[0]
                record.write(DIVERGED, Divergence(message=message, epochs_done=len(record.history)))
                raise
    if request:
        raise KeyboardInterrupt  # too late to stop this run, and in time for whatever would come next
    return record


def _train(
    processes: Processes, recipe: Recipe, record: Run, images: Splits, observer: Observer, request: StopRequest
) -> None:
    """Prepare; for each epoch, for each batch, make a step; add to the record; close."""
    observer = observer if processes.is_global_zero else SILENT
    with threads_of(recipe):
        run = Trainer.prepare(processes, recipe, record, images)
        begin_run(run, environment(processes.device, precision_on(processes.device, recipe)))
        observer.started(recipe, run.steps, run.state.step)
        try:
            while run.state.epoch < recipe.epochs:
                for batch in run.batches():
                    observer.stepped(_step(run, batch, stop=bool(request) or observer.should_stop()))
                if not run.state.tally.seen:  # nor will the next epoch's be, with the same weights
                    raise _diverged(run, f"no step of epoch {run.state.epoch + 1} had a finite loss and gradient")
                observer.epoch_ended(end_epoch(run))
            conclude(run)
        finally:
            observer.ended()


def _step(run: Trainer, batch: Batch, *, stop: bool) -> float:
    """Make one step of Adam, then a checkpoint if one is due or any process is to stop; give the loss."""
    recipe, state = run.recipe, run.state
    set_learning_rate(run.optimizer, recipe, state.step, run.steps)
    tally, finite, stops, save = _backward(run, batch, stop=stop)
    if finite:
        if state.step < recipe.watch:
            told = {"step": state.step + 1, "loss": tally.mean_loss}
            state.watched.append(describe(run.plain_network, batch.images, **told))
        run.optimizer.step()
        if run.averaged:
            update_ema(run.averaged, run.plain_network, recipe.average, state.step)
        state.tally += tally
    elif recipe.non_finite == "skip":
        state.skipped_steps += 1
    else:
        where = f"epoch {state.epoch + 1}, step {state.step + 1} (loss {tally.mean_loss})"
        raise _diverged(run, f"the loss or its gradient is not finite at {where}")
    run.optimizer.zero_grad(set_to_none=True)
    state.batch, state.step = state.batch + 1, state.step + 1
    if save or stops:
        run.save_checkpoint()
    if stops:
        raise KeyboardInterrupt
    return tally.mean_loss


def _backward(run: Trainer, batch: Batch, *, stop: bool) -> tuple[Tally, bool, bool, bool]:
    """Make the gradients of a batch; give its tally, and whether all is finite, to be stopped, or due to be saved."""
    run.network.train()
    output = run.network(batch.images, batch.labels)
    losses = losses_for(run.recipe, output, batch.images, batch.labels)
    here = len(batch)
    # The mean over the processes is then the mean over the whole batch, even where they share it unevenly.
    run.processes.backward(losses.total * (here * run.processes.world_size / run.images_in_batch()))
    right = (output.lengths.argmax(dim=1) == batch.labels).sum()
    gradients = [parameter.grad for parameter in run.network.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    found = torch.stack([losses.total, losses.margin, losses.reconstruction, right, norm])
    *means, correct, length = found.tolist()  # all in one go, with all work begun: a device is waited for once
    *sums, stops, save = run.over_processes(
        *(here * mean for mean in means),
        correct,
        here,
        stop,
        run.checkpoint_is_due(),
    )
    tally = Tally(*sums)
    return tally, math.isfinite(tally.loss) and math.isfinite(length), bool(stops), bool(save)


def _diverged(run: Trainer, why: str) -> DivergedError:
    """Put away what was good, and say why the run ends."""
    run.save_weights("last")
    run.write_watched()
    return DivergedError(f"{why}; the last good weights are in {run.record.folder / 'last.safetensors'}")


def _refuse_another_run(record: Run, recipe: Recipe, resume: bool) -> None:
    if not record.exists:
        if record.folder.exists() and any(path.name[0] != "." for path in record.folder.iterdir()):
            raise InputError(f"{record.folder}: is not empty and is not the record of a run; choose another folder")
        return
    if differences := _differences(record.recipe, recipe):
        raise InputError(f"{record.folder}: holds a run of another recipe ({differences}); choose another folder")
    if record.diverged and not resume:
        raise record.missing("result.json")
    if not record.complete and not resume:
        raise InputError(f"{record.folder}: holds an unfinished run; add --resume to continue it")


def _refuse_small_batches(recipe: Recipe, images: int) -> None:
    smallest = images % recipe.batch_size or recipe.batch_size
    if smallest < recipe.processes:
        raise InputError(
            f"the last batch of an epoch has {smallest} of {images} images, too few for {recipe.processes} processes; "
            f"choose another batch size than {recipe.batch_size}"
        )


def _differences(theirs: Recipe, ours: Recipe) -> str:
    pairs = ((name, getattr(theirs, name), getattr(ours, name)) for name in IDENTITY)
    return ", ".join(f"{name} {before!r}, not {after!r}" for name, before, after in pairs if before != after)
