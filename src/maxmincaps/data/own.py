"""Read the user's own images: a folder with one subfolder per class, an .npz file, or a folder of .npy files.

Data without a test split is split by a seed: one fifth of each class is for testing. Training images are always
shuffled by the seed, so that the first N and the last N contain all classes.
"""

import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy import ndarray
from PIL import ImageOps

from maxmincaps.data.formats import Labels, Pixels, check_size, open_image, reading
from maxmincaps.data.image_files import KINDS, PICTURES, read_picture
from maxmincaps.errors import InputError
from maxmincaps.files import open_regular

TEST_SHARE = 5  # one in five is for testing

DIVIDED = (("train_images", "train_labels", "test_images", "test_labels"), ("x_train", "y_train", "x_test", "y_test"))
UNDIVIDED = (("images", "labels"), ("x", "y"), ("X", "y"))
MODES = {True: "L", False: "RGB"}

Own = tuple[Pixels, Labels, tuple[str, ...]]


def is_own(name: str | Path) -> bool:
    """Return whether a dataset is given as the user's own files."""
    return Path(name).suffix in (".npz", ".npy") or Path(name).is_dir()


def read(path: Path, split: str, *, image_size: int | None, grey: bool | None, seed: int) -> Own:
    """Read one split.

    Args:
        path: A folder, or an .npz or .npy file.
        split: "train", "test", or "evaluation": the test split, or all images if the data has none.
        image_size: Side to which image files are resized. Default: the size of the first one.
        grey: Whether image files are read in grey. Default: as the first one is.
        seed: Seed of the split and of the order of the training images.

    Returns:
        Pixels (image, channel, height, width), labels (image,), and the name of each class.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoders warn of oddities in files that they can read
        return _read(path, split, image_size, grey, seed)


def _read(path: Path, split: str, image_size: int | None, grey: bool | None, seed: int) -> Own:
    if path.suffix == ".npz":
        with reading(path, "an .npz file"), open_regular(path) as file, zipfile.ZipFile(file) as members:
            return _from_arrays(path, _Members(path, members), split, seed)
    if path.suffix == ".npy" or any((path / f"{keys[0]}.npy").exists() for keys in (*DIVIDED, *UNDIVIDED)):
        folder = path.parent if path.suffix == ".npy" else path
        return _from_arrays(folder, _Files(folder), split, seed)
    return _from_folder(path, split, image_size, grey, seed)


def divided(labels: Labels, split: str, seed: int, where: str | Path, classes: tuple[str, ...]) -> ndarray:
    """Return the indices of a split: a seeded fifth of each class for testing, the others, shuffled, for training."""
    order = np.random.RandomState(seed).permutation(len(labels))
    chosen = []
    for label, name in enumerate(classes):
        members = order[labels[order] == label]
        if len(members) < 2:
            raise InputError(f"{where}: expected 2 images or more of class {name!r} to divide, found {len(members)}")
        test = max(1, len(members) // TEST_SHARE)
        chosen.append(members[:test] if split == "test" else members[test:])
    every = np.sort(np.concatenate(chosen))
    return every if split == "test" else shuffled(every, seed)


def shuffled(indices: ndarray, seed: int) -> ndarray:
    """Shuffle indices by a seed. The order is the same under every version of numpy."""
    return np.random.RandomState(seed).permutation(indices)


# Folders of image files


def _from_folder(path: Path, split: str, image_size: int | None, grey: bool | None, seed: int) -> Own:
    # If train/ has image files and no subfolders, it is a class like the others, as in bus/, car/, train/.
    root = path / "train" if _has_folders(path / "train") else path
    has_test = root != path and (path / "test").is_dir()
    classes = _class_folders(root, least=1 if split == "evaluation" else 2)
    files, labels = _pictures_in(root, classes)
    height, width, first_grey = _first_look(files[0])
    if image_size is not None:
        height = width = image_size
    if not has_test:
        everything = np.arange(len(labels))
        chosen = everything if split == "evaluation" else divided(labels, split, seed, path, classes)
    elif split == "train":
        chosen = shuffled(np.arange(len(labels)), seed)
    else:
        files, labels = _pictures_in(path / "test", _test_folders(path / "test", classes), classes)
        chosen = np.arange(len(labels))
    mode = MODES[first_grey if grey is None else grey]
    pixels = _read_pictures([files[number] for number in chosen], mode, height, width, path)
    return pixels, labels[chosen], classes


def _has_folders(path: Path) -> bool:
    return path.is_dir() and any(entry.is_dir() and entry.name[0] != "." for entry in path.iterdir())


def _class_folders(root: Path, least: int = 2) -> tuple[str, ...]:
    with reading(root, "a folder with one subfolder per class"):
        classes = tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir() and entry.name[0] != "."))
    for name in classes:
        if name.encode(errors="replace").decode() != name:
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            raise InputError(f"{root}: expected folders whose names are UTF-8, found {shown!r}; rename it")
    if len(classes) < least:
        raise InputError(f"{root}: expected {least} subfolders or more, one for each class, found {len(classes)}")
    return classes


def _test_folders(test: Path, classes: tuple[str, ...]) -> tuple[str, ...]:
    folders = _class_folders(test, least=1)  # not every class needs test images
    strange = [name for name in folders if name not in classes]
    if strange:
        raise InputError(f"{test / strange[0]}: expected one of the training classes {', '.join(classes)}")
    return folders


def _pictures_in(root: Path, folders: tuple[str, ...], classes: tuple[str, ...] = ()) -> tuple[list[Path], Labels]:
    files: list[Path] = []
    labels: list[int] = []
    for name in folders:
        found = sorted(file for file in (root / name).iterdir() if _is_picture(file))
        if not found:
            raise InputError(f"{root / name}: expected images ({', '.join(PICTURES)}), found none")
        files += found
        labels += [(classes or folders).index(name)] * len(found)
    return files, np.array(labels, np.int64)


def _is_picture(file: Path) -> bool:
    # Systems leave hidden files beside images, such as the `._` files of macOS.
    return file.suffix.lower() in PICTURES and file.name[0] != "." and file.is_file()


def _first_look(path: Path) -> tuple[int, int, bool]:
    """Return height and width of an image as it is shown, and whether it is grey."""
    with open_image(path, KINDS) as picture:
        grey = picture.mode in ("1", "L", "LA", "I", "F") or picture.mode.startswith("I;")
        seen = ImageOps.exif_transpose(picture)
        return seen.height, seen.width, grey


def _read_pictures(files: list[Path], mode: str, height: int, width: int, where: Path) -> Pixels:
    shape = (len(files), len(mode), height, width)
    check_size(where, shape)
    pixels = np.empty(shape, np.uint8)

    def read_one(number: int) -> None:
        pixels[number] = read_picture(files[number], mode, height, width)

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow releases Python's lock while it decodes and resizes
        for _ in threads.map(read_one, range(len(files))):
            pass
    return pixels


# Arrays


class _Members:
    """The arrays of an .npz file."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self._path, self._file = path, file
        self.names = [name.removesuffix(".npy") for name in file.namelist()]

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[IO[bytes], int, str]]:
        member = self._file.getinfo(f"{name}.npy")
        with self._file.open(member) as file:
            yield file, member.file_size, f"{self._path}, {name}"

    def count(self, name: str) -> int:
        """Return the length of an array's first axis, from its header alone."""
        with self._open(name) as (file, size, where):
            shape, *_ = read_npy_header(file, size, where)
            return shape[0] if shape else 0

    def read(self, name: str) -> ndarray:
        """Read an array."""
        with self._open(name) as opened:
            return read_npy(*opened)


