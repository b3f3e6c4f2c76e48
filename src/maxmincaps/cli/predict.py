"""`maxmincaps predict`, `evaluate`, `verify` and `export`: use and check a trained network."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from maxmincaps.analysis.responses import class_scores, confusion
from maxmincaps.cli.terminal import Count, RunFolder, Weights, bar, console, print_json, print_table, styled, write_csv
from maxmincaps.errors import InputError
from maxmincaps.training.predict import Prediction, Predictor, image_files
from maxmincaps.training.responses import Responses, evaluate_run, verify_run
from maxmincaps.training.run import SHIPPED_RUN
from maxmincaps.wording import percent

Json = Annotated[bool, Parameter(negative="", help="Print JSON instead of tables.")]
MOST_CLASSES = 30  # a confusion matrix of more classes does not fit on a screen


def evaluate(
    run: RunFolder,
    *,
    weights: Weights = "best",
    dataset: str | None = None,
    json: Json = False,
    csv: Path | None = None,
) -> None:
    """Evaluate a run's network on its whole test set, or on other images with the same classes.

    Prints accuracy, precision and recall of each class, and the confusion matrix.

    Args:
        dataset: A dataset's name, a folder with one subfolder per class, or an .npz file. Default: the run's own test
            set. All images of a folder are used, unless it has train/ and test/.
        csv: Write number of images, precision, recall and F1 of each class to this file.
    """
    found = evaluate_run(run, weights, dataset)
    images, accuracy = len(found.labels), 1 - len(found.wrong) / len(found.labels)
    scores = [score._asdict() for score in class_scores(found)]
    rows: list[dict[str, Any]] = [{"class": found.classes[score.pop("label")], **score} for score in scores]
    if csv:
        write_csv(csv, rows)
    if json:
        facts = {"run": str(run), "weights": weights, "dataset": dataset, "images": images, "accuracy": accuracy}
        counts = None if found.labels.dim() > 1 else confusion(found).tolist()
        print_json({**facts, "classes": rows, "confusion": counts})
        return
    where = f"images of {dataset}" if dataset else "test images"
    console.print_line(f"{percent(accuracy)} of {images} {where} ({weights} weights of {run})")
    if csv:
        console.print_line(f"{len(rows)} rows in {csv}")
        return
    columns = ("class", "#images", "#precision", "#recall", "#F1")
    cells = [(name, count, *map(percent, others)) for name, count, *others in (row.values() for row in rows)]
    print_table("Classes", columns, cells)
    if found.labels.dim() == 1:  # of several classes for each image there is none
        print_confusion(found)


def print_confusion(found: Responses) -> None:
    """Print the confusion matrix, if it fits on a screen."""
    if len(found.classes) > MOST_CLASSES:
        console.print_line(f"the confusion matrix of {len(found.classes)} classes is in --json")
        return
    title = "Confusion matrix: true class by row, predicted class by column"
    lines = zip(found.classes, confusion(found).tolist(), strict=True)
    rows = [(name, *(count or "·" for count in counts)) for name, counts in lines]
    print_table(title, ("", *(f"#{name}" for name in found.classes)), rows)


def predict(
    images: list[Path],
    *,
    run: Path | None = None,
    weights: Weights = "best",
    invert: Annotated[bool, Parameter(name=("--invert", "--swap"), negative="")] = False,
    top: Count | None = None,
    json: Json = False,
    csv: Path | None = None,
) -> None:
    """Classify image files. They are resized to what the network takes, in grey or colour as it was trained.

    An image that is not square keeps its proportions: the empty ends of its longer side are cut, and its shorter side
    is padded with the colour of its border. For a network trained on your own images, it is stretched as in training.

    The output is the length of each class capsule, between 0 and 1. It is a score, not a probability.

    Args:
        images: Image files of any common format, or folders of them.
        run: A run folder. Default: the digit network that comes with the package.
        invert: Exchange light and dark first. Use it for dark strokes on light paper, because MNIST has light strokes
            on dark ground.
        top: Predict the N classes with the longest capsules. Default: 2 if the network was trained on images of two
            overlapping objects, else 1.
        csv: Write file, class and lengths to this file.
    """
    predictor = Predictor.of(run or SHIPPED_RUN, weights)
    found = [predictor.predict(path, invert=invert, top=top) for path in image_files(images)]
    network = f"{weights} weights of {run or 'the network that comes with the package'}"
    if csv:
        write_csv(csv, [{"file": one.path, "class": " ".join(one.present), **one.lengths} for one in found])
    if json:
        fields = ("path", "predicted", "present", "lengths")
        print_json([{name: getattr(one, name) for name in fields} | {"weights": weights} for one in found])
    elif csv:
        console.print_line(f"{len(found)} rows in {csv} ({network})")
    else:
        for one in found:
            _print_prediction(one, predictor.recipe.margin_low)
        console.print_line(f"\n{network}")


def _print_prediction(found: Prediction, margin: float) -> None:
    verdict: tuple[Any, ...] = ("  is  ", (" and ".join(found.present), "bold green"))
    if found.predicted is None:
        verdict = ("  is not recognised: ", (f"no length reaches {margin}", "yellow"))
    console.print_line(styled("\n", (found.path, "bold"), *verdict))
    width = max(len(name) for name in found.lengths)
    for name, length in found.lengths.items():
        console.print(f"  {name:>{width}}  {length:.2f}  {bar(length)}")
    if found.looks_inverted:
        console.print("  mostly light: if its strokes are dark, add --invert", style="yellow")


def verify(run: RunFolder, *, dataset: str | None = None) -> None:
    """Check that a run folder is complete and undamaged, and that its weights reproduce the stated accuracies.

    Args:
        dataset: Path of the run's own images. Default: where they were when it was trained.
    """
    for line in verify_run(run, dataset):
        console.print(styled(("✓", "green"), f" {line}"))


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

    Args:
        to: onnx, torch (an ExportedProgram), hub (a folder that `CapsNet.from_pretrained` reads, with a model card),
            or run (a small copy to share: one epoch's weights in half precision, and a model card; `record` is its
            old name).
        out: The file to write; for hub and run, the folder. Default: the run's name, in the current folder.
        couplings: Return the routing coefficients (couplings) of the last iteration too (onnx and torch).
        dataset: Path of the run's own images, if they were moved. If they are not found, the check uses random images.
        tolerance: Largest accepted difference from torch (onnx and torch). Couplings of a child whose logits have a
            range below 0.01 may differ by more, in proportion to 1 / range, because Max-Min divides by the range.
        overwrite: Replace an existing file (onnx and torch).
    """
    made = " in a new folder" if out and not out.parent.exists() else ""
    if couplings and to not in ("onnx", "torch"):
        raise InputError(f"--couplings is for onnx and torch programs; leave it out, as {to} has the whole network")
    if to == "hub":
        from maxmincaps.export.card import save_for_hub

        written = save_for_hub(run, out or Path(f"{run.resolve().name}-hub"), weights)
        names = ", ".join(sorted(path.name for path in written.iterdir()))
        console.print_line(f"wrote {written}{made}: {names} ({weights} weights)")
    elif to in ("run", "record"):
        from maxmincaps.export.card import save_small_run

        small = save_small_run(run, out or Path(f"{run.resolve().name}-small"), weights, dataset)
        console.print_line(f"wrote {small.folder}{made}: {small.checked} ({weights} weights)")
    else:
        from maxmincaps.export.program import export_run

        how = {"couplings": couplings, "weights": weights, "dataset": dataset}
        done = export_run(run, to, out, **how, tolerance=tolerance, overwrite=overwrite)
        differences = ", ".join(f"{name} {difference:.1e}" for name, difference in done.differences.items())
        console.print_line(
            f"wrote {done.path}{made}: {done.path.stat().st_size / 1e6:.1f} MB ({weights} weights)\n"
            f"largest difference to torch on {done.images} {done.checked_on}: {differences}"
        )
        if done.differences.get("couplings", 0) > tolerance:
            console.print_line("couplings above the tolerance are of children whose logits have a range below 0.01")
