"""Regenerate rotated and background MNIST from MNIST, by the procedure of Larochelle et al. (2007).

Digits are drawn without replacement from MNIST's training and test images together. So never train on `mnist` and test
on these sets. Rotated digits are interpolated with Gaussian weights over 4×4 neighbours. A background digit is the
pixelwise maximum of the digit and a patch of a photograph.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor
from torch.nn import functional

from maxmincaps.data.catalog import idx_files
from maxmincaps.data.formats import Labels, Pixels, open_image, reading
from maxmincaps.errors import InputError, import_extra

TRAIN, TEST = 12_000, 50_000
SIDE = 28
SIGMA = 0.30  # of the Gaussian weights, in pixels; fitted to genuine images, which it reproduces to 1/255
CHUNK = 1_000  # images that are computed together, so that the indices fit the processor's cache

# Measured on genuine backgrounds, in grey values of 0…1.
REAL = {"mean": 0.465, "sd": 0.216, "horizontal": 0.82, "vertical": 0.78}
PICTURES = (".jpg", ".jpeg", ".png")
LEAST_SD = 0.125  # a flatter patch is ignored; the flattest genuine one seen has 0.128
LEAST_CORRELATION = 0.4  # a patch whose neighbours correlate less looks like noise
CANDIDATES = 350_000
# Every second, third, … pixel of a photograph: at full size, or averaged, neighbours are too similar.
REDUCTIONS = (2, 3, 4)

SKIMAGE = "astronaut brick camera chelsea coffee coins grass gravel hubble_deep_field motorcycle_left rocket"
Digits = UInt8[Tensor, "image height width"]
Photograph = UInt8[ndarray, "height width"]
Patches = UInt8[ndarray, "patch height width"]
PHOTOGRAPHS = {"skimage": ("data", SKIMAGE), "sklearn": ("datasets/images", "china flower")}


def make(
    name: str, mnist: Mapping[str, tuple[Pixels, Labels]], seed: int = 0, photographs: Path | None = None
) -> dict[str, bytes]:
    """Return the files of `rotated-mnist` or `background-mnist`, by name, from (pixels, labels) of MNIST's splits.

    On one machine, the same seed and photographs give the same files. Other machines may round differently. No pixel
    of a rotated digit is known to differ, but the choice of backgrounds depends on sums that may differ in the last
    bit. `photographs` is a folder. Default: the sample photographs of scikit-image and scikit-learn.
    """
    pixels, labels = (np.concatenate([mnist["train"][part], mnist["test"][part]]) for part in range(2))
    random = np.random.RandomState(seed)
    chosen = random.permutation(len(pixels))[: TRAIN + TEST]
    digits = torch.from_numpy(pixels[chosen, 0])
    if name == "rotated-mnist":
        angles = torch.from_numpy(random.uniform(0, 2 * math.pi, len(chosen)))
        images = torch.cat(list(map(rotated, digits.split(CHUNK), angles.split(CHUNK))))
    else:
        images = torch.maximum(digits, torch.from_numpy(patches(read_photographs(photographs), len(chosen), random)))
    made, answers = images.numpy(), labels[chosen].astype(np.uint8)
    return idx_files((made[:TRAIN], answers[:TRAIN]), (made[TRAIN:], answers[TRAIN:]))


def rotated(digits: Digits, radians: Float[Tensor, "image"]) -> Digits:
    """Rotate each digit about its centre. Each pixel is the Gaussian mean of the 4×4 pixels around its origin.

    Computed in double precision: in single precision, processors disagree in one pixel of a few 100,000.
    """
    count, height, width = digits.shape
    down, right = torch.meshgrid(*(torch.arange(side) - (side - 1) / 2 for side in (height, width)), indexing="ij")
    cosine, sine = (part.double()[:, None, None] for part in (torch.cos(radians), torch.sin(radians)))
    rows, row_weights = _neighbours((cosine * down - sine * right).flatten(1) + (height - 1) / 2, height)
    columns, column_weights = _neighbours((sine * down + cosine * right).flatten(1) + (width - 1) / 2, width)
    padded = functional.pad(digits, (4, 4, 4, 4)).flatten(1).double()
    total = torch.zeros(count, height * width, dtype=torch.float64)
    for i in range(4):
        along_row = torch.zeros_like(total)
        for j in range(4):
            place = (rows[i] + 4) * (width + 8) + columns[j] + 4
            along_row.addcmul_(padded.gather(1, place), column_weights[j])
        total.addcmul_(along_row, row_weights[i])
    return total.round().to(torch.uint8).view_as(digits)


def _neighbours(origin: Float[Tensor, "image place"], size: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return the four nearest whole coordinates on one axis and their normalised Gaussian weights."""
    base = origin.floor()
    places = [base + step for step in (-1, 0, 1, 2)]
    weights = [torch.exp((place - origin) ** 2 / (-2 * SIGMA**2)) for place in places]
    total = torch.stack(weights).sum(0)
    # Positions beyond the padding are as black as the padding.
    return [place.clamp(-4, size + 3).long() for place in places], [weight / total for weight in weights]


def read_photographs(folder: Path | None = None) -> list[Photograph]:
    """Read photographs in grey: those of a folder, or the sample photographs of scikit-image and scikit-learn."""
    if folder is None:
        paths = []
        for module, (below, names) in PHOTOGRAPHS.items():
            root = Path(import_extra("data", module).__path__[0]) / below
            paths += sorted(path for path in root.iterdir() if path.stem in names.split() and path.suffix in PICTURES)
    else:
        with reading(folder, "a folder of photographs"):
            paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    photographs = []
    for path in paths:
        with open_image(path, ("JPEG", "PNG")) as picture:
            photographs.append(np.asarray(picture.convert("L")))
    least = 2 * SIDE * REDUCTIONS[0]
    if not any(min(photograph.shape) >= least for photograph in photographs):
        where = folder or "the packages' sample images"
        raise InputError(f"{where}: expected photographs (.jpg, .png) of {least} pixels or more, found none")
    return photographs


