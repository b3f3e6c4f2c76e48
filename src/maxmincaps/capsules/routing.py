"""Routing: children predict the parents' poses, and parents form where these votes agree (section 2 of the paper).

There is one loop, `routing_steps`, for every normalization, and it yields every step:

    b_ij = 0,  c_ij = start
    repeat r times:
        v_j  = squash(Σ_i c_ij û_ij)       a step is (b, c, v)
        b_ij = b_ij + û_ij · v_j
        c_ij = normalize(b_i)_j            over the parents j of one child i

The loop needs the prediction vectors (votes) û = W u only through two products, their weighted sum and their agreement
with poses (`VoteProducts`). Gradients flow through the last weighted sum alone. So everything before it can run without
autograd, a few images at a time, on votes that never leave the processor's cache (`votes_in_pieces`,
`FinalWeightedSum`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from maxmincaps.capsules import compiled
from maxmincaps.capsules.normalizations import NormalizationChoice, normalization_of
from maxmincaps.capsules.shapes import Couplings, Logits, Parts, Poses, Votes, Weights
from maxmincaps.errors import InputError


def squash(poses: Float[Tensor, "*batch pose"]) -> Float[Tensor, "*batch pose"]:
    """Shorten each vector to a length below 1 and keep its direction: s·‖s‖ / (1 + ‖s‖²).

    The usual form, ‖s‖²/(1 + ‖s‖²) · s/‖s‖, is the same function but divides by zero at s = 0. Vectors with a component
    above 1 are divided by their largest component first, so that their squares cannot overflow.

    Args:
        poses: Vectors along the last axis, (…, pose).

    Example:
        >>> squash(torch.tensor([3.0, 4.0]))  # length 5 becomes 25/26
        tensor([0.5769, 0.7692])
    """
    if poses.dtype == torch.float16:  # the smallest float16 is too large for the sum below
        return squash(poses.float()).to(poses.dtype)
    size = poses.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1)
    poses = poses / size
    squared = poses.square().sum(dim=-1, keepdim=True)
    length = (squared + torch.finfo(poses.dtype).tiny).sqrt()  # the smallest number makes the gradient finite at zero
    return poses * (length / (squared + size.pow(-2)))


@dataclass(frozen=True)
class RoutingStep:
    """One routing iteration.

    Args:
        logits: Sums of the agreements of all earlier iterations, (batch, child, parent).
        couplings: The routing coefficients: the normalized logits, or the start value in the first iteration.
        poses: The squashed weighted sums of the prediction vectors, (batch, parent, pose).
        sums: The weighted sums themselves, without bias and not squashed.
    """

    logits: Float[Tensor, "batch child parent"]
    couplings: Float[Tensor, "batch child parent"]
    poses: Poses
    sums: Poses

    @classmethod
    def joined(cls, pieces: Sequence["RoutingStep"]) -> "RoutingStep":
        """Concatenate the same iteration of several batches. Children stay innermost in memory."""
        return cls(
            torch.cat([piece.logits.mT for piece in pieces]).mT,
            torch.cat([piece.couplings.mT for piece in pieces]).mT,
            torch.cat([piece.poses for piece in pieces]),
            torch.cat([piece.sums for piece in pieces]),
        )


@runtime_checkable
class VoteProducts(Protocol):
    """The two products of the votes that routing needs."""

    parents: int

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Return logits of zero, (batch, child, parent)."""
        ...

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Return Σ_i c_ij û_ij."""
        ...

    def agreement(self, poses: Poses) -> Logits:
        """Return û_ij · v_j."""
        ...


class HeldVotes:
    """Votes in memory: the equations as they stand, with autograd through both products.

    Both are matrix products of votes viewed as (batch, parent, pose, child). They are fastest if the votes have this
    order in memory, children innermost.
    """

    def __init__(self, votes: Votes) -> None:
        if votes.dim() != 4 or not votes.is_floating_point():
            raise InputError(
                "votes: expected floating-point numbers of shape (batch, child, parent, pose), "
                f"found {votes.dtype} of {tuple(votes.shape)}"
            )
        # "batch child parent pose -> batch parent pose child"
        self.votes = votes.permute(0, 2, 3, 1)
        self.parents = votes.shape[2]

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Return logits of zero, (batch, child, parent)."""
        batch, parents, _, children = self.votes.shape
        return self.votes.new_zeros(batch, parents, children).mT

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Return Σ_i c_ij û_ij."""
        # "batch child parent, batch parent pose child -> batch parent pose"
        return (couplings.mT.unsqueeze(-2) @ self.votes.mT).squeeze(-2)

    def agreement(self, poses: Poses) -> Logits:
        """Return û_ij · v_j."""
        # "batch parent pose, batch parent pose child -> batch child parent"
        return (poses.unsqueeze(-2) @ self.votes).squeeze(-2).mT


CACHE_BYTES, DEVICE_BYTES = 6 * 2**20, 2**30
"""Bytes of votes that are computed at once: the cache of a processor, or a part of an accelerator's memory."""


