"""What the files of a record state. They may come from a stranger: what others rely on has its type, or is refused."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError

from maxmincaps.errors import InputError
from maxmincaps.recipe import in_words


class Statements(BaseModel):
    """Names with their types. Other names may stand there too, and none has to: it is missed when it is asked for."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class Data(Statements):
    """data.json."""

    name: str = ""
    regenerated: bool = False
    images_sha256: str = ""
    classes: list[str] = Field([], min_length=1)
    image_shape: list[PositiveInt] = Field([], min_length=3, max_length=3)
    size_before_crop: list[PositiveInt] = Field([], min_length=2, max_length=2)
    train_images: NonNegativeInt = 0
    validation_images: NonNegativeInt = 0
    test_images: NonNegativeInt = 0
    test_images_per_epoch: NonNegativeInt = 0
    parameters: NonNegativeInt = 0
    vote_sigma: float = 0


class Result(Statements):
    """result.json."""

    best_test_accuracy: float = Field(0, ge=0, le=1)
    best_epoch: NonNegativeInt = 0
    best_chosen_by: str = ""
    final_test_accuracy: float = Field(0, ge=0, le=1)
    train_accuracy: float = Field(0, ge=0, le=1)
    train_accuracy_images: NonNegativeInt = 0
    best_running_train_accuracy: float = Field(0, ge=0, le=1)
    epochs: NonNegativeInt = 0
    steps: NonNegativeInt = 0
    skipped_steps: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0


class Divergence(Statements):
    """diverged.json."""

    message: str = ""


class Epoch(Statements):
    """A line of history.jsonl."""

    epoch: PositiveInt = 1
    train_loss: float = 0
    margin_loss: float = 0
    reconstruction_loss: float = 0
    running_train_accuracy: float = Field(0, ge=0, le=1)
    validation_accuracy: float = Field(0, ge=0, le=1)
    test_accuracy: float = Field(0, ge=0, le=1)
    seconds: NonNegativeFloat = 0


class Step(Statements):
    """A line of steps.jsonl."""

    step: PositiveInt = 1
    loss: float = 0
    part_length: NonNegativeFloat = 0
    dead_children: float = Field(0, ge=0, le=1)
    sum_length: NonNegativeFloat = 0
    class_length: float = Field(0, ge=0, le=1)
    longest_class_length: float = Field(0, ge=0, le=1)
    couplings: list[float] = Field([], min_length=3, max_length=3)
    gradients: dict[str, NonNegativeFloat] = {}


class Environment(Statements):
    """environment.json."""

    started_at: str = ""
    maxmincaps: str = ""
    commit: str | None = None
    torch: str = ""
    processor: str = ""
    device: str = ""
    precision: str = ""
    threads: PositiveInt = 1
    continued: list[dict[str, Any]] = []
    """What was otherwise each time that a stopped run went on."""


class Said(dict[str, Any]):
    """What a file says, by name. A name that it does not have is wrong input, not a mistake in the program."""

    def __init__(self, values: dict[str, Any], path: Path) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise InputError(f"{self.path}: expected {name!r}, found nothing of that name")


def parsed(text: str, kind: type[Statements], path: Path) -> Said:
    """Read a JSON table that claims what `kind` knows."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON: {error}") from None
    return checked(value, kind, path)


def checked(value: Any, kind: type[Statements], path: Path) -> Said:
    """Give a table that claims what `kind` knows, or say what in it is wrong."""
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a table, found {type(value).__name__}")
    try:
        return Said(kind.model_validate(value).model_dump(exclude_unset=True), path)
    except ValidationError as error:
        raise InputError(f"{path}: {in_words(error)}") from None
