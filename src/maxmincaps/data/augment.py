"""Crops, shifts and rotations of a whole batch at once, with an explicit generator.

Each random function draws on the CPU and moves the few drawn numbers to the images, so that the same generator gives
the same images on every device. It calls a deterministic function with what was drawn: `windows`, `shifted`, `rotated`.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from maxmincaps.data.images import ImageSet
from maxmincaps.errors import InputError
from maxmincaps.recipe import DataSettings

Images = Float[Tensor, "batch channel height width"]  # pixels in 0…1
Pixels = Int[Tensor, "batch"]  # a distance for each image
Degrees = Float[Tensor, "batch"]

DEFAULT_CROPS = {"cifar10": 24}  # the paper's only augmentation outside its MNIST record


def windows(images: Images, top: Pixels, left: Pixels, height: int, width: int) -> Images:
    """Cut from each image the window of `height` × `width` whose corner is at its own (top, left)."""
    rows = (top[:, None] + torch.arange(height, device=images.device))[:, None, :, None]
    columns = (left[:, None] + torch.arange(width, device=images.device))[:, None, None, :]
    image = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return images[image, channel, rows, columns]


def random_crop(images: Images, size: int, generator: Generator) -> Images:
    """Cut a window of `size` × `size` from a random place of each image."""
    top, left = (_draw(0, room, images, generator).to(images.device) for room in _room(images, size))
    return windows(images, top, left, size, size)


def centre_crop(images: Images, size: int) -> Images:
    """Cut the central window of `size` × `size`."""
    top, left = (room // 2 for room in _room(images, size))
    return images[:, :, top : top + size, left : left + size]


def shifted(images: Images, right: Pixels, down: Pixels) -> Images:
    """Move each image by its own (right, down) whole pixels, with zeros outside."""
    height, width = images.shape[-2:]
    across = min(max(map(abs, right.tolist()), default=0), width)
    along = min(max(map(abs, down.tolist()), default=0), height)
    padded = functional.pad(images, (across, across, along, along))
    # The window moves opposite to the image; shifts beyond the image's width give zeros only.
    top, left = along - down.clamp(-along, along), across - right.clamp(-across, across)
    return windows(padded, top.to(images.device), left.to(images.device), height, width)


def shift(images: Images, most: int, generator: Generator) -> Images:
    """Translate each image by up to `most` whole pixels in each direction, zeros outside."""
    right, down = (_draw(-most, most, images, generator) for _ in range(2))
    return shifted(images, right, down)


def rotated(images: Images, degrees: Degrees) -> Images:
    """Rotate each image anticlockwise about its centre by its own angle (bilinear, zeros outside)."""
    height, width = images.shape[-2:]
    turn = degrees.to(images) * (math.pi / 180)
    cosine, sine, zero = torch.cos(turn), torch.sin(turn), torch.zeros_like(turn)
    # Each output position is mapped back to its origin, in units of half the image.
    first = torch.stack([cosine, -sine * (height / width), zero], dim=-1)
    second = torch.stack([sine * (width / height), cosine, zero], dim=-1)
    grid = functional.affine_grid(torch.stack([first, second], dim=1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def rotate(images: Images, most_degrees: float, generator: Generator) -> Images:
    """Rotate each image about its centre by up to `most_degrees` either way."""
    return rotated(images, most_degrees * (2 * _uniform(images, generator) - 1))


def flip(images: Images, generator: Generator) -> Images:
    """Mirror half of the images, drawn at random, left to right."""
    mirrored = (_uniform(images, generator) < 0.5).to(images.device)
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def brightness(images: Images, most: float, generator: Generator) -> Images:
    """Add one number of up to ±`most` to all pixels of an image, clipped to 0…1."""
    added = most * (2 * _uniform(images, generator) - 1)
    return (images + added.to(images)[:, None, None, None]).clamp(0, 1)


def whiten(images: Images) -> Images:
    """Scale each image to mean 0 and variance 1. An image of one colour becomes 0."""
    pixels = math.prod(images.shape[1:])
    deviation = images.std(dim=(1, 2, 3), correction=0, keepdim=True)
    # As in Sabour's code, the divisor is at least the deviation of a single pixel.
    return (images - images.mean(dim=(1, 2, 3), keepdim=True)) / deviation.clamp(min=1 / math.sqrt(pixels))


def crop_of(settings: DataSettings) -> int | None:
    """Return the side of the window that the network sees, or None for the whole image."""
    crop = DEFAULT_CROPS.get(settings.dataset) if settings.crop is None else settings.crop
    return crop or None


def for_training(settings: DataSettings) -> Callable[[Images, Generator], Images]:
    """Return the augmentation of training images, in this order: rotate, shift, crop, flip, brightness, whiten."""
    crop = crop_of(settings)

    def augment(images: Images, generator: Generator) -> Images:
        if settings.rotate:
            images = rotate(images, settings.rotate, generator)
        if settings.shift:
            images = shift(images, settings.shift, generator)
        if crop:
            images = random_crop(images, crop, generator)
        if settings.flip:
            images = flip(images, generator)
        if settings.brightness:
            images = brightness(images, settings.brightness, generator)
        return whiten(images) if settings.whiten else images

    return augment


def for_testing(settings: DataSettings) -> Callable[[Images], Images]:
    """Return the preprocessing of test images: the central window, whitened if training images are."""
    crop = crop_of(settings)

    def prepare(images: Images) -> Images:
        if crop:
            images = centre_crop(images, crop)
        return whiten(images) if settings.whiten else images

    return prepare


def image_size_after(settings: DataSettings, images: ImageSet) -> tuple[int, int]:
    """Return (height, width) of what the network sees of `images`."""
    crop = crop_of(settings)
    if crop is None:
        return images.height, images.width
    _room(images.images, crop)
    return crop, crop


def _room(images: Tensor, size: int) -> tuple[int, int]:
    """Return how far a window can be moved down and to the right within an image."""
    height, width = images.shape[-2:]
    if size > min(height, width):
        raise InputError(f"crop: expected a window inside the images of {height}×{width}, found {size}×{size}")
    return height - size, width - size


def _draw(low: int, high: int, images: Images, generator: Generator) -> Pixels:
    return torch.randint(low, high + 1, (len(images),), generator=generator, device="cpu")


def _uniform(images: Images, generator: Generator) -> Float[Tensor, "batch"]:
    return torch.rand(len(images), generator=generator, device="cpu")
