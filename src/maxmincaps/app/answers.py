"""What the explorer asks of trained networks, as plain values: no page, no browser, no files beyond the records.

A `Look` is one image routed by one network under one normalization, every iteration kept. As an iteration does not
depend on how many follow, each is also the answer of a network that stops there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor

from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.normalizations import NORMALIZATIONS, normalization_of
from maxmincaps.capsules.routing import routing_steps
from maxmincaps.data.augment import for_testing
from maxmincaps.errors import InputError, check_name
from maxmincaps.recipe import Recipe
from maxmincaps.training.checkpoint import load_network
from maxmincaps.training.predict import Picture
from maxmincaps.training.run import Run

AS_TRAINED = "as trained"
FEWEST_SHOWN = 5
"""So many iterations are shown at least, also of a network that was trained with fewer."""
Quantity = Literal["logits", "couplings"]
TOLD = {"normalization": "{}", "dataset": "{}", "iterations": "r = {}", "seed": "seed {}"}
"""The settings that runs are named by, and how."""


@dataclass(frozen=True, eq=False)
class Model:
    """A trained run, under the name that the page gives it."""

    name: str
    network: CapsNet
    recipe: Recipe
    classes: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path, name: str) -> Self:
        """Load the network of a record."""
        record = Run(folder)
        return cls(name, load_network(folder), record.recipe, tuple(record.data.classes))

    @property
    def shown_iterations(self) -> int:
        """Give how many iterations are worth looking at."""
        return max(self.recipe.iterations, FEWEST_SHOWN)


def models_of(folders: Sequence[Path]) -> list[Model]:
    """Load runs that can be shown together: those that take the same images and know the same classes."""
    models = [Model.of(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    for folder, model in zip(folders, models, strict=True):
        kinds = [(one.network.image_shape, one.classes) for one in (models[0], model)]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"{folder}: expected images and classes as {folders[0]} has, {_kind(models[0])}, found {_kind(model)}"
            )
    return models


def _kind(model: Model) -> str:
    channels, height, width = model.network.image_shape
    return f"{height}×{width}×{channels} of {model.classes[0]} … {model.classes[-1]}"


def _names(folders: Sequence[Path]) -> list[str]:
    """Name runs by normalization and by what else they differ in, a page having little room for the names of folders.

    Where that does not tell all of them apart, it is the last part of each folder, numbered where two are the same.
    """
    recipes = [Run(folder).recipe for folder in folders]
    differing = [field for field in TOLD if len({getattr(recipe, field) for recipe in recipes}) > 1]
    told = dict.fromkeys(["normalization", *differing])
    short = [", ".join(TOLD[field].format(getattr(recipe, field)) for field in told) for recipe in recipes]
    if len(set(short)) == len(short):
        return short
    plain = [folder.resolve().name for folder in folders]
    return [
        name if plain.count(name) == 1 else f"{name} ({plain[: place + 1].count(name)})"
        for place, name in enumerate(plain)
    ]


class Field(NamedTuple):
    """The window of the image that a child sees, in pixels; it may reach beyond the image where there is padding."""

    top: int
    left: int
    size: int


class Child(NamedTuple):
    """A capsule of PrimaryCaps: where it is, and what it has to do with one parent."""

    number: int
    type: int
    row: int
    column: int
    coupling: float
    push: float


@dataclass(frozen=True, eq=False)
class Look:
    """One image, routed: logits, couplings and poses of every iteration."""

    model: Model
    normalization: str
    image: Picture
    logits: Float[Tensor, "iteration child parent"]
    couplings: Float[Tensor, "iteration child parent"]
    poses: Float[Tensor, "iteration parent pose"]
    agreements: Float[Tensor, "iteration child parent"]
    """û_ij · v_j, with the poses of the same iteration."""

    @cached_property
    def lengths(self) -> Float[Tensor, "iteration parent"]:
        """Give the length of each class capsule: its probability."""
        return self.poses.norm(dim=-1)

    @cached_property
    def pushes(self) -> Float[Tensor, "iteration child parent"]:
        """Give how far each child moves each parent's sum along its own direction: c_ij û_ij · v_j / ‖v_j‖.

        Over all children these sum to the length of s_j (less the bias, where there is one).
        """
        return self.couplings * self.agreements / self.lengths.clamp(min=1e-12)[:, None, :]

    def winner(self, iteration: int) -> int:
        """Give the longest class."""
        return int(self.lengths[iteration].argmax())


@torch.inference_mode()
def side_by_side(
    image: Picture, left: tuple[Model, str], right: tuple[Model, str], iterations: int | None = None
) -> tuple[Look, Look]:
    """Route one image twice: through two networks, or through one with two normalizations. Votes are shared."""
    iterations = iterations or max(left[0].shown_iterations, right[0].shown_iterations)
    if left[0] is right[0]:
        first, second = _looks(left[0], image, [left[1], right[1]], iterations)
        return first, second
    (first,), (second,) = (_looks(model, image, [name], iterations) for model, name in (left, right))
    return first, second


def _looks(model: Model, image: Picture, normalizations: Sequence[str], iterations: int) -> list[Look]:
    digits = model.network.digits
    seen = for_testing(model.recipe.with_changes(crop=0))(image.unsqueeze(0))
    votes = digits.votes(model.network.parts(seen))
    looks = []
    for name in normalizations:
        normalize = digits.normalization if name == AS_TRAINED else normalization_of(name)
        steps = list(routing_steps(votes, normalize, iterations, logit_gain=digits.logit_gain, bias=digits.bias))
        looks.append(
            Look(
                model=model,
                normalization=model.recipe.normalization if name == AS_TRAINED else name,
                image=image,
                logits=torch.cat([step.logits for step in steps]),
                couplings=torch.cat([step.couplings for step in steps]),
                poses=torch.cat([step.poses for step in steps]),
                agreements=torch.cat([votes.agreement(step.poses) for step in steps]),
            )
        )
    return looks


def choices() -> list[str]:
    """Name what can be done with a network's logits."""
    return [AS_TRAINED, *NORMALIZATIONS]


