"""Routing by compiled kernels (`kernels.py`), where numba is installed: 32-bit numbers on a CPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from maxmincaps.capsules.shapes import Couplings, Logits, Parts, Poses, Weights
from maxmincaps.errors import InputError


@cache
def load_kernels() -> ModuleType | None:
    """Import the kernels, or return None where numba is missing, switched off or unable to compile here."""
    try:
        import numba

        if getattr(numba.config, "DISABLE_JIT", False):
            return None
        from maxmincaps.capsules import kernels
    except (ImportError, RuntimeError):  # numba raises RuntimeError where it finds no folder for its cache
        return None
    return kernels


def suits(*tensors: Tensor) -> bool:
    """Return whether the compiled kernels take these tensors."""
    return all(
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.numel() > 0
        for tensor in tensors
    ) and (load_kernels() is not None)


class CompiledVotes:
    """The two products of the votes that routing needs, without votes in memory and without gradients.

    Args:
        parts: Children, (batch, child, part).
        weights: W, (child, parent, pose, part).
    """

    def __init__(self, parts: Parts, weights: Weights) -> None:
        self.parents, self.pose = weights.shape[1:3]
        self._parts, self._weights = _children_innermost(parts), _parents_first(weights)

    def zero_logits(self) -> Logits:
        """Return logits of zero, (batch, child, parent)."""
        batch, _, children = self._parts.shape
        return self._parts.new_zeros(batch, self.parents, children).mT

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Return Σ_i c_ij û_ij.

        Raises:
            InputError: If the coefficients, of a normalization of the user's own, do not have the logits' shape and
                dtype. A kernel would read beyond them.
        """
        batch, _, children = self._parts.shape
        if couplings.shape != (batch, children, self.parents) or couplings.dtype != self._parts.dtype:
            raise InputError(
                f"the normalization was expected to return {self._parts.dtype} of {(batch, children, self.parents)}, "
                f"as its logits are, found {couplings.dtype} of {tuple(couplings.shape)}"
            )
        sums = self._parts.new_empty(len(self._parts), self.parents, self.pose)
        _run("weighted_sums", len(sums), self._parts, self._weights, couplings.mT.contiguous(), sums)
        return sums

    def agreement(self, poses: Poses) -> Logits:
        """Return û_ij · v_j."""
        agreement = self._parts.new_empty(len(self._parts), self.parents, self._parts.shape[2])
        _run("agreements", len(agreement), self._parts, self._weights, poses.contiguous(), agreement)
        return agreement.mT


def gradients(grad_sums: Poses, couplings: Couplings, parts: Parts, weights: Weights) -> tuple[Parts, Weights]:
    """Return the gradients of parts and weights, for the gradient of the weighted sums Σ_i c_ij W_ij u_i."""
    by_child, by_parent = _children_innermost(parts), _parents_first(weights)
    couplings, grad_sums = couplings.mT.contiguous(), grad_sums.contiguous()
    grad_parts, grad_weights = torch.empty_like(by_child), torch.empty_like(by_parent)
    _run("gradients_of_parts", len(parts), by_parent, couplings, grad_sums, grad_parts)
    _run("gradients_of_weights", len(by_parent), by_child, couplings, grad_sums, grad_weights)
    return grad_parts.mT, grad_weights.view(-1, len(weights)).T.contiguous().view_as(weights)


def _children_innermost(parts: Parts) -> Tensor:
    # "batch child part -> batch part child"
    return parts.mT.contiguous()


def _parents_first(weights: Weights) -> Tensor:
    # "child parent pose part -> parent pose (part child)", as the transpose of a matrix, which torch does fastest
    children, parents, pose, part = weights.shape
    return weights.reshape(children, -1).T.contiguous().view(parents, pose, part * children)


def _run(name: str, count: int, *tensors: Tensor) -> None:
    """Run a kernel over 0 … count − 1, which the threads share. What is computed does not depend on their number."""
    kernel: Callable[..., Any] = getattr(load_kernels(), name)
    arrays = [tensor.detach().numpy() for tensor in tensors]
    threads = min(torch.get_num_threads(), count)
    if threads == 1:
        kernel(*arrays, 0, count)
        return
    bounds = [count * thread // threads for thread in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(kernel, *arrays, *some) for some in pairwise(bounds)]:
            done.result()
