"""The images of a run, and class lengths, accuracy and routing statistics of a network on images."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maxmincaps.capsules.losses import hits
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.routing import RoutingStep
from maxmincaps.capsules.shapes import Images, Parts
from maxmincaps.data.batches import ordered
from maxmincaps.data.catalog import DATASETS
from maxmincaps.data.images import ImageSet, Splits, splits
from maxmincaps.errors import InputError
from maxmincaps.recipe import Recipe
from maxmincaps.training.run import Run
from maxmincaps.training.schema import RunData

MAX_IMAGES = 500
MAX_PIXELS = MAX_IMAGES * 32 * 32
Prepare = Callable[[Images], Images]
Lengths = Float[Tensor, "image parent"]


def images_seen(run: Run, dataset: Path | str | None = None, recipe: Recipe | None = None) -> Splits:
    """Load the images of a run, or those of the recipe of a new run.

    Args:
        run: A run folder, possibly of a run that is not yet started.
        dataset: Where the images are now. Default: where they were when the run was trained.
        recipe: The recipe of the run. Default: the one in the folder.

    Raises:
        InputError: If the images are not found, or if they are not those that the run was trained on.
    """
    recipe, data = recipe or run.recipe, None
    with suppress(InputError):  # there is no run yet, or data.json is lost
        data = run.data
    images = splits(recipe.with_changes(dataset=str(dataset or _dataset_path(recipe, run, data))))
    if data and data.images_sha256 and data.images_sha256 != images.digest():
        # The test images of a changed folder may have been trained on.
        raise InputError(
            f"{run.folder}: was trained on other images than {images.train.name} has now; bring those back first, "
            "or train in another folder"
        )
    return images


def _dataset_path(recipe: Recipe, run: Run, data: RunData | None) -> str:
    """Return the dataset's name, or the path of the user's own images. A relative path may be of another folder."""
    stored = data.dataset_path if data and recipe.dataset not in DATASETS else None
    if stored and Path(stored).exists():
        return stored
    if stored and not Path(recipe.dataset).exists():
        raise InputError(f"{run.folder}: its images are not at {stored} any more; pass --dataset PATH")
    return recipe.dataset


def class_lengths(network: nn.Module, images: ImageSet, prepare: Prepare | None = None) -> Lengths:
    """Return the class lengths of all images, in their order. `prepare` is applied to pixels in 0…1."""
    device = next(network.parameters()).device
    batches = ordered(images, evaluation_batch_size(images.images.shape), device, prepare)
    return lengths_of_batches(network, (batch.images for batch in batches))


def lengths_of_batches(network: nn.Module, batches: Iterable[Images]) -> Lengths:
    """Return the class lengths of prepared images on the CPU. The network's training mode is restored afterwards."""
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        parts = [_lengths(network, images).float().cpu() for images in batches]
    network.train(was_training)
    return torch.cat(parts).clone()  # cloned outside inference mode: an ordinary tensor


def _lengths(network: nn.Module, images: Images) -> Lengths:
    """Return the class lengths, without reconstructions where nothing else happens in the network's call."""
    hooks = network._forward_hooks or network._forward_pre_hooks
    if isinstance(network, CapsNet) and type(network).forward is CapsNet.forward and not hooks:
        return network.lengths(images)
    return network(images).lengths


def evaluation_batch_size(shape: Sequence[int]) -> int:
    """Return how many images of a shape, (..., height, width), are evaluated together: fewer if they are large."""
    height, width = shape[-2:]
    return max(1, min(MAX_IMAGES, MAX_PIXELS // (height * width)))


def accuracy(lengths: Lengths, labels: Int64[Tensor, "image *several"]) -> float:
    """Return the fraction of images whose longest class capsules are exactly the true classes."""
    return hits(lengths, labels).double().mean().item()


@torch.inference_mode()
def coupling_statistics(network: CapsNet, images: Images) -> tuple[float, float, float]:
    """Describe the routing coefficients of the last iteration.

    Returns:
        Mean entropy, in nats, of an active child's coefficients divided by their sum (0: one parent has all); mean
        difference between its largest and smallest coefficient; fraction of children that are inactive.
    """
    parts = network.parts(images)
    *_, last = network.digits.steps(parts)
    active = active_children(parts)
    couplings = last.couplings[active].float()
    if not len(couplings):
        return 0.0, 0.0, 1.0
    spread = couplings.amax(dim=-1) - couplings.amin(dim=-1)
    return coupling_entropy(couplings).mean().item(), spread.mean().item(), 1 - active.float().mean().item()


@torch.inference_mode()
def routing_trace(
    network: CapsNet, image: Float[Tensor, "channel height width"]
) -> tuple[Bool[Tensor, "child"], list[RoutingStep]]:
    """Return which children of one image are active, (child,), and every routing step."""
    parts = network.parts(image.unsqueeze(0))
    return active_children(parts)[0], list(network.digits.steps(parts))


def coupling_entropy(couplings: Float[Tensor, "*capsules parent"]) -> Float[Tensor, "*capsules"]:
    """Return the entropy, in nats, of each capsule's coefficients divided by their sum."""
    shares = couplings.abs() / couplings.abs().sum(dim=-1, keepdim=True).clamp(min=1e-12)
    return -(shares * shares.clamp(min=1e-30).log()).sum(dim=-1)


def active_children(parts: Parts) -> Bool[Tensor, "batch child"]:
    """Return which children are active: their pose is not zero."""
    return parts.float().abs().sum(dim=-1) > 0