class _Files(_Members):
    """The arrays of a folder, each in an .npy file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with reading(folder, "a folder of .npy files"):
            self.names = [path.stem for path in folder.glob("*.npy")]

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[IO[bytes], int, str]]:
        path = self._folder / f"{name}.npy"
        with reading(path, "an .npy file"), open_regular(path) as file:
            yield file, path.stat().st_size, str(path)


def read_npy_header(file: IO[bytes], size: int, where: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the header of an .npy file and compare what it claims with the bytes that are there.

    Args:
        file: The file, at its beginning.
        size: Its length in bytes.
        where: Its name in error messages.

    Returns:
        The shape, whether the order is Fortran's, and the type of the numbers.
    """
    header: dict[tuple[int, int], Callable] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with reading(where, "an array"):
        version = np.lib.format.read_magic(file)
        if version not in header:
            raise InputError(f"{where}: expected version 1.0 or 2.0 of the .npy format, found {version}")
        shape, fortran, dtype = header[version](file)
        if dtype.hasobject or dtype.kind not in "buifU":
            raise InputError(f"{where}: expected numbers or names, found {dtype}")
        claimed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
        if claimed != there or min(shape, default=1) < 0:
            raise InputError(f"{where}: expected the {claimed:,} bytes that its header claims, found {there:,}")
        check_size(where, (claimed,))
    return shape, fortran, dtype


def read_npy(file: IO[bytes], size: int, where: str) -> ndarray:
    """Read an .npy file without unpickling. The arguments are those of `read_npy_header`."""
    shape, fortran, dtype = read_npy_header(file, size, where)
    with reading(where, "an array"):
        claimed = math.prod(shape) * dtype.itemsize
        found = file.read(claimed)
        if len(found) != claimed:
            raise InputError(f"{where}: expected {claimed:,} bytes, found {len(found):,}")
        return np.frombuffer(found, dtype).reshape(shape, order="F" if fortran else "C")


