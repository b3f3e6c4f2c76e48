"""Turn a drawing or an uploaded picture into an image that a network takes. The input is not trusted."""

import base64
import binascii
import io
import math
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from maxmincaps.data.image_files import KINDS, as_pixels
from maxmincaps.errors import InputError
from maxmincaps.training.predict import Picture

MOST_BYTES = 8 << 20
"""Of an uploaded file."""
MOST_PIXELS = 1 << 25
"""Of a JPEG, which is decoded at a fraction of its size."""
MOST_DECODED_BYTES = 48 << 20
"""Of the decoded picture, which is copied a few times before it has the network's size."""
BYTES_PER_PIXEL = 4
INK_SHARE = 20 / 28
"""MNIST's digits are fitted into 20×20 of their 28×28 pixels, and centred by mass."""
Shape = tuple[int, int, int]


class PreparedImage(NamedTuple):
    """An image for a network, pixels in 0…1, and a note about what was done to it."""

    image: Picture
    note: str


def prepare_drawing(url: str, shape: Shape) -> PreparedImage | None:
    """Centre a drawing, white on black, as MNIST's digits are.

    Args:
        url: The drawing as a data URL.
        shape: (channels, height, width) that the network takes.

    Returns:
        The image, or None if nothing is drawn.

    Raises:
        InputError: If the URL holds no picture, or one that is too large.
    """
    channels, height, width = shape
    ink = _open(_decode(url), "L", (height, width))[0].convert("L")
    box = ink.getbbox()
    if box is None:
        return None
    cut = ink.crop(box)
    scale = INK_SHARE * min(height, width) / max(cut.size)
    size = (max(1, round(cut.width * scale)), max(1, round(cut.height * scale)))
    small = np.asarray(cut.resize(size, Image.Resampling.BOX), np.float32) / 255
    image = torch.from_numpy(_centred_by_mass(small, height, width)).expand(channels, height, width).clone()
    return PreparedImage(image, "your drawing, centred by its mass")


def prepare_upload(url: str, shape: Shape, invert: bool = False, *, in_proportion: bool = False) -> PreparedImage:
    """Bring a picture of any common format to the network's size and colours.

    Args:
        url: The picture as a data URL.
        shape: (channels, height, width) that the network takes.
        invert: Whether to exchange light and dark.
        in_proportion: Whether to keep the picture's proportions instead of stretching it.

    Raises:
        InputError: If the URL holds no picture, or one that is too large.
    """
    channels, height, width = shape
    mode = "L" if channels == 1 else "RGB"
    picture, note = _open(_decode(url), mode, (height, width))
    seen = as_pixels(picture, mode, height, width, in_proportion=in_proportion)
    pixels = np.ascontiguousarray(seen, np.float32) / 255
    image = torch.from_numpy(1 - pixels if invert else pixels)
    return PreparedImage(image, f"your picture at {width}×{height}{note}")


def _decode(url: str) -> bytes:
    """Decode a data URL."""
    head, comma, body = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise InputError("expected a picture, found something else")
    if len(body) > MOST_BYTES * 4 / 3 + 4:
        raise InputError(f"expected a picture of at most {MOST_BYTES >> 20} MB, found {len(body) * 3 >> 22} MB")
    try:
        content = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("expected a picture, found damaged data") from None
    if not content:
        raise InputError("expected a picture, found an empty file")
    return content


def _open(content: bytes, mode: str, size: tuple[int, int]) -> tuple[Image.Image, str]:
    """Decode a picture whose header states an acceptable size; of an animation, the first frame."""
    try:
        picture = Image.open(io.BytesIO(content), formats=KINDS)
        if picture.format == "JPEG":
            _check_size(picture.size, MOST_PIXELS)
            picture.draft(mode, (2 * size[1], 2 * size[0]))
        _check_size(picture.size, MOST_DECODED_BYTES // BYTES_PER_PIXEL)
        animated = getattr(picture, "is_animated", False)
        picture.seek(0)
        picture.load()
    except InputError:
        raise
    except Exception:
        # Decoders raise many types on damaged files, and their messages may name internals.
        raise InputError(
            f"expected a complete picture ({', '.join(KINDS)}), found something else or a damaged one"
        ) from None
    return picture, ", the first frame of an animation" if animated else ""


def _check_size(size: tuple[int, int], most: int) -> None:
    if math.prod(size) > most:
        raise InputError(f"expected at most {most / 1e6:.0f} million pixels, found {size[0]:,}×{size[1]:,}")


def _centred_by_mass(ink: np.ndarray, height: int, width: int) -> np.ndarray:
    rows, columns = np.indices(ink.shape)
    mass = max(float(ink.sum()), 1e-6)
    top = round(height / 2 - float((ink * (rows + 0.5)).sum()) / mass)
    left = round(width / 2 - float((ink * (columns + 0.5)).sum()) / mass)
    top = min(max(top, 0), height - ink.shape[0])
    left = min(max(left, 0), width - ink.shape[1])
    placed = np.zeros((height, width), np.float32)
    placed[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return placed
