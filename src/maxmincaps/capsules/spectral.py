"""The strided convolution as a handful of matrix products: exact, and four times as fast where channels are many.

A convolution of stride s is one of stride 1 over the s·s *phases* of the image (phase p, q: the pixels whose row leaves
remainder p and whose column q). A phase has `height2 + taps - 1` rows, and a cyclic convolution of just that length
yields exactly the wanted outputs, with nothing to cut away or to add up. So

    phases (row column, image phase·channel)  ─►  X̂ (plane, image, phase·channel) ┐
    kernel (tap tap, out phase·channel)       ─►  Ŵ (plane, out, phase·channel)   ┴ Ŷ (plane, image, out)  ─►  outputs

where a *plane* is one of the real numbers that stand for the frequencies (`frequencies.py`). Each arrow is a linear
map, the fork one matrix product per plane. Backward is the same three products, with each map transposed.

The paper's PrimaryCaps (20×20 images, 9×9 kernels, stride 2) has 4 phases of 10×10 and 148 planes: 39 million
multiply-adds an image instead of 191.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from maxmincaps.capsules.frequencies import Pair, Transform, Transforms, planes_of, transforms
from maxmincaps.errors import InputError, known

METHODS = ("auto", "spectral", "direct")

# The time for one transformed number, in multiply-adds of a matrix product (measured on several processors).
TRANSFORM = 50


@dataclass(frozen=True)
class Geometry:
    """The sizes of one strided convolution: what follows from kernel, stride, padding and the size of the images."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair

    @property
    def outputs(self) -> Pair:
        """Rows and columns of the result."""
        return _both(
            (size + 2 * padding - kernel) // stride + 1
            for size, kernel, stride, padding in zip(self.size, self.kernel, self.stride, self.padding, strict=True)
        )

    @property
    def taps(self) -> Pair:
        """Rows and columns of the kernel in the phase that has most of it."""
        return _both(-(-kernel // stride) for kernel, stride in zip(self.kernel, self.stride, strict=True))

    @property
    def places(self) -> Pair:
        """Rows and columns of a phase, which is the length of the cyclic convolution."""
        return _both(output + taps - 1 for output, taps in zip(self.outputs, self.taps, strict=True))

    @property
    def phases(self) -> int:
        """How many phases there are."""
        return self.stride[0] * self.stride[1]

    @property
    def planes(self) -> int:
        """Real numbers for which one matrix product each is needed."""
        return planes_of(self.places)


def _both(numbers: Iterable[int]) -> Pair:
    first, second = numbers
    return first, second


def to_phases(
    images: Float[Tensor, "batch channel height width"], geometry: Geometry
) -> Float[Tensor, "row column batch phase_channel"]:
    """Sort pixels by place, image, phase and channel, with zeros for the padding. Fastest for channels-last images."""
    (rows, columns), (down, right) = geometry.places, geometry.stride
    above, left = geometry.padding
    below = rows * down - images.shape[2] - above
    beyond = columns * right - images.shape[3] - left
    if above or left or below or beyond:
        images = functional.pad(images, (left, beyond, above, below))
    # batch channel (row down) (column right) -> row column batch (down right channel)
    pixels = images.permute(0, 2, 3, 1).reshape(-1, rows, down, columns, right, images.shape[1])
    return pixels.permute(1, 3, 0, 2, 4, 5).flatten(3)


def _kernel_phases(
    weight: Float[Tensor, "out channel kernel kernel2"], geometry: Geometry
) -> Float[Tensor, "tap tap2 out phase_channel"]:
    """Sort the kernel as `to_phases` sorts the images."""
    (taps, taps2), (down, right) = geometry.taps, geometry.stride
    out, channel, kernel, kernel2 = weight.shape
    # The transpose of a matrix brings the taps to the front; torch does that far faster than any other permutation.
    by_tap = weight.reshape(out * channel, kernel * kernel2).T.contiguous().view(kernel, kernel2, out, channel)
    phases = weight.new_zeros(taps, taps2, out, down, right, channel)
    for row in range(kernel):
        for column in range(kernel2):
            phases[row // down, column // right, :, row % down, column % right] = by_tap[row, column]
    return phases.flatten(3)


def _kernel_from_phases(
    phases: Float[Tensor, "tap tap2 out phase_channel"], geometry: Geometry
) -> Float[Tensor, "out channel kernel kernel2"]:
    """Undo `_kernel_phases`."""
    (taps, taps2), (down, right), (kernel, kernel2) = geometry.taps, geometry.stride, geometry.kernel
    out = phases.shape[2]
    phases = phases.view(taps, taps2, out, down, right, -1)
    channel = phases.shape[5]
    by_tap = phases.new_empty(kernel, kernel2, out, channel)
    for row in range(kernel):
        for column in range(kernel2):
            by_tap[row, column] = phases[row // down, column // right, :, row % down, column % right]
    return by_tap.view(kernel * kernel2, out * channel).T.contiguous().view(out, channel, kernel, kernel2)


class _SpectralConvolution(torch.autograd.Function):
    """Phases and kernel to outputs (row, column, batch, out), with the spectra kept for backward."""

    @staticmethod
    def forward(ctx: Any, phases: Tensor, weight: Tensor, geometry: Geometry, product: torch.dtype) -> Tensor:
        maps = _transforms(geometry, phases)
        batch, out = phases.shape[2], weight.shape[0]
        with torch.autocast(phases.device.type, enabled=False):
            kernel = _kernel_phases(weight, geometry).to(maps.kernel.rows.dtype)
            weight_planes = _spectrum(maps.kernel, kernel, product)
            image_planes = _spectrum(maps.images, phases.to(maps.images.rows.dtype), product)
            # plane batch phase_channel, plane out phase_channel -> plane batch out
            output_planes = torch.bmm(image_planes, weight_planes.mT).to(maps.outputs.rows.dtype)
            outputs = maps.outputs.places(output_planes.flatten(1)).unflatten(2, (batch, out))
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(
                image_planes if ctx.needs_input_grad[1] else None, weight_planes if ctx.needs_input_grad[0] else None
            )
            ctx.geometry, ctx.product, ctx.dtypes = geometry, product, (phases.dtype, weight.dtype)
        return outputs.to(product)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        image_planes, weight_planes = ctx.saved_tensors
        dtype, weight_dtype = ctx.dtypes
        maps = _transforms(ctx.geometry, gradient)
        phases = weight = None
        with torch.autocast(gradient.device.type, enabled=False):
            planes = _spectrum(maps.outputs, gradient.to(maps.outputs.rows.dtype), ctx.product)
            if weight_planes is not None:
                # plane batch out, plane out phase_channel -> plane batch phase_channel
                phases = _from_spectrum(maps.images, torch.bmm(planes, weight_planes)).to(dtype)
            if image_planes is not None:
                # plane batch out, plane batch phase_channel -> plane out phase_channel
                kernel = _from_spectrum(maps.kernel, torch.bmm(planes.mT, image_planes)).to(weight_dtype)
                weight = _kernel_from_phases(kernel, ctx.geometry)
        return phases, weight, None, None


def _transforms(geometry: Geometry, tensor: Tensor) -> Transforms:
    """Look up the transforms, which are never done in half precision: only the products are."""
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return transforms(geometry.taps, geometry.outputs, dtype, tensor.device)


def _spectrum(
    transform: Transform, places: Float[Tensor, "row column one other"], product: torch.dtype
) -> Float[Tensor, "plane one other"]:
    return transform.planes(places.flatten(2)).unflatten(1, places.shape[2:]).to(product)


def _from_spectrum(
    transform: Transform, planes: Float[Tensor, "plane one other"]
) -> Float[Tensor, "row column one other"]:
    return transform.places(planes.flatten(1).to(transform.rows.dtype)).unflatten(2, planes.shape[1:])


def spectral_pays(geometry: Geometry, batch: int, channel: int, out: int, device: str = "cpu") -> bool:
    """Say whether the spectral form is expected to be faster than the direct one, by counting what each must do.

    Never on accelerators, whose libraries choose among such forms themselves. On a processor a transformed number costs
    about as much time as `TRANSFORM` multiply-adds of a matrix product, so many channels and images are needed to win.
    """
    if device != "cpu" or min(geometry.outputs) < 1:
        return False
    rows, columns = geometry.outputs
    direct = batch * rows * columns * geometry.kernel[0] * geometry.kernel[1] * channel * out
    inner = geometry.phases * channel
    products = geometry.planes * batch * inner * out
    transformed = geometry.planes * (batch * inner + inner * out + batch * out)
    effort = TRANSFORM + geometry.places[0] + 2 * geometry.places[1]
    return products + effort * transformed < direct


def strided_convolution(
    images: Float[Tensor, "batch channel height width"],
    weight: Float[Tensor, "out channel kernel kernel2"],
    bias: Float[Tensor, "out"] | None = None,
    stride: int | Pair = 1,
    padding: int | Pair = 0,
    method: str = "auto",
) -> Float[Tensor, "batch out height2 width2"]:
    """Convolve as `torch.nn.functional.conv2d` does, in the frequency domain where that is faster.

    `method` forces one form: "spectral" or "direct". Under `torch.compile` and export it is always the direct one.
    """
    known(method, METHODS, "method of convolution")
    geometry = Geometry(_both(images.shape[2:]), _both(weight.shape[2:]), _pair(stride), _pair(padding))
    if not _spectral(method, geometry, images, weight):
        return functional.conv2d(images, weight, bias, geometry.stride, geometry.padding)
    device = images.device.type
    product = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else images.dtype
    outputs = _SpectralConvolution.apply(to_phases(images, geometry), weight, geometry, product)
    if bias is not None:
        outputs = outputs + bias.to(outputs.dtype)
    return outputs.permute(2, 3, 0, 1)


def _spectral(method: str, geometry: Geometry, images: Tensor, weight: Tensor) -> bool:
    (out, channel), batch = weight.shape[:2], images.shape[0]
    if method == "direct" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if not (batch and channel and out) or min(geometry.outputs) < 1 or images.shape[1] != channel:
        return False  # nothing to do, or an error that conv2d words best
    return method == "spectral" or spectral_pays(geometry, batch, channel, out, images.device.type)


def _pair(numbers: int | Sequence[Any]) -> Pair:
    return (numbers, numbers) if isinstance(numbers, int) else _both(numbers)


class StridedConvolution(nn.Conv2d):
    """An `nn.Conv2d` (same parameters, state dict and answers) that works in the frequency domain where it pays."""

    def __init__(self, *arguments: Any, method: str = "auto", **settings: Any):
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
