"""Batches of an epoch: seeded, on the device, shared among processes.

The dataset is one uint8 tensor, and a batch is a few of its rows as floats, so no worker processes are needed. A batch
depends on (seed, epoch, batch number) only, so a run that is resumed within an epoch continues with the same bits.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Generator, Tensor

from maxmincaps.data.images import ImageSet


@dataclass(frozen=True, eq=False)
class Batch:
    """Some images as the network sees them, pixels in 0…1."""

    images: Float[Tensor, "batch channel height width"]
    labels: Int64[Tensor, "batch *several"]
    indices: Int64[Tensor, "batch"]
    """Positions of the images in their set."""
    targets: Float[Tensor, "batch several channel height width"] | None = None
    """What each label's reconstruction is compared with, if it is not the image itself."""

    def __len__(self) -> int:
        return len(self.labels)


def batches(
    images: ImageSet,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    device: torch.device | str = "cpu",
    augment: Callable[[Tensor, Generator], Tensor] | None = None,
    rank: int = 0,
    world: int = 1,
    skip: int = 0,
) -> Iterator[Batch]:
    """Yield the batches of one epoch in their seeded order, without the first `skip` ones.

    Each of `world` processes takes its contiguous share of every batch. All of them draw the augmentation of the whole
    batch, so the images are those of one process. The last batch may be short, and a rank's share of it empty.
    """
    images = images.to(device)
    order = torch.randperm(len(images), generator=generator_for(seed, "order", epoch), device="cpu")
    for number in range(skip, batch_count(len(images), batch_size)):
        indices = order[number * batch_size : (number + 1) * batch_size]
        pixels = as_float(images.images[indices.to(device)])
        if augment is not None:
            pixels = augment(pixels, generator_for(seed, "augment", epoch, number))
        own = indices.tensor_split(world)[rank].to(device)
        targets = None if images.objects is None else as_float(images.objects[own])
        yield Batch(pixels.tensor_split(world)[rank], images.labels[own], own, targets)


def ordered(
    images: ImageSet,
    batch_size: int,
    device: torch.device | str = "cpu",
    prepare: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[Batch]:
    """Yield all images once, in the order of the set, for evaluation."""
    images = images.to(device)
    for start in range(0, len(images), batch_size):
        indices = torch.arange(start, min(start + batch_size, len(images)), device=device)
        pixels = as_float(images.images[start : start + batch_size])
        yield Batch(pixels if prepare is None else prepare(pixels), images.labels[indices], indices)


def batch_count(images: int, batch_size: int) -> int:
    """Return the number of batches of an epoch."""
    return -(-images // batch_size)


def as_float(pixels: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Scale pixels to 0…1."""
    return pixels.to(torch.float32) / 255


def generator_for(seed: int, *purpose: str | int) -> Generator:
    """Return a generator that depends on seed and purpose only, such as (seed, "augment", epoch, batch number)."""
    words = " ".join(str(word) for word in (seed, *purpose))
    return Generator().manual_seed(int.from_bytes(hashlib.sha256(words.encode()).digest()[:7]))
