"""What a run is: a frozen sentence about one experiment, as data.

A `Recipe` has every setting of a training in one flat, validated value: what it learns from (`DataSettings`), what it
trains (`NetworkSettings`), how (`TrainingSettings`), and where (`MachineSettings`). The docstring under each field is
its only description: the command's help, the JSON schema and the documentation are made from it.

This file needs no torch, so that `maxmincaps --help` answers at once.
"""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from maxmincaps.errors import InputError, check_name


class Settings(BaseModel):
    """Settings are frozen, unknown names are refused, and each field is documented under itself."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, validate_default=True
    )


class DataSettings(Settings):
    """What the network learns from."""

    dataset: str = "mnist-5k"
    """A dataset's name (`maxmincaps data list` shows them), a folder with one subfolder per class, or an .npz file."""

    train_images: int | None = Field(None, ge=1)
    """Train on the first N training images only. Default: all."""

    test_images: int | None = Field(None, ge=1)
    """Evaluate each epoch on N fixed test images only; the final figures are always of all. Default: all."""

    validation: int = Field(0, ge=0)
    """Hold out the last N training images; "best" then means best on them, and the test set only reports."""

    image_size: int | None = Field(None, ge=1)
    """Resize the images to N×N. Default: as they are; of your own folder, the size of its first image."""

    grey: bool | None = None
    """Turn images grey (or, with --no-grey, coloured). Default: as they are; of your own folder, as its first is."""

    crop: int | None = Field(None, ge=0)
    """Random N×N windows for training, the central one for testing; 0 for none. Default: 24 for cifar10, else none."""

    shift: int = Field(0, ge=0, le=10_000)
    """Translate training images by up to N whole pixels each way, zeros outside."""

    rotate: float = Field(0.0, ge=0, le=180)
    """Rotate training images about their centre by up to N degrees, zeros outside."""

    flip: bool = False
    """Mirror half of the training images left to right. Not in the paper."""

    brightness: float = Field(0.0, ge=0, le=1)
    """Add up to this much to all pixels of a training image, or take it away. Not in the paper."""

    whiten: bool = False
    """Give each image mean 0 and variance 1, as Sabour et al. did for CIFAR10. Not in the paper."""


class NetworkSettings(Settings):
    """What is trained: the paper's network by default. The images themselves set its size, channels and classes."""

    normalization: str = "max-min"
    """How a child's logits become its couplings: softmax, max-min, winner-take-all, sum, centered-max-min, z-score,
    adjusted-log, leaky-softmax, or uniform (a control)."""

    iterations: int = Field(3, ge=1)
    """Routing iterations (r in the paper)."""

    low: float | None = None
    """Lower bound of Max-Min (p in the paper). Default: 0."""

    high: float | None = None
    """Upper bound of Max-Min (q in the paper). Default: 1."""

    start: float | None = Field(None, gt=0)
    """The couplings of the first iteration. Default: the normalization's own (1.0; softmax: 1/parents, leaky-softmax:
    1/(parents + 1))."""

    full_backpropagation: bool = False
    """Let gradients flow through all routing iterations, as Sabour's code does. The paper has none there."""

    routing_bias: bool = False
    """Add a learned bias to each parent's weighted sum, as Sabour's code does. The paper's procedures have none."""

    conv_channels: int = Field(256, ge=1)
    """Kernels of Conv1."""

    conv_kernel: int = Field(9, ge=1)
    """Kernel size of Conv1."""

    conv_stride: int = Field(1, ge=1)
    """Stride of Conv1."""

    types: int | None = Field(None, ge=1)
    """Capsule types in PrimaryCaps. Default: 32 for grey images, 64 for colour, as in the paper."""

    primary_kernel: int = Field(9, ge=1)
    """Kernel size of PrimaryCaps."""

    primary_stride: int = Field(2, ge=1)
    """Stride of PrimaryCaps."""

    padding: Literal["valid", "same"] = "valid"
    """Zero padding of both convolutions. The paper's figures fit `valid`."""

    part_pose: int = Field(8, ge=1)
    """Numbers in a PrimaryCaps capsule."""

    class_pose: int = Field(16, ge=1)
    """Numbers in a class capsule."""

    relu: bool = True
    """ReLU in PrimaryCaps."""

    squash_parts: bool = True
    """Squash the capsules of PrimaryCaps."""

    primary_scale: float = Field(1.0, gt=0)
    """PrimaryCaps' pre-activations are multiplied by this. (Sabour's code divides them by the number of types.)"""

    decoder: tuple[PositiveInt, ...] = (512, 1024)
    """Widths of the decoder's hidden layers."""

    convolution: Literal["auto", "spectral", "direct"] = "auto"
    """How PrimaryCaps is computed: in the frequency domain, directly, or whichever is faster."""


