"""Checks of what a layer receives, with messages that name the layer, what it expected and what it found."""

from collections.abc import Sequence

from torch import Tensor, nn

from maxmincaps.errors import InputError


def check_input(layer: nn.Module, found: Tensor, expected: Sequence[int | str]) -> None:
    """Raise `InputError` unless a tensor has the expected shape and a floating-point dtype.

    Args:
        layer: The layer that received the tensor; its class name begins the message.
        found: The tensor.
        expected: One entry per axis: a number for a size that must match, a name for an axis of any size.

    Raises:
        InputError: If the number of axes, a size or the dtype differs.
    """
    name = type(layer).__name__
    sizes_fit = found.dim() == len(expected) and all(
        isinstance(want, str) or size == want for size, want in zip(found.shape, expected, strict=True)
    )
    if not sizes_fit:
        shape = ", ".join(map(str, expected))
        raise InputError(f"{name}: expected a tensor of shape ({shape}), found {tuple(found.shape)}")
    if not found.is_floating_point():
        raise InputError(f"{name}: expected floating-point numbers, found {found.dtype}; convert with .float()")
