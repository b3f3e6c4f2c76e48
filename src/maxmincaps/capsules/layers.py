"""The two capsule layers, each usable in any `nn.Module`."""

import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace

import torch
from einops import einsum, rearrange
from torch import Tensor, nn

from maxmincaps.capsules.checks import check_input, is_tracing
from maxmincaps.capsules.convolution import StridedConvolution
from maxmincaps.capsules.multipliers import ScaledWeights, power_of_two
from maxmincaps.capsules.normalizations import NormalizationChoice, normalization_of
from maxmincaps.capsules.routing import (
    FinalWeightedSum,
    HeldVotes,
    RoutingStep,
    UnformedVotes,
    VoteProducts,
    routing_steps,
    squash,
    votes_in_pieces,
)
from maxmincaps.capsules.shapes import Couplings, Images, Parts, Poses
from maxmincaps.errors import InputError

# In the first steps of Adam most weights of a sum move in the same direction, so the sum changes in proportion to its
# fan-in (docs/training.md). Above these fan-ins, the multipliers are inversely proportional to the fan-in.
PRIMARY_FAN_IN, VOTE_FAN_IN = 160, 2000

INITIAL_GAIN = 2.0
"""Factor on the initial weights: on PyTorch's in PrimaryCapsules, and in RoutedCapsules on those with which a parent's
weighted sum is as large as its children. Without it, capsules begin so short that squash is nearly flat, and a network
learns little."""

MOST_PARENTS = 10**6


class PrimaryCapsules(nn.Module):
    """From feature maps to capsules: a strided convolution whose neighbouring channels form poses.

    Channels `type·part_pose … type·part_pose + part_pose − 1` at one place are one capsule. Capsules are ordered by
    type, then place.

    Args:
        channels: Channels of the feature maps.
        types: Capsules at each place.
        part_pose: Number of components of a capsule.
        kernel: Kernel size of the convolution.
        stride: Stride of the convolution.
        padding: Zero padding of the convolution.
        relu: Whether to apply ReLU to the pre-activations. A capsule whose pre-activations are all negative is then
            inactive.
        squash: Whether to squash the poses to lengths below 1.
        scale: Factor on the pre-activations.
        scale_bias: Whether `scale` applies to the bias too; Sabour's code adds the bias after it.
        initial_bias: Initial value of the bias. Default: PyTorch's random ones.
        convolution: How to convolve: "spectral", "unfold", "direct", or the fastest ("auto").

    Example:
        >>> layer = PrimaryCapsules(16, types=4, part_pose=8, kernel=3, stride=2)
        >>> layer(torch.rand(5, 16, 9, 9)).shape  # 4 types at 4×4 places
        torch.Size([5, 64, 8])
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
        relu: bool = False,
        squash: bool = True,
        scale: float = 1.0,
        scale_bias: bool = True,
        initial_bias: float | None = None,
        convolution: str = "auto",
    ) -> None:
        super().__init__()
        self.types, self.part_pose, self.relu, self.squash = types, part_pose, relu, squash
        self.scale, self.scale_bias = scale, scale_bias
        self.convolution = StridedConvolution(
            channels, types * part_pose, kernel, stride=stride, padding=padding, method=convolution
        )
        with torch.no_grad():
            self.convolution.weight.mul_(INITIAL_GAIN)
            if initial_bias is not None:
                self._bias.fill_(initial_bias)
        self.convolution.set_multiplier(power_of_two(min(1.0, PRIMARY_FAN_IN / self.convolution.fan_in)))

    def forward(self, features: Images) -> Parts:
        """Return the poses of all capsules, (batch, child, part), for features of (batch, channel, height, width)."""
        check_input(self, features, ("batch", self.convolution.in_channels, "height", "width"))
        maps = self.convolution(features)
        if self.scale != 1:
            maps = maps * self.scale
            if not self.scale_bias:
                maps = maps + ((1 - self.scale) * self._bias)[:, None, None]
        if self.relu:
            maps = maps.relu()
        parts = self.grouped(maps)
        return squash(parts) if self.squash else parts

    def grouped(self, maps: Images) -> Parts:
        """Group the channels of the feature maps into capsules."""
        return rearrange(
            maps, "batch (type part) row column -> batch (type row column) part", type=self.types, part=self.part_pose
        )

    @property
    def _bias(self) -> Tensor:
        bias = self.convolution.bias
        assert bias is not None
        return bias

    def extra_repr(self) -> str:
        """Describe what the convolution's channels mean."""
        return f"types={self.types}, part_pose={self.part_pose}, relu={self.relu}, squash={self.squash}"


