"""The recipe: every setting of a training, as one frozen and validated value.

A `Recipe` has the settings of the data (`DataSettings`), the network (`NetworkSettings`), the training
(`TrainingSettings`) and the machine (`MachineSettings`). The docstring under each field is its only description: the
command's help, the JSON schema and the documentation are made from it.

This file does not import torch, so that `maxmincaps --help` is fast.
"""

import hashlib
import json
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from maxmincaps.errors import InputError, check_name
from maxmincaps.files import read_table

RENAMED = {"average": "ema_decay", "pace": "layer_rates"}
"""Settings that had another name in version 0.1: old name, new name. Files with old names stay readable."""
FIRST_DEFAULTS = {"relu": True}
"""Settings whose default has changed, with their first default. Fingerprints count against these."""
REMOVED = ("watch",)  # settings of version 0.1 that have no effect any more. Files that hold them stay readable


class Settings(BaseModel):
    """Base of the groups of settings. They are frozen, unknown names are refused, each field is documented below it."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, validate_default=True
    )


class DataSettings(Settings):
    """Settings of the data."""

    dataset: str = "mnist-5k"
    """A dataset's name (`maxmincaps data list` shows them), a folder with one subfolder per class, or an .npz file."""
    train_images: int | None = Field(None, ge=1)
    """Train on the first N training images only. Default: all."""
    test_images: int | None = Field(None, ge=1)
    """After each epoch, evaluate on N fixed test images only. Default: all. The test accuracies in the result always
    use all test images."""
    validation: int = Field(0, ge=0)
    """Hold out the last N training images as the validation set: it, not the test set, then chooses the best epoch."""
    image_size: int | None = Field(None, ge=1)
    """Resize the images to N×N. Default: no change; for your own folder, the size of its first image."""
    grey: bool | None = None
    """Convert images to grey (or, with --no-grey, to three colour channels). Default: no change; for your own folder,
    as its first image."""
    overlap: bool = False
    """Overlay every image with one of another class, both shifted by up to 4 pixels each way. An image then has two
    labels, and counts as right only if both are found. `--dataset multi-mnist` is mnist with this setting (Sabour et
    al., section 6)."""
    crop: int | None = Field(None, ge=0)
    """Crop images to N×N pixels: random windows in training, the central one in testing. 0: no cropping. Default: 24
    for cifar10, else no cropping."""
    shift: int = Field(0, ge=0, le=10_000)
    """Shift training images by up to N whole pixels each way, with zeros outside."""
    rotate: float = Field(0.0, ge=0, le=180)
    """Rotate training images about their centre by up to N degrees, with zeros outside."""
    flip: bool = False
    """Mirror half of the training images left to right. Not in the paper."""
    brightness: float = Field(0.0, ge=0, le=1)
    """Add one random number between −X and X to all pixels of a training image. Not in the paper."""
    whiten: bool = False
    """Scale each image to mean 0 and variance 1, as Sabour et al. did for CIFAR10. Not in the paper."""


