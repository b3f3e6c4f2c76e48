"""Stems: the layers that turn images into the feature maps of PrimaryCaps, and kernels that fit small images."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from maxmincaps.errors import InputError, check_name, one_line

STEMS = ("conv1", "deep")
"""The stems by name: the paper's first convolution, or `deep_stem`."""

DEEP_SIDE = 16
"""`deep_stem` halves the feature maps until their shorter side is at most this."""

FEWEST_CHANNELS = 16


def deep_stem(channels: int, width: int, size: Sequence[int]) -> nn.Sequential:
    """Return a stem of 3×3 convolutions with batch norm and ReLU, deeper for larger images.

    After a first convolution, each stage halves rows and columns by a convolution with stride 2 and adds another one
    with stride 1, until the shorter side has at most 16 places: one stage for 28×28, two for 64×64, four for 224×224.
    Channels double from stage to stage and end at `width`.

    Args:
        channels: Channels of the images.
        width: Channels of the feature maps.
        size: Height and width of the images.

    >>> deep_stem(3, 64, (64, 64))(torch.rand(2, 3, 64, 64)).shape
    torch.Size([2, 64, 16, 16])
    """
    stages = max(1, math.ceil(math.log2(min(size) / DEEP_SIDE)))
    widths = [max(min(width, FEWEST_CHANNELS), width >> (stages - stage)) for stage in range(stages + 1)]
    layers = _convolution(channels, widths[0], stride=1)
    for before, after in pairwise(widths):
        layers += _convolution(before, after, stride=2) + _convolution(after, after, stride=1)
    return nn.Sequential(*layers)


def _convolution(before: int, after: int, *, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),  # batch norm has the bias
        nn.BatchNorm2d(after),
        nn.ReLU(),
    ]


def stem_of(choice: str | nn.Module, image_shape: Sequence[int], width: int) -> nn.Module | None:
    """Return the stem of a name or module; None stands for the paper's Conv1, which the network has itself."""
    if isinstance(choice, nn.Module):
        return choice
    channels, *size = image_shape
    return deep_stem(channels, width, size) if check_name(choice, STEMS, "stem") == "deep" else None


def feature_shape(stem: nn.Module, image_shape: Sequence[int]) -> tuple[int, int, int]:
    """Return channels, rows and columns of a stem's feature maps, from its output for one black image.

    Raises:
        InputError: If the stem does not accept such an image or returns something else than feature maps.
    """
    parameter = next(stem.parameters(), torch.empty(0))
    image = torch.zeros(1, *image_shape, device=parameter.device, dtype=parameter.dtype)
    was_training = stem.training
    try:
        with torch.no_grad():
            features = stem.eval()(image)  # in training mode the running statistics of batch norm would change
    except RuntimeError as error:
        raise InputError(
            f"stem: {type(stem).__name__} does not accept images of {tuple(image_shape)}: {one_line(error)}"
        ) from None
    finally:
        stem.train(was_training)
    if not isinstance(features, torch.Tensor) or features.dim() != 4:
        found = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
        raise InputError(f"stem: expected feature maps of shape (batch, channels, rows, columns), found {found}")
    _, channels, rows, columns = features.shape
    return channels, rows, columns


def fitted_kernels(places: Callable[[int, int], int], conv_kernel: int, primary_kernel: int) -> tuple[int, int]:
    """Return the kernel sizes of Conv1 and PrimaryCaps, reduced if the images are too small for them.

    Kernels that fit stay as they are. Others become the largest odd ones that leave 2×2 places, or 1×1 kernels.

    Args:
        places: Returns the rows or columns of PrimaryCaps, whichever are fewer, for two kernel sizes.
        conv_kernel: Wanted kernel size of Conv1.
        primary_kernel: Wanted kernel size of PrimaryCaps.
    """
    if places(conv_kernel, primary_kernel) >= 1:
        return conv_kernel, primary_kernel
    largest = max(conv_kernel, primary_kernel)
    for limit in range(largest - 1 + largest % 2, 1, -2):
        kernels = min(conv_kernel, limit), min(primary_kernel, limit)
        if places(*kernels) >= 2:
            return kernels
    return 1, 1
