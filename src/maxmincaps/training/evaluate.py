"""Class lengths, accuracy and routing statistics of a network on a set of images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maxmincaps.capsules.losses import hits
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.routing import RoutingStep
from maxmincaps.capsules.shapes import Images, Parts
from maxmincaps.data.batches import ordered
from maxmincaps.data.images import ImageSet

MAX_IMAGES = 500
MAX_PIXELS = MAX_IMAGES * 32 * 32
Prepare = Callable[[Images], Images]


def class_lengths(
    network: nn.Module, images: ImageSet, prepare: Prepare | None = None
) -> Float[Tensor, "image parent"]:
    """Return the class lengths of all images, (image, class), on the CPU.

    Args:
        network: Evaluated on its own device; its training mode is restored afterwards.
        images: The images, in the order of the result.
        prepare: Preprocessing of a batch of pixels in 0…1, such as `for_testing(recipe)`.
    """
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        batches = ordered(images, evaluation_batch_size(images.images.shape), device, prepare)
        parts = [network(batch.images).lengths.float().cpu() for batch in batches]
    network.train(was_training)
    return torch.cat(parts).clone()  # cloned outside inference mode: an ordinary tensor


def evaluation_batch_size(shape: Sequence[int]) -> int:
    """Return how many images of a shape, (..., height, width), are evaluated together: fewer if they are large."""
    height, width = shape[-2:]
    return max(1, min(MAX_IMAGES, MAX_PIXELS // (height * width)))


def accuracy(lengths: Float[Tensor, "image parent"], labels: Int64[Tensor, "image *several"]) -> float:
    """Return the fraction of images whose longest class capsules are exactly the true classes."""
    return hits(lengths, labels).double().mean().item()


@dataclass(frozen=True)
class CouplingStatistics:
    """Statistics of the routing coefficients of the last iteration, over active children."""

    entropy: float
    """Mean entropy, in nats, of a child's coefficients divided by their sum. 0: one parent has all."""
    spread: float
    """Mean difference between a child's largest and smallest coefficient."""
    inactive_children: float
    """Fraction of children whose pose, and so whose prediction vector (vote), is zero."""


@torch.inference_mode()
def coupling_statistics(network: CapsNet, images: Images) -> CouplingStatistics:
    """Return the statistics of the last routing step of some images, (batch, channel, height, width)."""
    parts = network.parts(images)
    *_, last = network.digits.steps(parts)
    active = _active(parts)
    couplings = last.couplings[active].float()
    if not len(couplings):
        return CouplingStatistics(0.0, 0.0, 1.0)
    shares = couplings.abs() / couplings.abs().sum(dim=-1, keepdim=True).clamp(min=1e-12)
    entropy = -(shares * shares.clamp(min=1e-30).log()).sum(dim=-1)
    return CouplingStatistics(
        entropy=entropy.mean().item(),
        spread=(couplings.amax(dim=-1) - couplings.amin(dim=-1)).mean().item(),
        inactive_children=1 - active.float().mean().item(),
    )


@torch.inference_mode()
def routing_trace(
    network: CapsNet, image: Float[Tensor, "channel height width"]
) -> tuple[Bool[Tensor, "child"], list[RoutingStep]]:
    """Return which children of one image are active, (child,), and every routing step."""
    parts = network.parts(image.unsqueeze(0))
    return _active(parts)[0], list(network.digits.steps(parts))


def _active(parts: Parts) -> Bool[Tensor, "batch child"]:
    """Return which children are active: their pose is not zero."""
    return parts.float().abs().sum(dim=-1) > 0
