"""`maxmincaps predict`, `evaluate` and `verify`: use and check a trained network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from maxmincaps.cli.terminal import bar, console, percent, print_json, styled, table, write_csv

if TYPE_CHECKING:
    from maxmincaps.training.predict import Prediction
    from maxmincaps.training.responses import Responses

RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Weights = Annotated[Literal["best", "last"], Parameter(help="Weights of the best epoch or of the last one.")]
Json = Annotated[bool, Parameter(negative="", help="Print JSON instead of tables.")]
SCORES = ("images", "precision", "recall", "f1")
MOST_CLASSES = 30
"""A confusion matrix of more classes does not fit on a screen."""


def evaluate(
    run: RunFolder,
    *,
    weights: Weights = "best",
    dataset: str | None = None,
    json: Json = False,
    csv: Path | None = None,
) -> None:
    """Measure a run's network on its whole test set again, or on other images with the same classes.

    Prints accuracy, precision and recall of each class, and the confusion matrix.

    Parameters
    ----------
    dataset: str
        A dataset's name, a folder with one subfolder per class, or an .npz file. Default: the run's own test set. All
        images of a folder are used, unless it has train/ and test/.
    csv: Path
        Write precision, recall and number of images of each class to this file.
    """
    from maxmincaps.analysis.responses import class_scores, confusion
    from maxmincaps.training.responses import evaluate_run

    found = evaluate_run(run, weights, dataset)
    accuracy = 1 - len(found.wrong) / len(found.labels)
    rows: list[dict[str, Any]] = [
        {"class": found.classes[score.label], **{name: getattr(score, name) for name in SCORES}}
        for score in class_scores(found)
    ]
    if csv:
        write_csv(csv, rows)
    if json:
        facts = {"run": str(run), "weights": weights, "dataset": dataset, "images": len(found.labels)}
        print_json({**facts, "accuracy": accuracy, "classes": rows, "confusion": confusion(found).tolist()})
        return
    where = f"images of {dataset}" if dataset else "test images"
    console.print_line(f"{percent(accuracy)} of {len(found.labels)} {where} ({weights} weights of {run})")
    if csv:
        console.print_line(f"{len(rows)} rows in {csv}")
        return
    shown = table("Classes", "class", "#images", "#precision", "#recall", "#F1")
    for row in rows:
        shown.add_row(row["class"], str(row["images"]), *(percent(row[name]) for name in ("precision", "recall", "f1")))
    console.print(shown)
    print_confusion(found)


def print_confusion(found: "Responses") -> None:
    """Print the confusion matrix, if it fits on a screen."""
    from maxmincaps.analysis.responses import confusion

    if len(found.classes) > MOST_CLASSES:
        console.print_line(f"the confusion matrix of {len(found.classes)} classes is in --json")
        return
    title = "Confusion matrix: true class by row, predicted class by column"
    shown = table(title, "", *(f"#{name}" for name in found.classes))
    for name, counts in zip(found.classes, confusion(found).tolist(), strict=True):
        shown.add_row(name, *(str(count) if count else "·" for count in counts))
    console.print(shown)


def predict(
    images: list[Path],
    *,
    run: Path | None = None,
    weights: Weights = "best",
    invert: Annotated[bool, Parameter(name=("--invert", "--swap"), negative="")] = False,
    json: Json = False,
    csv: Path | None = None,
) -> None:
    """Classify image files: resized to what the network takes, in grey or colour as it was trained.

    An image that is not square keeps its proportions: the empty ends of its longer side are cut, and its shorter side
    is padded with the colour of its border. For a network trained on your own images, it is stretched as in training.

    The length of a class capsule grows with the evidence for the class. It is not a probability.

    Parameters
    ----------
    images: list[Path]
        Image files of any common format, or folders of them.
    run: Path
        A run folder. Default: the digit network that comes with the package.
    invert: bool
        Exchange light and dark first: for dark strokes on light paper, as MNIST has light strokes on dark ground.
    csv: Path
        Write file, class and lengths to this file.
    """
    from maxmincaps.training.predict import Predictor, image_files
    from maxmincaps.training.run import SHIPPED_RUN

    predictor = Predictor.of(run or SHIPPED_RUN, weights)
    files = image_files(images)
    found = [predictor.predict(path, invert=invert) for path in files]
    if csv:
        write_csv(csv, [{"file": one.path, "class": one.predicted or "", **one.lengths} for one in found])
    if json:
        fields = ("path", "predicted", "lengths")
        print_json([{name: getattr(one, name) for name in fields} | {"weights": weights} for one in found])
        return
    if csv:
        console.print_line(f"{len(found)} rows in {csv} ({weights} weights of {run or 'the network of the package'})")
        return
    for one in found:
        _print_prediction(one, predictor.recipe.margin_low)
    console.print_line(f"\n{weights} weights of {run or 'the network that comes with the package'}")


def _print_prediction(found: "Prediction", margin: float) -> None:
    verdict: tuple[Any, ...] = ("  is  ", (found.predicted or "", "bold green"))
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

    Parameters
    ----------
    dataset: str
        Where the run's own images are now. Default: where they were when it was trained.
    """
    from maxmincaps.training.responses import verify_run

    for line in verify_run(run, dataset):
        console.print(styled(("✓", "green"), f" {line}"))
