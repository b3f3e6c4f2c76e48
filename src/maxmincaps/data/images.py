"""Image sets: one uint8 tensor with labels, loaded by the name of a dataset or from the user's own files."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Generator, Tensor
from torch.nn import functional

from maxmincaps.data import download, formats, own
from maxmincaps.data.cache import cache_folder
from maxmincaps.data.catalog import DATASETS
from maxmincaps.errors import InputError, check_name
from maxmincaps.files import check_regular
from maxmincaps.recipe import DataSettings

Split = Literal["train", "test", "evaluation"]
"""`evaluation` is the test split, or all images of one's own data that has no test split."""
MOST_SHIFT = 4  # of each of two overlapping images, in pixels each way, on a canvas that has room for it
OVERLAP_COLOURS = ((0.9, 0.15, 0.75), (0.1, 0.85, 0.25))
"""Magenta and green, in which two objects are drawn: colour-blind readers tell them apart, and both make white."""
LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in grey (ITU-R BT.601, as Pillow's "L")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images in memory. If images overlap, each has several labels."""

    images: UInt8[Tensor, "image channel height width"]
    labels: Int64[Tensor, "image *several"]
    classes: tuple[str, ...]
    """The name of each label."""
    name: str
    """The dataset they belong to."""
    regenerated: bool = False
    """Whether the set was made on this machine by the authors' procedure. Every number from it must state this."""
    objects: UInt8[Tensor, "image several channel height width"] | None = None
    """The single images of which overlapping ones are the sum."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return self.images.shape[1]

    @property
    def height(self) -> int:
        """Height of an image in pixels."""
        return self.images.shape[2]

    @property
    def width(self) -> int:
        """Width of an image in pixels."""
        return self.images.shape[3]

    def take(self, which: Int64[Tensor, "taken"] | slice) -> "ImageSet":
        """Return a set with only these images, in this order."""
        objects = None if self.objects is None else self.objects[which]
        return replace(self, images=self.images[which], labels=self.labels[which], objects=objects)

    def to(self, device: torch.device | str) -> "ImageSet":
        """Return the set on a device. Nothing is copied if it is there already."""
        objects = None if self.objects is None else self.objects.to(device)
        return replace(self, images=self.images.to(device), labels=self.labels.to(device), objects=objects)


@dataclass(frozen=True, eq=False)
class Splits:
    """Training, validation (if the recipe has one) and test set of a recipe."""

    train: ImageSet
    validation: ImageSet | None
    test: ImageSet
    single: ImageSet | None = None
    """The training images before they were laid over each other; every epoch draws new pairs of them."""

    def digest(self) -> str:
        """Return the SHA-256 of all images, labels and class names, whatever files they came from."""
        found = hashlib.sha256(json.dumps(self.train.classes).encode())
        for images in filter(None, (self.train, self.validation, self.test)):
            for tensor in (images.images, images.labels):
                found.update(str(tuple(tensor.shape)).encode())
                found.update(tensor.cpu().contiguous().numpy().data)
        return found.hexdigest()


def load(
    name: str | Path,
    split: Split = "train",
    *,
    cache: Path | None = None,
    image_size: int | None = None,
    grey: bool | None = None,
    seed: int = 0,
) -> ImageSet:
    """Load a dataset of the catalogue, or images of one's own.

    A dataset that is not on this machine is fetched first; `maxmincaps.data.sources` describes from where.

    Args:
        name: A dataset's name, a folder with one subfolder per class, an .npz file, or a folder of .npy files.
        split: "train", "test", or "evaluation": the test split, or all of one's own images if they have none.
        cache: The folder of all datasets. Default: $MAXMINCAPS_CACHE, or the platform's cache folder.
        image_size: Side to which the images are resized. Default: as they are.
        grey: Whether to convert to grey (True) or to colour (False). Default: as they are.
        seed: Seed of the split of one's own images, and the draw of a regenerated set.

    Raises:
        InputError: If there is no such dataset, or it cannot be fetched or read. The message states what to do.

    Example:
        >>> images = load("mnist-5k", "test")
        >>> len(images), images.images.shape
        (1000, torch.Size([1000, 1, 28, 28]))
    """
    check_name(split, ("train", "test", "evaluation"), "split")
    if str(name) == "multi-mnist":
        single = load("mnist", split, cache=cache, image_size=image_size, grey=grey, seed=seed)
        return replace(overlapping(single, _pair_generator("train" if split == "train" else "test")), name=str(name))
    if str(name) in DATASETS:
        dataset = DATASETS[str(name)]
        pixels, labels, manifest = download.read_split(dataset, split, cache_folder(cache), seed)
        classes, regenerated = dataset.classes, manifest.regenerated
    elif own.is_own(name):
        pixels, labels, classes = own.read(Path(name), split, image_size=image_size, grey=grey, seed=seed)
        regenerated = False
    else:
        raise _unknown_dataset(Path(name))
    found = ImageSet(torch.from_numpy(pixels), torch.from_numpy(labels), classes, str(name), regenerated)
    return resized(coloured(found, grey), image_size)


def _unknown_dataset(path: Path) -> InputError:
    if path.exists():
        check_regular(path)
        return InputError(f"{path}: expected a folder of images or an .npz file, found another file")
    if path.parent != Path() or path.suffix:
        return InputError(f"{path}: there is no such file or folder (expected a folder of images or an .npz file)")
    try:
        check_name(str(path), DATASETS, "dataset")
    except InputError as error:
        return InputError(f"{error}; or give a folder with one subfolder per class, or an .npz file")
    raise AssertionError(path)


def images_of(settings: DataSettings, split: Split) -> ImageSet:
    """Load the whole split of the dataset that a recipe names, at its size and in its colours."""
    return load(settings.dataset, split, image_size=settings.image_size, grey=settings.grey)


def test_images_of(settings: DataSettings) -> ImageSet:
    """Load the test images of a recipe, in pairs if its images overlap."""
    test = images_of(settings, "test")
    return overlapping(test, _pair_generator("test")) if settings.overlap else test


def splits(settings: DataSettings) -> Splits:
    """Load the sets of a recipe: the last `validation` training images are for validation, the others for training."""
    train, test = (images_of(settings, split) for split in ("train", "test"))
    if train.images.shape[1:] != test.images.shape[1:]:
        like, other = ("×".join(map(str, images.images.shape[1:])) for images in (train, test))
        raise InputError(
            f"{train.name}: expected test images of {like} (channels, height, width), as those for training are, "
            f"found {other}; --image-size and --grey make them alike"
        )
    left = len(train) - settings.validation
    if left < 1:
        raise InputError(
            f"validation: expected fewer than the {len(train)} training images of {train.name}, "
            f"found {settings.validation}"
        )
    wanted = left if settings.train_images is None else settings.train_images
    if wanted > left:
        raise InputError(f"train_images: expected at most the {left} of {train.name}, found {wanted}")
    validation = train.take(slice(left, None)) if settings.validation else None
    train = train.take(slice(0, wanted))
    if not settings.overlap:
        return Splits(train, validation, test)
    return Splits(
        overlapping(train, _pair_generator("train")),
        validation and overlapping(validation, _pair_generator("validation")),
        overlapping(test, _pair_generator("test")),
        single=train,
    )


def _pair_generator(split: str) -> Generator:
    """Return the generator of the fixed pairs of a split."""
    return Generator().manual_seed(("train", "validation", "test").index(split))


def overlapping(single: ImageSet, generator: Generator) -> ImageSet:
    """Return as many images, each with one of another class laid over it, both shifted, and with two labels.

    This is MultiMNIST of Sabour et al. (section 6) for any dataset.

    Raises:
        InputError: If all images are of one class.
    """
    images, labels = single.images.cpu(), single.labels.cpu()
    if len(labels.unique()) < 2:
        raise InputError("overlap: expected images of two or more classes, found one class")
    partners = torch.randint(len(labels), labels.shape, generator=generator)
    while len(same := (labels[partners] == labels).nonzero().flatten()):
        partners[same] = torch.randint(len(labels), same.shape, generator=generator)
    pairs = torch.stack([torch.arange(len(labels)), partners], dim=1)
    shifts = torch.randint(2 * MOST_SHIFT + 1, (len(labels), 2, 2), generator=generator)
    objects = torch.stack([_shifted(images[pairs[:, each]], shifts[:, each]) for each in range(2)], dim=1)
    summed = objects.sum(dim=1, dtype=torch.int16).clamp(max=255).to(torch.uint8)
    return replace(single, images=summed, labels=labels[pairs], objects=objects)


def _shifted(images: Tensor, shifts: Int64[Tensor, "image 2"]) -> UInt8[Tensor, "image channel height2 width2"]:
    """Move each image down and to the right by its shift, on a canvas larger by twice the largest shift."""
    _, channels, height, width = images.shape
    canvas = functional.pad(images, (0, 2 * MOST_SHIFT, 0, 2 * MOST_SHIFT))
    rows, columns = (
        (torch.arange(size + 2 * MOST_SHIFT) - shift[:, None]) % (size + 2 * MOST_SHIFT)
        for size, shift in zip((height, width), shifts.T, strict=True)
    )
    canvas = canvas.gather(2, rows[:, None, :, None].expand(-1, channels, -1, canvas.shape[3]))
    return canvas.gather(3, columns[:, None, None, :].expand(-1, channels, canvas.shape[2], -1))


def fixed_subset(images: ImageSet, count: int) -> ImageSet:
    """Return `count` images, always the same ones, in their order. A smaller set is returned as it is."""
    if count >= len(images):
        return images
    chosen = np.random.RandomState(0).permutation(len(images))[:count]
    return images.take(torch.from_numpy(np.sort(chosen)))


def resized(images: ImageSet, size: int | None) -> ImageSet:
    """Return the set with its images resized to `size` × `size`."""
    if size is None or (images.height, images.width) == (size, size):
        return images
    formats.check_size(f"{images.name} at {size}×{size}", (len(images), images.channels, size, size))
    sized = functional.interpolate(images.images, (size, size), mode="bilinear", antialias=True)
    return replace(images, images=sized)


def coloured(images: ImageSet, grey: bool | None) -> ImageSet:
    """Return the set in grey (True), in colour (False), or unchanged (None)."""
    if grey is None or images.channels == (1 if grey else 3):
        return images
    if not grey:
        return replace(images, images=images.images.repeat(1, 3, 1, 1))
    luma = torch.tensor(LUMA, device=images.images.device)[:, None, None]
    # In pieces, as floats of all images would take four times the memory of the set.
    pieces = [(piece * luma).sum(1, keepdim=True).round().to(torch.uint8) for piece in images.images.split(4096)]
    return replace(images, images=torch.cat(pieces))
