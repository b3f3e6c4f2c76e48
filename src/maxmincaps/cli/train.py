"""`maxmincaps train` and `maxmincaps quickstart`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from maxmincaps.cli.terminal import ProgressBar, console, percent, table
from maxmincaps.errors import InputError
from maxmincaps.recipe import (
    DataSettings,
    MachineSettings,
    NetworkSettings,
    TrainingSettings,
    recipe_from,
    settings_in,
)
from maxmincaps.studies.launch import run_name
from maxmincaps.training.fit import fit
from maxmincaps.training.observer import CombinedObserver
from maxmincaps.training.run import Run
from maxmincaps.training.tensorboard import TensorBoard


def _flags(title: str, order: int) -> Parameter:
    return Parameter(name="*", group=Group(title, sort_key=order))


def train(
    *,
    out: Path | None = None,
    resume: bool = False,
    recipe: Path | None = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    tensorboard: Path | None = None,
    data: Annotated[DataSettings | None, _flags("Data", 1)] = None,
    network: Annotated[NetworkSettings | None, _flags("Network", 2)] = None,
    training: Annotated[TrainingSettings | None, _flags("Training", 3)] = None,
    machine: Annotated[MachineSettings | None, _flags("Machine", 4)] = None,
) -> None:
    """Train a network and leave a record: recipe, history, weights, result.

    The paper's network with Max-Min on 4,000 embedded digits: `maxmincaps train`. The same with Softmax on MNIST:
    `maxmincaps train --dataset mnist --normalization softmax`.

    Parameters
    ----------
    out: Path
        Folder for the record. Default: runs/, then a name made from the recipe.
    resume: bool
        Continue the unfinished run in --out, with its own recipe.
    recipe: Path
        Read settings from a .json or .toml file, or from one of ours by name (`maxmincaps recipe` lists them); flags
        come on top of it.
    quiet: bool
        Print the result only.
    tensorboard: Path
        Write the losses and the figures of each epoch into this folder, for `tensorboard --logdir`.
    """
    onlookers = [*([] if quiet else [ProgressBar()]), *([TensorBoard(tensorboard)] if tensorboard else [])]
    flags = _given(data, network, training, machine)
    if resume and out and Run(out).exists:
        if recipe:
            raise InputError("--resume takes the recipe of the record; leave --recipe out")
        wanted = Run(out).recipe.with_changes(**flags)
    else:
        wanted = recipe_from({**(settings_in(recipe) if recipe else {}), **flags}, str(recipe or "train"))
    folder = out or Path("runs") / run_name(wanted)
    if resume and not Run(folder).exists:
        raise InputError(f"{folder}: there is no run to resume; leave --resume out to start one")
    finished = Run(folder).complete
    try:
        record = fit(wanted, folder, resume=resume, observer=CombinedObserver(*onlookers))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_stopped(Run(folder))) from None
    if finished:
        console.say(f"{folder}: was finished before; nothing was trained")
    _show_results([record])


def quickstart(*, out: Path = Path("quickstart"), epochs: int = 5, batch_size: int = 50, seed: int = 0) -> None:
    """Train the paper's network with Max-Min and with Softmax on 4,000 real digits, and compare them.

    Parameters
    ----------
    out: Path
        Folder for the records and figures. Unfinished runs in it are continued.
    epochs: int
        Passes over the 4,000 training digits.
    batch_size: int
        Images per step.
    seed: int
        The same seed gives the same bits, on a CPU.
    """
    from maxmincaps.report.build import build  # first, as it needs an extra, which is said before anything is trained

    recipe = recipe_from({"epochs": epochs, "batch_size": batch_size, "seed": seed}, "quickstart")
    console.print("The paper's network, 8,215,568 parameters, on 4,000 digits; tested on 1,000 others\n", style="bold")
    try:
        records = [
            fit(
                recipe.with_changes(normalization=normalization),
                out / normalization,
                resume=True,
                observer=ProgressBar(normalization),
            )
            for normalization in ("max-min", "softmax")
        ]
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped, nothing is lost; the same command goes on") from None
    _show_results(records)
    page = build(out, out / "report")
    # As it was called, so that each line can be copied.
    module = Path(sys.argv[0]).name == "__main__.py"
    command = shlex.join([sys.executable, "-m", "maxmincaps"] if module else [sys.argv[0]])
    console.say(
        f"""
Look at {page}: couplings, lengths, tuning curves and errors of both networks.
Next, if you like:
  {command} app {out}/max-min                     draw a digit and watch it being routed
  {command} predict FILE.png --run {out}/max-min  classify an image of your own
  {command} train --dataset mnist                      all 60,000 digits
  {command} train --dataset path/to/folder             your own images, one subfolder per class
  {command} study list                                 the paper's tables and figures"""
    )


def _stopped(record: Run) -> str:
    """Say what a stopped run has come to, and how to go on."""
    if record.complete:
        return f"stopped; the run was at its end, and {record.folder} is complete"
    if not record.exists:
        return "stopped before the run began; the same command starts it"
    again = f"maxmincaps train --out {shlex.quote(str(record.folder))} --resume"
    return f"stopped, nothing is lost; go on with: {again}"


def _given(*parts: Any) -> dict[str, Any]:
    """Collect the settings that were named on the command line."""
    return {name: getattr(part, name) for part in parts if part for name in part.model_fields_set}


def _show_results(records: list[Run]) -> None:
    judges = " or ".join(sorted({record.result.best_chosen_by for record in records}))
    title = f"Test accuracy (best epoch by {judges} images)"
    shown = table(title, "dataset", "normalization", "#best", "#final", "#training", "#epochs", "#time")
    for record in records:
        recipe, result = record.recipe, record.result
        shown.add_row(
            recipe.dataset,
            recipe.normalization,
            f"{percent(result.best_test_accuracy)}, {result.best_epoch}",
            percent(result.final_test_accuracy),
            percent(result.train_accuracy),
            str(result.epochs),
            f"{result.seconds / 60:.1f} min",
        )
    console.print(shown)
    for record in records:
        console.say(f"record: {record.folder}")
