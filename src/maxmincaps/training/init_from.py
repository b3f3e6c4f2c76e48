"""Fine-tuning: weights of another network as initial weights."""

from pathlib import Path

from torch import Tensor

from maxmincaps.capsules.network import CapsNet
from maxmincaps.errors import InputError, one_line
from maxmincaps.training.checkpoint import load_tensors, load_weights
from maxmincaps.training.run import Run

CLASS_LAYERS = ("digits", "decoder")
"""Layers whose shape depends on the classes or on the image size. They start anew where they do not fit."""


def apply_init_from(network: CapsNet, source: str, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Copy the weights of another network into a network.

    The class capsules start anew if the classes differ, the decoder if its shape differs. All other layers must fit.

    Args:
        network: Changed in place. On the meta device nothing is copied, and shapes are compared all the same.
        source: A run folder, a hub folder, or the name of a model on the hub.
        classes: The names of the network's classes.

    Returns:
        The names of the layers that were copied.

    Raises:
        InputError: If the source cannot be read, or if a layer before the class capsules does not fit.
    """
    weights, their_classes = _weights_of(source)
    ours, kept = network.state_dict(), []
    for layer in dict.fromkeys(name.partition(".")[0] for name in ours):
        shapes, theirs = (
            {name: tuple(tensor.shape) for name, tensor in named.items() if name.partition(".")[0] == layer}
            for named in (ours, weights)
        )
        if shapes == theirs and not (layer == "digits" and their_classes not in (None, classes)):
            kept.append(layer)
        elif layer not in CLASS_LAYERS:
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
        return dict(CapsNet.from_pretrained(source).state_dict()), None
    except InputError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"init_from {source}: neither a run folder nor a hub model: {one_line(error)}") from None
