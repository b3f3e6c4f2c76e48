"""`maxmincaps export`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from maxmincaps.cli.predict import RunFolder, Weights
from maxmincaps.cli.terminal import console
from maxmincaps.errors import InputError


def export(
    run: RunFolder,
    *,
    to: Literal["onnx", "torch", "hub", "run", "record"] = "onnx",
    out: Path | None = None,
    couplings: Annotated[bool, Parameter(negative="")] = False,
    weights: Weights = "best",
    dataset: str | None = None,
    tolerance: float = 1e-4,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a trained network for other programs, and check that its outputs agree with torch's.

    ONNX and torch programs take any number of images, pixels in 0…1, and return lengths, poses and reconstruction.

    Parameters
    ----------
    to: str
        onnx, torch (an ExportedProgram), hub (a folder that `CapsNet.from_pretrained` reads, with a model card), or
        run (a small copy to share: one epoch's weights in half precision, and a model card; `record` is its old name).
    out: Path
        The file to write; for hub and run, the folder. Default: the run's name, here.
    couplings: bool
        Return the couplings of the last iteration too (onnx and torch).
    dataset: str
        Where the run's own images are now. Without them the check uses random images.
    tolerance: float
        Largest difference to torch that is accepted (onnx and torch). Couplings of a child whose logits have a range
        below 0.01 may differ by more, in proportion to 1 / range, as Max-Min divides by the range.
    overwrite: bool
        Replace an existing file (onnx and torch).
    """
    made = " in a new folder" if out and not out.parent.exists() else ""
    if couplings and to not in ("onnx", "torch"):
        raise InputError(f"--couplings is for onnx and torch programs; {to} has the whole network")
    if to == "hub":
        from maxmincaps.export.card import save_for_hub

        written = save_for_hub(run, out or Path(f"{run.resolve().name}-hub"), weights)
        names = ", ".join(sorted(path.name for path in written.iterdir()))
        console.print_line(f"wrote {written}{made}: {names} ({weights} weights)")
        return
    if to in ("run", "record"):
        from maxmincaps.export.run_copy import save_small_run

        small = save_small_run(run, out or Path(f"{run.resolve().name}-small"), weights, dataset)
        console.print_line(f"wrote {small.folder}{made}: {small.checked} ({weights} weights)")
        return
    from maxmincaps.export.run import export_run

    how = {"couplings": couplings, "weights": weights, "dataset": dataset}
    done = export_run(run, to, out, **how, tolerance=tolerance, overwrite=overwrite)
    differences = ", ".join(f"{name} {difference:.1e}" for name, difference in done.differences.items())
    console.print_line(
        f"wrote {done.path}{made}: {done.path.stat().st_size / 1e6:.1f} MB ({weights} weights)\n"
        f"largest difference to torch on {done.images} {done.checked_on}: {differences}"
    )
    if done.differences.get("couplings", 0) > tolerance:
        console.print_line("couplings above the tolerance are of children whose logits have a range below 0.01")
