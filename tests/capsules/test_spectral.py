import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import conv2d

from maxmincaps.capsules.spectral import Geometry, StridedConvolution, spectral_pays, strided_convolution
from maxmincaps.errors import InputError
from tests.reference.convolution import convolution


@st.composite
def problems(draw: Callable, sizes: int = 12, channels: int = 4) -> tuple:
    """Draw images, weight, bias, stride and padding that fit together, the axes independent of one another."""
    number = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    kernel, stride, padding = ((number(low, high), number(low, high)) for low, high in ((1, 6), (1, 4), (0, 3)))
    size = [number(max(1, kernel[axis] - 2 * padding[axis]), sizes) for axis in (0, 1)]
    generator = torch.Generator().manual_seed(number(0, 999))
    random = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    batch, channel, out = number(1, 3), number(1, channels), number(1, channels)
    return random(batch, channel, *size), random(out, channel, *kernel), random(out), stride, padding


def with_gradients(convolve: Callable, images: Tensor, weight: Tensor, bias: Tensor | None, *rest: object) -> list:
    leaves = [leaf.detach().requires_grad_() for leaf in (images, weight, bias) if leaf is not None]
    outputs = convolve(*leaves, *([None] if bias is None else []), *rest)
    target = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [outputs.detach(), *torch.autograd.grad(outputs, leaves, target.to(outputs.dtype))]


def spectral(*arguments: object) -> Tensor:
    return strided_convolution(*arguments, "spectral")


@settings(deadline=None, max_examples=40)
@given(problems())
def test_any_spectral_convolution_equals_its_definition(problem: tuple):
    torch.testing.assert_close(spectral(*problem), convolution(*problem), rtol=0, atol=1e-10)


@settings(deadline=None, max_examples=150)
@given(problems(), st.booleans())
def test_values_and_gradients_are_those_of_the_direct_convolution(problem: tuple, biased: bool):
    images, weight, bias, *rest = problem
    arguments = (images, weight, bias if biased else None, *rest)
    for ours, theirs in zip(with_gradients(spectral, *arguments), with_gradients(conv2d, *arguments), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
