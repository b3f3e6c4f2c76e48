"""Weights and checkpoints as safetensors files, which hold numbers only: nothing in them is executed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from maxmincaps.capsules import multipliers
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.normalizations import NORMALIZATIONS
from maxmincaps.errors import InputError, one_line
from maxmincaps.files import check_regular, read_compressed
from maxmincaps.recipe import NetworkSettings, Recipe
from maxmincaps.training.run import SHIPPED_RUN, Run, write_atomic

CHECKPOINT = "checkpoint.safetensors"


def check_finite(tensors: Mapping[str, Tensor], where: Path) -> None:
    """Raise `InputError` if a tensor is not of finite floating-point numbers; batch norm's counters are exempt."""
    for name, tensor in tensors.items():
        if name.endswith(".num_batches_tracked") and tensor.dtype == torch.long:
            continue
        if not tensor.is_floating_point():
            raise InputError(f"{where}: expected finite numbers in {name}, found {tensor.dtype}")
        if not tensor.float().isfinite().all():
            raise InputError(f"{where}: expected finite numbers in {name}, found NaN or infinity")


def network_for(recipe: Recipe, image_shape: tuple[int, int, int], classes: int) -> CapsNet:
    """Return the network of a recipe in single precision, with new weights."""
    settings = recipe.model_dump(include=set(NetworkSettings.model_fields))
    return CapsNet(image_shape=image_shape, classes=classes, **settings).float()


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any] | None = None) -> None:
    """Write tensors and a note of JSON values into a safetensors file, completely or not at all."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Without memory, safetensors ends the process without a message. Allocating here raises a MemoryError instead.
    bytearray(2 * sum(tensor.nbytes for tensor in plain.values()))
    write_atomic(path, save(plain, {"note": json.dumps(note or {})}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the note of a file that `save_tensors` wrote, or of its .xz file in a small copy of a run.

    Raises:
        InputError: If the file is missing, damaged or of another kind.
    """
    compressed = path.with_name(f"{path.name}.xz")
    try:
        if not path.exists() and compressed.exists():
            return load(read_compressed(compressed)), {}
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads((file.metadata() or {})["note"])
    except (FileNotFoundError, NotADirectoryError):
        raise Run(path.parent).missing(path.name) from None
    except InputError:
        raise
    except (OSError, SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"{path}: is not a complete safetensors file of this package: {one_line(error)}") from None


def load_weights(network: nn.Module, weights: dict[str, Tensor], path: Path, *, in_place: bool = False) -> None:
    """Load the weights of a file into a network, possibly one on the meta device.

    With `in_place` they are copied into the network's tensors, which an optimizer may hold, instead of replacing them.

    Raises:
        InputError: If a tensor is missing, unknown, of another shape or not finite.
    """
    check_finite(weights, path)
    wanted = network.state_dict()
    converted = {name: tensor.to(wanted[name].dtype) if name in wanted else tensor for name, tensor in weights.items()}
    try:
        network.load_state_dict(converted, assign=not in_place)
    except RuntimeError as error:
        raise InputError(f"{path}: does not fit the network; it is of another recipe: {one_line(error)}") from None


def load_network(folder: Path | str = SHIPPED_RUN, which: Literal["best", "last"] = "best") -> CapsNet:
    """Return the trained network of a run, ready for inference.

    Args:
        folder: A run folder. Default: the network of the package (Max-Min, trained on MNIST).
        which: The weights of the best or of the last epoch.

    Raises:
        InputError: If a file of the run is missing or damaged.

    Example:
        >>> load_network().image_shape
        (1, 28, 28)
    """
    run = Run(Path(folder))
    path = run.folder / f"{which}.safetensors"
    weights, classes = load_tensors(path)[0], len(run.data.classes)
    votes = weights.get("digits.weights")  # (child, parent, pose, part)
    if votes is not None and votes.dim() == 4 and votes.shape[1] != classes:
        # Compared before anything is built: data.json may name more classes than fit into memory.
        raise InputError(f"{path}: the file has weights of {votes.shape[1]} classes, data.json names {classes:,}")
    network = unfilled_network(run)
    load_weights(network, weights, path)
    return network.eval()


def unfilled_network(run: Run) -> CapsNet:
    """Return a run's network on the meta device, so that a recipe cannot allocate more than its weights file holds."""
    recipe, shape, classes = run.recipe, run.data.image_shape, run.data.classes
    try:
        with torch.device("meta"):
            return network_for(recipe, shape, len(classes))
    except (InputError, RuntimeError, ArithmeticError, TypeError) as error:
        own = recipe.normalization not in NORMALIZATIONS
        hint = "; if it is your own, --import MODULE registers it" if own else ""
        raise InputError(f"{run.folder}: its network cannot be built: {one_line(error)}{hint}") from None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of Adam as named tensors."""
    return {
        f"{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], path: Path) -> None:
    """Load what `optimizer_tensors` returned. Tensors that do not fit the optimizer's parameters are refused."""
    check_finite(tensors, path)
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


def apply_init_from(network: CapsNet, source: str, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Copy the weights of another network into a network, and return the names of the layers that were copied.

    The class capsules start anew if the classes differ, the decoder if its shape differs. All other layers must fit.

    Args:
        network: Changed in place; its multipliers are folded. On the meta device shapes are compared only.
        source: A run folder, a hub folder, or the name of a model on the hub.
        classes: The names of the network's classes.
    """
    weights, their_classes = _weights_of(source)
    ours = {name: tensor for name, tensor in network.state_dict().items() if name.rpartition(".")[2] != multipliers.KEY}
    kept = []
    for layer in dict.fromkeys(name.partition(".")[0] for name in ours):
        shapes, theirs = (
            {name: tuple(tensor.shape) for name, tensor in named.items() if name.partition(".")[0] == layer}
            for named in (ours, weights)
        )
        if shapes == theirs and not (layer == "digits" and their_classes not in (None, classes)):
            kept.append(layer)
        elif layer not in ("digits", "decoder"):
            raise InputError(f"init_from {source}: its layer {layer} has shapes {theirs}, the new network {shapes}")
    taken = {name: tensor for name, tensor in weights.items() if name.partition(".")[0] in kept}
    if not next(network.parameters()).is_meta:
        load_weights(network, {**ours, **taken}, Path(source), in_place=True)
    return tuple(kept)


def _weights_of(source: str) -> tuple[dict[str, Tensor], tuple[str, ...] | None]:
    """Return the weights and, of a run, the class names."""
    run = Run(Path(source))
    if run.exists:
        return load_tensors(run.folder / "best.safetensors")[0], run.data.classes
    try:
        return dict(multipliers.fold_multipliers(CapsNet.from_pretrained(source)).state_dict()), None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"init_from {source}: neither a run folder nor a hub model: {one_line(error)}") from None
