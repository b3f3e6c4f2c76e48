"""The discrete Fourier transform of small real images as constant real matrices, ready for products of spectra.

A real signal needs only half of its frequencies: the real ones (the mean and, for an even length, the alternating sum)
and one of each conjugate pair. A product of two complex numbers takes three real ones (Gauss: k1 = a·c, k2 = b·d,
k3 = (a + b)·(c + d)). So a real frequency is one *plane*, a complex one is three: re, im and re + im. To multiply two
spectra is then one real product per plane, of numbers or of matrices alike. A 10×10 image has 148 planes.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Pair = tuple[int, int]

# Numbers that pass through both halves of a transform at a time, so that what lies between them stays in the cache.
NUMBERS_AT_A_TIME = 1 << 14


def real_frequencies(length: int) -> Sequence[int]:
    """List the frequencies of a real signal that are real."""
    return [0] if length % 2 else [0, length // 2]


def complex_frequencies(length: int) -> Sequence[int]:
    """List one of each conjugate pair of frequencies of a real signal."""
    return range(1, (length + 1) // 2)


def planes_of(length: Pair) -> int:
    """Count the planes of a cyclic convolution of rows × columns."""
    rows, columns = length
    real_row = len(real_frequencies(columns)) + 3 * len(complex_frequencies(columns))
    return len(real_frequencies(rows)) * real_row + len(complex_frequencies(rows)) * 3 * columns


class Transform(NamedTuple):
    """A linear map from places (row, column) to planes.

    `rows` turns the rows into one row of numbers for each real row frequency, then two (re, im) for each complex one.
    From there `real` and `paired` make the planes of a real and of a complex row frequency.
    """

    rows: Float[Tensor, "frequency row"]
    real: Float[Tensor, "real_plane column"]
    paired: Float[Tensor, "paired_plane two_columns"]

    def planes(self, places: Float[Tensor, "row column number"], dtype: torch.dtype) -> Float[Tensor, "plane number"]:
        """Apply the map. Both sides may have another precision than it has itself, in which everything is computed."""
        _, columns, numbers = places.shape
        planes = places.new_empty(sum(map(math.prod, self._groups())), numbers, dtype=dtype)
        for some in _parts(numbers):
            between = self.rows.new_empty(len(self.rows), columns, some.stop - some.start)
            _multiply(self.rows, places[..., some].transpose(0, 1), between.transpose(0, 1))
            for matrix, rows, own in self._steps(between, planes[:, some]):
                _multiply(matrix, rows, own)
        return planes

    def places(self, planes: Float[Tensor, "plane number"], places: Float[Tensor, "row column number"]) -> None:
        """Apply the transposed map and write the result into `places`, of whatever precision."""
        _, columns, numbers = places.shape
        for some in _parts(numbers):
            between = self.rows.new_empty(len(self.rows), columns, some.stop - some.start)
            for matrix, rows, own in self._steps(between, planes[:, some]):
                _multiply(matrix.T, own, rows)
            _multiply(self.rows.T, between.transpose(0, 1), places[..., some].transpose(0, 1))

    def part(self, rows: slice, columns: slice) -> "Transform":
        """Return the map for images that are zero, or not needed, outside these rows and columns."""
        paired = self.paired.unflatten(1, (2, -1))[:, :, columns].flatten(1)
        return Transform(self.rows[:, rows], self.real[:, columns], paired)

    def _groups(self) -> tuple[Pair, Pair]:
        """Return the number of real and of complex row frequencies, each with the planes of one of them."""
        reals = len(real_frequencies(len(self.rows)))
        return (reals, len(self.real)), ((len(self.rows) - reals) // 2, len(self.paired))

    def _steps(self, between: Tensor, planes: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return matrix, rows and planes of all real row frequencies, and of all complex ones: each (frequency, …)."""
        (reals, real), (pairs, paired) = self._groups()
        columns = between.shape[1]
        return [
            (self.real, between[:reals], planes[: reals * real].unflatten(0, (reals, real))),
            (
                self.paired,
                between[reals:].flatten(0, 1).unflatten(0, (pairs, 2 * columns)),
                planes[reals * real :].unflatten(0, (pairs, paired)),
            ),
        ]