class NetworkSettings(Settings):
    """Settings of the network. The defaults are the paper's, except that PrimaryCaps has no ReLU (`relu`).

    The input size, the input channels and the number of classes follow from the images.
    """

    normalization: str = "max-min"
    """How a child's logits become its routing coefficients (couplings): softmax, max-min, winner-take-all, sum,
    centered-max-min, z-score, adjusted-log, leaky-softmax, or uniform (a control)."""
    iterations: int = Field(3, ge=1)
    """Routing iterations (r in the paper)."""
    low: float | None = None
    """Lower bound of Max-Min (p in the paper). Default: 0."""
    high: float | None = None
    """Upper bound of Max-Min (q in the paper). Default: 1."""
    start: float | None = Field(None, gt=0, le=1e30)
    """The routing coefficients of the first iteration. Default: the normalization's own (1.0; softmax: 1/parents;
    leaky-softmax: 1/(parents + 1))."""
    logit_gain: float = Field(1.0, gt=0)
    """Multiply the logits by this factor before they are normalized. Max-Min does not depend on it; a large factor
    makes Softmax's coefficients sharper."""
    full_backpropagation: bool = False
    """Backpropagate through all routing iterations, as Sabour's code does. The paper does not."""
    routing_bias: bool = False
    """Add a learned bias to each parent's weighted sum, as Sabour's code does. The paper's procedures have none."""
    stem: Literal["conv1", "deep"] = "conv1"
    """Layers before PrimaryCaps: the paper's Conv1, or `deep`, several 3×3 convolutions with batch norm that reduce
    images of any size to at most 16×16 places. Use `deep` for images larger than 40×40."""
    head: Literal["capsules", "linear"] = "capsules"
    """The last layer: routed class capsules, or a linear classifier as a baseline."""
    conv_channels: int = Field(256, ge=1)
    """Number of kernels (output channels) of Conv1."""
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
    """Zero padding of both convolutions: none (`valid`), or half of an odd kernel on each side (`same`). The paper's
    figures fit `valid`."""
    part_pose: int = Field(8, ge=1)
    """Number of components of a PrimaryCaps capsule."""
    class_pose: int = Field(16, ge=1)
    """Number of components of a class capsule."""
    relu: bool = False
    """Apply a ReLU in PrimaryCaps, as in the paper's text. With it many capsules become inactive (docs/results.md)."""
    squash_parts: bool = True
    """Squash the capsules of PrimaryCaps."""
    primary_scale: float = Field(1.0, gt=0)
    """Multiply the pre-activations of PrimaryCaps by this. (Sabour's code divides them by the number of types.)"""
    scale_primary_bias: bool = True
    """Multiply the bias of PrimaryCaps by `primary_scale` too. (Sabour's code adds it after the division.)"""
    primary_bias: float | None = None
    """Initial bias of PrimaryCaps. Default: that of `initial_values`."""
    decoder: tuple[PositiveInt, ...] = (512, 1024)
    """Widths of the decoder's hidden layers."""
    convolution: Literal["auto", "spectral", "direct"] = "auto"
    """How PrimaryCaps is computed: in the frequency domain, directly, or whichever is faster."""


class TrainingSettings(Settings):
    """Settings of the training."""

    epochs: int = Field(10, ge=1)
    """Passes over the training images."""
    patience: int = Field(0, ge=0)
    """Stop early after N epochs without a better accuracy on the validation set (--validation). 0: never."""
    init_from: str | None = None
    """Start from the weights of another run or hub folder (fine-tuning). If its classes differ, the layers that depend
    on the classes are initialised anew."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """The optimizer. The paper uses Adam."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay of adamw. Not used by adam."""
    clip_norm: float | None = Field(None, gt=0)
    """Scale gradients down to this norm where they exceed it. Default: no clipping."""
    class_weights: tuple[PositiveFloat, ...] | Literal["balanced"] | None = None
    """Weight of each class in the margin loss, such as 1,2.5,1, or `balanced` for weights inversely proportional to the
    number of training images of the class. Default: all 1."""
    batch_size: int = Field(128, ge=1)
    """Images per step, summed over all processes."""
    learning_rate: float = Field(1e-3, gt=0)
    """The learning rate at the start, after the warm-up."""
    decay: float = Field(0.96, gt=0, le=1)
    """Under the schedule `decay`, the learning rate is multiplied by this every --decay-steps steps, continuously."""
    decay_steps: int = Field(2000, ge=1)
    """Number of steps over which the learning rate is multiplied by --decay."""
    schedule: Literal["decay", "cosine", "constant"] = "decay"
    """How the learning rate falls: exponentially (`decay`), along half a cosine to --min-learning-rate at the last step
    (`cosine`), or not at all (`constant`)."""
    warmup: int = Field(50, ge=0)
    """Steps over which the learning rate rises to its full value at the start."""
    min_learning_rate: float = Field(1e-6, ge=0)
    """The learning rate never falls below this."""
    margin_high: float = Field(0.9, ge=0, le=1)
    """m⁺ of the margin loss: from this length on, the capsule of the true class has no loss."""
    margin_low: float = Field(0.1, ge=0, le=1)
    """m⁻ of the margin loss: up to this length, the capsule of any other class has no loss."""
    down_weight: float = Field(0.5, ge=0)
    """λ: the weight of the absent classes in the margin loss."""
    reconstruction_weight: float = Field(0.0005, ge=0)
    """The weight of the reconstruction loss, the sum of squared pixel errors. (Sabour's code: 20 times as much.)"""
    initial_values: Literal["torch", "sabour", "as-coded"] = "torch"
    """Initial weights of convolutions and decoder: PyTorch's own (`torch`), or those of Sabour's code (`sabour`).
    `as-coded` also draws W from the truncated normal distribution of that code."""
    layer_rates: Literal["fast", "slow"] = "fast"
    """The rule for layer-wise learning rates and the initial size of W (docs/training.md): `fast` for little data or
    time; `slow`, a small W with a small learning rate, for much (recipe `thorough`)."""
    vote_sigma: float | None = Field(None, gt=0)
    """Standard deviation of the initial values of W. Default: computed by --layer-rates."""
    vote_rate: float | None = Field(None, gt=0)
    """Learning rate of W as a multiple of --learning-rate. Default: computed by --layer-rates."""
    primary_rate: float | None = Field(None, gt=0)
    """Learning rate of PrimaryCaps as a multiple of --learning-rate. Default: computed by --layer-rates."""
    ema_decay: float = Field(0.999, ge=0, lt=1)
    """Decay of the exponential moving average (EMA) of the weights, which is evaluated and saved. It is smaller in the
    first thousands of steps. 0: evaluate and save the weights themselves."""
    non_finite: Literal["stop", "skip"] = "stop"
    """What to do if a loss or gradient is infinite or not a number: stop the run, or skip that step and count it."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the large matrix products in training. bf16 is used only if the processor has it. Evaluation is in
    fp32."""
    seed: int = Field(0, ge=0, le=2**63 - 1)
    """Seed of initial weights, order of images and augmentation. On a CPU, the same seed gives the same bits."""

    @field_validator("class_weights", mode="before")
    @classmethod
    def _split_at_commas(cls, weights: Any) -> Any:
        is_list = isinstance(weights, str) and weights != "balanced"
        return tuple(weights.split(",")) if is_list else weights


