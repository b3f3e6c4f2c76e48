"""Routing: children vote, parents form where votes agree (section 2 of the paper).

There is one loop, `routing_steps`, for every normalization, and anyone may watch it:

    c = start
    v = squash(Σ_i c_ij û_ij)              a step is (b, c, v)
    b = b + û_ij · v_j
    c = normalize(b), and so on

The loop needs the votes û only through two products, their weighted sum and their agreement with poses. So they come
in three forms: `HeldVotes` has them in memory, as the equations say; `LazyVotes` has the parts u and the weights W and
never forms û = W u, which at batch 128 would be 94 MB that are read and written again and again; `TracedVotes` is the
same for compilers and exporters, which understand plain operators only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from maxmincaps.capsules.normalizations import Normalization, normalization_of
from maxmincaps.capsules.shapes import Couplings, Logits, Parts, Poses, Votes, Weights
from maxmincaps.errors import InputError


def squash(poses: Float[Tensor, "*batch pose"]) -> Float[Tensor, "*batch pose"]:
    """Shorten each vector to a length below 1 and keep its direction: s·‖s‖ / (1 + ‖s‖²).

    The usual form, ‖s‖²/(1 + ‖s‖²) · s/‖s‖, is the same function but divides by zero at s = 0. Divided by its largest
    component where that exceeds 1, a vector's square cannot overflow.
    """
    size = poses.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1)
    poses = poses / size
    squared = poses.square().sum(dim=-1, keepdim=True)
    length = (squared + torch.finfo(poses.dtype).tiny).sqrt()  # has a finite slope at zero, and is the same elsewhere
    return poses * (length / (squared + size.pow(-2)))


@dataclass(frozen=True)
class RoutingStep:
    """One iteration: logits, the couplings that belong to them, and the poses that they form."""

    logits: Float[Tensor, "batch child parent"]
    couplings: Float[Tensor, "batch child parent"]
    poses: Poses


class VoteProducts(Protocol):
    """All that routing wants to know of the votes."""

    parents: int

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Give logits of zero, of the right shape and kind."""
        ...

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Σ_i c_ij û_ij."""
        ...

    def agreement(self, poses: Poses) -> Logits:
        """û_ij · v_j."""
        ...


class HeldVotes:
    """Votes in memory: the equations as they stand, and autograd through whatever is asked of them."""

    def __init__(self, votes: Votes) -> None:
        self.votes = votes
        self.parents = votes.shape[2]

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Give logits of zero, of the right shape and kind."""
        return self.votes.new_zeros(self.votes.shape[:3])

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Σ_i c_ij û_ij."""
        return einsum(couplings, self.votes, "batch child parent, batch child parent pose -> batch parent pose")

    def agreement(self, poses: Poses) -> Logits:
        """û_ij · v_j."""
        return einsum(self.votes, poses, "batch child parent pose, batch parent pose -> batch child parent")


class LazyVotes:
    """Votes that are never formed: Σ_i c_ij W_ij u_i = Σ_i W_ij (c_ij u_i), and W_ij u_i · v_j = u_i · W_ijᵀ v_j.

    Parent by parent, both are one matrix product over all numbers of all children. Children lie innermost in memory,
    so that scaling by a coupling and summing over the parts run along contiguous rows. These products wait for memory,
    not for arithmetic: under autocast they stay in the weights' own precision, at no cost.
    """

    def __init__(self, parts: Parts, weights: Weights) -> None:
        self.parents = weights.shape[1]
        # "batch child part -> batch part child"
        self.parts = parts.to(weights.dtype).mT.contiguous()
        # "child parent pose part -> parent (part child) pose"
        self.weights = weights.permute(1, 3, 0, 2).flatten(1, 2).contiguous()

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Give logits of zero, of the right shape and kind."""
        batch, _, children = self.parts.shape
        # Parents lie outermost in memory, children innermost: every row that the products read is contiguous.
        return self.parts.new_zeros(self.parents, batch, children).permute(1, 2, 0)

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Σ_i c_ij û_ij, with gradients to parts and weights and none to the couplings."""
        with self._own_precision():
            return _WeightedSum.apply(couplings, self.parts, self.weights)

    @torch.no_grad()
    def agreement(self, poses: Poses) -> Logits:
        """û_ij · v_j."""
        agreement = torch.empty_like(self.zero_logits())
        with self._own_precision():
            for parent, weights in enumerate(self.weights):
                seen = (poses[:, parent] @ weights.mT).view_as(self.parts).mul_(self.parts)
                torch.sum(seen, dim=1, out=agreement[..., parent])
        return agreement

    def _own_precision(self) -> torch.autocast:
        return torch.autocast(self.parts.device.type, enabled=False)


class _WeightedSum(torch.autograd.Function):
    """The last weighted sum is all that gradients flow through, so its couplings and operands are all that is kept."""

    @staticmethod
    def forward(ctx: Any, couplings: Couplings, parts: Tensor, weights: Tensor) -> Poses:
        ctx.save_for_backward(couplings, parts, weights)
        if _is_one_number(couplings):
            sums = torch.einsum("bk,pkd->bpd", parts.flatten(1), weights)
            return sums.mul_(couplings[0, 0, 0]) if len(parts) else sums
        sums = parts.new_empty(len(parts), len(weights), weights.shape[2])
        for parent in range(len(weights)):
            coupled = parts * couplings[:, None, :, parent]
            sums[:, parent] = coupled.flatten(1) @ weights[parent]
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_sums: Tensor) -> tuple[None, Tensor, Tensor]:  # pyrefly: ignore[bad-override]
        couplings, parts, weights = ctx.saved_tensors
        grad_parts, grad_weights = torch.zeros_like(parts), torch.empty_like(weights)
        for parent in range(len(weights)):
            coupling, grad = couplings[:, None, :, parent], grad_sums[:, parent]
            torch.matmul((parts * coupling).flatten(1).mT, grad, out=grad_weights[parent])
            grad_parts += (grad @ weights[parent].mT).view_as(parts).mul_(coupling)
        return None, grad_parts, grad_weights


class TracedVotes:
    """`LazyVotes` for whoever records operators, such as `torch.compile` and `torch.export`: all parents at once."""

    def __init__(self, parts: Parts, weights: Weights) -> None:
        self.parents = weights.shape[1]
        # "batch child part -> batch part child"
        self.parts = parts.mT
        # "child parent pose part -> parent (part child) pose"
        self.weights = weights.permute(1, 3, 0, 2).flatten(1, 2)

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Give logits of zero, of the right shape and kind."""
        batch, _, children = self.parts.shape
        return self.parts.new_zeros(batch, children, self.parents)

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Σ_i c_ij û_ij."""
        # "batch child parent, batch part child -> parent batch (part child)"
        coupled = (couplings.permute(2, 0, 1).unsqueeze(2) * self.parts).flatten(2)
        return (coupled @ self.weights).transpose(0, 1)

    def agreement(self, poses: Poses) -> Logits:
        """û_ij · v_j."""
        # "parent batch pose, parent (part child) pose -> parent batch (part child)"
        seen = (poses.transpose(0, 1) @ self.weights.mT).unflatten(2, self.parts.shape[1:])
        return (seen * self.parts).sum(dim=2).permute(1, 2, 0)


def _is_one_number(couplings: Couplings) -> bool:
    """Tell whether the couplings are a single number shown at every place, as those of the first iteration are."""
    return couplings.numel() > 0 and not any(couplings.stride())


def routing_steps(
    votes: Votes | VoteProducts,
    normalization: str | Normalization = "max-min",
    iterations: int = 3,
    *,
    start: float | None = None,
    bias: Float[Tensor, "parent pose"] | None = None,
    full_backpropagation: bool = False,
) -> Iterator[RoutingStep]:
    """Yield every iteration of routing: logits, couplings, poses. The first has zero logits and the start couplings.

    Gradients flow through the votes in the last weighted sum only, not through couplings or logits, unless
    `full_backpropagation` asks for both.
    """
    if iterations < 1:
        raise InputError(f"routing takes at least 1 iteration, found {iterations}")
    normalize = normalization_of(normalization).having(start=start)
    products = HeldVotes(votes) if isinstance(votes, Tensor) else votes
    wants_gradients = torch.is_grad_enabled()

    logits = products.zero_logits()
    couplings = logits.new_tensor(normalize.start_for(products.parents)).expand_as(logits)
    for iteration in range(iterations):
        is_last = iteration == iterations - 1
        with torch.set_grad_enabled(wants_gradients and (is_last or full_backpropagation)):
            sums = products.weighted_sum(couplings)
            poses = squash(sums if bias is None else sums + bias)
        yield RoutingStep(logits, couplings, poses)
        if not is_last:
            with torch.set_grad_enabled(wants_gradients and full_backpropagation):
                logits = logits + products.agreement(poses)
                couplings = normalize(logits)


def route(
    votes: Votes | VoteProducts,
    normalization: str | Normalization = "max-min",
    iterations: int = 3,
    *,
    start: float | None = None,
    bias: Float[Tensor, "parent pose"] | None = None,
    full_backpropagation: bool = False,
) -> Poses:
    """Give the poses of the last iteration."""
    *_, last = routing_steps(
        votes, normalization, iterations, start=start, bias=bias, full_backpropagation=full_backpropagation
    )
    return last.poses
