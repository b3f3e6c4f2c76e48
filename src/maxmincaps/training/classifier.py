"""The capsule network as a scikit-learn classifier: `fit`, `predict`, `predict_proba`, `score`."""

import warnings
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from rich.progress import Progress
from torch import Tensor

from maxmincaps.capsules.losses import PRESENT, hits
from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import for_testing, for_training
from maxmincaps.data.batches import batch_count, generator_for
from maxmincaps.data.images import ImageSet
from maxmincaps.errors import DivergedError, InputError, check_name, import_extra
from maxmincaps.recipe import RENAMED, Recipe, recipe_from
from maxmincaps.training.evaluate import evaluation_batch_size, lengths_of_batches
from maxmincaps.training.prepare import initial_network, threads_of
from maxmincaps.training.processes import processes_for
from maxmincaps.training.step import Learner, Tally

import_extra("data", "sklearn")
from scipy.sparse import issparse  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.utils.class_weight import compute_class_weight  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets, is_multilabel  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    check_is_fitted,
    check_random_state,
    validate_data,  # pyrefly: ignore[missing-module-attribute]
)

PARAMETERS = ("normalization", "iterations", "epochs", "batch_size", "learning_rate")
OF_RUNS = (
    "dataset", "train_images", "test_images", "validation", "patience", "class_weights", "init_from", "image_size",
    "grey", "seed", "processes", "checkpoint_seconds", "keep_checkpoint",
)  # fmt: skip
SETTINGS = [name for name in Recipe.model_fields if name not in PARAMETERS + OF_RUNS]
"""The settings of a recipe that `CapsNetClassifier(settings={...})` accepts."""
PREFIX = "settings__"
Pixels = Float[Tensor, "image channel height width"]


