"""Whether operators are traced or transformed, so that only plain ones may be used."""

import torch
from torch import Tensor


def is_tracing(*tensors: Tensor) -> bool:
    """Return whether operators are traced (`torch.compile`, export, jit) or tensors are transformed by `torch.func`.

    Code that works in pieces or has custom gradients gives way to plain operators then.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return True
    return any(torch.func.debug_unwrap(tensor, recurse=False) is not tensor for tensor in tensors)
