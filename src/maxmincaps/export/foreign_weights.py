"""Load weights of other CapsNet implementations in PyTorch, in the layouts that public ones have.

All have Conv1, PrimaryCaps (one convolution or several), W, and a decoder of linear layers, in this order. They differ
in which numbers of PrimaryCaps form a capsule, and in the order of W's axes:

    primary="types"   channels 0…7 at one place, as in Sabour's code and here; or 32 convolutions of 8 channels
    primary="parts"   channels 0, 32, 64, … at one place: 8 convolutions of 32 channels, stacked
    primary="flat"    8 numbers that follow one another in memory, `maps.view(batch, -1, 8)`: neighbouring places

    axes="child parent pose part"                    ours; `1` stands for an axis of length one
    axes="1 child parent pose part", "parent child part pose", …
    axes="(row column type) parent pose part"        children counted by place first, then by type
"""

from collections.abc import Mapping
from itertools import permutations
from typing import Any, Literal

import torch
from einops import EinopsError, rearrange
from torch import Tensor, nn

from maxmincaps.capsules.layers import PrimaryCapsules
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Images, Parts
from maxmincaps.errors import InputError, check_name, one_line

LAYOUTS = ("types", "parts", "flat")
Pair = tuple[Tensor, Tensor]  # weight and bias of one layer


class FlatCapsules(PrimaryCapsules):
    """PrimaryCapsules whose capsules are numbers that follow one another in memory, at neighbouring places."""

    def __init__(self, primary: PrimaryCapsules) -> None:
        nn.Module.__init__(self)
        vars(self).update(vars(primary))  # the same convolution and settings

    def grouped(self, maps: Images) -> Parts:
        """Group numbers that follow one another into capsules."""
        return maps.flatten(1).unflatten(1, (-1, self.part_pose))


