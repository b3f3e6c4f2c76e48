"""Checks of what a layer receives: shape and dtype, and whether operators are traced."""

from collections.abc import Sequence

import torch
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


def is_tracing(*tensors: Tensor) -> bool:
    """Return whether operators are traced (`torch.compile`, export, jit) or tensors are transformed by `torch.func`.

    Code that works in pieces or has custom gradients gives way to plain operators then.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return True
    return any(torch.func.debug_unwrap(tensor, recurse=False) is not tensor for tensor in tensors)