@dataclass(frozen=True, eq=False)
class Counts:
    """A histogram: how many there are in each bin, over all parents and for one of them."""

    edges: Float[Tensor, "edge"]
    everywhere: Float[Tensor, "bin"]
    of_parent: Float[Tensor, "bin"]


def histogram(found: Look, iteration: int, quantity: Quantity, parent: int, bins: int = 40) -> Counts:
    """Count logits or couplings; all iterations share their bins, so that moving between them shows what moved."""
    values = {"logits": found.logits, "couplings": found.couplings}[
        check_name(quantity, ("logits", "couplings"), "quantity")
    ]
    low, high = values.min().item(), values.max().item()
    if quantity == "couplings":
        low, high = min(low, 0.0), max(high, 1.0)
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    edges = torch.linspace(low, high, bins + 1)
    shown = values[iteration]
    # The last bin holds its upper edge too; clamping keeps what rounding would put outside.
    place = ((shown - low) * (bins / (high - low))).long().clamp(0, bins - 1)
    counts = [place.flatten().bincount(minlength=bins), place[:, parent].bincount(minlength=bins)]
    return Counts(edges, counts[0].float(), counts[1].float())


def receptive_field(model: Model, row: int, column: int) -> Field:
    """Give the window of the image that the children at a place see."""
    recipe = model.recipe
    padding = (0, 0) if recipe.padding == "valid" else (recipe.conv_kernel // 2, recipe.primary_kernel // 2)
    step = recipe.conv_stride * recipe.primary_stride
    outside = padding[0] + padding[1] * recipe.conv_stride
    size = recipe.conv_kernel + (recipe.primary_kernel - 1) * recipe.conv_stride
    return Field(row * step - outside, column * step - outside, size)


def child(found: Look, iteration: int, number: int, parent: int) -> Child:
    """Say where a child is, and what it has to do with a parent."""
    _, rows, columns = found.model.network.grid
    kind, place = divmod(number, rows * columns)
    row, column = divmod(place, columns)
    pairs = found.couplings[iteration, number, parent], found.pushes[iteration, number, parent]
    return Child(number, kind, row, column, *(pair.item() for pair in pairs))


def number_of(model: Model, kind: int, row: int, column: int) -> int:
    """Give the number of the child of a type at a place; beyond the last, the last."""
    types, rows, columns = model.network.grid
    kind, row, column = min(kind, types - 1), min(row, rows - 1), min(column, columns - 1)
    return (kind * rows + row) * columns + column


def strongest(found: Look, iteration: int, parent: int, count: int = 6) -> list[Child]:
    """Give the children with the strongest couplings to a parent; among equals, those that push it furthest.

    Dead children are left out: their vote is zero, whatever their coupling.
    """
    alive = found.agreements[iteration].abs().amax(dim=1) > 0
    couplings = found.couplings[iteration, :, parent].masked_fill(~alive, -torch.inf)
    by_push = found.pushes[iteration, :, parent].argsort(descending=True, stable=True)
    # Rounded, as couplings that differ by less than is shown are equals.
    order = by_push[couplings[by_push].mul(1e4).round().argsort(descending=True, stable=True)]
    chosen = order[: min(count, int(alive.sum()))].tolist()
    return [child(found, iteration, number, parent) for number in chosen]


def by_place(found: Look, iteration: int) -> Float[Tensor, "row column parent"]:
    """Sum the pushes of all types at each place: which places speak for which class."""
    types, rows, columns = found.model.network.grid
    return found.pushes[iteration].unflatten(0, (types, rows, columns)).sum(dim=0)


def by_type(found: Look, iteration: int) -> Float[Tensor, "type parent"]:
    """Sum the pushes of each type over all places: which types speak for which class."""
    types, rows, columns = found.model.network.grid
    return found.pushes[iteration].unflatten(0, (types, rows * columns)).sum(dim=1)


@torch.inference_mode()
def reconstruction(found: Look, iteration: int, pose: Sequence[float] | None = None) -> Picture:
    """Draw the winning capsule, or what it would draw with other numbers in it."""
    poses = _poses_with(found, iteration, pose)
    return found.model.network.decoder(poses.unsqueeze(0), torch.tensor([found.winner(iteration)]))[0]


def _poses_with(found: Look, iteration: int, pose: Sequence[float] | None) -> Float[Tensor, "parent pose"]:
    """Give the poses of an iteration, with other numbers in the winning capsule if there are any."""
    poses = found.poses[iteration].clone()
    if pose is not None:
        if len(pose) != poses.shape[1]:
            raise InputError(f"expected {poses.shape[1]} numbers of a class capsule, found {len(pose)}")
        poses[found.winner(iteration)] = torch.tensor(pose, dtype=poses.dtype)
    return poses


@torch.inference_mode()
def perturbations(
    found: Look, iteration: int, pose: Sequence[float] | None = None, most: float = 0.25, steps: int = 11
) -> Float[Tensor, "number step channel height width"]:
    """Draw the winning capsule with each of its numbers moved from −most to most: the picture of capsule papers."""
    winner, base = found.winner(iteration), _poses_with(found, iteration, pose)
    numbers = base.shape[1]
    moved = base.expand(numbers, steps, *base.shape).clone()
    offsets = torch.linspace(-most, most, steps)
    for number in range(numbers):
        moved[number, :, winner, number] += offsets
    drawn = found.model.network.decoder(moved.flatten(0, 1), torch.full((numbers * steps,), winner))
    return drawn.unflatten(0, (numbers, steps))
