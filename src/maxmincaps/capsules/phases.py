"""A strided convolution taken apart into phases, along rows and along columns.

A convolution of stride s is one of stride 1 over the s·s *phases* of the image (phase p, q: the pixels whose row leaves
remainder p and whose column q). A phase has `height2 + taps - 1` rows, and a cyclic convolution of just that length
yields exactly the wanted outputs, with nothing to cut away or to add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from maxmincaps.capsules.frequencies import Pair, Transform, Transforms, planes_of, transforms


class AxisPhase(NamedTuple):
    """One phase along one axis: which pixels and kernel elements it has, and which places and taps these are."""

    pixels: slice
    places: slice
    elements: slice
    taps: slice


class Phase(NamedTuple):
    """One phase of an image: one of the rows and one of the columns."""

    rows: AxisPhase
    columns: AxisPhase

    def of_pixels(
        self, images: Float[Tensor, "height width batch channel"]
    ) -> Float[Tensor, "row column batch channel"]:
        """Pick this phase's pixels."""
        return images[self.rows.pixels, self.columns.pixels]

    def of_elements(self, kernel: Float[Tensor, "kernel kernel2 out channel"]) -> Float[Tensor, "tap tap2 out channel"]:
        """Pick this phase's elements of the kernel."""
        return kernel[self.rows.elements, self.columns.elements]

    def of_places(self, transform: Transform) -> Transform:
        """Restrict the transform of whole phases to the places where this one has pixels."""
        return transform.part(self.rows.places, self.columns.places)

    def of_taps(self, transform: Transform) -> Transform:
        """Restrict the transform of whole kernels to the taps that this phase has."""
        return transform.part(self.rows.taps, self.columns.taps)


@dataclass(frozen=True)
class Axis:
    """The sizes of a strided convolution along rows, or along columns."""

    size: int
    kernel: int
    stride: int
    padding: int

    @property
    def outputs(self) -> int:
        """Length of the result."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def taps(self) -> int:
        """Length of the kernel in the phase that has most of it."""
        return -(-self.kernel // self.stride)

    @property
    def places(self) -> int:
        """Length of a phase and of the cyclic convolution."""
        return self.outputs + self.taps - 1

    def phases(self) -> list[AxisPhase]:
        """List the phases in which both kernel and image have elements. Places without a pixel are padding."""
        phases = []
        for shift in range(min(self.stride, self.kernel)):
            taps = -(-(self.kernel - shift) // self.stride)
            pixel = shift - self.padding  # at place 0
            first = max(0, -(pixel // self.stride))
            last = min(self.outputs + taps - 1, -((pixel - self.size) // self.stride))
            if first < last:
                pixels = slice(pixel + first * self.stride, pixel + (last - 1) * self.stride + 1, self.stride)
                elements = slice(shift, self.kernel, self.stride)
                phases.append(AxisPhase(pixels, slice(first, last), elements, slice(0, taps)))
        return phases

    def idle(self) -> tuple[list[int], list[int]]:
        """List the pixels, and the elements of the kernel, on which no output depends."""
        pixels, elements = set(range(self.size)), set(range(self.kernel))
        for phase in self.phases():
            pixels -= set(range(self.size)[phase.pixels])
            elements -= set(range(self.kernel)[phase.elements])
        return sorted(pixels), sorted(elements)


@dataclass(frozen=True)
class Geometry:
    """The sizes of one strided convolution."""

    rows: Axis
    columns: Axis

    @classmethod
    def of(
        cls, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
    ) -> "Geometry":
        """Return the geometry for sizes of (rows, columns)."""
        return cls(*(Axis(*numbers) for numbers in zip(size, kernel, stride, padding, strict=True)))

    @property
    def outputs(self) -> Pair:
        """Rows and columns of the result."""
        return self.rows.outputs, self.columns.outputs

    @property
    def stride(self) -> Pair:
        """Stride along rows and columns."""
        return self.rows.stride, self.columns.stride

    @property
    def padding(self) -> Pair:
        """Padding along rows and columns."""
        return self.rows.padding, self.columns.padding

    @property
    def planes(self) -> int:
        """Matrix products that each phase needs."""
        return planes_of((self.rows.places, self.columns.places))

    def phases(self) -> list[Phase]:
        """Pair each phase of the rows with each of the columns."""
        return [Phase(*pair) for pair in product(self.rows.phases(), self.columns.phases())]

    def transforms(self, tensor: Tensor) -> Transforms:
        """Look up the transforms. They are never computed in half precision; only the products may be."""
        dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        return transforms((self.rows.taps, self.columns.taps), self.outputs, dtype, tensor.device)
