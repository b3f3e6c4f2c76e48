"""CapsNet: the paper's network (Figure 1). Every size is a setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmincaps.capsules.checks import check_input
from maxmincaps.capsules.convolution import StridedConvolution
from maxmincaps.capsules.decoder import Decoder
from maxmincaps.capsules.head import LinearClasses
from maxmincaps.capsules.layers import PrimaryCapsules, RoutedCapsules
from maxmincaps.capsules.normalizations import NormalizationChoice, normalization_of
from maxmincaps.capsules.phases import Axis
from maxmincaps.capsules.shapes import Images, Labels, Lengths, Parts, Poses, Reconstructions
from maxmincaps.capsules.stem import feature_shape, fitted_kernels, stem_of
from maxmincaps.errors import InputError, check_name

HEADS = ("capsules", "linear")

MOST_DECODED = 64
"""Most rows and columns that a decoder has if the stem is not Conv1. Larger images are interpolated from these."""


class CapsNetOutput(NamedTuple):
    """The outputs of the network for a batch of images."""

    poses: Poses
    """Pose of each class capsule, (batch, class, pose)."""
    lengths: Lengths
    """Length of each class capsule, (batch, class), between 0 and 1. The longest is the predicted class."""
    reconstruction: Reconstructions
    """Decoder output, (batch, channel, height, width), between 0 and 1; with several labels (batch, label, ...)."""


class CapsNet(nn.Module):
    """Conv1, PrimaryCaps, DigitCaps and decoder; by default for MNIST, with Max-Min and three iterations.

    The defaults are those of `Recipe`, which describes the same settings for whole trainings.

    Args:
        image_shape: Channels, height and width of the images.
        classes: Number of classes, that is of higher-level capsules (parents).
        normalization: How a child's logits become its routing coefficients: a name of `NORMALIZATIONS`, a
            `Normalization`, or a function of logits.
        iterations: Routing iterations, r in the paper; 1 is no routing.
        low: Lower bound of Max-Min, p in the paper. Default: 0.
        high: Upper bound of Max-Min, q in the paper. Default: 1.
        start: Routing coefficients of the first iteration. Default: the normalization's own.
        logit_gain: Factor on the logits before they are normalized. Max-Min does not depend on it.
        full_backpropagation: Whether gradients flow through all iterations, as in Sabour's code, instead of through the
            last weighted sum only.
        routing_bias: Whether to add a learned bias to each parent's weighted sum, as Sabour's code does.
        stem: The layers before PrimaryCaps: "conv1", the paper's convolution; "deep", 3×3 convolutions with batch norm
            that reduce images of any size to at most 16×16 places; or your own module from images to feature maps,
            (batch, channel, row, column).
        head: "capsules", or "linear", which replaces routing by a linear classifier, as a baseline.
        conv_channels: Kernels of Conv1, or channels at the end of the deep stem.
        conv_kernel: Kernel size of Conv1. Kernels that do not fit small images are reduced; `kernels` has the result.
        conv_stride: Stride of Conv1.
        types: Capsule types of PrimaryCaps. Default: 32 for grey images, 64 for colour.
        primary_kernel: Kernel size of PrimaryCaps.
        primary_stride: Stride of PrimaryCaps.
        padding: Zero padding of both convolutions: "valid" (none) or "same", which takes odd kernels.
        part_pose: Number of components of a PrimaryCaps capsule.
        class_pose: Number of components of a class capsule.
        relu: Whether PrimaryCaps applies ReLU, as the paper writes. With it many capsules become inactive.
        squash_parts: Whether PrimaryCaps applies squash.
        primary_scale: Factor on the pre-activations of PrimaryCaps.
        scale_primary_bias: Whether `primary_scale` applies to the bias of PrimaryCaps too.
        primary_bias: Initial bias of PrimaryCaps. Default: PyTorch's random values.
        decoder: Widths of the decoder's hidden layers.
        convolution: How PrimaryCaps is computed: "spectral", "direct", or whichever is faster ("auto").

    Raises:
        InputError: If the settings do not fit together.

    Example:
        >>> network = CapsNet(image_shape=(1, 20, 20), classes=3, conv_channels=8, types=2)
        >>> poses, lengths, reconstruction = network(torch.rand(5, 1, 20, 20))
        >>> poses.shape, lengths.shape, reconstruction.shape
        (torch.Size([5, 3, 16]), torch.Size([5, 3]), torch.Size([5, 1, 20, 20]))
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
        logit_gain: float = 1.0,
        full_backpropagation: bool = False,
        routing_bias: bool = False,
        stem: str | nn.Module = "conv1",
        head: str = "capsules",
        conv_channels: int = 256,
        conv_kernel: int = 9,
        conv_stride: int = 1,
        types: int | None = None,
        primary_kernel: int = 9,
        primary_stride: int = 2,
        padding: Literal["valid", "same"] = "valid",
        part_pose: int = 8,
        class_pose: int = 16,
        relu: bool = False,
        squash_parts: bool = True,
        primary_scale: float = 1.0,
        scale_primary_bias: bool = True,
        primary_bias: float | None = None,
        decoder: Sequence[int] = (512, 1024),
        convolution: Literal["auto", "spectral", "direct"] = "auto",
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__()
        self.config = arguments
        """The arguments of this network: `CapsNet(**network.config)` builds another of its kind."""
        self.cannot_be_saved = ""
        """Why `config` as JSON does not describe this network. Empty if it does."""
        if not isinstance(normalization, str):
            self.cannot_be_saved = (
                "a network is saved with its normalization's name; put yours into NORMALIZATIONS and pass its name"
            )
        if padding == "same" and not conv_kernel % 2 == primary_kernel % 2 == 1:
            raise InputError(
                f"padding 'same' takes odd kernels, found {conv_kernel} and {primary_kernel}; choose others or 'valid'"
            )
        if not isinstance(stem, str):
            self.cannot_be_saved = "a network is saved with its stem's name, but this stem is a module without a name"
        channels, height, width = image_shape
        self.image_shape = (channels, height, width)
        types = types or (32 if channels == 1 else 64)
        self.stem = stem_of(stem, self.image_shape, conv_channels)
        """The layers before PrimaryCaps, if they are others than `conv1`."""
        maps: Sequence[int] = ()
        if self.stem is not None:
            conv_channels, *maps = feature_shape(self.stem, self.image_shape)

        def margin(kernel: int) -> int:
            return kernel // 2 if padding == "same" else 0

        def places(conv_kernel: int, primary_kernel: int) -> list[int]:
            features = maps or [
                Axis(size, conv_kernel, conv_stride, margin(conv_kernel)).outputs for size in (height, width)
            ]
            return [Axis(size, primary_kernel, primary_stride, margin(primary_kernel)).outputs for size in features]

        conv_kernel, primary_kernel = fitted_kernels(lambda *two: min(places(*two)), conv_kernel, primary_kernel)
        self.kernels = (conv_kernel, primary_kernel)
        """Kernel sizes of Conv1 and PrimaryCaps: those asked for, or smaller ones that fit the images."""
        self.grid = (types, *places(*self.kernels))
        if self.stem is None:
            self.conv1 = StridedConvolution(
                channels,
                conv_channels,
                conv_kernel,
                stride=conv_stride,
                padding=margin(conv_kernel),
                method="direct" if convolution == "direct" else "auto",  # spectral never pays with few input channels
            )
        self.primary = PrimaryCapsules(
            conv_channels,
            types,
            part_pose,
            kernel=primary_kernel,
            stride=primary_stride,
            padding=margin(primary_kernel),
            relu=relu,
            squash=squash_parts,
            scale=primary_scale,
            scale_bias=scale_primary_bias,
            initial_bias=primary_bias,
            convolution=convolution,
        )
        children = torch.Size(self.grid).numel()
        if check_name(head, HEADS, "head") == "linear":
            class_pose = 1
            self.digits = LinearClasses(children, classes, part_pose)
        else:
            self.digits = RoutedCapsules(
                children,
                classes,
                part_pose,
                class_pose,
                normalization=normalization_of(normalization).with_settings(start=start, low=low, high=high),
                iterations=iterations,
                logit_gain=logit_gain,
                bias=routing_bias,
                full_backpropagation=full_backpropagation,
            )
        # Conv1 keeps the decoder of the paper whatever the size, so that older weights fit.
        coarseness = 1 if self.stem is None else -(-max(height, width) // MOST_DECODED)
        self.decoder = Decoder(classes, class_pose, self.image_shape, decoder, coarseness)

    @classmethod
    def cifar10(cls, **settings: Any) -> "CapsNet":
        """Return the paper's network for CIFAR10: crops of 24×24 in colour, 64 types of capsules."""
        settings.setdefault("image_shape", (3, 24, 24))
        return cls(**settings)

    def forward(self, images: Images, labels: Labels | None = None) -> CapsNetOutput:
        """Classify and reconstruct a batch of images: `parts`, then `digits`, then `output`.

        Args:
            images: Pixels, (batch, channel, height, width), in 0…1 unless the network was trained on whitened ones.
            labels: The class to reconstruct from for each image, (batch), or several, (batch, label), which are
                reconstructed one by one. Default: the longest class capsule.
        """
        return self.output(self.digits(self.parts(images)), labels)

    def lengths(self, images: Images) -> Lengths:
        """Return the length of each class capsule, (batch, class), without reconstructing the images."""
        return self.digits(self.parts(images)).norm(dim=-1)

    def parts(self, images: Images) -> Parts:
        """Return the poses of the PrimaryCaps capsules, (batch, child, part): the children of routing."""
        check_input(self, images, ("batch", *self.image_shape))
        return self.primary(self.features(images))

    def features(self, images: Images) -> Float[Tensor, "batch feature row column"]:
        """Return the feature maps that PrimaryCaps receives, (batch, channel, row, column)."""
        return self.conv1(images).relu() if self.stem is None else self.stem(images)

    def output(self, poses: Poses, labels: Labels | None = None) -> CapsNetOutput:
        """Return lengths and reconstruction for the class poses of a routing step; `labels` as in `forward`."""
        lengths = poses.norm(dim=-1)
        return CapsNetOutput(poses, lengths, self.decoder(poses, lengths.argmax(dim=1) if labels is None else labels))

    # The hub's code loads when it is first used: this package depends on torch alone.

    def save_pretrained(self, save_directory: str | Path, *, model_card_kwargs: dict[str, Any] | None = None) -> None:
        """Write config.json, weights and model card into a folder; see `maxmincaps.export.hub.save`."""
        from maxmincaps.export import hub

        hub.save(self, save_directory, model_card_kwargs)

    def push_to_hub(self, repo_id: str, *, model_card_kwargs: dict[str, Any] | None = None, **settings: Any) -> Any:
        """Upload the network to the Hugging Face hub; see `maxmincaps.export.hub.push`."""
        from maxmincaps.export import hub

        return hub.push(self, repo_id, card_facts=model_card_kwargs, **settings)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path, *, map_location: str = "cpu", **settings: Any
    ) -> "CapsNet":
        """Load a network from a folder or from the hub; see `maxmincaps.export.hub.load`.

        Args:
            pretrained_model_name_or_path: A folder that `save_pretrained` wrote, or a repository such as "you/digits".
            map_location: The device for the weights.
            **settings: `revision`, `cache_dir`, `force_download`, `local_files_only` and `token` of the hub; others
                override config.json.
        """
        from maxmincaps.export import hub

        download = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        where = {name: settings.pop(name) for name in download if name in settings}
        return hub.load(pretrained_model_name_or_path, map_location=map_location, where=where, **settings)
