"""How a network separates overlapping images: which parents its lower-level capsules serve, and some reconstructions.

An object lies *under* a lower-level capsule if it has a tenth or more of the bright pixels in the capsule's receptive
field. A capsule *serves* the parents whose routing coefficients are above half of its largest coefficient.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional

from maxmincaps.capsules.losses import hits, longest
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Couplings, Poses
from maxmincaps.data.augment import for_testing
from maxmincaps.data.batches import as_float
from maxmincaps.data.images import ImageSet
from maxmincaps.errors import InputError
from maxmincaps.training.checkpoint import load_network, load_tensors, save_tensors
from maxmincaps.training.evaluate import (
    Prepare,
    active_children,
    coupling_entropy,
    evaluation_batch_size,
    images_seen,
)
from maxmincaps.training.run import Run

SEPARATION = "separation"
"""The name of the file, without its suffix."""
MEASURED_IMAGES = 1_000
"""The first test images, whose capsules are counted."""
SHOWN, SHOWN_WRONG = 4, 3
"""How many of them are stored with their reconstructions: the first ones, and the first misclassified ones."""
BRIGHT = 127  # a pixel above this value is bright
OWNED = 0.1
"""Smallest share of the bright pixels in a receptive field that makes an object lie under a capsule."""
KINDS = ("no digit", "one digit", "both digits")
"""What lies under a capsule, in the order of all tensors by kind."""


@dataclass(frozen=True, eq=False)
class Separation:
    """Means over capsules by the number of objects under them (none, one, both), and images with reconstructions."""

    share: Float[Tensor, "kind"]
    """Fraction of the active capsules."""
    served: Float[Tensor, "kind"]
    """Mean number of parents served."""
    entropy: Float[Tensor, "kind"]
    """Mean entropy, in nats, of a capsule's coefficients divided by their sum."""
    both_strongest: Float[Tensor, "kind"]
    """Fraction of capsules whose two strongest parents are the two objects of the image."""
    owner_strongest: Float[Tensor, ""]
    """Fraction of capsules over one object whose strongest parent is this object."""
    other_strongest: Float[Tensor, ""]
    """Fraction of capsules over one object whose strongest parent is the other object of the image."""
    order_follows: Float[Tensor, ""]
    """Fraction of capsules over both objects whose larger coefficient is for the object with more bright pixels in the
    receptive field. By chance: 0.5."""
    objects: UInt8[Tensor, "image several channel height width"]
    labels: Int64[Tensor, "image several"]
    predictions: Int64[Tensor, "image several"]
    reconstructions: UInt8[Tensor, "image several channel height width"]
    """Reconstructions from the predicted classes."""
    couplings: Float[Tensor, "image type parent"]
    """Coefficients of all capsule types at the place where the smaller object has most bright pixels."""


def separation(network: CapsNet, images: ImageSet, prepare: Prepare | None = None) -> Separation | None:
    """Measure a network on overlapping images.

    Returns None if images do not overlap or are cropped, and for a network with a linear head or without Conv1.

    Args:
        network: A network of overlapping images.
        images: Test images with their `objects`.
        prepare: Applied to pixels in 0…1. Default: nothing.
    """
    has_fields = network.stem is None and network.image_shape[1:] == images.images.shape[2:]
    if images.objects is None or not has_fields or network.config["head"] != "capsules":
        return None
    prepare = prepare or (lambda pixels: pixels)
    sums: dict[str, Tensor] = {}
    right = []
    measured = images.take(slice(0, MEASURED_IMAGES))
    size = evaluation_batch_size(images.images.shape)
    for begin in range(0, len(measured), size):
        batch = measured.take(slice(begin, begin + size))
        active, couplings, poses = _routed(network, batch, prepare)
        right.append(hits(poses.norm(dim=-1).cpu(), batch.labels))
        for name, value in capsule_sums(couplings, bright_pixels(network, batch), batch.labels, active).items():
            sums[name] = sums.get(name, 0) + value
    count = sums.pop("count")
    means = {name: value / count for name, value in sums.items()}
    wrong = (~torch.cat(right)).nonzero().flatten()[:SHOWN_WRONG]
    chosen = measured.take(torch.cat([torch.arange(min(SHOWN, len(measured))), wrong]))
    return Separation(
        share=count / count.sum(),
        served=means["served"],
        entropy=means["entropy"],
        both_strongest=means["both_strongest"],
        owner_strongest=means["owner_strongest"][1],
        other_strongest=means["other_strongest"][1],
        order_follows=means["order_follows"][2],
        **_shown(network, chosen, prepare),
    )


