"""`maxmincaps train` and `maxmincaps quickstart`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from maxmincaps.cli.terminal import ProgressBar, console, percent, print_table
from maxmincaps.errors import InputError
from maxmincaps.recipe import DataSettings, MachineSettings, NetworkSettings, TrainingSettings, recipe_from, settings_in
from maxmincaps.training.fit import fit
from maxmincaps.training.observer import CombinedObserver, TensorBoard
from maxmincaps.training.run import Run
from maxmincaps.wording import duration, pluralize


def _flags(title: str, order: int) -> Parameter:
    return Parameter(name="*", group=Group(title, sort_key=order))


def train(
    *,
    out: Path | None = None,
    resume: bool = False,
    recipe: Path | None = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    tensorboard: Path | None = None,
    average: Annotated[float | None, Parameter(show=False)] = None,
    pace: Annotated[str | None, Parameter(show=False)] = None,
    data: Annotated[DataSettings | None, _flags("Data", 1)] = None,
    network: Annotated[NetworkSettings | None, _flags("Network", 2)] = None,
    training: Annotated[TrainingSettings | None, _flags("Training", 3)] = None,
    machine: Annotated[MachineSettings | None, _flags("Machine", 4)] = None,
) -> None:
    """Train a network and write a run folder: recipe, history, weights, result.

    The paper's network with Max-Min on 4,000 embedded digits: `maxmincaps train`. The same with Softmax on MNIST:
    `maxmincaps train --dataset mnist --normalization softmax`.

    Args:
        out: The run folder. Default: runs/NAME, with a name made from the recipe.
        resume: Continue the run in --out with its own recipe: an unfinished run, or, with more --epochs, a finished
            one (under the schedules decay and constant).
        recipe: Read settings from a .json or .toml file, or from a recipe of the package by name (`maxmincaps recipe`
            lists them). Flags override it.
        quiet: Print the result only.
        tensorboard: Write the losses and the metrics of each epoch into this folder, for `tensorboard --logdir`.
        average: Old name of --ema-decay.
        pace: Old name of --layer-rates.
    """
    observers = [*([] if quiet else [ProgressBar()]), *([TensorBoard(tensorboard)] if tensorboard else [])]
    old_flags = {name: value for name, value in (("average", average), ("pace", pace)) if value is not None}
    groups = [group for group in (data, network, training, machine) if group]
    flags = old_flags | {name: getattr(group, name) for group in groups for name in group.model_fields_set}
    if resume and out and Run(out).exists:
        if recipe:
            raise InputError("--resume uses the recipe of the run; leave --recipe out")
        wanted = recipe_from({**Run(out).recipe.model_dump(), **flags}, "train")
    else:
        settings = settings_in(recipe) if recipe else {}
        wanted = recipe_from({"keep_checkpoint": True, **settings, **flags}, str(recipe or "train"))
    folder = out or Path("runs") / wanted.run_name
    if resume and not Run(folder).exists:
        raise InputError(f"{folder}: there is no run to resume; leave --resume out to start one")
    finished = Run(folder).complete and Run(folder).result
    try:
        run = fit(wanted, folder, resume=resume, observer=CombinedObserver(*observers))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_stopped(Run(folder))) from None
    if finished == run.result:
        console.print_line(f"{folder}: was finished before; nothing was trained")
    _show_results([run])


def quickstart(*, out: Path = Path("quickstart"), epochs: int = 5, batch_size: int = 50, seed: int = 0) -> None:
    """Train the paper's network with Max-Min and with Softmax on 4,000 real digits, and compare them.

    Args:
        out: Folder for the runs and figures. Unfinished runs in it are continued.
        epochs: Passes over the 4,000 training digits.
        batch_size: Images per step.
        seed: Seed of initial weights and order of images. On a CPU, the same seed gives the same bits.
    """
    from maxmincaps.report.build import build  # imported first: if its extra is missing, nothing is trained

    recipe = recipe_from({"epochs": epochs, "batch_size": batch_size, "seed": seed}, "quickstart")
    console.print("The paper's network, 8,215,568 parameters, on 4,000 digits; tested on 1,000 others\n", style="bold")
    try:
        runs = [
            fit(recipe.with_changes(normalization=name), out / name, resume=True, observer=ProgressBar(name))
            for name in ("max-min", "softmax")
        ]
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped, nothing is lost; the same command continues") from None
    _show_results(runs)
    page = build(out, out / "report")
    # The command as it was called, so that each line can be copied.
    module = Path(sys.argv[0]).name == "__main__.py"
    command = shlex.join([sys.executable, "-m", "maxmincaps"] if module else [sys.argv[0]])
    console.print_line(
        f"""
Look at {page}: couplings, lengths, tuning curves and errors of both networks.
Next, if you like:
  {command} app {out}/max-min                     draw a digit and watch it being routed
  {command} predict FILE.png --run {out}/max-min  classify an image of your own
  {command} train --dataset mnist                      all 60,000 digits
  {command} train --dataset path/to/folder             your own images, one subfolder per class
  {command} study list                                 the paper's tables and figures"""
    )


def _stopped(run: Run) -> str:
    """Return how far a stopped run is, and the command that continues it."""
    if run.complete:
        return f"stopped; the run was at its end, and {run.folder} is complete"
    if not run.exists:
        return "stopped before the run began; the same command starts it"
    again = f"maxmincaps train --out {shlex.quote(str(run.folder))} --resume"
    return f"stopped, nothing is lost; continue with: {again}"


def _show_results(runs: list[Run]) -> None:
    chosen_by = " or ".join(sorted({run.result.best_chosen_by for run in runs}))
    rows = []
    for run in runs:
        recipe, result = run.recipe, run.result
        best = f"{percent(result.best_test_accuracy)}, epoch {result.best_epoch}"
        others = (percent(result.final_test_accuracy), percent(result.train_accuracy))
        rows.append((recipe.dataset, recipe.normalization, best, *others, result.epochs, duration(result.seconds)))
    title = f"Test accuracy (best epoch chosen by {chosen_by} images)"
    print_table(title, ("dataset", "normalization", "#best", "#final", "#training", "#epochs", "#time"), rows)
    for run in runs:
        if run.data.init_from_layers:
            console.print_line(f"started from {run.recipe.init_from}: {', '.join(run.data.init_from_layers)}")
        if run.result.epochs < run.recipe.epochs:
            waited = pluralize(run.recipe.patience, "epoch")
            console.print_line(f"stopped early: no better validation accuracy for {waited}")
        console.print_line(f"run: {run.folder}")