class RoutedCapsules(ScaledWeights):
    """From children to parents: each child predicts each parent's pose, and routing finds where predictions agree.

    The parameter `weights` (child, parent, pose, part) holds the paper's W divided by `multiplier`, which is chosen so
    that ordinary learning rates suit any number of children and parents; `effective_weights` is W itself.

    Args:
        children: Number of lower-level capsules.
        parents: Number of higher-level capsules, at most a million.
        part_pose: Number of components of a child's pose.
        pose: Number of components of a parent's pose.
        normalization: How a child's logits become its routing coefficients: a name of `NORMALIZATIONS`, a
            `Normalization`, or a function from logits (…, parent) to coefficients of the same shape.
        iterations: Routing iterations; 1 is no routing.
        logit_gain: Factor on the logits before they are normalized. Max-Min does not depend on it.
        bias: Whether to add a learned bias to each parent's weighted sum, in every iteration.
        full_backpropagation: Whether gradients flow through all iterations instead of the last weighted sum only.

    Example:
        >>> layer = RoutedCapsules(64, 10, part_pose=8, pose=16, normalization="softmax")
        >>> poses = layer(torch.rand(5, 64, 8))
        >>> poses.shape, poses.norm(dim=-1).max() < 1
        (torch.Size([5, 10, 16]), tensor(True))
    """

    scaled_parameter = "weights"

    def __init__(
        self,
        children: int,
        parents: int,
        part_pose: int = 8,
        pose: int = 16,
        *,
        normalization: NormalizationChoice = "max-min",
        iterations: int = 3,
        logit_gain: float = 1.0,
        bias: bool = False,
        full_backpropagation: bool = False,
    ) -> None:
        super().__init__()
        if parents > MOST_PARENTS:
            raise InputError(f"RoutedCapsules: expected at most {MOST_PARENTS:,} parents, found {parents:,}")
        self.normalization = normalization_of(normalization)
        if isinstance(function := self.normalization.function, nn.Module):
            # A module that a name stands for is copied, so that two networks do not share its parameters.
            self.learnt_normalization = deepcopy(function) if isinstance(normalization, str) else function
            self.normalization = replace(self.normalization, function=self.learnt_normalization)
        self.iterations, self.logit_gain, self.full_backpropagation = iterations, logit_gain, full_backpropagation
        self.weights = nn.Parameter(torch.empty(children, parents, pose, part_pose))
        self.bias = nn.Parameter(torch.zeros(parents, pose)) if bias else None
        # A parent's sum contains W times the coefficients: the smaller these are, the larger W's steps must be.
        typical = self.typical_couplings().abs().mean().item()
        self.multiplier = power_of_two(min(1.0, VOTE_FAN_IN / self.fan_in) / typical)
        self.reset_parameters()

    def reset_parameters(self, sigma: float | None = None) -> None:
        """Draw W from a normal distribution.

        Args:
            sigma: Standard deviation of `effective_weights`. Default: `suggested_sigma`.
        """
        self.sigma = sigma or self.suggested_sigma()
        if not self.weights.is_meta:  # on the meta device, drawing would only make torch load its compiler
            nn.init.normal_(self.weights, std=self.sigma)
            with torch.no_grad():
                self.weights.div_(self.multiplier)

    @property
    def fan_in(self) -> int:
        """The number of terms in the sum for one component of a parent."""
        children, _, _, part = self.weights.shape
        return children * part

    @property
    def terms(self) -> int:
        """The fan-in; deprecated."""
        warnings.warn("RoutedCapsules.terms is now fan_in", DeprecationWarning, stacklevel=2)
        return self.fan_in

    def suggested_sigma(self) -> float:
        """Return the sigma of W at which parents begin with moderate lengths for any number of children.

        A parent's sum has two parts. One grows with the root of the fan-in, as predictions of different children are
        independent. The other grows with the number of children, as coefficients favour predictions that agree.
        """
        children, _, pose, _ = self.weights.shape
        couplings = self.typical_couplings()
        size = couplings.square().mean() + children / pose * self._preference() ** 2
        return INITIAL_GAIN / (self.fan_in * size.item()) ** 0.5

    def _preference(self) -> float:
        """Return how much coefficients follow small logits: their covariance divided by the logits' deviation."""
        if self.iterations == 1 or self.weights.shape[1] == 1:  # a lone parent has nothing to compete with
            return 0.0
        logits = 0.01 * self._typical_logits()
        centred = logits - logits.mean(dim=-1, keepdim=True)
        with torch.device("cpu"):
            couplings = self.normalization(self.logit_gain * logits)
        return ((couplings * centred).mean() / centred.square().mean().sqrt()).item()

    def typical_couplings(self) -> Couplings:
        """Return the routing coefficients for random logits of typical size, (child, parent).

        Without routing, or if they would all be zero, return those of the first iteration, of shape (1,).
        """
        parents = self.weights.shape[1]
        with torch.device("cpu"):  # a normalization may make tensors of its own while the network is built elsewhere
            first = torch.tensor([self.normalization.start_for(parents)])
            last = self.normalization(self.logit_gain * self._typical_logits())
        if not last.isfinite().all():
            raise InputError(
                "the normalization was expected to give finite couplings for finite logits, found infinity or NaN; "
                "check it for divisions by zero and overflow"
            )
        # The couplings of a lone parent may all be zero, as equal logits give Max-Min's lower bound.
        return last if self.iterations > 1 and last.any() else first

    def _typical_logits(self) -> Tensor:
        parents = self.weights.shape[1]
        samples = min(1000, -(-MOST_PARENTS // parents))  # a bound on memory
        with torch.device("cpu"):
            return torch.randn(samples, parents, generator=torch.Generator().manual_seed(0)).abs()

    def votes(self, parts: Parts) -> VoteProducts:
        """Return the prediction vectors (votes) of all children for `routing_steps`, with gradients throughout."""
        return self._votes(self._scaled(parts).to(self.weights.dtype))

    def _votes(self, parts: Parts) -> VoteProducts:
        if self.iterations == 1 or is_tracing(parts, self.weights):
            return UnformedVotes(parts, self.weights)
        return HeldVotes(
            einsum(self.weights, parts, "child parent pose part, batch child part -> batch child parent pose")
        )

    def _scaled(self, parts: Parts) -> Parts:
        """Check the children and multiply them by the multiplier, which is cheaper than to multiply the weights."""
        children, _, _, part = self.weights.shape
        check_input(self, parts, ("batch", children, part))
        return parts if self.multiplier == 1 else parts * self.multiplier

    def forward(self, parts: Parts) -> Poses:
        """Return the parents' poses, (batch, parent, pose), for children of (batch, child, part)."""
        *_, last = self._steps(parts, only_last=True)
        return last.poses

    def steps(self, parts: Parts) -> Iterator[RoutingStep]:
        """Yield every iteration of routing; the last one has the gradients."""
        return self._steps(parts, only_last=False)

    def _steps(self, parts: Parts, only_last: bool) -> Iterator[RoutingStep]:
        # Routing is bound by memory and not by arithmetic: under autocast it keeps the precision of the weights.
        with _without_autocast(parts.device.type):
            parts = self._scaled(parts)
            if self.full_backpropagation or self.iterations == 1 or is_tracing(parts, self.weights):
                steps = list(self._routing(self._votes(parts.to(self.weights.dtype))))
            else:
                steps = self._steps_in_pieces(parts, only_last)
        yield from steps

    def _steps_in_pieces(self, parts: Parts, only_last: bool) -> list[RoutingStep]:
        with torch.no_grad():
            pieces = votes_in_pieces(parts, self.weights)
            kept = [deque(self._routing(votes), maxlen=1 if only_last else None) for votes in pieces]
            *before, last = (RoutingStep.joined(pieces) for pieces in zip(*kept, strict=True))
        total = FinalWeightedSum.apply(last.sums, last.couplings, parts, self.weights)
        poses = squash(total if self.bias is None else total + self.bias)
        return [*before, replace(last, poses=poses, sums=total)]

    def _routing(self, votes: VoteProducts) -> Iterator[RoutingStep]:
        return routing_steps(
            votes,
            self.normalization,
            self.iterations,
            logit_gain=self.logit_gain,
            bias=self.bias,
            full_backpropagation=self.full_backpropagation,
        )

    def extra_repr(self) -> str:
        """Describe sizes, normalization and iterations."""
        children, parents, pose, part = self.weights.shape
        return (
            f"children={children}×{part}, parents={parents}×{pose}, normalization={self.normalization.name}, "
            f"iterations={self.iterations}"
        )


def _without_autocast(device: str) -> AbstractContextManager:
    """Return a context that keeps the precision of the weights, where autocast exists and is not being exported."""
    if torch.compiler.is_exporting() or not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)
