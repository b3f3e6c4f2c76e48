"""What training makes small (section 3 of Sabour et al., which the paper follows)."""

from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from maxmincaps.capsules.network import CapsNetOutput
from maxmincaps.capsules.shapes import Images, Labels, Lengths

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
    """Σ_k T_k max(0, m⁺ − ‖v_k‖)² + λ (1 − T_k) max(0, ‖v_k‖ − m⁻)², mean over the batch, weighted if asked."""
    present = one_hot(labels, lengths.shape[1]).to(lengths.dtype)
    too_short = (high - lengths).relu().square()
    too_long = (lengths - low).relu().square()
    losses = (present * too_short + down_weight * (1 - present) * too_long).sum(dim=1)
    return (losses if image_weights is None else losses * image_weights).mean()


def reconstruction_loss(reconstruction: Images, images: Images) -> Scalar:
    """Σ (pixel − reconstruction)², mean over the batch."""
    return (images - reconstruction).square().flatten(1).sum(dim=1).mean()


class Losses(NamedTuple):
    """The parts of the loss, and their weighted sum."""

    margin: Scalar
    reconstruction: Scalar
    total: Scalar


def capsule_losses(
    output: CapsNetOutput,
    images: Images,
    labels: Labels,
    *,
    margin_high: float = 0.9,
    margin_low: float = 0.1,
    down_weight: float = 0.5,
    reconstruction_weight: float = 0.0005,
    image_weights: Float[Tensor, "batch"] | None = None,
) -> Losses:
    """Return margin loss, reconstruction loss, and margin plus weighted reconstruction.

    `image_weights`, (batch,), weight the margin loss of each image.
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


def capsule_loss(output: CapsNetOutput, images: Images, labels: Labels, **settings: Any) -> Scalar:
    """Margin loss plus the weighted reconstruction loss; settings as for `capsule_losses`."""
    return capsule_losses(output, images, labels, **settings).total
