"""Decode published files into uint8 arrays, and encode them for the cache.

Every reader bounds what it reads, and compares the size that a header claims with the bytes that are there. Its errors
name the file, what was expected and what was found.
"""

import contextlib
import gzip
import itertools
import math
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Float32, Int64, UInt8
from numpy import ndarray
from PIL import Image
from pydantic import StrictInt, TypeAdapter

from maxmincaps.errors import InputError, one_line
from maxmincaps.files import check_regular, open_regular

MOST_BYTES = 4 << 30  # of pixels in one set: larger ones would fill the memory
MOST_PIXELS = 1 << 26  # of one image
MOST_DECODED_BYTES = 1 << 27  # of one image in memory: Pillow keeps colour at 4 bytes a pixel
MOST_COMPRESSED_BYTES = 1 << 29  # of one image file
CIFAR_ROW = 1 + 3 * 32 * 32

Pixels = UInt8[ndarray, "image channel height width"]
Labels = Int64[ndarray, "image"]


@contextlib.contextmanager
def reading(where: str | Path, expected: str) -> Iterator[None]:
    """Turn any error of a decoder into an `InputError` that names the file and what was expected."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{where}: expected {expected}, found no such file") from None
    except IsADirectoryError:
        raise InputError(f"{where}: expected {expected}, found a folder") from None
    except Exception as error:  # decoders raise almost every type on damaged files
        reason = one_line((str(error).splitlines() or [""])[0]) or type(error).__name__
        raise InputError(f"{where}: expected {expected}, found something that cannot be read ({reason})") from None


def check_size(where: str | Path, shape: tuple[int, ...]) -> None:
    """Refuse an array of pixels that would not fit into memory, before it is read."""
    wanted = math.prod(shape)
    if wanted > MOST_BYTES:
        raise InputError(
            f"{where}: expected at most {MOST_BYTES >> 30} GB of pixels, found {'×'.join(map(str, shape))} = "
            f"{wanted / 2**30:,.0f} GB; use fewer images or, for a folder of images, a smaller --image-size"
        )


@contextlib.contextmanager
def open_image(path: Path, kinds: Collection[str]) -> Iterator[Image.Image]:
    """Open an image file of one of these formats without decoding it, and refuse it if it has too many pixels."""
    with reading(path, "an image"), open_regular(path) as file, Image.open(file, formats=sorted(kinds)) as image:
        if math.prod(image.size) > MOST_PIXELS or os.fstat(file.fileno()).st_size > MOST_COMPRESSED_BYTES:
            raise InputError(f"{path}: expected at most {MOST_PIXELS:,} pixels, found {image.size}")
        yield image


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    check_regular(path)
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def content(path: Path, most: int) -> bytes:
    """Read a file of at most `most` bytes, unzipped if its name ends in .gz."""
    with reading(path, "a complete file"), _open(path) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise InputError(f"{path}: expected at most {most:,} bytes, found more")
    return found


def parse_idx(found: bytes, where: str | Path) -> UInt8[ndarray, "..."]:
    """Read an IDX file of bytes: two zeros, 8 for bytes, the number of axes, each axis as 32 bits, then the numbers."""
    if len(found) < 4 or found[:3] != b"\x00\x00\x08":
        raise InputError(f"{where}: expected an IDX file that begins 00 00 08, found {found[:4].hex(' ') or 'nothing'}")
    axes, header = found[3], 4 + 4 * found[3]
    if axes not in (1, 3) or len(found) < header:
        raise InputError(f"{where}: expected an IDX header of 1 or 3 axes, found {axes} in {len(found)} bytes")
    shape = struct.unpack(f">{axes}I", found[4:header])
    if math.prod(shape) != len(found) - header:
        claim = "×".join(map(str, shape))
        raise InputError(f"{where}: expected the {claim} bytes that its header claims, found {len(found) - header}")
    return np.frombuffer(found, np.uint8, offset=header).reshape(shape)


def idx_bytes(array: UInt8[ndarray, "..."]) -> bytes:
    """Write an IDX file."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def parse_cifar(found: bytes, where: str | Path) -> tuple[Pixels, Labels]:
    """Read a binary CIFAR10 batch: a label byte, then 1024 bytes each of red, green and blue."""
    if not found or len(found) % CIFAR_ROW:
        raise InputError(f"{where}: expected rows of {CIFAR_ROW} bytes, found {len(found)} bytes")
    rows = np.frombuffer(found, np.uint8).reshape(-1, CIFAR_ROW)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)


