"""Weights and the state of a stopped run, as safetensors: plain numbers, nothing in them can be executed."""

import json
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from maxmincaps.capsules.hub import check_numbers
from maxmincaps.capsules.network import CapsNet
from maxmincaps.errors import InputError, one_line
from maxmincaps.files import check_regular, read_compressed
from maxmincaps.recipe import NetworkSettings, Recipe
from maxmincaps.training.run import SHIPPED_RUN, Run, write_atomic

CHECKPOINT = "checkpoint.safetensors"


def network_for(recipe: Recipe, image_shape: tuple[int, int, int], classes: int) -> CapsNet:
    """Build the network that a recipe describes, for images of that shape, whatever a user's default precision is."""
    settings = recipe.model_dump(include=set(NetworkSettings.model_fields))
    return CapsNet(image_shape=image_shape, classes=classes, **settings).float()


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any] | None = None) -> None:
    """Write tensors and a note of JSON values, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Where memory is refused, safetensors ends the process without a word; asked for here, it is a MemoryError.
    bytearray(2 * sum(tensor.nbytes for tensor in plain.values()))
    write_atomic(path, save(plain, {"note": json.dumps(note or {})}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote, or the .xz file of the same content that a small copy of a run has."""
    compressed = path.with_name(f"{path.name}.xz")
    try:
        if not path.exists() and compressed.exists():
            return load(read_compressed(compressed)), {}
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads((file.metadata() or {})["note"])
    except FileNotFoundError:
        raise Run(path.parent).missing(path.name) from None
    except InputError:
        raise
    except (OSError, SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"{path}: is not a whole safetensors file of ours: {one_line(error)}") from None


def load_weights(network: nn.Module, weights: dict[str, Tensor], path: Path, *, in_place: bool = False) -> None:
    """Fill a network with weights, or say which do not fit. `in_place` keeps its tensors, which an optimizer holds."""
    wanted = network.state_dict()
    check_numbers(weights, path)
    for name in sorted(wanted.keys() | weights.keys()):
        ours, theirs = (tuple(side[name].shape) if name in side else "nothing" for side in (wanted, weights))
        if ours != theirs:
            raise InputError(f"{path}: the network has {ours} for {name}, the file {theirs}; it is of another recipe")
    network.load_state_dict(
        {name: tensor.to(wanted[name].dtype) for name, tensor in weights.items()}, assign=not in_place
    )


def load_network(folder: Path | str = SHIPPED_RUN, which: Literal["best", "last"] = "best") -> CapsNet:
    """Give the trained network of a record, ready for inference. Default: the one that comes with the package."""
    record = Run(Path(folder))
    path = record.folder / f"{which}.safetensors"
    weights, classes = load_tensors(path)[0], len(record.data.classes)
    votes = weights.get("digits.weights")  # (child, parent, pose, part)
    if votes is not None and votes.dim() == 4 and votes.shape[1] != classes:
        # Before anything is built: a stranger's data.json may name more classes than fit into memory.
        raise InputError(f"{path}: the file has weights of {votes.shape[1]} classes, data.json names {classes:,}")
    network = unfilled_network(record)
    load_weights(network, weights, path)
    return network.eval()


def unfilled_network(record: Run) -> CapsNet:
    """Build a record's network without memory, so that a stranger's recipe cannot ask for more than its file holds."""
    recipe, shape, classes = record.recipe, record.data.image_shape, record.data.classes
    try:
        with torch.device("meta"):
            return network_for(recipe, shape, len(classes))
    except (InputError, RuntimeError, ArithmeticError, TypeError) as error:
        raise InputError(f"{record.folder}: its network cannot be built: {one_line(error)}") from None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Lay out an optimizer's state as named tensors."""
    return {
        f"{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], path: Path) -> None:
    """Put back what `optimizer_tensors` laid out, if it fits."""
    check_numbers(tensors, path)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    there = {name.partition(".")[0] for name in tensors}  # a parameter that no gradient has reached has no state
    shapes = {
        f"{index}.{name}": torch.Size() if name == "step" else parameter.shape
        for index, parameter in enumerate(parameters)
        if str(index) in there
        for name in ("step", "exp_avg", "exp_avg_sq")
    }
    if {name: tensor.shape for name, tensor in tensors.items()} != shapes:
        raise InputError(f"{path}: the optimizer's state does not fit the network; it is of another recipe")
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, field = name.partition(".")
        state.setdefault(int(index), {})[field] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
