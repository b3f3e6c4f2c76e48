"""The two capsule layers, each usable in any `nn.Module`."""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace

import torch
from einops import einsum, rearrange
from torch import nn

from maxmincaps.capsules.convolution import StridedConvolution
from maxmincaps.capsules.normalizations import NormalizationChoice, normalization_of
from maxmincaps.capsules.routing import (
    HeldVotes,
    LastSum,
    RoutingStep,
    UnformedVotes,
    VoteProducts,
    routing_steps,
    squash,
    votes_in_pieces,
)
from maxmincaps.capsules.shapes import Couplings, Images, Parts, Poses
from maxmincaps.errors import InputError


class PrimaryCapsules(nn.Module):
    """From feature maps to capsules: a strided convolution whose neighbouring channels form poses.

    Channels `type·part … type·part + part − 1` at one place are one capsule. Capsules are ordered by type, then place.
    """

    def __init__(
        self,
        channels: int,
        types: int = 32,
        part_pose: int = 8,
        *,
        kernel: int = 9,
        stride: int = 2,
        padding: int = 0,
        relu: bool = True,
        squash: bool = True,
        scale: float = 1.0,
        convolution: str = "auto",
    ) -> None:
        super().__init__()
        self.types, self.part_pose, self.relu, self.squash, self.scale = types, part_pose, relu, squash, scale
        self.convolution = StridedConvolution(
            channels, types * part_pose, kernel, stride=stride, padding=padding, method=convolution
        )

    def forward(self, features: Images) -> Parts:
        """Give the poses of all capsules, (batch, child, part)."""
        maps = self.convolution(features)
        if self.scale != 1:
            maps = maps * self.scale
        if self.relu:
            maps = maps.relu()
        parts = self.grouped(maps)
        return squash(parts) if self.squash else parts

    def grouped(self, maps: Images) -> Parts:
        """Say which numbers of the maps form a capsule."""
        return rearrange(
            maps, "batch (type part) row column -> batch (type row column) part", type=self.types, part=self.part_pose
        )

    def extra_repr(self) -> str:
        """Say what the convolution's channels mean."""
        return f"types={self.types}, part_pose={self.part_pose}, relu={self.relu}, squash={self.squash}"


class RoutedCapsules(nn.Module):
    """From children to parents: each child votes for each parent's pose, and routing finds where votes agree."""

    def __init__(
        self,
        children: int,
        parents: int,
        part_pose: int = 8,
        pose: int = 16,
        *,
        normalization: NormalizationChoice = "max-min",
        iterations: int = 3,
        bias: bool = False,
        full_backpropagation: bool = False,
    ) -> None:
        super().__init__()
        self.normalization = normalization_of(normalization)
        if isinstance(function := self.normalization.function, nn.Module):
            # Its parameters are learnt, moved and saved with ours: what a name stands for is for each network to copy.
            self.learnt_normalization = deepcopy(function) if isinstance(normalization, str) else function
            self.normalization = replace(self.normalization, function=self.learnt_normalization)
        self.iterations, self.full_backpropagation = iterations, full_backpropagation
        self.weights = nn.Parameter(torch.empty(children, parents, pose, part_pose))
        self.bias = nn.Parameter(torch.zeros(parents, pose)) if bias else None
        self.reset_parameters()

    def reset_parameters(self, sigma: float | None = None) -> None:
        """Draw W's initial values from a normal distribution, by default with the suggested sigma."""
        self.sigma = sigma or self.suggested_sigma()
        if not self.weights.is_meta:  # where there is nothing to draw, torch would load its compiler to do so
            nn.init.normal_(self.weights, std=self.sigma)

    @property
    def terms(self) -> int:
        """How many terms the sum for one number of a parent has."""
        children, _, _, part = self.weights.shape
        return children * part

    def suggested_sigma(self) -> float:
        """Give the sigma at which the parents' sums start equally long for any number of children and any couplings."""
        return 1 / (self.terms**0.5 * self.typical_couplings().square().mean().sqrt().item())

    def typical_couplings(self) -> Couplings:
        """Give the couplings of the last iteration, for logits of ordinary size: what W is multiplied by in effect."""
        parents = self.weights.shape[1]
        with torch.device("cpu"):  # wherever the network is being built: a normalization may make tensors of its own
            first = torch.tensor([self.normalization.start_for(parents)])
            logits = torch.randn(1000, parents, generator=torch.Generator().manual_seed(0)).abs()
            last = self.normalization(given := logits.clone())
        if not last.isfinite().all():
            raise InputError("the normalization was expected to give finite couplings for finite logits, and did not")
        if not given.equal(logits):
            raise InputError("the normalization was expected to leave the logits as they are, and changed them")
        # The couplings of a lone parent may all be zero, as equal logits give Max-Min's lower bound.
        return last if self.iterations > 1 and last.any() else first

    def votes(self, parts: Parts) -> VoteProducts:
        """Give the votes of all children, for `routing_steps`, with gradients through all that is asked of them."""
        parts = parts.to(self.weights.dtype)
        if self.iterations == 1 or _is_recorded():
            return UnformedVotes(parts, self.weights)
        return HeldVotes(
            einsum(self.weights, parts, "child parent pose part, batch child part -> batch child parent pose")
        )

    def forward(self, parts: Parts) -> Poses:
        """Give the parents' poses, (batch, parent, pose)."""
        *_, last = self._steps(parts, only_last=True)
        return last.poses

    def steps(self, parts: Parts) -> Iterator[RoutingStep]:
        """Yield every iteration of routing; the last one has the gradients."""
        return self._steps(parts, only_last=False)

    def _steps(self, parts: Parts, only_last: bool) -> Iterator[RoutingStep]:
        # Routing waits for memory, not for arithmetic: under autocast it keeps the weights' precision.
        if self.full_backpropagation or self.iterations == 1 or _is_recorded():
            with _without_autocast(parts.device.type):
                steps = list(self._routing(self.votes(parts)))
            yield from steps
            return
        kept, sums = [], []
        with torch.no_grad(), _without_autocast(parts.device.type):
            for votes in votes_in_pieces(parts, self.weights):
                kept.append(deque(self._routing(votes), maxlen=1 if only_last else None))
                sums.append(votes.weighted_sum(kept[-1][-1].couplings))
            *before, last = (RoutingStep.joined(pieces) for pieces in zip(*kept, strict=True))
        yield from before
        total = LastSum.apply(torch.cat(sums), last.couplings, parts, self.weights)
        yield replace(last, poses=squash(total if self.bias is None else total + self.bias))

    def _routing(self, votes: VoteProducts) -> Iterator[RoutingStep]:
        return routing_steps(
            votes,
            self.normalization,
            self.iterations,
            bias=self.bias,
            full_backpropagation=self.full_backpropagation,
        )

    def extra_repr(self) -> str:
        """Say what is routed, and how."""
        children, parents, pose, part = self.weights.shape
        return f"children={children}×{part}, parents={parents}×{pose}, iterations={self.iterations}"


def _is_recorded() -> bool:
    """Tell whether somebody writes down what is computed, for any batch: then it has to be plain operators."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def _without_autocast(device: str) -> AbstractContextManager:
    """Keep the weights' precision; on a device that has no autocast, such as `meta`, nothing else is there.

    Who exports a program cannot export this, and exports none of autocast either.
    """
    if torch.compiler.is_exporting() or not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)
