"""`maxmincaps predict`, `evaluate` and `verify`: use and check a trained network."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from maxmincaps.cli.terminal import bar, console, percent, styled

RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Weights = Annotated[Literal["best", "last"], Parameter(help="Weights of the best epoch or of the last one.")]


def evaluate(run: RunFolder, *, weights: Weights = "best") -> None:
    """Measure a run's network on its whole test set again."""
    from maxmincaps.training.verify import evaluate_run

    measured, images = evaluate_run(run, weights)
    console.print(f"{percent(measured)} of {images} test images ({weights} weights of {run})")


def predict(
    images: list[Path],
    *,
    run: Path | None = None,
    weights: Weights = "best",
    swap: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Classify image files: resized to what the network takes, in grey or colour as it was trained.

    A picture that is not square keeps its proportions: the empty ends of its longer side are cut, and its shorter side
    is filled up with the colour of its border. A network of your own images gets it stretched, as it got those.

    Parameters
    ----------
    images: list[Path]
        Image files of any common format.
    run: Path
        The folder of a run's record. Default: the digit network that comes with the package.
    swap: bool
        Swap light and dark first: for dark strokes on light paper, as our networks know light ones on dark.
    """
    from maxmincaps.training.predict import Predictor, recognised
    from maxmincaps.training.run import SHIPPED_RUN

    predictor = Predictor.of(run or SHIPPED_RUN, weights)
    for path in images:
        picture = predictor.picture(path)
        lengths = predictor.lengths(1 - picture if swap else picture)
        said = ("  is  ", (predictor.classes[int(lengths.argmax())], "bold green"))
        if not recognised(lengths.max().item(), predictor.recipe):
            said = ("  is not recognised: ", (f"no length reaches {predictor.recipe.margin_low}", "yellow"))
        console.say(styled("\n", (str(path), "bold"), *said))
        width = max(len(name) for name in predictor.classes)
        for name, length in zip(predictor.classes, lengths.tolist(), strict=True):
            console.print(f"  {name:>{width}}  {length:.2f}  {bar(length)}")
        if not swap and predictor.may_be_swapped(picture):
            console.print("  mostly light: if its strokes are dark, add --swap", style="yellow")


def verify(run: RunFolder) -> None:
    """Check that a record is whole, that its files are sound, and that its weights give the figures it states."""
    from maxmincaps.training.verify import verify_run

    for line in verify_run(run):
        console.print(styled(("✓", "green"), f" {line}"))
