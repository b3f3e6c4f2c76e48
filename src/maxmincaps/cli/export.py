"""`maxmincaps export`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from maxmincaps.cli.predict import RunFolder, Weights
from maxmincaps.cli.terminal import console, percent
from maxmincaps.errors import InputError


def export(
    run: RunFolder,
    *,
    to: Literal["onnx", "torch", "hub", "record"] = "onnx",
    out: Path | None = None,
    couplings: Annotated[bool, Parameter(negative="")] = False,
    weights: Weights = "best",
) -> None:
    """Write a trained network for other programs, and check that it answers as before.

    ONNX and torch programs take any number of images, pixels in 0…1, and give lengths, poses and reconstruction.

    Parameters
    ----------
    to: str
        onnx, torch (an ExportedProgram), hub (a folder that `CapsNet.from_pretrained` reads, with a model card), or
        record (a copy to share: one epoch's weights in half precision, and a card).
    out: Path
        The file to write; for hub and record, the folder. Default: the run's name, here.
    couplings: bool
        Give the couplings of the last iteration too.
    """
    if couplings and to not in ("onnx", "torch"):
        raise InputError(f"--couplings is for onnx and torch programs; {to} has the whole network")
    if to == "hub":
        from maxmincaps.export.card import save_for_hub

        written = save_for_hub(run, out or Path(f"{run.resolve().name}-hub"), weights)
        console.say(f"wrote {written}: config.json, model.safetensors and README.md ({weights} weights)")
        return
    if to == "record":
        from maxmincaps.export.run_copy import save_small_record

        shared = save_small_record(run, out or Path(f"{run.resolve().name}-small"), weights)
        console.say(f"wrote {shared.folder}: {percent(shared.accuracy)} of {shared.images} test images right")
        return
    from maxmincaps.export.run import export_run

    done = export_run(run, to, out, couplings=couplings, weights=weights)
    console.say(
        f"wrote {done.path}: {done.path.stat().st_size / 1e6:.1f} MB, {', '.join(done.outputs)}\n"
        f"largest difference to torch on {done.images} test images: {done.difference:.1e}"
    )
