"""The files of a run as frozen, typed models: written, read and used as attributes.

Runs of earlier versions stay readable: a field that they lack is optional, and fields of later versions are kept.
"""

import json
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError

from maxmincaps.errors import InputError
from maxmincaps.recipe import in_words


class RunFile(BaseModel):
    """Base of all models of a run's files. Files may be of unknown origin, so types are strict."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """Validate the JSON text of a file. The message of an `InputError` names the file."""
        try:
            return cls.model_validate_json(text)
        except (ValidationError, RecursionError) as error:
            problem = in_words(error) if isinstance(error, ValidationError) else error
            raise InputError(f"{path}: {problem}") from None

    def to_json(self, indent: int | None = 2) -> str:
        """Return the JSON text of the file. Fields without a value are left out."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), indent=indent)


class RunData(RunFile):
    """data.json: what the images were, and the network that was built for them."""

    name: str
    dataset_path: str | None = None
    """Where the user's own images were, as an absolute path."""
    regenerated: bool
    images_sha256: str = ""
    classes: tuple[str, ...] = Field(min_length=1)
    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt]
    size_before_crop: tuple[PositiveInt, PositiveInt] | None = None
    train_images: NonNegativeInt
    validation_images: NonNegativeInt = 0
    test_images: NonNegativeInt
    test_images_per_epoch: NonNegativeInt
    parameters: NonNegativeInt = 0
    rates: dict[str, float] = {}
    vote_sigma: float | None = None
    init_from_layers: tuple[str, ...] | None = None
    """The layers that started with the weights of `init_from`."""


class RunResult(RunFile):
    """result.json: how a run ended. Accuracies are fractions of 1."""

    best_test_accuracy: float = Field(ge=0, le=1)
    best_epoch: NonNegativeInt
    best_chosen_by: str
    final_test_accuracy: float = Field(ge=0, le=1)
    train_accuracy: float = Field(ge=0, le=1)
    train_accuracy_images: NonNegativeInt = 0
    best_running_train_accuracy: float = Field(ge=0, le=1)
    epochs: NonNegativeInt
    steps: NonNegativeInt = 0
    skipped_steps: NonNegativeInt = 0
    seconds: NonNegativeFloat


class Divergence(RunFile):
    """diverged.json: where the loss or a gradient was not finite."""

    message: str = ""
    epochs_done: NonNegativeInt = 0


class EpochMetrics(RunFile):
    """A line of history.jsonl. Accuracies are fractions of 1."""

    epoch: PositiveInt
    train_loss: float = 0
    margin_loss: float = 0
    reconstruction_loss: float = 0
    running_train_accuracy: float = Field(ge=0, le=1)
    validation_accuracy: float | None = Field(None, ge=0, le=1)
    test_accuracy: float | None = Field(None, ge=0, le=1)
    learning_rate: float = 0
    coupling_entropy: float = 0
    coupling_spread: float = 0
    dead_children: float = Field(0, ge=0, le=1)
    """Fraction of inactive lower-level capsules. The name is that of the first version."""
    skipped_steps: NonNegativeInt = 0
    images_per_s: float = 0
    seconds: NonNegativeFloat
    peak_memory_mb: float = 0

    @property
    def selection_accuracy(self) -> float:
        """Accuracy on the images that choose the best epoch: the validation set if there is one, else test images."""
        found = self.test_accuracy if self.validation_accuracy is None else self.validation_accuracy
        return 0.0 if found is None else found


class Environment(RunFile):
    """environment.json: versions, processor, threads and commit of a run."""

    started_at: str
    maxmincaps: str = ""
    commit: str | None = None
    torch: str = ""
    python: str = ""
    system: str = ""
    processor: str = ""
    device: str = ""
    precision: str = ""
    threads: PositiveInt = 1
    numba: str | None = None
    """The version of numba, if routing used its compiled kernels. Bits differ with and without them."""
    continued: tuple[dict[str, Any], ...] = ()
    """What differed each time a stopped run was continued."""

    @property
    def precisions(self) -> str:
        """The precisions that the run was computed in, in order."""
        parts = [self.precision, *(part.get("precision") for part in self.continued)]
        return ", then ".join(dict.fromkeys(str(part) for part in parts if part))

    def continued_in(self, now: "Environment") -> "Environment":
        """Return the environment of a run that began in this one, with what is different now added to `continued`."""
        before: dict[str, Any] = {}
        for part in (self.model_dump(exclude={"continued"}), *self.continued):
            before |= part
        here = now.model_dump(exclude={"continued", "started_at"})
        changed = {name: value for name, value in here.items() if before.get(name) != value}
        if not changed:
            return self
        return self.model_copy(update={"continued": (*self.continued, {"started_at": now.started_at, **changed})})