def network_from_weights(
    state: Mapping[str, Tensor],
    *,
    image_shape: tuple[int, int, int] = (1, 28, 28),
    classes: int = 10,
    primary: Literal["types", "parts", "flat"] | None = None,
    axes: str | None = None,
    **settings: Any,
) -> CapsNet:
    """Build a CapsNet with the weights of another implementation. Layers are recognised by shape, not by name.

    Args:
        state: The state dict.
        image_shape: (channels, height, width) of the images.
        classes: Number of classes.
        primary: Layout of the capsules in PrimaryCaps, where the shapes leave it open; see this module's docstring.
        axes: Order of W's axes, where the shapes leave it open; see this module's docstring.
        **settings: Settings of `CapsNet`. As in most public implementations, the normalization is softmax and
            PrimaryCaps has no ReLU.

    Raises:
        InputError: If the weights do not fit together, or some of them have no place in a CapsNet.

    Example:
        >>> from maxmincaps import fold_multipliers
        >>> theirs = fold_multipliers(CapsNet(conv_channels=8, types=2))
        >>> network_from_weights(theirs.state_dict(), relu=True, normalization="max-min").grid == theirs.grid
        True
    """
    conv1, capsules, votes, layers, rest = _found(state)
    if len({pair[0].shape for pair in capsules}) > 1:
        shapes = ", ".join(str(tuple(pair[0].shape)) for pair in capsules)
        raise InputError(f"expected convolutions of one shape in PrimaryCaps, found {shapes}")
    weight, bias = (torch.cat([pair[index] for pair in capsules]) for index in (0, 1))
    settings = {
        "normalization": "softmax",
        "relu": False,
        **settings,
        "image_shape": image_shape,
        "classes": classes,
        "conv_channels": len(conv1[0]),
        "conv_kernel": conv1[0].shape[-1],
        "primary_kernel": weight.shape[-1],
        "decoder": [len(bias) for _, bias in layers[:-1]],
    }
    with torch.device("meta"):  # only to count the places
        _, rows, columns = CapsNet(**settings, types=len(weight), part_pose=1).grid
    if axes is None:
        votes = _guessed(votes, classes, rows * columns, capsules)
    else:
        votes = _rearranged(votes, axes, rows, columns)
    *_, pose, part = votes.shape
    layout = check_name(primary or ("parts" if len(capsules) == part > 1 else "types"), LAYOUTS, "layout of capsules")
    if layout == "parts":
        weight, bias = (rearrange(each, "(part type) ... -> (type part) ...", part=part) for each in (weight, bias))
    network = CapsNet(**settings, types=len(weight) // part, part_pose=part, class_pose=pose)
    if layout == "flat":
        network.add_module("primary", FlatCapsules(network.primary))
        network.cannot_be_saved = "no setting describes capsules of numbers at neighbouring places"
    pairs = {"conv1": conv1, "primary.convolution": (weight, bias)}
    pairs |= {f"decoder.layers.{2 * number}": layer for number, layer in enumerate(layers)}
    ours = {
        f"{name}.{kind}": pair[index] for name, pair in pairs.items() for index, kind in enumerate(("weight", "bias"))
    }
    biases = [name for name in rest if rest[name].squeeze().shape == (classes, pose)]
    if network.digits.bias is not None and len(biases) == 1:
        ours["digits.bias"] = rest.pop(biases[0]).squeeze()
    if rest:
        raise InputError(
            f"a CapsNet has no place for the weights {', '.join(map(repr, rest))}; if the other network does not use "
            "them, remove them from the state dict"
        )
    try:
        network.load_state_dict({**ours, "digits.weights": votes})
    except RuntimeError as error:
        raise InputError(f"these weights do not fit together: {one_line(error)}") from None
    return network.eval()


def _found(state: Mapping[str, Tensor]) -> tuple[Pair, list[Pair], Tensor, list[Pair], dict[str, Tensor]]:
    """Return Conv1, the convolutions of PrimaryCaps, W, the decoder's layers, and all other tensors by name.

    W is the only one of them without a bias.
    """
    stems = [name.removesuffix("weight") for name in state if name.endswith("weight")]
    pairs = [(f"{stem}weight", f"{stem}bias") for stem in stems if f"{stem}bias" in state]
    convolutions = [names for names in pairs if state[names[0]].dim() == 4]
    layers = [names for names in pairs if state[names[0]].dim() == 2]
    paired = {name for names in pairs for name in names}
    votes = [name for name in state if name not in paired and state[name].dim() >= 4]
    if len(convolutions) < 2 or len(votes) != 1 or not layers:
        raise InputError(
            "expected two convolutions or more with biases, one W of four axes or more, and linear layers with biases; "
            f"found {len(convolutions)}, {len(votes)} and {len(layers)}"
        )
    taken = {name for names in (*convolutions, *layers, votes) for name in names}
    rest = {name: tensor for name, tensor in state.items() if name not in taken}
    conv1, *capsules = ((state[weight], state[bias]) for weight, bias in convolutions)
    return conv1, capsules, state[votes[0]], [(state[weight], state[bias]) for weight, bias in layers], rest


def _rearranged(votes: Tensor, axes: str, rows: int, columns: int) -> Tensor:
    """Rearrange W with the named axes to "child parent pose part"."""
    by_place = "row" in axes
    try:
        return rearrange(
            votes,
            f"{axes} -> {'(type row column)' if by_place else 'child'} parent pose part",
            **({"row": rows, "column": columns} if by_place else {}),
        )
    except EinopsError as error:
        found = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"axes {axes!r} do not fit a W of {tuple(votes.shape)}: {found}") from None


def _guessed(votes: Tensor, classes: int, places: int, capsules: list[Pair]) -> Tensor:
    """Rearrange W to "child parent pose part" by the lengths of its axes, if only one order fits them."""
    each = len(capsules[0][0])
    channels = each * len(capsules)
    orders = [
        order
        for order in permutations(range(4))
        if votes.squeeze().dim() == 4
        for child, parent, _, part in [[votes.squeeze().shape[axis] for axis in order]]
        if parent == classes
        if channels % part == 0 and child == channels // part * places
        if len(capsules) == 1 or part in (each, len(capsules))
    ]
    if len(orders) != 1:
        raise InputError(
            f"W of {tuple(votes.shape)} can be read in {len(orders)} ways for {classes} classes and "
            f"{channels} channels at {places} places; name its axes, as in axes='child parent pose part'"
        )
    return votes.squeeze().permute(orders[0])
