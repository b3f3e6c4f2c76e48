"""The paper's network as scikit-learn knows classifiers: `fit`, `predict`, `predict_proba`, `score`."""

from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from maxmincaps.capsules.network import CapsNet
from maxmincaps.data.augment import for_testing, for_training
from maxmincaps.data.batches import batch_count, generator_for
from maxmincaps.data.images import ImageSet
from maxmincaps.errors import DivergedError, InputError, check_name, import_extra
from maxmincaps.recipe import Recipe, recipe_from
from maxmincaps.training.evaluate import at_once
from maxmincaps.training.prepare import initial_network, losses_for, optimizer_for, set_learning_rate, threads_of
from maxmincaps.training.processes import processes_for
from maxmincaps.training.step import train_step, update_ema

import_extra("data", "sklearn")
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    check_is_fitted,
    check_random_state,
    validate_data,  # pyrefly: ignore[missing-module-attribute]
)

PARAMETERS = ("normalization", "iterations", "epochs", "batch_size", "learning_rate")
OF_RECORDS = (
    "dataset", "train_images", "test_images", "validation", "image_size", "grey", "seed", "non_finite", "processes",
    "checkpoint_seconds", "keep_checkpoint", "patience", "init_from",
)  # fmt: skip
SETTINGS = [name for name in Recipe.model_fields if name not in PARAMETERS + OF_RECORDS]
"""The settings of a recipe that a classifier follows beside its parameters."""


class CapsNetClassifier(ClassifierMixin, BaseEstimator):
    """A CapsNet that learns from arrays of images and keeps no record: for pipelines and cross-validation.

    Images are (image, height, width), (image, channel, height, width), or rows of pixels; a row whose length is no
    square is an image one pixel high, unless `image_shape` says otherwise. Pixels of type uint8 are divided by 255,
    others are taken as they are. `settings` are others of a recipe (`SETTINGS`), such as `{"conv_channels": 64}`. It is
    trained on their `device`, and answers on the CPU, so that it can be pickled for any machine.
    """

    def __init__(
        self,
        *,
        normalization: str = "max-min",
        iterations: int = 3,
        epochs: int = 10,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        image_shape: tuple[int, int, int] | None = None,
        settings: dict[str, Any] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.normalization = normalization
        self.iterations = iterations
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.image_shape = image_shape
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on images and their labels, of any kind that numpy can sort."""
        X, y = validate_data(self, X, y, allow_nd=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.image_shape_ = self._shape_of(X)
        self.recipe_ = self._recipe()
        with threads_of(self.recipe_):
            self.network_, self.loss_curve_ = _trained(
                self.recipe_, self._pixels(X), torch.from_numpy(numbers), len(self.classes_)
            )
        return self

    def lengths(self, X: Any) -> Float[ndarray, "image parent"]:
        """Give the length of each class's capsule, as they are: between 0 and 1, of any sum."""
        check_is_fitted(self)
        X = validate_data(self, X, allow_nd=True, reset=False)
        prepare = for_testing(self.recipe_)
        with torch.inference_mode():
            batches = self._pixels(X).split(at_once(self.image_shape_))
            found = [self.network_(prepare(batch)).lengths for batch in batches]
        return torch.cat(found).double().numpy()

    def predict_proba(self, X: Any) -> Float[ndarray, "image parent"]:
        """Give the lengths as shares of their sum."""
        lengths = self.lengths(X) + np.finfo(np.float64).tiny
        return lengths / lengths.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> ndarray:
        """Name the class of each image: the one with the longest capsule."""
        winners = self.lengths(X).argmax(axis=1)
        return self.classes_[winners]

    def _recipe(self) -> Recipe:
        for name in self.settings or {}:
            check_name(name, SETTINGS, f"setting of {type(self).__name__}")
        seed = int(check_random_state(self.random_state).randint(2**31))
        return recipe_from(
            {**(self.settings or {}), **{name: getattr(self, name) for name in PARAMETERS}, "seed": seed},
            type(self).__name__,
        )

    def _shape_of(self, X: ndarray) -> tuple[int, int, int]:
        if self.image_shape:
            channels, height, width = self.image_shape
            return channels, height, width
        if X.ndim > 4:
            raise InputError(f"X: expected (image, channel, height, width) or fewer axes, found {X.shape}")
        if X.ndim > 2:
            channels, height, width = (1, *X.shape[1:])[-3:]
            return channels, height, width
        side = int(np.sqrt(X.shape[1]))
        return (1, side, side) if side * side == X.shape[1] else (1, 1, X.shape[1])

    def _pixels(self, X: ndarray) -> Float[Tensor, "image channel height width"]:
        scale = 255 if X.dtype == np.uint8 else 1
        flat = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32) / np.float32(scale)).flatten(1)
        if flat.shape[1] != np.prod(self.image_shape_):
            raise InputError(f"X: expected images of {self.image_shape_}, found {X.shape[1:]}")
        return flat.unflatten(1, self.image_shape_)


def _trained(
    recipe: Recipe, images: Float[Tensor, "image channel height width"], labels: Tensor, classes: int
) -> tuple[CapsNet, list[float]]:
    """Make every step of the recipe, and give the network and its losses. Without test images there is no record."""
    names = tuple(str(number) for number in range(classes))
    network = initial_network(
        recipe, ImageSet(torch.empty(0, *images.shape[1:], dtype=torch.uint8), labels, names, "X")
    )
    here, augment = processes_for(recipe), for_training(recipe)
    trained, optimizer = here.setup(network, optimizer_for(recipe, network))
    averaged = deepcopy(network) if recipe.ema_decay else None
    generator = generator_for(recipe.seed, "classifier")
    losses: list[float] = []
    steps = recipe.epochs * batch_count(len(images), recipe.batch_size)
    for _ in range(recipe.epochs):
        for chosen in torch.randperm(len(images), generator=generator, device="cpu").split(recipe.batch_size):
            set_learning_rate(optimizer, recipe, len(losses), steps)
            seen, right = augment(images[chosen].to(here.device), generator), labels[chosen].to(here.device)
            result = train_step(trained, optimizer, seen, right, partial(losses_for, recipe))
            if averaged:
                update_ema(averaged, network, recipe.ema_decay, len(losses))
            losses.append(result.tally.mean_loss)
        if not np.isfinite(losses[-1]):
            raise DivergedError(f"the loss is not finite after {len(losses)} steps; try a smaller learning rate")
    kept = (averaged or network).eval().cpu()
    if not all(parameter.isfinite().all() for parameter in kept.parameters()):
        raise DivergedError("the weights are not finite after the last step; try a smaller learning rate")
    return kept, losses
