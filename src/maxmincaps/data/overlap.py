"""Overlapping images: sums of two images of different classes, as MultiMNIST of Sabour et al. (section 6) has them."""

import torch
from jaxtyping import Int64, UInt8
from torch import Generator, Tensor
from torch.nn.functional import pad

from maxmincaps.errors import InputError

MOST_SHIFT = 4
"""Each of the two is shifted by up to this many pixels each way, on a canvas that has room for it."""
COLOURS = ((0.9, 0.15, 0.75), (0.1, 0.85, 0.25))
"""Magenta and green, in which two objects are drawn: colour-blind readers tell them apart, and both make white."""

Pixels = UInt8[Tensor, "image channel height width"]


def paired(
    images: Pixels, labels: Int64[Tensor, "image"], generator: Generator
) -> tuple[UInt8[Tensor, "image 2 channel height2 width2"], Int64[Tensor, "image 2"]]:
    """Return for every image itself and one of another class, both shifted, and the labels of both.

    Raises:
        InputError: If all images are of one class.
    """
    pairs = torch.stack([torch.arange(len(labels)), _partners(labels, generator)], dim=1)
    shifts = torch.randint(2 * MOST_SHIFT + 1, (len(labels), 2, 2), generator=generator)
    shifted = [_shifted(images[which], shift) for which, shift in zip(pairs.T, shifts.unbind(1), strict=True)]
    return torch.stack(shifted, dim=1), labels[pairs]


def clipped_sum(objects: UInt8[Tensor, "image several channel height width"]) -> Pixels:
    """Add up the objects of each image; pixels stay below 256."""
    return objects.sum(dim=1, dtype=torch.int16).clamp(max=255).to(torch.uint8)


def _partners(labels: Int64[Tensor, "image"], generator: Generator) -> Int64[Tensor, "image"]:
    """Draw for each image another one of a different class."""
    if len(labels.unique()) < 2:
        raise InputError("overlap: expected images of two or more classes, found one class")
    partners = torch.randint(len(labels), labels.shape, generator=generator)
    while len(same := (labels[partners] == labels).nonzero().flatten()):
        partners[same] = torch.randint(len(labels), same.shape, generator=generator)
    return partners


def _shifted(images: Pixels, shifts: Int64[Tensor, "image 2"]) -> Pixels:
    """Move each image down and to the right by its shift, on a canvas larger by twice the largest shift."""
    _, channels, height, width = images.shape
    canvas = pad(images, (0, 2 * MOST_SHIFT, 0, 2 * MOST_SHIFT))
    rows, columns = (
        (torch.arange(size + 2 * MOST_SHIFT) - shift[:, None]) % (size + 2 * MOST_SHIFT)
        for size, shift in zip((height, width), shifts.T, strict=True)
    )
    canvas = canvas.gather(2, rows[:, None, :, None].expand(-1, channels, -1, canvas.shape[3]))
    return canvas.gather(3, columns[:, None, None, :].expand(-1, channels, canvas.shape[2], -1))
