"""The strided convolution as a handful of matrix products: exact, and faster where channels are many.

A convolution of stride s is one of stride 1 over the s·s *phases* of the image (phase p, q: the pixels whose row leaves
remainder p and whose column q). A phase has `height2 + taps - 1` rows, and a cyclic convolution of just that length
yields exactly the wanted outputs, with nothing to cut away or to add up. So, summed over the phases,

    images (row column, batch channel)  ─►  X̂ (plane, batch, channel) ┐
    kernel (tap tap, out channel)       ─►  Ŵ (plane, out, channel)   ┴ Ŷ (plane, batch, out)  ─►  outputs

where a *plane* is one of the real numbers that stand for the frequencies (`frequencies.py`). Each arrow is a linear
map, the fork one matrix product per plane. Backward is the same three products, with each map transposed.

The paper's PrimaryCaps (20×20 images, 9×9 kernels, stride 2) has 4 phases of 10×10 and 148 planes: 39 million
multiply-adds an image instead of 191.

Everything here works on images that lie in memory *place by place* (row, column, batch, channel). Such images come out
of a convolution that is not direct, and pass through ReLU and the like, without ever being copied into another order.
(Not through `relu_`: they are views, and what changes a view in place makes autograd copy the gradient three times.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from maxmincaps.capsules.frequencies import Pair, Transform, Transforms, planes_of, transforms
from maxmincaps.errors import InputError, known

METHODS = ("auto", "spectral", "unfold", "direct")

# The time for one transformed number, in multiply-adds of a matrix product, besides its own few: measured over twenty
# layers, fitted by eye to where their forward times are level (backward gains more).
TRANSFORM = 30

# With fewer channels the products are too thin to run at full speed.
FEWEST_CHANNELS = 16


class Phase(NamedTuple):
    """One phase along one axis: which pixels and kernel elements it has, and which places and taps these are."""

    pixels: slice
    places: slice
    elements: slice
    taps: slice


class Phases(NamedTuple):
    """One phase of an image: one of the rows and one of the columns."""

    rows: Phase
    columns: Phase

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
    """What a strided convolution is along rows, or along columns."""

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

    def phases(self) -> list[Phase]:
        """List the phases in which kernel and image both have something. Padding is where there are no pixels."""
        phases = []
        for shift in range(min(self.stride, self.kernel)):
            taps = -(-(self.kernel - shift) // self.stride)
            pixel = shift - self.padding  # at place 0
            first = max(0, -(pixel // self.stride))
            last = min(self.outputs + taps - 1, -((pixel - self.size) // self.stride))
            if first < last:
                pixels = slice(pixel + first * self.stride, pixel + (last - 1) * self.stride + 1, self.stride)
                elements = slice(shift, self.kernel, self.stride)
                phases.append(Phase(pixels, slice(first, last), elements, slice(0, taps)))
        return phases

    def all_in_reach(self) -> bool:
        """Say whether every pixel and every element of the kernel has a part in some output."""
        phases = self.phases()
        pixels = sum(len(range(self.size)[phase.pixels]) for phase in phases)
        return pixels == self.size and len(phases) == min(self.stride, self.kernel)


@dataclass(frozen=True)
class Geometry:
    """The sizes of one strided convolution."""

    rows: Axis
    columns: Axis

    @classmethod
    def of(
        cls, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
    ) -> "Geometry":
        """Put together what belongs to rows and what to columns."""
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

    def phases(self) -> list["Phases"]:
        """Pair each phase of the rows with each of the columns."""
        return [Phases(*pair) for pair in product(self.rows.phases(), self.columns.phases())]

    def transforms(self, tensor: Tensor) -> Transforms:
        """Look up the transforms, which are never done in half precision: only the products are."""
        dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        return transforms((self.rows.taps, self.columns.taps), self.outputs, dtype, tensor.device)


class _Spectral(torch.autograd.Function):
    """Images, place by place, and kernel to outputs, place by place. The spectra are kept for backward."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, geometry: Geometry, product: torch.dtype) -> Tensor:
        maps = geometry.transforms(images)
        exact = maps.images.rows.dtype
        kernel, pixels = _taps_first(weight).to(exact), images.to(exact)
        output_planes = images.new_empty(geometry.planes, images.shape[2], len(weight), dtype=product)
        spectra: list[Tensor | None] = []
        with torch.autocast(images.device.type, enabled=False):
            for number, phase in enumerate(geometry.phases()):
                image_planes = _planes(phase.of_places(maps.images), phase.of_pixels(pixels), product)
                weight_planes = _planes(phase.of_taps(maps.kernel), phase.of_elements(kernel), product)
                # plane batch channel, plane out channel -> plane batch out, summed over the phases
                output_planes.baddbmm_(image_planes, weight_planes.mT, beta=min(number, 1))
                spectra.append(image_planes if ctx.needs_input_grad[1] else None)
                spectra.append(weight_planes if ctx.needs_input_grad[0] else None)
            outputs = images.new_empty(*geometry.outputs, *output_planes.shape[1:], dtype=exact)
            maps.outputs.places(output_planes.flatten(1).to(exact), outputs.flatten(2))
        ctx.save_for_backward(*spectra)
        ctx.geometry, ctx.product, ctx.dtypes = geometry, product, (images.dtype, weight.dtype)
        ctx.shapes = images.shape, kernel.shape
        return outputs.to(product)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        maps = ctx.geometry.transforms(gradient)
        exact = maps.images.rows.dtype
        needs_images, needs_weight = ctx.needs_input_grad[:2]
        everything = ctx.geometry.rows.all_in_reach() and ctx.geometry.columns.all_in_reach()
        new = gradient.new_empty if everything else gradient.new_zeros
        images = new(ctx.shapes[0], dtype=exact) if needs_images else None
        kernel = new(ctx.shapes[1], dtype=exact) if needs_weight else None
        with torch.autocast(gradient.device.type, enabled=False):
            planes = _planes(maps.outputs, gradient.to(exact), ctx.product)
            spectra = iter(ctx.saved_tensors)
            for phase, image_planes, weight_planes in zip(ctx.geometry.phases(), spectra, spectra, strict=True):
                if images is not None:
                    # plane batch out, plane out channel -> plane batch channel
                    image_planes_ = torch.bmm(planes, weight_planes).flatten(1).to(exact)
                    phase.of_places(maps.images).places(image_planes_, phase.of_pixels(images).flatten(2))
                if kernel is not None:
                    # plane batch out, plane batch channel -> plane out channel
                    weight_planes_ = torch.bmm(planes.mT, image_planes).flatten(1).to(exact)
                    phase.of_taps(maps.kernel).places(weight_planes_, phase.of_elements(kernel).flatten(2))
        dtype, weight_dtype = ctx.dtypes
        return (
            None if images is None else images.to(dtype),
            None if kernel is None else _taps_last(kernel).to(weight_dtype),
            None,
            None,
        )