class CapsNetClassifier(ClassifierMixin, BaseEstimator):
    """A capsule network for arrays of images, for pipelines, cross-validation and parameter searches.

    Images are (image, height, width), (image, channel, height, width), or rows of pixels. A row whose length is not a
    square is an image one pixel high, unless `image_shape` is given. Pixels of type uint8 are divided by 255, others
    are not scaled. Labels may be anything that numpy can sort. If an image may have several classes, or none, labels
    are an indicator matrix of zeros and ones, (image, class), as elsewhere in scikit-learn, and `predict` returns one.

    Args:
        normalization: How logits become routing coefficients: a name of `NORMALIZATIONS`.
        iterations: Routing iterations; 1 is no routing.
        epochs: Passes over the images.
        batch_size: Images per step.
        learning_rate: The learning rate after the warm-up.
        class_weight: `None`, "balanced", or a dictionary from class to weight, as elsewhere in scikit-learn. Not with
            several labels.
        patience: Early stopping: stop after this many epochs without a better validation accuracy, and use the weights
            of the best epoch. 0: no validation set and no early stopping.
        validation_fraction: The fraction of the images in the validation set of early stopping, stratified by class.
        image_shape: Channels, height and width of images that are given as rows.
        settings: Other settings of a recipe (`SETTINGS`), such as `{"conv_channels": 64}`. A parameter search changes
            one of them as `settings__conv_channels`.
        random_state: Seed of initial weights, order of images, augmentation and validation set.
        verbose: Whether to show a progress bar.

    Attributes:
        classes_: The labels, sorted; the columns of an indicator matrix.
        multilabel_: Whether the labels are an indicator matrix.
        network_: The trained `CapsNet`, on the CPU.
        recipe_: The recipe that it was trained with.
        loss_curve_: The mean training loss of each epoch.
        validation_scores_: The validation accuracy of each epoch, if there was early stopping.
        n_iter_: The number of epochs.

    Example:
        >>> images, labels = np.random.default_rng(0).random((20, 20, 20)), np.arange(20) % 2
        >>> classifier = CapsNetClassifier(epochs=1, settings={"conv_channels": 4, "types": 2, "warmup": 0})
        >>> classifier.fit(images, labels).predict(images).shape
        (20,)
    """

    def __init__(
        self,
        *,
        normalization: str = "max-min",
        iterations: int = 3,
        epochs: int = 10,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        class_weight: dict[Any, float] | str | None = None,
        patience: int = 0,
        validation_fraction: float = 0.1,
        image_shape: tuple[int, int, int] | None = None,
        settings: dict[str, Any] | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.normalization = normalization
        self.iterations = iterations
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.image_shape = image_shape
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: an image may have several labels."""
        tags = super().__sklearn_tags__()  # pyrefly: ignore[missing-attribute]
        tags.classifier_tags.multi_label = True
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; if `deep`, also each entry of `settings` as `settings__NAME`."""
        found = super().get_params(deep)
        entries = self.settings if deep and isinstance(self.settings, dict) else {}
        return found | {PREFIX + name: value for name, value in entries.items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters. `settings__NAME` sets one entry of `settings`."""
        entries = {name: params.pop(name) for name in list(params) if name.startswith(PREFIX)}
        super().set_params(**params)
        if entries:
            changes = {name.removeprefix(PREFIX): value for name, value in entries.items()}
            self.settings = {**(self.settings or {}), **changes}
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Train on images (see the class) and their labels, (image,), or an indicator matrix, (image, class)."""
        several = issparse(y) or np.asarray(y).ndim == 2
        X, y = validate_data(self, X, y, allow_nd=True, multi_output=several and is_multilabel(y))
        check_classification_targets(y)
        self.multilabel_ = bool(is_multilabel(y))
        if self.multilabel_:
            numbers = (y.toarray() if issparse(y) else y).astype(bool)
            self.classes_ = np.arange(numbers.shape[1])
        else:
            self.classes_, numbers = np.unique(y, return_inverse=True)
        self.image_shape_ = self._shape_of(X)
        self.recipe_ = self._recipe()
        weights = None
        if self.class_weight is not None:
            if self.multilabel_:
                raise InputError("class_weight cannot be used with an indicator matrix of labels; leave it out")
            weights = torch.from_numpy(compute_class_weight(self.class_weight, classes=self.classes_, y=y)).float()
        images, labels = self._pixels(X), torch.from_numpy(numbers)
        with threads_of(self.recipe_):
            training = _Training(self.recipe_, images, labels, len(self.classes_), weights)
            training.run(self.patience, self._validation(numbers) if self.patience else None, self.verbose)
        self.network_, self.loss_curve_, self.n_iter_ = training.result(), training.losses, len(training.losses)
        if self.patience:
            self.validation_scores_ = training.scores
        return self

    def lengths(self, X: Any) -> Float[ndarray, "image parent"]:
        """Return the length of each class capsule, (image, class). Lengths are in 0…1 and need not add up to 1."""
        check_is_fitted(self)
        X = validate_data(self, X, allow_nd=True, reset=False)
        return _lengths(self.network_, self._pixels(X), self.recipe_).double().numpy()

    def predict_proba(self, X: Any) -> Float[ndarray, "image parent"]:
        """Return the lengths divided by their sum, (image, class); with several labels the lengths themselves."""
        lengths = self.lengths(X) + np.finfo(np.float64).tiny
        if self.multilabel_:
            return lengths
        return lengths / lengths.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> ndarray:
        """Return the class with the longest capsule for each image, (image,).

        With several labels: an indicator matrix, (image, class), of the classes whose capsules are longer than 0.5.
        """
        lengths = self.lengths(X)
        return (lengths > PRESENT).astype(np.int64) if self.multilabel_ else self.classes_[lengths.argmax(axis=1)]

    def _recipe(self) -> Recipe:
        for name in self.settings or {}:
            check_name(RENAMED.get(name, name), SETTINGS, f"setting of {type(self).__name__}")
        seed = int(check_random_state(self.random_state).randint(2**31))
        parameters = {name: getattr(self, name) for name in PARAMETERS}
        return recipe_from({**(self.settings or {}), **parameters, "seed": seed}, type(self).__name__)

    def _validation(self, numbers: ndarray) -> tuple[Tensor, Tensor]:
        """Return the indices of training and validation images."""
        seed, size = self.recipe_.seed % 2**32, self.validation_fraction
        groups = None if self.multilabel_ else numbers
        split = train_test_split(np.arange(len(numbers)), test_size=size, stratify=groups, random_state=seed)
        train, validation = (torch.from_numpy(np.sort(part)) for part in split)
        return train, validation

    def _shape_of(self, X: ndarray) -> tuple[int, int, int]:
        if X.ndim > 4:
            raise InputError(f"X: expected (image, channel, height, width) or fewer axes, found {X.shape}")
        if self.image_shape or X.ndim > 2:
            channels, height, width = self.image_shape or (1, *X.shape[1:])[-3:]
            return channels, height, width
        side = int(np.sqrt(X.shape[1]))
        return (1, side, side) if side * side == X.shape[1] else (1, 1, X.shape[1])

    def _pixels(self, X: ndarray) -> Float[Tensor, "image channel height width"]:
        scale = 255 if X.dtype == np.uint8 else 1
        flat = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32) / np.float32(scale)).flatten(1)
        if flat.shape[1] != np.prod(self.image_shape_):
            raise InputError(f"X: expected images of {self.image_shape_}, found {X.shape[1:]}")
        return flat.unflatten(1, self.image_shape_)