class TrainingSettings(Settings):
    """How it is trained."""

    epochs: int = Field(10, ge=1)
    """Passes over the training images."""

    batch_size: int = Field(128, ge=1)
    """Images per step, over all processes."""

    learning_rate: float = Field(1e-3, gt=0)
    """Adam's learning rate at the start."""

    decay: float = Field(0.96, gt=0, le=1)
    """The learning rate is multiplied by this, continuously, once every --decay-steps steps."""

    decay_steps: int = Field(2000, ge=1)
    """Steps over which the learning rate decays by `decay`."""

    schedule: Literal["decay", "cosine"] = "decay"
    """How the learning rate falls: by `decay`, or along half a cosine to its smallest value at the last step."""

    warmup: int = Field(50, ge=0)
    """Steps over which the learning rate rises to its full value at the start."""

    min_learning_rate: float = Field(1e-6, ge=0)
    """The learning rate never falls below this."""

    margin_high: float = Field(0.9, ge=0, le=1)
    """m⁺: the true class should be at least this long."""

    margin_low: float = Field(0.1, ge=0, le=1)
    """m⁻: any other class should be at most this long."""

    down_weight: float = Field(0.5, ge=0)
    """What the absent classes count for in the margin loss (λ)."""

    reconstruction_weight: float = Field(0.0005, ge=0)
    """What a squared error of a reconstructed pixel counts for. (Sabour's code: 20 times as much.)"""

    initial_values: Literal["torch", "sabour"] = "torch"
    """Initial weights of convolutions and decoder: PyTorch's own, or those of Sabour's code."""

    pace: Literal["fast", "slow"] = "fast"
    """How W begins and learns: fast, for little data or time; or slow, from nearly nothing, which leaves more of the
    work to the convolutions, as in the recipe `thorough` (docs/initialisation.md)."""

    vote_sigma: float | None = Field(None, gt=0)
    """Standard deviation of W's initial values. Default: by the pace."""

    vote_rate: float | None = Field(None, gt=0)
    """W's learning rate as a multiple of the learning rate. Default: by the pace."""

    primary_rate: float | None = Field(None, gt=0)
    """PrimaryCaps' learning rate as a multiple of the learning rate. Default: by the pace."""

    average: float = Field(0.999, ge=0, lt=1)
    """Judge and keep a moving average of the weights; each step keeps this share of it, less in the first thousands. 0:
    the weights themselves."""

    non_finite: Literal["stop", "skip"] = "stop"
    """What a loss or gradient that is not finite does: stop the run, or skip that step and count it."""

    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the large products in training; bf16 where the processor has it. What is judged is fp32."""

    seed: int = Field(0, ge=0, le=2**63 - 1)
    """Decides initial weights, order of images and augmentation. On a CPU, the same seed gives the same bits."""


class MachineSettings(Settings):
    """Where it is trained. These settings are kept in the record but are no part of a recipe's identity."""

    device: str = "auto"
    """cpu, cuda, cuda:1, mps, …; auto takes an accelerator if there is one."""

    threads: int | None = Field(None, ge=1, le=4096)
    """CPU threads of each process. Default: all cores, divided among the processes."""

    processes: int = Field(1, ge=1)
    """Processes that share each batch."""

    checkpoint_seconds: float = Field(60.0, ge=0)
    """A run that is killed loses at most about this much work."""

    watch: int = Field(0, ge=0)
    """Describe the inside of the network at each of the first N steps, in the record's steps.jsonl."""


