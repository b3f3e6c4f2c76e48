"""What a network says of a set of images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.routing import RoutingStep
from maxmincaps.capsules.shapes import Images, Parts
from maxmincaps.data.batches import ordered
from maxmincaps.data.images import ImageSet

MOST_AT_ONCE = 500
MOST_PIXELS = MOST_AT_ONCE * 32 * 32
Prepare = Callable[[Images], Images]


def class_lengths(
    network: nn.Module, images: ImageSet, prepare: Prepare | None = None
) -> Float[Tensor, "image parent"]:
    """Give the length of every class capsule for every image, in the images' order, on the CPU."""
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        batches = ordered(images, at_once(images.images.shape), device, prepare)
        parts = [network(batch.images).lengths.float().cpu() for batch in batches]
    network.train(was_training)
    return torch.cat(parts).clone()  # cloned outside inference mode: an ordinary tensor


def at_once(shape: Sequence[int]) -> int:
    """Tell how many images of a shape are judged together: fewer where they are large, as memory grows with both."""
    height, width = shape[-2:]
    return max(1, min(MOST_AT_ONCE, MOST_PIXELS // (height * width)))


def accuracy(lengths: Float[Tensor, "image parent"], labels: Int64[Tensor, "image"]) -> float:
    """Give the share of images whose longest capsule is the true class."""
    return (lengths.argmax(dim=1) == labels).double().mean().item()


@dataclass(frozen=True)
class CouplingStatistics:
    """How decided the couplings of the last iteration are, over children that are alive."""

    entropy: float
    """Mean entropy, in nats, of a child's couplings as shares of their sum: 0 if one parent has all."""
    spread: float
    """Mean distance between a child's largest and smallest coupling."""
    dead_children: float
    """Share of children whose vote is zero."""


@torch.inference_mode()
def coupling_statistics(network: CapsNet, images: Images) -> CouplingStatistics:
    """Look at the last routing step of some images."""
    parts = network.parts(images)
    *_, last = network.digits.steps(parts)
    alive = _alive(parts)
    couplings = last.couplings[alive].float()
    if not len(couplings):
        return CouplingStatistics(0.0, 0.0, 1.0)
    shares = couplings.abs() / couplings.abs().sum(dim=-1, keepdim=True).clamp(min=1e-12)
    entropy = -(shares * shares.clamp(min=1e-30).log()).sum(dim=-1)
    return CouplingStatistics(
        entropy=entropy.mean().item(),
        spread=(couplings.amax(dim=-1) - couplings.amin(dim=-1)).mean().item(),
        dead_children=1 - alive.float().mean().item(),
    )


@torch.inference_mode()
def routing_trace(
    network: CapsNet, image: Float[Tensor, "channel height width"]
) -> tuple[Bool[Tensor, "child"], list[RoutingStep]]:
    """Tell which children of one image vote at all, and give every routing step."""
    parts = network.parts(image.unsqueeze(0))
    return _alive(parts)[0], list(network.digits.steps(parts))


def _alive(parts: Parts) -> Bool[Tensor, "batch child"]:
    """Tell which children vote: one whose pose is zero votes zero for every parent."""
    return parts.float().abs().sum(dim=-1) > 0
