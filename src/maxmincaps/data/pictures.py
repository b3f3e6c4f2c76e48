"""One picture as a network sees it: upright, without transparency, in grey or colour, at the network's size."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageChops, ImageOps

from maxmincaps.data.formats import opened_picture
from maxmincaps.errors import InputError

PICTURES = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".bmp": "BMP",
    ".gif": "GIF",
    ".webp": "WEBP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".pgm": "PPM",
    ".ppm": "PPM",
}
KINDS = set(PICTURES.values())
FAINT = 32
"""What differs from a picture's border by less, of 255, belongs to the background."""
ROOM = 28 / 20
"""How much longer a picture is than what it shows: MNIST's digits are fitted into 20 of their 28 pixels."""


def read_picture(
    path: Path, mode: str, height: int, width: int, *, in_proportion: bool = False
) -> UInt8[ndarray, "channel height width"]:
    """Read one picture in `mode` ("L" or "RGB"), at that size: stretched to it, as datasets are, or in proportion."""
    with opened_picture(path, KINDS) as picture:
        if picture.format == "JPEG":
            picture.draft(mode, (2 * width, 2 * height))  # decode at a size near the one we need: many times faster
        try:
            return as_pixels(picture, mode, height, width, in_proportion=in_proportion)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def as_pixels(
    picture: Image.Image, mode: str, height: int, width: int, *, in_proportion: bool = False
) -> UInt8[ndarray, "channel height width"]:
    """Give what is seen of a picture in `mode` ("L" or "RGB"), at that size."""
    flat = flattened(picture).convert(mode)
    if in_proportion and flat.width != flat.height:
        flat = squared(flat, max(height, width))
    sized = flat if flat.size == (width, height) else flat.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(sized).reshape(height, width, len(mode)).transpose(2, 0, 1)


def squared(picture: Image.Image, pixels: int) -> Image.Image:
    """Make a long picture a square: cut the empty ends of its long side, fill its short side up with its background."""
    ground = _ground(picture)
    differs = ImageChops.difference(picture, Image.new(picture.mode, picture.size, ground))
    shown = differs.point(lambda light: 255 * (light >= FAINT)).getbbox() or (0, 0, *picture.size)
    axis = int(picture.height > picture.width)  # the longer: 0 from left to right, 1 from top to bottom
    first, end = shown[axis], shown[axis + 2]
    side = min(max(picture.size), max(min(picture.size), round(ROOM * (end - first))))
    corner = [(length - side) // 2 for length in picture.size]
    corner[axis] = (first + end - side) // 2
    left, top = (max(0, start) for start in corner)
    right, bottom = (min(length, start + side) for length, start in zip(picture.size, corner, strict=True))
    # Resized before it is filled up: a line of many pixels would be a square of more than fit into memory.
    scale = pixels / side
    size = max(1, round(scale * (right - left))), max(1, round(scale * (bottom - top)))
    placed = Image.new(picture.mode, (pixels, pixels), ground)
    small = picture.resize(size, Image.Resampling.BILINEAR, (left, top, right, bottom))
    placed.paste(small, (round(scale * (left - corner[0])), round(scale * (top - corner[1]))))
    return placed


def _ground(picture: Image.Image) -> tuple[int, ...]:
    """Give the colour that is in the middle of those along a picture's border."""
    seen = np.asarray(picture).reshape(picture.height, picture.width, -1)
    border = np.concatenate([seen[0], seen[-1], seen[:, 0], seen[:, -1]])
    return tuple(int(value) for value in np.median(border, axis=0))


def flattened(picture: Image.Image) -> Image.Image:
    """Give a picture upright, with 8 bits a channel, and on white where it is transparent."""
    upright = ImageOps.exif_transpose(picture)
    if upright.mode == "F":
        bright = np.asarray(upright)
        if not ((bright >= 0) & (bright <= 1)).all():
            raise InputError(f"expected fractions in 0…1 as pixels, found {bright.min():g} … {bright.max():g}")
        return Image.fromarray(np.rint(255 * bright).astype(np.uint8))
    if upright.mode.startswith("I"):
        deep = np.asarray(upright).astype(np.float64)
        # 16 bits by its mode or its format, however dark it is; whole numbers of 32 bits do not say what white is.
        sixteen = upright.mode != "I" or picture.format in ("PNG", "PPM") or deep.max() > 255
        return Image.fromarray((deep / (257 if sixteen else 1)).clip(0, 255).astype(np.uint8))
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        return Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright.convert("RGBA"))
    return upright