def _from_arrays(where: Path, arrays: _Members, split: str, seed: int) -> Own:
    keys = next((keys for keys in (*DIVIDED, *UNDIVIDED) if set(keys) <= set(arrays.names)), None)
    if keys is None:
        ways = " or ".join(" + ".join(keys) for keys in (*DIVIDED, *UNDIVIDED))
        raise InputError(f"{where}: expected {ways}, found {', '.join(sorted(arrays.names)) or 'nothing'}")
    for images, labels in zip(keys[::2], keys[1::2], strict=True):
        # By the headers, before anything is read: compressed labels may be thousands of times as large as their file.
        if arrays.count(images) != arrays.count(labels):
            raise InputError(
                f"{where}: expected as many labels as images, found {arrays.count(labels):,} in {labels} and "
                f"{arrays.count(images):,} in {images}"
            )
    if "classes" in arrays.names and arrays.count("classes") > arrays.count(keys[1]):
        raise InputError(f"{where}: expected at most as many classes as labels, found {arrays.count('classes'):,}")
    train_labels = _labels(arrays.read(keys[1]), f"{where}, {keys[1]}")
    classes = _classes(arrays, train_labels, where)
    if len(keys) == 4 and split != "train":
        pixels, labels = pixels_from(arrays.read(keys[2]), f"{where}, {keys[2]}"), arrays.read(keys[3])
        labels = _labels(labels, f"{where}, {keys[3]}")
    else:
        pixels, labels = pixels_from(arrays.read(keys[0]), f"{where}, {keys[0]}"), train_labels
    _check_labels(labels, classes, where)
    if len(keys) == 2 and split != "evaluation":
        chosen = divided(labels, split, seed, where, classes)
    elif split == "train":
        chosen = shuffled(np.arange(len(labels)), seed)
    else:
        chosen = np.arange(len(labels))
    return pixels[chosen], labels[chosen], classes  # copies, as the arrays over a file's bytes are read-only


def _labels(found: ndarray, where: str) -> Labels:
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1 or found.dtype.kind not in "ui" or len(found) == 0 or found.astype(np.int64).min() < 0:
        least = f", from {found.min()}" if found.size and found.dtype.kind in "ui" else ""
        raise InputError(
            f"{where}: expected a row of whole numbers from 0, found {found.dtype} of shape {found.shape}{least}"
        )
    return found.astype(np.int64)


def _classes(arrays: _Members, labels: Labels, where: Path) -> tuple[str, ...]:
    """Return the names of the classes: those in `classes`, or 0, 1, 2, …. Each must have a training image."""
    largest = int(labels.max())
    if largest >= len(labels):
        raise InputError(f"{where}: expected labels below the number of images, {len(labels)}, found {largest}")
    names = tuple(map(str, range(largest + 1)))
    if "classes" in arrays.names:
        named = arrays.read("classes")
        if named.ndim != 1 or named.dtype.kind != "U":
            raise InputError(f"{where}, classes: expected a row of names, found {named.dtype} of shape {named.shape}")
        names = tuple(map(str, named))
    if largest >= len(names):
        raise InputError(f"{where}: expected labels in 0…{len(names) - 1}, found {largest}")
    if len(names) < 2:
        raise InputError(f"{where}: expected 2 classes or more, found {len(names)}")
    counts = np.bincount(labels, minlength=len(names))
    empty = [name for name, count in zip(names, counts, strict=True) if count == 0]
    if empty:
        raise InputError(f"{where}: expected images of every class, found none of {empty[0]!r}")
    return names


def _check_labels(labels: Labels, classes: tuple[str, ...], where: Path) -> None:
    if labels.max() >= len(classes):
        raise InputError(f"{where}: expected labels in 0…{len(classes) - 1}, found {labels.max()}")


def pixels_from(found: ndarray, where: str) -> Pixels:
    """Return images as uint8 (image, channel, height, width), from floats in 0…1 or whole numbers in 0…255."""
    if found.ndim == 3:
        found = found[:, None]
    elif found.ndim == 4 and found.shape[-1] in (1, 3):
        found = found.transpose(0, 3, 1, 2)
    if found.ndim != 4 or found.shape[1] not in (1, 3) or found.size == 0 or found.dtype.kind == "U":
        raise InputError(
            f"{where}: expected (image, height, width), or with 1 or 3 channels last or second, "
            f"found {found.dtype} of shape {found.shape}"
        )
    check_size(where, found.shape)
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