class MachineSettings(Settings):
    """Settings of the machine. They are stored in the run but are not part of a recipe's fingerprint."""

    device: str = "auto"
    """The device: cpu, cuda, cuda:1, mps, …; auto uses an accelerator if there is one."""
    threads: int | None = Field(None, ge=1, le=4096)
    """CPU threads of each process. Default: all cores, divided among the processes."""
    processes: int = Field(1, ge=1)
    """Number of processes on this machine that divide each batch among them."""
    checkpoint_seconds: float = Field(60.0, ge=0)
    """Seconds between checkpoints: a run that is killed loses about this much work at most."""
    keep_checkpoint: bool | None = None
    """Keep the checkpoint of a finished run, so that epochs can be added later (`train --out RUN --epochs N --resume`).
    It is about four times as large as the weights. Under the schedule cosine it is never kept. Default: `train` keeps
    it, studies do not."""


class Recipe(MachineSettings, TrainingSettings, NetworkSettings, DataSettings):
    """Every setting of one training.

    Raises:
        InputError: If a setting is unknown or its value is wrong.

    >>> recipe = Recipe(normalization="softmax", epochs=3)
    >>> Recipe.from_json(recipe.to_json()) == recipe
    True
    """

    if not TYPE_CHECKING:  # type checkers see the settings as arguments

        def __init__(self, **settings: Any) -> None:
            for old in sorted(settings.keys() & {*RENAMED, *REMOVED}):
                instead = f"is called {RENAMED[old]} now" if old in RENAMED else "has no effect any more"
                warnings.warn(f"the setting {old} {instead}", DeprecationWarning, stacklevel=2)
            settings = _with_new_names(settings)
            for name in settings:
                check_name(name, type(self).model_fields, "setting")
            try:
                super().__init__(**settings)
            except ValidationError as error:
                raise InputError(in_words(error)) from None

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.margin_low > self.margin_high:
            raise ValueError(f"margin_low ({self.margin_low}) must not exceed margin_high ({self.margin_high})")
        if self.learning_rate < self.min_learning_rate:
            raise ValueError(
                f"learning_rate ({self.learning_rate}) must not be below min_learning_rate ({self.min_learning_rate})"
            )
        if self.batch_size % self.processes:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be a multiple of processes ({self.processes}), which divide it"
            )
        without = ("shift", "rotate", "flip", "brightness", "crop", "class_weights")
        if self.overlap and (found := [name for name in without if getattr(self, name)]):
            raise ValueError(f"overlap cannot be combined with {found[0]}; leave one of them out")
        if self.patience and not self.validation:
            raise ValueError(
                "patience needs a validation set, because the test set must not decide when to stop; set validation too"
            )
        return self

    def with_changes(self, **changes: Any) -> "Recipe":
        """Return a copy with other values of some settings."""
        return recipe_from({**self.model_dump(), **changes}, "these settings")

    def but(self, **changes: Any) -> "Recipe":
        """Return `with_changes` of the same arguments; deprecated."""
        warnings.warn("Recipe.but is now with_changes", DeprecationWarning, stacklevel=2)
        return self.with_changes(**changes)

    def fingerprint(self) -> str:
        """Return a short hash of the settings that decide the result: all but those of the machine.

        Settings at their default do not count, so that a setting added later leaves older fingerprints as they are.
        For the same reason, renamed settings count under their first name.
        """
        identity = self.model_dump(mode="json", include=set(IDENTITY) - FIRST_DEFAULTS.keys(), exclude_defaults=True)
        identity |= {name: value for name, first in FIRST_DEFAULTS.items() if (value := getattr(self, name)) != first}
        for old, new in RENAMED.items():
            if new in identity:
                identity[old] = identity.pop(new)
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def run_name(self) -> str:
        """A readable name for the run folder, different for different recipes."""
        dataset = ("multi-" if self.overlap else "") + Path(self.dataset).stem
        return f"{dataset}-{self.normalization}-r{self.iterations}-s{self.seed}-{self.fingerprint()}"

    def to_json(self) -> str:
        """Return every setting as JSON, defaults included, so that a later default does not change an old recipe."""
        return json.dumps(self.model_dump(mode="json"), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "the recipe") -> "Recipe":
        """Return the recipe that `to_json` wrote. `where` names the text in error messages."""
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}") from None
        return recipe_from(settings, where)

    @classmethod
    def from_file(cls, path: Path | str) -> "Recipe":
        """Return the recipe of a .json or .toml file, or a recipe of the package by its name (`NAMED`).

        Settings that are not in the file have their defaults.
        """
        return recipe_from(settings_in(path), str(path))


