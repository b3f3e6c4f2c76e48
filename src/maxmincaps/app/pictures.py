"""From what a person draws or uploads to an image that a network takes. Nothing here trusts what it is given."""

import base64
import binascii
import io
import math
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from maxmincaps.app.answers import Picture
from maxmincaps.data.pictures import PICTURES, as_pixels
from maxmincaps.errors import InputError

MOST_BYTES = 8 << 20
MOST_PIXELS = 1 << 25
INK_SHARE = 20 / 28
"""MNIST's digits are fitted into 20×20 of their 28×28 pixels, and centred by mass."""


class Taken(NamedTuple):
    """An image for the network, and what was done to it, in words."""

    image: Picture
    note: str


def drawn(url: str, shape: tuple[int, int, int]) -> Taken | None:
    """Take a drawing, white on black, and centre it as MNIST's digits are; None where nothing is drawn."""
    ink = _opened(_content(url))[0].convert("L")
    box = ink.getbbox()
    if box is None:
        return None
    channels, height, width = shape
    cut = ink.crop(box)
    scale = INK_SHARE * min(height, width) / max(cut.size)
    size = (max(1, round(cut.width * scale)), max(1, round(cut.height * scale)))
    small = np.asarray(cut.resize(size, Image.Resampling.BOX), np.float32) / 255
    placed = _centred_by_mass(small, height, width)
    return Taken(torch.from_numpy(placed).expand(channels, height, width).clone(), "your drawing, centred by its mass")


def uploaded(url: str, shape: tuple[int, int, int], swap: bool = False, *, in_proportion: bool = False) -> Taken:
    """Take a picture of any common format and bring it to the network's size and colours."""
    channels, height, width = shape
    picture, note = _opened(_content(url))
    seen = as_pixels(picture, "L" if channels == 1 else "RGB", height, width, in_proportion=in_proportion)
    pixels = np.ascontiguousarray(seen, np.float32) / 255
    image = torch.from_numpy(1 - pixels if swap else pixels)
    return Taken(image, f"your picture at {width}×{height}{note}")


def _content(url: str) -> bytes:
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


def _opened(content: bytes) -> tuple[Image.Image, str]:
    """Open a picture after a look at its header alone; of an animated one, the first frame."""
    try:
        picture = Image.open(io.BytesIO(content), formats=sorted(set(PICTURES.values())))
        if math.prod(picture.size) > MOST_PIXELS:
            width, height = picture.size
            raise InputError(f"expected at most {MOST_PIXELS >> 20} million pixels, found {width:,}×{height:,}")
        animated = getattr(picture, "is_animated", False)
        picture.seek(0)
        picture.load()
    except InputError:
        raise
    except Exception:
        # Decoders fail in many ways on damaged files. What they say may name internals, so the page has one sentence.
        kinds = ", ".join(sorted(set(PICTURES.values())))
        raise InputError(f"expected a whole picture ({kinds}), found something else or a damaged one") from None
    return picture, ", the first frame of an animation" if animated else ""


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