def _multiply(
    matrix: Tensor, numbers: Float[Tensor, "batch in number"], out: Float[Tensor, "batch out number"]
) -> None:
    """Multiply in the precision of the matrix. What is cast is a part at a time, which is still in the cache."""
    matrices, numbers = matrix.expand(len(numbers), -1, -1), numbers.to(matrix.dtype)
    if out.dtype == matrix.dtype:
        torch.bmm(matrices, numbers, out=out)
    else:
        out.copy_(torch.bmm(matrices, numbers))


def _parts(numbers: int) -> list[slice]:
    return [slice(start, min(start + NUMBERS_AT_A_TIME, numbers)) for start in range(0, numbers, NUMBERS_AT_A_TIME)]


class Transforms(NamedTuple):
    """The three maps of a correlation: of the images, of the kernel, and of the gradient of the outputs."""

    images: Transform
    kernel: Transform
    outputs: Transform


@lru_cache(maxsize=32)
def transforms(taps: Pair, outputs: Pair, dtype: torch.dtype, device: torch.device) -> Transforms:
    """Compute the matrices once, in double precision, and keep them in `dtype` on `device`."""
    places = (outputs[0] + taps[0] - 1, outputs[1] + taps[1] - 1)
    # Made under inference mode, they could not take part in a later training.
    with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
        # A convolution layer correlates: the frequencies of its kernel are conjugated.
        maps = _analysis(places, places, -1), _analysis(places, taps, +1), _synthesis(places, outputs)
        return Transforms(*(Transform(*(matrix.to(device, dtype) for matrix in matrices)) for matrices in maps))


def _waves(length: int, frequencies: Sequence[int], places: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, (frequency, place), of some frequencies of a signal with period `length`."""
    # Whole turns are taken off while the numbers are still whole, so that no angle is large and inexact.
    steps = torch.outer(torch.tensor(frequencies, dtype=torch.int64), torch.arange(places)) % length
    angles = steps.double() * (2 * math.pi / length)
    return torch.cos(angles), torch.sin(angles)


def _analysis(length: Pair, size: Pair, sign: int) -> tuple[Tensor, Tensor, Tensor]:
    """Write the DFT with exponent `sign`·i of a real image, zero beyond `size`, in planes re, im, re + im."""
    cosine, sine = _waves(length[0], complex_frequencies(length[0]), size[0])
    rows = torch.cat([_waves(length[0], real_frequencies(length[0]), size[0])[0], _interleave(cosine, sign * sine)])

    def planes(frequencies: Sequence[int]) -> tuple[Tensor, Tensor]:
        cosine, sine = _waves(length[1], frequencies, size[1])
        from_re = _interleave(cosine, sign * sine, cosine + sign * sine)
        from_im = _interleave(-sign * sine, cosine, cosine - sign * sine)
        return from_re, from_im

    reals = _waves(length[1], real_frequencies(length[1]), size[1])[0]
    real = torch.cat([reals, planes(complex_frequencies(length[1]))[0]])
    return rows, real, torch.cat(planes(range(length[1])), dim=1)


def _synthesis(length: Pair, size: Pair) -> tuple[Tensor, Tensor, Tensor]:
    """Write the transpose of the inverse DFT, cut to `size`, of planes k1, k2, k3.

    The frequency that these stand for is (k1 - k2) + i·(k3 - k1 - k2); where it has a conjugate it counts twice.
    """
    cosine, sine = _waves(length[0], complex_frequencies(length[0]), size[0])
    rows = torch.cat([_waves(length[0], real_frequencies(length[0]), size[0])[0], 2 * _interleave(cosine, -sine)])

    def planes(frequencies: Sequence[int]) -> tuple[Tensor, Tensor]:
        cosine, sine = _waves(length[1], frequencies, size[1])
        to_re = _interleave(cosine + sine, sine - cosine, -sine)
        to_im = _interleave(sine - cosine, -sine - cosine, cosine)
        return to_re, to_im

    reals = _waves(length[1], real_frequencies(length[1]), size[1])[0]
    real = torch.cat([reals, 2 * planes(complex_frequencies(length[1]))[0]])
    return rows / (length[0] * length[1]), real, torch.cat(planes(range(length[1])), dim=1)


def _interleave(*matrices: Tensor) -> Tensor:
    return torch.stack(matrices, dim=1).flatten(0, 1)