def patches(photographs: list[Photograph], count: int, random: np.random.RandomState) -> Patches:
    """Choose patches from random places, with the statistics of the genuine backgrounds.

    Among all choices with the genuine mean, variance and squared differences of neighbours, this one has the greatest
    entropy. If no choice has those statistics, it comes as near as possible.
    """
    candidates, measures = _candidates(photographs, max(CANDIDATES, 3 * count), random)
    if len(candidates) < count:
        raise InputError(f"photographs: expected {count} patches with some contrast, found {len(candidates)}")
    spread = REAL["sd"] ** 2
    # Neighbours that correlate by r differ, squared, by 2 (1 − r) times the variance.
    differences = (2 * (1 - REAL[direction]) * spread for direction in ("horizontal", "vertical"))
    moments = np.concatenate([measures, [[REAL["mean"], spread, *differences]]])
    moments[:, 1] += moments[:, 0] ** 2  # mean squares may be averaged over patches, variances may not
    chances = _chances(moments[:-1], moments[-1:], count)
    # Systematic sampling over candidates in random order: exactly `count` of them, each by its own chance.
    marks = np.floor(np.cumsum(chances) * (count / chances.sum()) + random.uniform())
    taken = np.flatnonzero(np.diff(marks, prepend=0) > 0)
    others = np.setdiff1d(np.arange(len(candidates)), taken)  # rounding may leave a place free
    return candidates[random.permutation(np.concatenate([taken, others])[:count])]


def _candidates(photographs: list[ndarray], count: int, random: np.random.RandomState) -> tuple[ndarray, ndarray]:
    """Cut `count` random patches, equally many from each photograph and size, and keep those with enough contrast."""
    smaller = [photograph[::step, ::step] for photograph in photographs for step in REDUCTIONS]
    views = [sliding_window_view(one, (SIDE, SIDE)) for one in smaller if min(one.shape) >= 2 * SIDE]
    share = -(-count // len(views))
    cut, measures = [], []
    for view in views:
        some = view[random.randint(view.shape[0], size=share), random.randint(view.shape[1], size=share)]
        measured = _measures(some)
        spread = measured[:, 1]
        alike = 1 - measured[:, 2:].max(axis=1) / np.maximum(2 * spread, 1e-9)
        kept = (spread >= LEAST_SD**2) & (alike >= LEAST_CORRELATION)
        cut.append(some[kept])
        measures.append(measured[kept])
    order = random.permutation(sum(map(len, cut)))
    return np.concatenate(cut)[order], np.concatenate(measures)[order]


def _measures(cut: Patches) -> Float[ndarray, "patch four"]:
    """Return mean, variance, and mean squared difference of horizontal and of vertical neighbours of each patch."""
    found = []
    for some in torch.from_numpy(cut).split(4 * CHUNK):
        grey = some.float() / 256
        differences = [(grey.diff(dim=axis) ** 2).mean((1, 2)) for axis in (2, 1)]
        found.append(torch.stack([grey.mean((1, 2)), grey.var((1, 2), correction=0), *differences], dim=1))
    return torch.cat(found).double().numpy()


def _chances(moments: ndarray, target: ndarray, count: int) -> Float[ndarray, "patch"]:
    """Return the probability of each candidate under which the expected moments are the target's.

    The probabilities with the greatest entropy are logistic in the moments; Newton's method finds their five weights.
    """
    scaled = (moments - target) / moments.std(axis=0)
    known = np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)
    weights = np.array([math.log(count / max(1, len(known) - count)), 0, 0, 0, 0])
    wanted = np.array([count, 0, 0, 0, 0], float)
    for _ in range(50):
        chances = 1 / (1 + np.exp(-np.clip(known @ weights, -30, 30)))
        slope = known.T @ chances - wanted
        curvature = (known * (chances * (1 - chances))[:, None]).T @ known + 1e-3 * len(known) / 100 * np.eye(5)
        step = np.linalg.solve(curvature, slope)
        weights -= step * min(1, 2 / np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    return 1 / (1 + np.exp(-np.clip(known @ weights, -30, 30)))


def statistics(images: UInt8[ndarray, "image height width"], border: int | None = None) -> dict[str, float]:
    """Return the statistics of images that `REAL` has for genuine ones.

    With a `border`, only pixels nearer to the edge count, which the digits seldom reach.
    """
    grey = images.astype(np.float32) / 256
    inside = np.ones(grey.shape[1:], bool)
    if border is not None:
        inside[border:-border, border:-border] = False
    pixels = grey[:, inside]
    return {
        "mean": float(pixels.mean(dtype=np.float64)),
        "sd": float(pixels.std(dtype=np.float64)),
        "horizontal": _correlation(grey[:, :, :-1], grey[:, :, 1:], inside[:, :-1] & inside[:, 1:]),
        "vertical": _correlation(grey[:, :-1], grey[:, 1:], inside[:-1] & inside[1:]),
    }


def _correlation(one: ndarray, other: ndarray, where: ndarray) -> float:
    first, second = one[:, where].ravel(), other[:, where].ravel()
    first, second = first - first.mean(dtype=np.float64), second - second.mean(dtype=np.float64)
    # Dot products need less memory than a library routine, which would hold several copies.
    return float(np.dot(first, second) / math.sqrt(np.dot(first, first) * np.dot(second, second)))
