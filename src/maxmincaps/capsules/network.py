"""CapsNet: the paper's network (Figure 1), every size a setting."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from maxmincaps.capsules.convolution import StridedConvolution
from maxmincaps.capsules.decoder import Decoder
from maxmincaps.capsules.hub import OnHub
from maxmincaps.capsules.layers import PrimaryCapsules, RoutedCapsules
from maxmincaps.capsules.memory import keep_large_blocks
from maxmincaps.capsules.normalizations import NormalizationChoice, normalization_of
from maxmincaps.capsules.phases import Axis
from maxmincaps.capsules.shapes import Images, Labels, Lengths, Parts, Poses
from maxmincaps.errors import InputError


class CapsNetOutput(NamedTuple):
    """What the network says of a batch of images."""

    poses: Poses
    lengths: Lengths
    reconstruction: Images


class CapsNet(nn.Module, OnHub):
    """Conv1, PrimaryCaps, DigitCaps and decoder; by default for MNIST, with Max-Min and three iterations.

    >>> sum(parameter.numel() for parameter in CapsNet().parameters())
    8215568
    """

    def __init__(
        self,
        *,
        image_shape: Sequence[int] = (1, 28, 28),
        classes: int = 10,
        normalization: NormalizationChoice = "max-min",
        iterations: int = 3,
        low: float | None = None,
        high: float | None = None,
        start: float | None = None,
        full_backpropagation: bool = False,
        routing_bias: bool = False,
        conv_channels: int = 256,
        conv_kernel: int = 9,
        conv_stride: int = 1,
        types: int | None = None,
        primary_kernel: int = 9,
        primary_stride: int = 2,
        padding: Literal["valid", "same"] = "valid",
        part_pose: int = 8,
        class_pose: int = 16,
        relu: bool = True,
        squash_parts: bool = True,
        primary_scale: float = 1.0,
        decoder: Sequence[int] = (512, 1024),
        convolution: Literal["auto", "spectral", "direct"] = "auto",
    ) -> None:
        keep_large_blocks()
        super().__init__()
        if not isinstance(normalization, str):
            self.has_no_config(
                "a network is saved with its normalization's name; put yours into NORMALIZATIONS and give its name"
            )
        if padding == "same" and not conv_kernel % 2 == primary_kernel % 2 == 1:
            raise InputError(
                f"padding 'same' takes odd kernels, found {conv_kernel} and {primary_kernel}; choose others or 'valid'"
            )
        channels, height, width = image_shape
        types = types or (32 if channels == 1 else 64)
        conv_padding, primary_padding = (0, 0) if padding == "valid" else (conv_kernel // 2, primary_kernel // 2)
        features = [Axis(size, conv_kernel, conv_stride, conv_padding).outputs for size in (height, width)]
        places = [Axis(size, primary_kernel, primary_stride, primary_padding).outputs for size in features]
        if min(places) < 1:
            raise InputError(
                f"images of {height}×{width} are too small for a {conv_kernel}×{conv_kernel} and "
                f"a {primary_kernel}×{primary_kernel} kernel; choose smaller kernels, padding 'same' or larger images"
            )
        self.image_shape = (channels, height, width)
        self.grid = (types, *places)
        self.conv1 = StridedConvolution(
            channels,
            conv_channels,
            conv_kernel,
            stride=conv_stride,
            padding=conv_padding,
            method="direct" if convolution == "direct" else "auto",  # few channels come in: spectral never pays here
        )
        self.primary = PrimaryCapsules(
            conv_channels,
            types,
            part_pose,
            kernel=primary_kernel,
            stride=primary_stride,
            padding=primary_padding,
            relu=relu,
            squash=squash_parts,
            scale=primary_scale,
            convolution=convolution,
        )
        self.digits = RoutedCapsules(
            torch.Size(self.grid).numel(),
            classes,
            part_pose,
            class_pose,
            normalization=normalization_of(normalization).having(start=start, low=low, high=high),
            iterations=iterations,
            bias=routing_bias,
            full_backpropagation=full_backpropagation,
        )
        self.decoder = Decoder(classes, class_pose, self.image_shape, decoder)

    @classmethod
    def cifar10(cls, **settings: Any) -> "CapsNet":
        """Make the paper's network for CIFAR10: crops of 24×24 in colour, 64 types of capsules."""
        settings.setdefault("image_shape", (3, 24, 24))
        return cls(**settings)

    def forward(self, images: Images, labels: Labels | None = None) -> CapsNetOutput:
        """Classify and reconstruct; from the labelled class where labels are given, else from the longest.

        That is `parts`, then `digits`, then `output`: who wants to see every routing step takes `digits.steps` instead.
        """
        return self.output(self.digits(self.parts(images)), labels)

    def parts(self, images: Images) -> Parts:
        """Give the children of routing: the capsules of PrimaryCaps."""
        if images.shape[1:] != self.image_shape:
            raise InputError(f"this network takes images of {self.image_shape}, found {tuple(images.shape[1:])}")
        return self.primary(self.conv1(images).relu())

    def output(self, poses: Poses, labels: Labels | None = None) -> CapsNetOutput:
        """Say what the poses of the classes mean."""
        lengths = poses.norm(dim=-1)
        kept = lengths.argmax(dim=1) if labels is None else labels
        return CapsNetOutput(poses, lengths, self.decoder(poses, kept))