def _planes(
    transform: Transform, places: Float[Tensor, "row column one other"], product: torch.dtype
) -> Float[Tensor, "plane one other"]:
    return transform.planes(places.flatten(2)).unflatten(1, places.shape[2:]).to(product)


def _taps_first(
    weight: Float[Tensor, "out channel kernel kernel2"],
) -> Float[Tensor, "kernel kernel2 out channel"]:
    out, channel, kernel, kernel2 = weight.shape
    # As the transpose of a matrix: torch does that far faster than any other permutation.
    return weight.reshape(out * channel, kernel * kernel2).T.contiguous().view(kernel, kernel2, out, channel)


def _taps_last(
    weight: Float[Tensor, "kernel kernel2 out channel"],
) -> Float[Tensor, "out channel kernel kernel2"]:
    kernel, kernel2, out, channel = weight.shape
    return weight.view(kernel * kernel2, out * channel).T.contiguous().view(out, channel, kernel, kernel2)


def spectral_pays(geometry: Geometry, batch: int, channel: int, out: int, device: str = "cpu") -> bool:
    """Say whether the spectral form is expected to be faster than the direct one, by counting what each has to do.

    Never on accelerators, whose libraries choose among such forms themselves. On a processor a number that is
    transformed takes the time of many multiply-adds of a matrix product, so it needs many channels and images to win.
    """
    if device != "cpu" or channel < FEWEST_CHANNELS:
        return False
    phases = len(geometry.phases())
    products = phases * geometry.planes * batch * channel * out
    transformed = geometry.planes * (phases * (batch + out) * channel + batch * out)
    effort = TRANSFORM + geometry.rows.places + 2 * geometry.columns.places
    direct = batch * math.prod(geometry.outputs) * geometry.rows.kernel * geometry.columns.kernel * channel * out
    return products + effort * transformed < direct


