"""The strided convolution as a few matrix products: exact, and faster if there are many channels.

Summed over the phases of the image (`phases.py`),

    images (row column, batch channel)  ─►  X̂ (plane, batch, channel) ┐
    kernel (tap tap, out channel)       ─►  Ŵ (plane, out, channel)   ┴ Ŷ (plane, batch, out)  ─►  outputs

where a *plane* is one of the real numbers that stand for the frequencies (`frequencies.py`). Each arrow is a linear
map; X̂ and Ŵ are joined by one matrix product per plane. Backward uses the same products, with each map transposed.

The paper's PrimaryCaps (20×20 images, 9×9 kernels, stride 2) has 4 phases of 10×10 and 148 planes: 39 million
multiply-adds an image instead of 191.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from maxmincaps.capsules.frequencies import Transform
from maxmincaps.capsules.phases import Geometry


def spectral_convolution(
    images: Float[Tensor, "height width batch channel"],
    weight: Float[Tensor, "out channel kernel kernel2"],
    bias: Float[Tensor, "out"] | None,
    geometry: Geometry,
) -> Float[Tensor, "height2 width2 batch out"]:
    """Convolve images that lie place by place, with the products in the precision of autocast."""
    product = product_dtype(images)
    outputs = _Spectral.apply(images.contiguous(), weight, geometry, product)
    return outputs if bias is None else outputs + bias.to(product)


def product_dtype(images: Tensor) -> torch.dtype:
    """Return the precision of matrix products: that of autocast where it is on, else that of the images."""
    device = images.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else images.dtype


class _Spectral(torch.autograd.Function):
    """Images, place by place, and kernel to outputs, place by place. The spectra are kept for backward."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, geometry: Geometry, product: torch.dtype) -> Tensor:
        maps = geometry.transforms(images)
        kernel = _taps_first(weight)
        output_planes = images.new_empty(geometry.planes, images.shape[2], len(weight), dtype=product)
        spectra: list[Tensor | None] = []
        with torch.autocast(images.device.type, enabled=False):
            for number, phase in enumerate(geometry.phases()):
                image_planes = _planes(phase.of_places(maps.images), phase.of_pixels(images), product)
                weight_planes = _planes(phase.of_taps(maps.kernel), phase.of_elements(kernel), product)
                # plane batch channel, plane out channel -> plane batch out, summed over the phases
                output_planes.baddbmm_(image_planes, weight_planes.mT, beta=min(number, 1))
                spectra.append(image_planes if ctx.needs_input_grad[1] else None)
                spectra.append(weight_planes if ctx.needs_input_grad[0] else None)
            outputs = images.new_empty(*geometry.outputs, *output_planes.shape[1:], dtype=product)
            maps.outputs.places(output_planes.flatten(1), outputs.flatten(2))
        ctx.save_for_backward(*spectra)
        ctx.geometry, ctx.product = geometry, product
        ctx.shapes, ctx.dtypes = (images.shape, kernel.shape), (images.dtype, kernel.dtype)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        maps = ctx.geometry.transforms(gradient)
        needs_images, needs_weight = ctx.needs_input_grad[:2]
        idle_pixels, idle_elements = zip(ctx.geometry.rows.idle(), ctx.geometry.columns.idle(), strict=True)
        grad_images = _empty(ctx.shapes[0], ctx.dtypes[0], gradient, idle_pixels) if needs_images else None
        grad_kernel = _empty(ctx.shapes[1], ctx.dtypes[1], gradient, idle_elements) if needs_weight else None
        with torch.autocast(gradient.device.type, enabled=False):
            planes = _planes(maps.outputs, gradient, ctx.product)
            spectra = iter(ctx.saved_tensors)
            for phase, image_planes, weight_planes in zip(ctx.geometry.phases(), spectra, spectra, strict=True):
                if grad_images is not None:
                    # plane batch out, plane out channel -> plane batch channel
                    grad_planes = torch.bmm(planes, weight_planes).flatten(1)
                    phase.of_places(maps.images).places(grad_planes, phase.of_pixels(grad_images).flatten(2))
                if grad_kernel is not None:
                    # plane batch out, plane batch channel -> plane out channel
                    grad_planes = torch.bmm(planes.mT, image_planes).flatten(1)
                    phase.of_taps(maps.kernel).places(grad_planes, phase.of_elements(grad_kernel).flatten(2))
        return grad_images, None if grad_kernel is None else _taps_last(grad_kernel), None, None


def _empty(shape: torch.Size, dtype: torch.dtype, like: Tensor, idle: Sequence[Sequence[int]]) -> Tensor:
    """Return an uninitialised tensor with zeros in the rows and columns that nothing will be written to."""
    tensor = like.new_empty(shape, dtype=dtype)
    rows, columns = idle
    tensor[rows] = 0
    tensor[:, columns] = 0
    return tensor


def _planes(
    transform: Transform, places: Float[Tensor, "row column one other"], product: torch.dtype
) -> Float[Tensor, "plane one other"]:
    return transform.planes(places.flatten(2), product).unflatten(1, places.shape[2:])


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