class _Training(Learner):
    """A training in memory."""

    def __init__(self, recipe: Recipe, images: Pixels, labels: Tensor, classes: int, weights: Tensor | None) -> None:
        names = tuple(str(number) for number in range(classes))
        shape_only = torch.empty(0, *images.shape[1:], dtype=torch.uint8)
        network = initial_network(recipe, ImageSet(shape_only, torch.empty(0, dtype=torch.long), names, "X"))
        super().__init__(recipe, processes_for(recipe), network, weights)
        self.images, self.labels = images, labels
        self.losses: list[float] = []
        self.scores: list[float] = []
        self.best: dict[str, Tensor] | None = None

    def run(self, patience: int, split: tuple[Tensor, Tensor] | None, verbose: bool) -> None:
        """Train all epochs, or until the validation accuracy has not grown for `patience` epochs."""
        train, validation = split or (torch.arange(len(self.images), device="cpu"), None)
        recipe, generator = self.recipe, generator_for(self.recipe.seed, "classifier")
        steps, step = recipe.epochs * batch_count(len(train), recipe.batch_size), 0
        if steps <= recipe.warmup:
            warnings.warn(
                f"{steps} steps are no more than the {recipe.warmup} of warm-up: the network hardly learns; "
                "use more epochs, a smaller batch_size or settings={'warmup': …}",
                ConvergenceWarning,
                stacklevel=3,
            )
        with Progress(disable=not verbose) as bar:
            task = bar.add_task("training", total=steps)
            for _ in range(recipe.epochs):
                tally = Tally()
                order = train[torch.randperm(len(train), generator=generator, device="cpu")]
                for chosen in order.split(recipe.batch_size):
                    tally += self._step(chosen, step, steps, generator)
                    step += 1
                    bar.update(task, advance=1, description=f"loss {tally.mean_loss:.4f}")
                self.losses.append(tally.mean_loss)
                if validation is not None and self._validate(validation, patience):
                    return

    def _step(self, chosen: Tensor, step: int, steps: int, generator: torch.Generator) -> Tally:
        """Make a step with some of the images and return its sums; none if it is skipped."""
        device = self.processes.device
        images = for_training(self.recipe)(self.images[chosen].to(device), generator)
        result = self.learn(images, self.labels[chosen].to(device), step, steps)
        if not result.finite and self.recipe.non_finite == "stop":
            raise DivergedError(f"the loss is not finite at step {step + 1}; use a smaller learning rate")
        return result.tally if result.finite else Tally()

    def _validate(self, validation: Tensor, patience: int) -> bool:
        """Evaluate the network, keep its weights if they are the best, and return whether to stop."""
        lengths = _lengths(self.evaluation_network, self.images[validation], self.recipe)
        score = hits(lengths, self.labels[validation]).double().mean().item()
        if score > max(self.scores, default=-1.0):
            self.best = deepcopy(self.evaluation_network.state_dict())
        self.scores.append(score)
        return len(self.scores) - 1 - int(np.argmax(self.scores)) >= patience

    def result(self) -> CapsNet:
        """Return the trained network on the CPU."""
        network = self.evaluation_network
        if self.best is not None:
            network.load_state_dict(self.best)
        if not all(parameter.isfinite().all() for parameter in network.parameters()):
            raise DivergedError("the weights are not finite after the last step; use a smaller learning rate")
        return network.eval().cpu()


def _lengths(network: CapsNet, images: Pixels, recipe: Recipe) -> Tensor:
    """Return the class lengths, (image, class), on the CPU."""
    prepare, device = for_testing(recipe), next(network.parameters()).device
    batches = images.split(evaluation_batch_size(images.shape))
    return lengths_of_batches(network, (prepare(batch.to(device)) for batch in batches))