IDENTITY = tuple(name for name in Recipe.model_fields if name not in MachineSettings.model_fields)
"""The settings that decide the result: all but those of the machine."""

NAMED = {path.stem: path for path in sorted((Path(__file__).parent / "recipes").glob("*.toml"))}
"""The recipes of the package. Each file states its claim, its cost and its command."""

RENAMED_RECIPES = {"record": "mnist-record"}  # recipes of the package that had another name in version 0.1


def settings_in(path: Path | str) -> dict[str, Any]:
    """Return the settings in a .json or .toml file or in a recipe of the package (`NAMED`), not yet validated."""
    path = NAMED.get(RENAMED_RECIPES.get(str(path), str(path)), Path(path))
    readers = {".json": json.loads, ".toml": tomllib.loads}
    if path.suffix not in readers:
        raise InputError(f"{path}: a recipe is a .json or a .toml file, or one of {', '.join(NAMED)}")
    return read_table(path, "recipe", readers[path.suffix])


def recipe_from(settings: Any, where: str) -> Recipe:
    """Return the recipe of a mapping from names, also those of earlier versions, to values.

    Wrong settings are refused in one line that begins with `where`, the file or command that they come from.
    """
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected a table of settings, found {type(settings).__name__}")
    for name, value in settings.items():
        if isinstance(value, str) and value.encode(errors="replace").decode() != value:
            raise InputError(f"{where}: {name}: expected text that UTF-8 can encode, found {value!r:.100}")
    try:
        return Recipe(**_with_new_names(settings))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _with_new_names(settings: dict[str, Any]) -> dict[str, Any]:
    settings = {RENAMED.get(name, name): value for name, value in settings.items() if name not in REMOVED}
    if settings.get("dataset") == "multi-mnist":
        settings |= {"dataset": "mnist", "overlap": True}
    return settings


def in_words(error: ValidationError) -> str:
    """Return the problems that pydantic found, in one line."""
    problems = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        what = problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
        problems.append(f"{name} {what}, found {problem['input']!r:.100}" if name else what)
    return "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
