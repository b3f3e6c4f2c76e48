"""The strided convolution of a layer, by whichever method is expected to be the fastest.

The methods other than the direct one work on images that lie in memory *place by place* (row, column, batch, channel).
Their outputs have this order too, and pass through ReLU and the like without being copied. Do not use `relu_`: the
outputs are views, and changing a view in place makes autograd copy the gradient three times.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from jaxtyping import Float
from torch import Tensor, nn

from maxmincaps.capsules.checks import is_tracing
from maxmincaps.capsules.frequencies import Pair
from maxmincaps.capsules.multipliers import ScaledWeights
from maxmincaps.capsules.phases import Geometry
from maxmincaps.capsules.spectral import product_dtype, spectral_convolution
from maxmincaps.errors import InputError, check_name

METHODS = ("auto", "spectral", "unfold", "direct")

# The cost of transforming one number beyond its own arithmetic, in multiply-adds of a matrix product. It was fitted by
# eye on twenty layers, so that the methods change where their forward times are equal (backward gains more).
TRANSFORM = 30

# With fewer channels the products are too thin to run at full speed.
FEWEST_CHANNELS = 16


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
    check_name(method, METHODS, "method of convolution")
    geometry = Geometry.of(images.shape[2:], weight.shape[2:], _pair(stride), _pair(padding))
    method = _chosen(method, geometry, images, weight)
    if method == "direct":
        return functional.conv2d(images, weight, bias, geometry.stride, geometry.padding)
    convolve = spectral_convolution if method == "spectral" else unfolded_convolution
    return convolve(images.permute(2, 3, 0, 1), weight, bias, geometry).permute(2, 3, 0, 1)


def _chosen(method: str, geometry: Geometry, images: Tensor, weight: Tensor) -> str:
    (out, channel), batch, device = weight.shape[:2], images.shape[0], images.device.type
    if is_tracing(images, weight):
        return "direct"
    if min(geometry.outputs) < 1 or images.shape[1] != channel:
        return "direct"  # its error message states best what is wrong
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


def spectral_pays(geometry: Geometry, batch: int, channel: int, out: int, device: str = "cpu") -> bool:
    """Return whether the spectral form is expected to be faster than the direct one, by counting operations.

    It never is on accelerators, whose libraries choose among such forms themselves. On a CPU, transforming a number
    takes the time of many multiply-adds of a matrix product, so the spectral form needs many channels and images.
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
    """Return whether to unfold: it pays if the patch of pixels behind an output is not much larger than the output.

    The outputs are then stored place by place, the order in which a spectral layer after this one reads them.
    """
    return device == "cpu" and geometry.rows.kernel * geometry.columns.kernel * channel < 4 * out


def unfolded_convolution(
    images: Float[Tensor, "height width batch channel"],
    weight: Float[Tensor, "out channel kernel kernel2"],
    bias: Float[Tensor, "out"] | None,
    geometry: Geometry,
) -> Float[Tensor, "height2 width2 batch out"]:
    """Convolve as one matrix product per output row: of all patches of the row with all kernels.

    Only the columns are unfolded. The patches of an output row are then consecutive rows of the copy, without another
    copy: neighbouring output rows share the image rows that they have in common.
    """
    (above, left), (down, right) = geometry.padding, geometry.stride
    images = images.to(product_dtype(images))  # autocast would cast every patch
    if above or left:
        images = functional.pad(images, (0, 0, 0, 0, left, left, above, above))
    # height width2 batch channel kernel2 -> height (channel kernel2) (width2 batch)
    columns = images.unfold(1, geometry.columns.kernel, right).permute(0, 3, 4, 1, 2).flatten(3).flatten(1, 2)
    # height2 (channel kernel2) (width2 batch) kernel -> height2 (kernel channel kernel2) (width2 batch)
    patches = columns.unfold(0, geometry.rows.kernel, down).permute(0, 3, 1, 2).flatten(1, 2)
    kernels = weight.permute(2, 1, 3, 0).flatten(0, 2).expand(len(patches), -1, -1)
    outputs = torch.bmm(patches.mT, kernels) if bias is None else torch.baddbmm(bias, patches.mT, kernels)
    return outputs.view(*geometry.outputs, images.shape[2], len(weight))


class StridedConvolution(ScaledWeights, nn.Conv2d):
    """An `nn.Conv2d` (same parameters, same results) that chooses the fastest method.

    Args:
        *arguments: As for `nn.Conv2d`.
        method: "spectral", "unfold", "direct", or the one that is expected to be the fastest ("auto").
        **settings: As for `nn.Conv2d`; groups and dilation must be 1, and padding zeros.
    """

    def __init__(self, *arguments: Any, method: str = "auto", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.method = check_name(method, METHODS, "method of convolution")
        if self.groups != 1 or _pair(self.dilation) != (1, 1) or self.padding_mode != "zeros":
            raise InputError("StridedConvolution: expected groups 1, dilation 1 and zero padding")
        if isinstance(self.padding, str):
            raise InputError(f"StridedConvolution: expected padding as a number or a pair, found {self.padding!r}")

    @property
    def fan_in(self) -> int:
        """The number of terms in the sum for one number of the output."""
        return math.prod(self.weight.shape[1:])

    def forward(self, input: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch out height2 width2"]:
        """Convolve a batch of images."""
        bias, stride, padding = self.bias, _pair(self.stride), _pair(self.padding)
        if self.multiplier == 1:
            return strided_convolution(input, self.weight, bias, stride, padding, self.method)
        # The outputs are multiplied, as they are fewer than the weights; the bias is divided beforehand.
        bias = None if bias is None else bias / self.multiplier
        return strided_convolution(input, self.weight, bias, stride, padding, self.method) * self.multiplier

    def extra_repr(self) -> str:
        """Describe the convolution and its method."""
        return f"{super().extra_repr()}, method={self.method}"