def unfolding_pays(geometry: Geometry, channel: int, out: int, device: str = "cpu") -> bool:
    """Say whether to copy the patch behind each output, and multiply: where a patch is smaller than what it becomes."""
    return device == "cpu" and geometry.rows.kernel * geometry.columns.kernel * channel < out


def _unfolded(
    images: Float[Tensor, "height width batch channel"],
    weight: Float[Tensor, "out channel kernel kernel2"],
    bias: Float[Tensor, "out"] | None,
    geometry: Geometry,
) -> Float[Tensor, "height2 width2 batch out"]:
    """Convolve as one product of all patches with all kernels. The bias is the weight of a patch's additional 1."""
    (above, left), (down, right) = geometry.padding, geometry.stride
    if above or left:
        images = functional.pad(images, (0, 0, 0, 0, left, left, above, above))
    patches = images.unfold(0, geometry.rows.kernel, down).unfold(1, geometry.columns.kernel, right)
    # height2 width2 batch channel kernel kernel2 -> (channel kernel kernel2) (height2 width2 batch)
    rows, kernels = patches.permute(3, 4, 5, 0, 1, 2).flatten(3).flatten(0, 2), weight.flatten(1)
    if bias is not None:
        rows = torch.cat([rows, rows.new_ones(1, rows.shape[1])])
        kernels = torch.cat([kernels, bias[:, None]], dim=1)
    return (rows.T @ kernels.T).view(*geometry.outputs, images.shape[2], len(weight))


def strided_convolution(
    images: Float[Tensor, "batch channel height width"],
    weight: Float[Tensor, "out channel kernel kernel2"],
    bias: Float[Tensor, "out"] | None = None,
    stride: int | Pair = 1,
    padding: int | Pair = 0,
    method: str = "auto",
) -> Float[Tensor, "batch out height2 width2"]:
    """Convolve as `torch.nn.functional.conv2d` does, by whichever method is expected to be the fastest.

    `method` forces one: "spectral", "unfold" or "direct". Under `torch.compile` and export it is always the direct one.
    """
    known(method, METHODS, "method of convolution")
    geometry = Geometry.of(images.shape[2:], weight.shape[2:], _pair(stride), _pair(padding))
    method = _chosen(method, geometry, images, weight)
    if method == "direct":
        return functional.conv2d(images, weight, bias, geometry.stride, geometry.padding)
    by_place = images.permute(2, 3, 0, 1)
    if method == "unfold":
        return _unfolded(by_place, weight, bias, geometry).permute(2, 3, 0, 1)
    device = images.device.type
    product = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else images.dtype
    outputs = _Spectral.apply(by_place.contiguous(), weight, geometry, product)
    if bias is not None:
        outputs = outputs + bias.to(product)
    return outputs.permute(2, 3, 0, 1)


def _chosen(method: str, geometry: Geometry, images: Tensor, weight: Tensor) -> str:
    (out, channel), batch, device = weight.shape[:2], images.shape[0], images.device.type
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return "direct"
    if min(geometry.outputs) < 1 or images.shape[1] != channel:
        return "direct"  # which says best what is wrong
    if not (batch and channel and out and geometry.phases()):
        return "direct"  # no images, or no pixel in reach of the kernel: there is nothing to save
    if method != "auto":
        return method
    if spectral_pays(geometry, batch, channel, out, device):
        return "spectral"
    return "unfold" if unfolding_pays(geometry, channel, out, device) else "direct"


def _pair(numbers: int | Sequence[Any]) -> Pair:
    if isinstance(numbers, int):
        return numbers, numbers
    first, second = numbers
    return first, second


class StridedConvolution(nn.Conv2d):
    """An `nn.Conv2d` (same parameters, state dict and answers) that chooses the fastest method."""

    def __init__(self, *arguments: Any, method: str = "auto", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.method = known(method, METHODS, "method of convolution")
        if self.groups != 1 or _pair(self.dilation) != (1, 1) or self.padding_mode != "zeros":
            raise InputError("StridedConvolution: expected groups 1, dilation 1 and zero padding")
        if isinstance(self.padding, str):
            raise InputError(f"StridedConvolution: expected padding as a number or a pair, found {self.padding!r}")

    def forward(self, input: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch out height2 width2"]:
        """Convolve a batch of images."""
        return strided_convolution(input, self.weight, self.bias, _pair(self.stride), _pair(self.padding), self.method)

    def extra_repr(self) -> str:
        """Add the method to what an ordinary convolution says of itself."""
        return f"{super().extra_repr()}, method={self.method}"
