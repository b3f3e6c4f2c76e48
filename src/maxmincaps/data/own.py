"""Read the user's own images: a folder with one subfolder per class, an .npz file, or a folder of .npy files.

Data without a test split is split by a seed: one fifth of each class is for testing. Training images are always
shuffled by the seed, so that the first N and the last N contain all classes.
"""

import math
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from PIL import ImageOps

from maxmincaps.data.formats import Labels, Pixels, check_size, open_image, reading
from maxmincaps.data.image_files import KINDS, PICTURES, is_picture, read_picture
from maxmincaps.errors import InputError
from maxmincaps.files import open_regular

TEST_SHARE = 5  # one in five is for testing
ARRAY_NAMES = (
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
    ("images", "labels"),
    ("x", "y"),
    ("X", "y"),
)

Own = tuple[Pixels, Labels, tuple[str, ...]]


def is_own(name: str | Path) -> bool:
    """Return whether a dataset is given as the user's own files."""
    return Path(name).suffix in (".npz", ".npy") or Path(name).is_dir()


def read(path: Path, split: str, *, image_size: int | None, grey: bool | None, seed: int) -> Own:
    """Read one split: pixels, labels, and the name of each class; see `maxmincaps.load` for the arguments.

    Image files get the size of the first one, and are read in grey if it is, unless `image_size` and `grey` are given.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoders warn of oddities in files that they can read
        if path.suffix == ".npz":
            with reading(path, "an .npz file"), open_regular(path) as file, zipfile.ZipFile(file) as archive:
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
                arrays = {
                    name: _Array(f"{path}, {name}", member.file_size, partial(archive.open, member))
                    for name, member in members.items()
                }
                return _from_arrays(path, arrays, split, seed)
        if path.suffix == ".npy" or any((path / f"{names[0]}.npy").exists() for names in ARRAY_NAMES):
            folder = path.parent if path.suffix == ".npy" else path
            with reading(folder, "a folder of .npy files"):
                arrays = {
                    file.stem: _Array(str(file), file.stat().st_size, partial(open_regular, file))
                    for file in folder.glob("*.npy")
                }
            return _from_arrays(folder, arrays, split, seed)
        return _from_folder(path, split, image_size, grey, seed)


def _chosen(
    labels: Labels, split: str, seed: int, where: Path, classes: tuple[str, ...], *, has_test: bool
) -> Int64[ndarray, "chosen"]:
    """Return indices: all images if there is a test split, else a seeded fifth of each class or the other images."""
    every = np.arange(len(labels))
    if not has_test and split != "evaluation":
        order = np.random.RandomState(seed).permutation(len(labels))
        parts = []
        for label, name in enumerate(classes):
            members = order[labels[order] == label]
            if len(members) < 2:
                found = len(members)
                raise InputError(f"{where}: expected 2 images or more of class {name!r} to divide, found {found}")
            test = max(1, len(members) // TEST_SHARE)
            parts.append(members[:test] if split == "test" else members[test:])
        every = np.sort(np.concatenate(parts))
    # RandomState's order is the same under every version of numpy.
    return np.random.RandomState(seed).permutation(every) if split == "train" else every


# Folders of image files


def _from_folder(path: Path, split: str, image_size: int | None, grey: bool | None, seed: int) -> Own:
    # If train/ has image files and no subfolders, it is a class like the others, as in bus/, car/, train/.
    root = path / "train" if (path / "train").is_dir() and _subfolders(path / "train") else path
    has_test = root != path and (path / "test").is_dir()
    classes = _class_folders(root, least=1 if split == "evaluation" else 2)
    files, labels = _pictures_in(root, classes, classes)
    with open_image(files[0], KINDS) as picture:
        if grey is None:
            grey = picture.mode in ("1", "L", "LA", "I", "F") or picture.mode.startswith("I;")
        width, height = (image_size, image_size) if image_size else ImageOps.exif_transpose(picture).size
    if has_test and split != "train":
        # Not every class needs test images.
        files, labels = _pictures_in(path / "test", _class_folders(path / "test", least=1), classes)
    chosen = _chosen(labels, split, seed, path, classes, has_test=has_test)
    mode = "L" if grey else "RGB"
    shape = (len(chosen), len(mode), height, width)
    check_size(path, shape)
    pixels = np.empty(shape, np.uint8)
    read_one = partial(read_picture, mode=mode, height=height, width=width)
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow releases Python's lock while it decodes and resizes
        for place, found in enumerate(threads.map(read_one, [files[number] for number in chosen])):
            pixels[place] = found
    return pixels, labels[chosen], classes


def _subfolders(root: Path) -> tuple[str, ...]:
    with reading(root, "a folder with one subfolder per class"):
        return tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir() and entry.name[0] != "."))


def _class_folders(root: Path, least: int) -> tuple[str, ...]:
    for name in (classes := _subfolders(root)):
        if name.encode(errors="replace").decode() != name:
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            raise InputError(f"{root}: expected folders whose names are UTF-8, found {shown!r}; rename it")
    if len(classes) < least:
        raise InputError(f"{root}: expected {least} subfolders or more, one for each class, found {len(classes)}")
    return classes


def _pictures_in(root: Path, folders: tuple[str, ...], classes: tuple[str, ...]) -> tuple[list[Path], Labels]:
    files, labels = [], []
    for name in folders:
        if name not in classes:
            raise InputError(f"{root / name}: expected one of the training classes {', '.join(classes)}")
        # Systems leave hidden files beside images, such as the `._` files of macOS.
        found = sorted(file for file in (root / name).iterdir() if is_picture(file) and file.is_file())
        if not found:
            raise InputError(f"{root / name}: expected images ({', '.join(PICTURES)}), found none")
        files += found
        labels += [classes.index(name)] * len(found)
    return files, np.array(labels, np.int64)


# Arrays


class _Array(NamedTuple):
    """An .npy file, by itself or in an .npz file. It is never unpickled."""

    where: str
    size: int
    open: Callable[[], IO[bytes]]

    def length(self) -> int:
        """Return the length of the first axis, from the header alone."""
        with reading(self.where, "an array"), self.open() as file:
            shape, *_ = self._header(file)
            return shape[0] if shape else 0

    def read(self) -> ndarray:
        """Read the array."""
        with reading(self.where, "an array"), self.open() as file:
            shape, fortran, dtype = self._header(file)
            found = file.read(math.prod(shape) * dtype.itemsize)
            return np.frombuffer(found, dtype).reshape(shape, order="F" if fortran else "C")

    def _header(self, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
        """Read shape, order and type, and compare what they claim with the bytes that are there."""
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise InputError(f"{self.where}: expected version 1.0 or 2.0 of the .npy format, found {version}")
        parse = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[version[0]]
        shape, fortran, dtype = parse(file)
        if dtype.hasobject or dtype.kind not in "buifU":
            raise InputError(f"{self.where}: expected numbers or names, found {dtype}")
        claimed, there = math.prod(shape) * dtype.itemsize, self.size - file.tell()
        if claimed != there or min(shape, default=1) < 0:
            raise InputError(f"{self.where}: expected the {claimed:,} bytes that its header claims, found {there:,}")
        check_size(self.where, (claimed,))
        return shape, fortran, dtype


def _from_arrays(where: Path, arrays: Mapping[str, _Array], split: str, seed: int) -> Own:
    names = next((names for names in ARRAY_NAMES if set(names) <= set(arrays)), None)
    if names is None:
        ways = " or ".join(" + ".join(names) for names in ARRAY_NAMES)
        raise InputError(f"{where}: expected {ways}, found {', '.join(sorted(arrays)) or 'nothing'}")
    # By the headers, before anything is read: compressed labels may be thousands of times as large as their file.
    counts = {name: arrays[name].length() for name in (*names, "classes") if name in arrays}
    for images, labels in zip(names[::2], names[1::2], strict=True):
        if counts[images] != counts[labels]:
            raise InputError(
                f"{where}: expected as many labels as images, found {counts[labels]:,} in {labels} and "
                f"{counts[images]:,} in {images}"
            )
    if counts.get("classes", 0) > counts[names[1]]:
        raise InputError(f"{where}: expected at most as many classes as labels, found {counts['classes']:,}")
    classes = _classes(arrays, _labels(arrays[names[1]]), where)
    images, answers = names[:2] if split == "train" else names[-2:]
    pixels, labels = _pixels(arrays[images]), _labels(arrays[answers])
    if labels.max() >= len(classes):
        raise InputError(f"{where}: expected labels in 0…{len(classes) - 1}, found {labels.max()}")
    chosen = _chosen(labels, split, seed, where, classes, has_test=len(names) == 4)
    return pixels[chosen], labels[chosen], classes  # copies, as the arrays over a file's bytes are read-only


def _labels(array: _Array) -> Labels:
    found = array.read()
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1 or found.dtype.kind not in "ui" or len(found) == 0 or found.astype(np.int64).min() < 0:
        least = f", from {found.min()}" if found.size and found.dtype.kind in "ui" else ""
        raise InputError(
            f"{array.where}: expected a row of whole numbers from 0, found {found.dtype} of shape {found.shape}{least}"
        )
    return found.astype(np.int64)


def _classes(arrays: Mapping[str, _Array], labels: Labels, where: Path) -> tuple[str, ...]:
    """Return the names of the classes: those in `classes`, or 0, 1, 2, …. Each must have a training image."""
    if (largest := int(labels.max())) >= len(labels):
        raise InputError(f"{where}: expected labels below the number of images, {len(labels)}, found {largest}")
    names = tuple(map(str, range(largest + 1)))
    if "classes" in arrays:
        named = arrays["classes"].read()
        if named.ndim != 1 or named.dtype.kind != "U":
            raise InputError(f"{where}, classes: expected a row of names, found {named.dtype} of shape {named.shape}")
        names = tuple(map(str, named))
    if len(names) < 2:
        raise InputError(f"{where}: expected 2 classes or more, found {len(names)}")
    if len(empty := np.setdiff1d(range(len(names)), labels)):
        raise InputError(f"{where}: expected images of every class, found none of {names[empty[0]]!r}")
    return names


def _pixels(array: _Array) -> Pixels:
    """Read images as uint8 (image, channel, height, width), from floats in 0…1 or whole numbers in 0…255."""
    found, where = array.read(), array.where
    if found.ndim == 3:
        found = found[:, None]
    elif found.ndim == 4 and found.shape[-1] in (1, 3):
        found = found.transpose(0, 3, 1, 2)
    if found.ndim != 4 or found.shape[1] not in (1, 3) or found.size == 0 or found.dtype.kind == "U":
        raise InputError(
            f"{where}: expected (image, height, width), or with 1 or 3 channels last or second, "
            f"found {found.dtype} of shape {found.shape}"
        )
    if found.dtype == np.uint8:
        return np.ascontiguousarray(found)
    most = 255 if found.dtype.kind in "ui" else 1
    pixels = np.empty(found.shape, np.uint8)
    for start in range(0, len(found), 1024):  # in pieces, as the floats of all images would need eight times the memory
        piece = found[start : start + 1024]
        if not (piece >= 0).all() or not (piece <= most).all():
            raise InputError(f"{where}: expected {found.dtype} pixels in 0…{most}, found {piece.min()} … {piece.max()}")
        pixels[start : start + 1024] = np.rint(piece * (255 / most))
    return pixels