def bright_pixels(network: CapsNet, images: ImageSet) -> Float[Tensor, "image several child"]:
    """Return how many bright pixels of each object lie in the receptive field of each capsule."""
    assert images.objects is not None
    (first, second), config = network.kernels, network.config
    same = config["padding"] == "same"
    margin = (first // 2 + second // 2 * config["conv_stride"]) * same
    side, stride = first + (second - 1) * config["conv_stride"], config["conv_stride"] * config["primary_stride"]
    bright = (images.objects.amax(dim=2) > BRIGHT).float()
    types, rows, columns = network.grid
    # Padding at the end makes room for every place of the grid; padded pixels are dark.
    ends = [
        max(0, (places - 1) * stride + side - size - margin)
        for places, size in zip((rows, columns), bright.shape[-2:], strict=True)
    ]
    padded = functional.pad(bright, (margin, ends[1], margin, ends[0]))
    pixels = side**2 * functional.avg_pool2d(padded, side, stride)[..., :rows, :columns]
    return pixels.round().flatten(2).repeat(1, 1, types)


def capsule_sums(
    couplings: Couplings,
    pixels: Float[Tensor, "image several child"],
    labels: Int64[Tensor, "image several"],
    active: Tensor,
) -> dict[str, Float[Tensor, "kind"]]:
    """Return sums over the active capsules by the number of objects under them, and their `count`."""
    share = pixels / pixels.sum(dim=1, keepdim=True).clamp(min=1)
    under = (share >= OWNED).transpose(1, 2)  # (image, child, several)
    own = couplings.gather(2, labels[:, None, :].expand(-1, couplings.shape[1], -1))
    is_object = functional.one_hot(labels, couplings.shape[2]).amax(dim=1).bool()[:, None, :]
    others = couplings.masked_fill(is_object, -torch.inf).amax(dim=2)
    beyond = own > torch.stack([others.maximum(own[..., 1]), others.maximum(own[..., 0])], dim=2)
    measures = {
        "count": torch.ones_like(others),
        "served": (couplings > couplings.amax(dim=2, keepdim=True) / 2).sum(dim=2).float(),
        "entropy": coupling_entropy(couplings),
        "both_strongest": (own.amin(dim=2) > others).float(),
        "owner_strongest": (beyond & under).any(dim=2).float(),
        "other_strongest": (beyond & ~under).any(dim=2).float(),
        "order_follows": ((own[..., 0] - own[..., 1]) * (pixels[:, 0] - pixels[:, 1]) > 0).float(),
    }
    kind = under.sum(dim=2)
    kinds = torch.stack([(kind == number) & active for number in range(len(KINDS))]).double()
    return {name: torch.einsum("kic,ic->k", kinds, values.double()) for name, values in measures.items()}


@torch.inference_mode()
def _routed(network: CapsNet, images: ImageSet, prepare: Prepare) -> tuple[Tensor, Couplings, Poses]:
    """Return which capsules are active, (image, child), the last coefficients, and the class poses on the device."""
    was_training = network.training
    parts = network.eval().parts(prepare(as_float(images.images).to(next(network.parameters()).device)))
    *_, last = network.digits.steps(parts)
    network.train(was_training)
    return active_children(parts).cpu(), last.couplings.float().cpu(), last.poses


@torch.inference_mode()
def _shown(network: CapsNet, images: ImageSet, prepare: Prepare) -> dict[str, Tensor]:
    """Return the images with predictions and reconstructions, and coefficients of the capsules in the overlap."""
    assert images.objects is not None
    _, couplings, poses = _routed(network, images, prepare)
    predictions = longest(poses.norm(dim=-1), images.labels)
    reconstructions = network.output(poses, predictions).reconstruction
    types, rows, columns = network.grid
    place = bright_pixels(network, images).amin(dim=1)[:, : rows * columns].argmax(dim=1)
    by_place = couplings.unflatten(1, (types, rows * columns))
    return {
        "objects": images.objects,
        "labels": images.labels,
        "predictions": predictions.cpu(),
        "reconstructions": (255 * reconstructions.float().cpu()).round().to(torch.uint8),
        "couplings": by_place[torch.arange(len(place)), :, place].clone(),
    }


def separation_tensors(found: Separation) -> dict[str, Tensor]:
    """Return what the file of a run holds."""
    return {name: value.float() if value.is_floating_point() else value for name, value in vars(found).items()}


def read_separation(folder: Path | str) -> Separation:
    """Read and validate what a run on overlapping images stored (separation.safetensors).

    Raises:
        InputError: If the file is missing or damaged.
    """
    path = Path(folder) / f"{SEPARATION}.safetensors"
    tensors, _ = load_tensors(path)
    try:
        found = Separation(**{name: tensors[name] for name in Separation.__dataclass_fields__})
    except KeyError as error:
        raise InputError(f"{path}: expected a tensor {error}, found {', '.join(tensors) or 'none'}") from None
    images = len(found.labels)
    shapes: dict[str, Any] = {name: (len(KINDS),) for name in ("share", "served", "entropy", "both_strongest")}
    shapes |= dict.fromkeys(("owner_strongest", "other_strongest", "order_follows"), ())
    shapes |= dict.fromkeys(("labels", "predictions"), (images, 2))
    shapes |= dict.fromkeys(("reconstructions",), tuple(found.objects.shape))
    wrong = [name for name, shape in shapes.items() if tuple(getattr(found, name).shape) != shape]
    if wrong or found.objects.dim() != 5 or found.couplings.dim() != 3 or len(found.couplings) != images:
        raise InputError(f"{path}: the shapes of its tensors do not fit together ({', '.join(wrong) or 'objects'})")
    return found


def add_separation(folder: Path | str) -> Path:
    """Measure a finished run on overlapping images, write separation.safetensors into its folder, and return its path.

    A run writes this file at its end. Call this function for runs of earlier versions, which did not.

    Raises:
        InputError: If the run has no weights, or no overlapping images.
    """
    run, path = Run(Path(folder)), Path(folder) / f"{SEPARATION}.safetensors"
    found = separation(load_network(run.folder, "last"), images_seen(run).test, for_testing(run.recipe))
    if found is None:
        raise InputError(f"{folder}: expected a run with Conv1 and routed capsules, trained on overlapping images")
    save_tensors(path, separation_tensors(found))
    return path
