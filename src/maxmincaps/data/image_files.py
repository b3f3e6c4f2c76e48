"""Read an image file as a network sees it: upright, without transparency, in grey or colour, at the network's size."""

import math
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageChops, ImageOps

from maxmincaps.data.formats import MOST_DECODED_BYTES, open_image
from maxmincaps.errors import InputError

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
KINDS = ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"]  # Pillow's names of the formats that are read
FAINT = 32  # pixels that differ from the border by less than this, of 255, belong to the background
ROOM = 28 / 20  # side of a square image relative to what it shows: MNIST's digits are fitted into 20 of their 28 pixels
LARGE_BYTES = 1 << 24  # images that take more memory than this are decoded one at a time
_one_large_image = threading.Lock()
Pixels = UInt8[ndarray, "channel height width"]


def is_picture(path: Path) -> bool:
    """Return whether a file is an image by its name. Hidden files are none."""
    return path.suffix.lower() in PICTURES and path.name[0] != "."


def read_picture(path: Path, mode: str, height: int, width: int, *, in_proportion: bool = False) -> Pixels:
    """Read one image file in grey ("L") or colour ("RGB"), at a size, stretched or `in_proportion`."""
    with open_image(path, KINDS) as picture:
        if picture.format == "JPEG":
            picture.draft(mode, (2 * width, 2 * height))  # decode near the wanted size: many times faster
        decoded = math.prod(picture.size) * (1 if picture.mode in ("1", "L", "P") else 4)
        if decoded > MOST_DECODED_BYTES:
            raise InputError(
                f"{path}: expected at most {MOST_DECODED_BYTES >> 20} MB in memory, found {decoded >> 20} MB "
                f"({picture.width}×{picture.height} pixels); make the image smaller"
            )
        with _one_large_image if decoded > LARGE_BYTES else nullcontext():
            try:
                return as_pixels(picture, mode, height, width, in_proportion=in_proportion)
            except InputError as error:
                raise InputError(f"{path}: {error}") from None


def as_pixels(picture: Image.Image, mode: str, height: int, width: int, *, in_proportion: bool = False) -> Pixels:
    """Return the pixels of an image. The arguments are those of `read_picture`."""
    flat = flattened(picture).convert(mode)
    if in_proportion and flat.width != flat.height:
        flat = squared(flat, max(height, width))
    sized = flat if flat.size == (width, height) else flat.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(sized).reshape(height, width, len(mode)).transpose(2, 0, 1)


def squared(picture: Image.Image, pixels: int) -> Image.Image:
    """Return a square image of `pixels` × `pixels`: the long side is cut where it is empty, the short side padded."""
    ground = _background(picture)
    differs = ImageChops.difference(picture, Image.new(picture.mode, picture.size, ground))
    shown = differs.point(lambda light: 255 * (light >= FAINT)).getbbox() or (0, 0, *picture.size)
    axis = int(picture.height > picture.width)  # the longer: 0 from left to right, 1 from top to bottom
    first, end = shown[axis], shown[axis + 2]
    side = min(max(picture.size), max(min(picture.size), round(ROOM * (end - first))))
    corner = [(length - side) // 2 for length in picture.size]
    corner[axis] = (first + end - side) // 2
    left, top = (max(0, start) for start in corner)
    right, bottom = (min(length, start + side) for length, start in zip(picture.size, corner, strict=True))
    # Resized before it is padded: a line of many pixels would become a square that does not fit into memory.
    scale = pixels / side
    size = max(1, round(scale * (right - left))), max(1, round(scale * (bottom - top)))
    placed = Image.new(picture.mode, (pixels, pixels), ground)
    small = picture.resize(size, Image.Resampling.BILINEAR, (left, top, right, bottom))
    placed.paste(small, (round(scale * (left - corner[0])), round(scale * (top - corner[1]))))
    return placed


def _background(picture: Image.Image) -> tuple[int, ...]:
    """Return the median colour along the border of an image."""
    seen = np.asarray(picture).reshape(picture.height, picture.width, -1)
    border = np.concatenate([seen[0], seen[-1], seen[:, 0], seen[:, -1]])
    return tuple(int(value) for value in np.median(border, axis=0))


def flattened(picture: Image.Image) -> Image.Image:
    """Return an image upright, with 8 bits per channel, and on white where it is transparent."""
    upright = ImageOps.exif_transpose(picture)
    if upright.mode == "F":
        bright = np.asarray(upright)
        if not ((bright >= 0) & (bright <= 1)).all():
            raise InputError(f"expected fractions in 0…1 as pixels, found {bright.min():g} … {bright.max():g}")
        return Image.fromarray(np.rint(255 * bright).astype(np.uint8))
    if upright.mode.startswith("I"):
        deep = np.asarray(upright).astype(np.float64)
        # The mode or the format tells 16 bits, however dark the image is; in 32 bits the value of white is unknown.
        sixteen = upright.mode != "I" or picture.format in ("PNG", "PPM") or deep.max() > 255
        return Image.fromarray((deep / (257 if sixteen else 1)).clip(0, 255).astype(np.uint8))
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        return Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright.convert("RGBA"))
    return upright
