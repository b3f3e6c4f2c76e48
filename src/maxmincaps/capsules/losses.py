"""Margin loss and reconstruction loss (section 3 of Sabour et al., which the paper follows)."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maxmincaps.capsules.decoder import one_hot
from maxmincaps.capsules.network import CapsNetOutput
from maxmincaps.capsules.shapes import Labels, Lengths, Reconstructions

PRESENT = 0.5
"""A class is taken to be present if its capsule is longer, where the number of classes in an image is not known."""
Scalar = Float[Tensor, ""]


def margin_loss(
    lengths: Lengths,
    labels: Labels,
    *,
    high: float = 0.9,
    low: float = 0.1,
    down_weight: float = 0.5,
    image_weights: Float[Tensor, "batch"] | None = None,
) -> Scalar:
    """Return Σ_k T_k max(0, m⁺ − ‖v_k‖)² + λ (1 − T_k) max(0, ‖v_k‖ − m⁻)², mean over the batch.

    Args:
        lengths: Length of each class capsule, (batch, class).
        labels: True classes as integers: one for each image, (batch), or several, (batch, label); or, if their number
            differs, bools that say which are present, (batch, class).
        high: m⁺, the length that the true class should have at least.
        low: m⁻, the length that other classes should have at most.
        down_weight: λ, the weight of the other classes.
        image_weights: Weight of each image, (batch). Default: 1.

    Raises:
        InputError: If the labels are not integers, or not in 0…classes − 1.

    Example:
        >>> from torch import tensor
        >>> margin_loss(tensor([[0.8, 0.3]]), tensor([1]))  # (0.9 − 0.3)² + 0.5 (0.8 − 0.1)²
        tensor(0.6050)
    """
    present = one_hot(labels, lengths.shape[1], lengths.dtype)
    too_short = (high - lengths).relu().square()
    too_long = (lengths - low).relu().square()
    losses = (present * too_short + down_weight * (1 - present) * too_long).sum(dim=1)
    return (losses if image_weights is None else losses * image_weights).mean()


def hits(lengths: Lengths, labels: Labels) -> Bool[Tensor, "batch"]:
    """Return for each image whether its longest class capsule is the true one, or its k longest are the k true ones.

    With bools, (batch, class): whether exactly the present classes are longer than 0.5.

    Example:
        >>> from torch import tensor
        >>> hits(tensor([[0.1, 0.9, 0.8], [0.9, 0.2, 0.8]]), tensor([[2, 1], [0, 1]]))
        tensor([ True, False])
    """
    if labels.dtype == torch.bool:
        return ((lengths > PRESENT) == labels).all(dim=1)
    return same_classes(longest(lengths, labels), labels)


def longest(lengths: Lengths, labels: Labels) -> Labels:
    """Return the longest class of each image, or as many of the longest ones as it has labels."""
    return lengths.argmax(dim=1) if labels.dim() == 1 else lengths.topk(labels.shape[1], dim=1).indices


def same_classes(first: Labels, second: Labels) -> Bool[Tensor, "batch"]:
    """Return for each image whether two labels, or two sets of labels in any order, are the same."""
    if first.dim() == 1:
        return first == second
    return (first.sort(dim=1).values == second.sort(dim=1).values).all(dim=1)


def reconstruction_loss(reconstruction: Reconstructions, images: Reconstructions) -> Scalar:
    """Return Σ (pixel − reconstruction)², mean over the batch."""
    return (images - reconstruction).square().flatten(1).sum(dim=1).mean()


class Losses(NamedTuple):
    """The parts of the loss, and their weighted sum."""

    margin: Scalar
    reconstruction: Scalar
    total: Scalar


def capsule_losses(
    output: CapsNetOutput,
    images: Reconstructions,
    labels: Labels,
    *,
    margin_high: float = 0.9,
    margin_low: float = 0.1,
    down_weight: float = 0.5,
    reconstruction_weight: float = 0.0005,
    image_weights: Float[Tensor, "batch"] | None = None,
) -> Losses:
    """Return margin loss, reconstruction loss, and margin plus weighted reconstruction.

    Args:
        output: What a `CapsNet` returned for the images and labels.
        images: The images, (batch, channel, height, width), or what the reconstruction of each label is compared with,
            (batch, label, channel, height, width).
        labels: True classes as integers, (batch) or (batch, label).
        margin_high: m⁺, the length that the true class should have at least.
        margin_low: m⁻, the length that other classes should have at most.
        down_weight: λ, the weight of the other classes in the margin loss.
        reconstruction_weight: Weight of the squared error of a reconstructed pixel.
        image_weights: Weight of each image in the margin loss, (batch). Default: 1.
    """
    margin = margin_loss(
        output.lengths,
        labels,
        high=margin_high,
        low=margin_low,
        down_weight=down_weight,
        image_weights=image_weights,
    )
    reconstruction = reconstruction_loss(output.reconstruction, images)
    return Losses(margin, reconstruction, margin + reconstruction_weight * reconstruction)


def capsule_loss(output: CapsNetOutput, images: Reconstructions, labels: Labels, **settings: Any) -> Scalar:
    """Return margin loss plus weighted reconstruction loss, mean over the batch.

    Args:
        output: What a `CapsNet` returned for the images and labels.
        images: The images, (batch, channel, height, width); see `capsule_losses` for several labels.
        labels: True classes as integers, (batch).
        **settings: `margin_high` (default 0.9), `margin_low` (0.1), `down_weight` (0.5), `reconstruction_weight`
            (0.0005) and `image_weights` (none) of `capsule_losses`.

    Raises:
        InputError: If the labels are not integers.

    Example:
        >>> import torch
        >>> from maxmincaps import CapsNet
        >>> network = CapsNet(image_shape=(1, 20, 20), conv_channels=8, types=2)
        >>> images, labels = torch.rand(4, 1, 20, 20), torch.tensor([3, 1, 4, 1])
        >>> loss = capsule_loss(network(images, labels), images, labels, margin_high=0.8, margin_low=0.2)
        >>> loss.backward()
    """
    return capsule_losses(output, images, labels, **settings).total