class Recipe(MachineSettings, TrainingSettings, NetworkSettings, DataSettings):
    """Everything that decides one training.

    >>> recipe = Recipe(normalization="softmax", epochs=3)
    >>> Recipe.from_json(recipe.to_json()) == recipe
    True
    """

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.margin_low > self.margin_high:
            raise ValueError(f"margin_low ({self.margin_low}) must not exceed margin_high ({self.margin_high})")
        if self.learning_rate < self.min_learning_rate:
            raise ValueError(
                f"learning_rate ({self.learning_rate}) must not be below min_learning_rate ({self.min_learning_rate})"
            )
        if self.batch_size % self.processes:
            raise ValueError(f"a batch of {self.batch_size} cannot be divided among {self.processes} processes")
        return self

    def with_changes(self, **changes: Any) -> "Recipe":
        """Give the same recipe with some settings changed (and checked)."""
        return recipe_from({**self.model_dump(), **changes}, "these settings")

    def fingerprint(self) -> str:
        """Name what is trained, not where: equal recipes have equal fingerprints on every machine.

        Settings at their default do not count, so that a setting added later leaves older fingerprints as they are.
        """
        identity = self.model_dump(mode="json", include=set(IDENTITY), exclude_defaults=True)
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """Write every setting, defaults included, so that a later version cannot change what a record says."""
        return json.dumps(self.model_dump(mode="json"), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "the recipe") -> "Recipe":
        """Read what `to_json` wrote."""
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}") from None
        return recipe_from(settings, where)

    @classmethod
    def from_file(cls, path: Path | str) -> "Recipe":
        """Read a recipe from a .json or .toml file, or one of ours by its name (`NAMED`).

        Settings that the file does not name keep their defaults.
        """
        return recipe_from(settings_in(path), str(path))


IDENTITY = tuple(name for name in Recipe.model_fields if name not in MachineSettings.model_fields)
"""The settings that say what is trained, and not where."""

NAMED = {path.stem: path for path in sorted((Path(__file__).parent / "recipes").glob("*.toml"))}
"""The recipes that come with the package. Each file says what it claims, what it costs, and the command."""


def settings_in(path: Path | str) -> dict[str, Any]:
    """Read the settings that a .json or .toml file names, or one of ours (`NAMED`), unchecked."""
    path = NAMED.get(str(path), Path(path))
    readers = {".json": json.loads, ".toml": tomllib.loads}
    if path.suffix not in readers:
        raise InputError(f"{path}: a recipe is a .json or a .toml file, or one of {', '.join(NAMED)}")
    try:
        settings = readers[path.suffix](path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such recipe") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as {path.suffix[1:].upper()}: {error}") from None
    if not isinstance(settings, dict):
        raise InputError(f"{path}: a recipe is a table of settings, not {type(settings).__name__}")
    return settings


def recipe_from(settings: Any, where: str) -> Recipe:
    """Check `settings` and make them a recipe; say in one line what is wrong with them."""
    if not isinstance(settings, dict):
        raise InputError(f"{where}: a recipe is a table of settings, not {type(settings).__name__}")
    try:
        for name in settings:
            check_name(name, Recipe.model_fields, "setting")
        return Recipe(**settings)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except ValidationError as error:
        raise InputError(f"{where}: {in_words(error)}") from None


def in_words(error: ValidationError) -> str:
    """Say in one line what pydantic found wrong."""
    problems = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        what = problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
        problems.append(f"{name} {what}, found {problem['input']!r:.100}" if name else what)
    return "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
