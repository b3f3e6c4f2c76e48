"""The class lengths of every test image, as a run stores them."""

from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float, Int64
from torch import Tensor

from maxmincaps.capsules.losses import same_classes
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import check_finite, load_tensors
from maxmincaps.training.run import Run


@dataclass(frozen=True, eq=False)
class Responses:
    """The final lengths of the class capsules for every test image."""

    lengths: Float[Tensor, "image parent"]
    predictions: Int64[Tensor, "image *several"]
    labels: Int64[Tensor, "image *several"]
    classes: tuple[str, ...]

    @property
    def wrong(self) -> Int64[Tensor, "mistake"]:
        """The indices of the misclassified images."""
        return (~same_classes(self.predictions, self.labels)).nonzero().squeeze(1)

    @property
    def error_percent(self) -> float:
        """The percentage of misclassified images."""
        return 100 * len(self.wrong) / len(self.labels)


def responses(run: Path | str) -> Responses:
    """Return the responses that a run stored (lengths.safetensors).

    Raises:
        InputError: If the file is missing or damaged.
    """
    path = Path(run) / "lengths.safetensors"
    tensors, _ = load_tensors(path)
    try:
        lengths, predictions, labels = (tensors[name] for name in ("lengths", "predictions", "labels"))
    except KeyError as error:
        raise InputError(f"{path}: expected a tensor {error}, found {', '.join(tensors) or 'none'}") from None
    classes = Run(Path(run)).data.classes
    _check(lengths, predictions, labels, len(classes), path)
    return Responses(lengths.float(), predictions.long(), labels.long(), classes)


def _check(lengths: Tensor, predictions: Tensor, labels: Tensor, classes: int, path: Path) -> None:
    """Refuse what cannot be lengths, predictions and labels of these classes."""
    images = len(labels) if labels.dim() in (1, 2) else 0
    shapes = [tuple(tensor.shape) for tensor in (lengths, predictions, labels)]
    if not images or shapes != [(images, classes), *[tuple(labels.shape)] * 2]:
        raise InputError(f"{path}: expected lengths of {classes} classes, predictions and labels, found {shapes}")
    whole = not predictions.is_floating_point() and not labels.is_floating_point()
    if not whole or any(chosen.min() < 0 or chosen.max() >= classes for chosen in (predictions, labels)):
        raise InputError(f"{path}: expected predictions and labels in 0…{classes - 1}, found others")
    check_finite({"lengths": lengths}, path)