@torch.no_grad()
def votes_in_pieces(parts: Parts, weights: Weights) -> Iterator[VoteProducts]:
    """Compute the votes û_ij = W_ij u_i of a few images at a time, without autograd.

    All votes of a batch of 128 would take 94 MB, and each iteration would read them twice. Those of a few images stay
    in the processor's cache for all iterations. An accelerator has more memory, but not enough for large images.
    Compiled kernels never store the votes, and take the whole batch.
    """
    parts = parts.to(weights.dtype)
    if compiled.suits(weights, parts):
        yield compiled.CompiledVotes(parts, weights)
        return
    size = weights[..., 0].numel() * weights.element_size()
    images = max(1, (CACHE_BYTES if parts.device.type == "cpu" else DEVICE_BYTES) // size)
    # "child parent pose part -> part parent pose child"
    by_part = weights.permute(3, 1, 2, 0).contiguous()
    buffer = by_part.new_empty(min(images, len(parts)), *by_part.shape[1:])
    for piece in parts.split(images):
        # "image child part -> part image 1 1 child"
        numbers = piece.permute(2, 0, 1).contiguous()[:, :, None, None]
        votes = buffer[: len(piece)]
        torch.mul(by_part[0], numbers[0], out=votes)
        for weight, number in zip(by_part[1:], numbers[1:], strict=True):
            votes.addcmul_(weight, number)
        yield HeldVotes(votes.permute(0, 3, 1, 2))


class FinalWeightedSum(torch.autograd.Function):
    """Weighted sum with a precomputed forward value and a custom backward.

    Nothing else in routing has gradients, so nothing else is stored. For each parent, Σ_i c_ij W_ij u_i is one matrix
    product of all `c_ij u_i` with all W_ij, and so are its two gradients. So backward need not compute the votes.
    """

    @staticmethod
    def forward(ctx: Any, sums: Poses, couplings: Couplings, parts: Parts, weights: Weights) -> Poses:
        """Return the sums unchanged."""
        ctx.save_for_backward(couplings, parts, weights)
        return sums.view_as(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_sums: Tensor) -> tuple[None, None, Tensor, Tensor]:  # pyrefly: ignore[bad-override]
        """Return the gradients of parts and weights."""
        couplings, parts, weights = ctx.saved_tensors
        children_parts = parts.to(weights.dtype)
        if compiled.suits(weights, grad_sums, couplings, children_parts):
            grad_parts, grad_weights = compiled.gradients(grad_sums, couplings, children_parts, weights)
            return None, None, grad_parts.to(parts.dtype), grad_weights
        # "batch child part -> batch part child", children innermost: scaling by couplings runs along whole rows
        numbers = children_parts.mT.contiguous()
        # "child parent pose part -> parent (part child) pose"
        columns = weights.permute(1, 3, 0, 2).flatten(1, 2).contiguous()
        grad_numbers, grad_columns = torch.zeros_like(numbers), torch.empty_like(columns)
        for parent, column in enumerate(columns):
            coupling, grad = couplings[:, None, :, parent], grad_sums[:, parent]
            torch.matmul((numbers * coupling).flatten(1).mT, grad, out=grad_columns[parent])
            grad_numbers += (grad @ column.mT).view_as(numbers).mul_(coupling)
        children, parents, pose, part = weights.shape
        grad_weights = grad_columns.view(parents, part, children, pose).permute(2, 0, 3, 1)
        return None, None, grad_numbers.mT.to(parts.dtype), grad_weights


class UnformedVotes:
    """The products of votes that are never computed: fastest for one iteration, and plain operators for tracing.

    Σ_i c_ij W_ij u_i = Σ_i W_ij (c_ij u_i), and W_ij u_i · v_j = u_i · W_ijᵀ v_j: one matrix product each.
    """

    def __init__(self, parts: Parts, weights: Weights) -> None:
        self.parents = weights.shape[1]
        # "batch child part -> batch part child"
        self.parts = parts.mT
        # "child parent pose part -> parent (part child) pose"
        self.weights = weights.permute(1, 3, 0, 2).flatten(1, 2)

    def zero_logits(self) -> Float[Tensor, "batch child parent"]:
        """Return logits of zero, (batch, child, parent)."""
        batch, _, children = self.parts.shape
        return self.parts.new_zeros(batch, children, self.parents)

    def weighted_sum(self, couplings: Couplings) -> Poses:
        """Return Σ_i c_ij û_ij."""
        # "batch child parent, batch part child -> parent batch (part child)"
        coupled = (couplings.permute(2, 0, 1).unsqueeze(2) * self.parts).flatten(2)
        return (coupled @ self.weights).transpose(0, 1)

    def agreement(self, poses: Poses) -> Logits:
        """Return û_ij · v_j."""
        # "parent batch pose, parent (part child) pose -> parent batch (part child)"
        seen = (poses.transpose(0, 1) @ self.weights.mT).unflatten(2, self.parts.shape[1:])
        return (seen * self.parts).sum(dim=2).permute(1, 2, 0)


def routing_steps(
    votes: Votes | VoteProducts,
    normalization: NormalizationChoice = "max-min",
    iterations: int = 3,
    *,
    start: float | None = None,
    logit_gain: float = 1.0,
    bias: Float[Tensor, "parent pose"] | None = None,
    full_backpropagation: bool = False,
) -> Iterator[RoutingStep]:
    """Yield every iteration of routing. The first has zero logits and the start coefficients.

    Args:
        votes: Prediction vectors û, (batch, child, parent, pose), or their two products (`VoteProducts`).
        normalization: How a child's logits become its routing coefficients: a name of `NORMALIZATIONS`, a
            `Normalization`, or a function from logits (…, parent) to coefficients of the same shape.
        iterations: Number of iterations; 1 is no routing.
        start: Routing coefficients of the first iteration. Default: the normalization's own.
        logit_gain: Factor on the logits before they are normalized. Max-Min does not depend on it.
        bias: Added to each parent's weighted sum in every iteration, (parent, pose).
        full_backpropagation: Whether gradients flow through coefficients and logits too, instead of through the votes
            in the last weighted sum only.

    Raises:
        InputError: If there is no such normalization, or `iterations` is below 1.

    Example:
        >>> [step.couplings.shape for step in routing_steps(torch.rand(5, 64, 10, 16), iterations=2)]
        [torch.Size([5, 64, 10]), torch.Size([5, 64, 10])]
    """
    if iterations < 1:
        raise InputError(f"routing takes at least 1 iteration, found {iterations}")
    normalize = normalization_of(normalization).with_settings(start=start)
    products = HeldVotes(votes) if isinstance(votes, Tensor) else votes
    wants_gradients = torch.is_grad_enabled()

    logits = products.zero_logits()
    couplings = torch.full_like(logits, normalize.start_for(products.parents))
    for iteration in range(iterations):
        is_last = iteration == iterations - 1
        with torch.set_grad_enabled(wants_gradients and (is_last or full_backpropagation)):
            sums = products.weighted_sum(couplings)
            poses = squash(sums if bias is None else sums + bias)
        yield RoutingStep(logits, couplings, poses, sums)
        if not is_last:
            with torch.set_grad_enabled(wants_gradients and full_backpropagation):
                logits = logits + products.agreement(poses)
                couplings = normalize(logits if logit_gain == 1 else logit_gain * logits)


def route(votes: Votes | VoteProducts, *arguments: Any, **settings: Any) -> Poses:
    """Return the parents' poses of the last routing iteration, (batch, parent, pose).

    Args:
        votes: Prediction vectors û, (batch, child, parent, pose), or their two products (`VoteProducts`).
        *arguments: `normalization` (default "max-min") and `iterations` (default 3) of `routing_steps`.
        **settings: The same by name, or `start`, `logit_gain`, `bias` and `full_backpropagation`.

    Example:
        >>> route(torch.rand(5, 64, 10, 16), "softmax", iterations=2).shape
        torch.Size([5, 10, 16])
    """
    *_, last = routing_steps(votes, *arguments, **settings)
    return last.poses