def cifar_bytes(pixels: Pixels, labels: UInt8[ndarray, "image"]) -> bytes:
    """Write a binary CIFAR10 batch."""
    return np.concatenate([labels[:, None], pixels.reshape(len(pixels), -1)], axis=1).tobytes()


def read_cifar_picture(path: Path, images: int = 10_000) -> Pixels:
    """Read a CIFAR10 batch that is stored as one PNG file: one image per row, its 1024 pixels side by side."""
    with open_image(path, ["PNG"]) as image:
        if image.size != (1024, images) or image.mode != "RGB":
            found = f"{image.size} {image.mode}"
            raise InputError(f"{path}: expected a colour image of {images} rows of 1024 pixels, found {found}")
        return np.asarray(image).transpose(0, 2, 1).reshape(-1, 3, 32, 32)


def read_json_labels(path: Path, images: int) -> UInt8[ndarray, "image"]:
    """Read a JSON list of labels."""
    with reading(path, f"a list of {images} labels"):
        labels = TypeAdapter(list[StrictInt]).validate_json(content(path, 8 * images))
        return np.array(labels, np.uint8).reshape(images)


def _read_table(path: Path, rows: int, separator: str | None = None, skip: int = 0) -> Float32[ndarray, "image 785"]:
    """Read a text table of 785 columns and exactly `rows` rows after `skip` lines."""
    expected = f"{rows} rows of 785 numbers"
    with reading(path, expected), _open(path) as file:
        lines = itertools.islice(_lines(file, path), skip, skip + rows + 1)
        table = np.loadtxt(lines, np.float32, delimiter=separator, ndmin=2, comments=None)
        if table.shape != (rows, 785) or not np.isfinite(table).all():
            found = "×".join(map(str, table.shape))
            raise InputError(f"{path}: expected {expected}, found {found}, or some that are not finite")
    return table


def read_csv(path: Path, rows: int, *, label_first: bool) -> tuple[UInt8[ndarray, "..."], ndarray]:
    """Read digits from a table of 784 pixels and a label: the label first below a header line, or last without one."""
    table = _bytes(_read_table(path, rows, ",", skip=int(label_first)), path)
    pixels, labels = (table[:, 1:], table[:, 0]) if label_first else (table[:, :-1], table[:, -1])
    return np.ascontiguousarray(pixels).reshape(-1, 28, 28), _digits(labels, path)


def read_amat(path: Path, rows: int) -> tuple[UInt8[ndarray, "..."], ndarray]:
    """Read Larochelle's text: 784 pixels column by column, each a grey value over 256, then the label."""
    table = _read_table(path, rows)
    pixels = table[:, :-1]
    if pixels.min() < 0 or pixels.max() > 1:
        raise InputError(f"{path}: expected pixels in 0…1, found {pixels.min()} … {pixels.max()}")
    pixels[:] = np.minimum(np.rint(pixels * 256), 255)
    table = _bytes(table, path)
    pixels = table[:, :-1].reshape(-1, 28, 28).transpose(0, 2, 1)
    return np.ascontiguousarray(pixels), _digits(table[:, -1], path)


def _lines(file: BinaryIO | gzip.GzipFile, path: Path) -> Iterator[str]:
    # A line of 785 numbers is seldom over 16 kB; a file without line ends must not be read as one line.
    for line in iter(lambda: file.readline(1 << 16), b""):
        if len(line) == 1 << 16:
            raise InputError(f"{path}: expected lines of 785 numbers, found a line of over {1 << 16} bytes")
        if line.strip():
            yield line.decode("ascii")


def _bytes(numbers: ndarray, path: Path) -> UInt8[ndarray, "..."]:
    with np.errstate(invalid="ignore"):  # of numbers too large for a byte, which then differ
        whole = numbers.astype(np.uint8)
    if (whole != numbers).any():
        raise InputError(f"{path}: expected whole numbers in 0…255, found others")
    return whole


def _digits(labels: UInt8[ndarray, "image"], path: Path) -> UInt8[ndarray, "image"]:
    if labels.max() > 9:
        raise InputError(f"{path}: expected labels in 0…9, found {labels.max()}")
    return np.ascontiguousarray(labels)
