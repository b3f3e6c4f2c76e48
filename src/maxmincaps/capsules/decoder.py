"""From the pose of one class back to pixels."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmincaps.capsules.checks import is_tracing
from maxmincaps.capsules.shapes import Labels, Poses, Reconstructions
from maxmincaps.errors import InputError


def keep_only(poses: Poses, classes: Labels) -> Float[Tensor, "batch numbers"]:
    """Zero the poses of all classes but the given one, (batch), and flatten them to (batch, class · pose)."""
    kept = one_hot(classes, poses.shape[1], poses.dtype)
    return (poses * kept.unsqueeze(-1)).flatten(1)


def one_hot(labels: Labels, classes: int, dtype: torch.dtype) -> Float[Tensor, "batch classes"]:
    """Return 1 for the labelled class, or the several labelled classes, of each image and 0 for others, (batch, class).

    Labels of type bool, (batch, class), say for each class whether it is present.

    Raises:
        InputError: If the labels are not integers, or not in 0…classes − 1. Values are not checked while tracing.
    """
    if labels.dtype == torch.bool:
        return labels.to(dtype)
    if labels.is_floating_point() or labels.is_complex():
        raise InputError(f"labels: expected integers, found {labels.dtype}; use labels.long()")
    labels = labels.long()
    if is_tracing(labels):  # torch's function looks at the labels, which `torch.func.vmap` does not allow
        present = labels.unsqueeze(-1) == torch.arange(classes, device=labels.device)
        return (present if labels.dim() == 1 else present.any(dim=1)).to(dtype)
    try:
        present = nn.functional.one_hot(labels, classes)
        return (present if labels.dim() == 1 else present.amax(dim=1)).to(dtype)
    except RuntimeError:
        wrong = labels[(labels < 0) | (labels >= classes)].tolist()
        if not wrong:
            raise
        raise InputError(f"labels: expected 0 to {classes - 1}, found {wrong[0]}") from None


class Decoder(nn.Module):
    """Fully connected layers from the pose of one class to an image with pixels in 0…1.

    Args:
        classes: Number of classes.
        pose: Number of components of a class.
        image_shape: Channels, height and width of the images.
        widths: Widths of the hidden layers.
        coarseness: The last layer has one number for this many rows and columns of pixels; the image is interpolated
            from them. A last layer for every pixel of a large image would have most of a network's weights.
    """

    def __init__(
        self,
        classes: int,
        pose: int,
        image_shape: tuple[int, int, int],
        widths: Sequence[int] = (512, 1024),
        coarseness: int = 1,
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        channels, height, width = image_shape
        self.decoded_shape = (channels, -(-height // coarseness), -(-width // coarseness))
        sizes = [classes * pose, *widths, torch.Size(self.decoded_shape).numel()]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        layers[-1] = nn.Sigmoid()
        self.layers = nn.Sequential(*layers)

    def forward(self, poses: Poses, classes: Labels) -> Reconstructions:
        """Reconstruct the images from the poses of the given classes.

        With several classes for each image, (batch, label), every one of them is reconstructed on its own:
        (batch, label, channel, height, width). With bools, (batch, class), all that are present give one image.
        """
        if classes.dim() == 2 and classes.dtype != torch.bool:
            several = self(poses.repeat_interleave(classes.shape[1], dim=0), classes.flatten())
            return several.unflatten(0, classes.shape)
        decoded = self.layers(keep_only(poses, classes)).unflatten(1, self.decoded_shape)
        if self.decoded_shape == self.image_shape:
            return decoded
        return nn.functional.interpolate(decoded, size=self.image_shape[1:], mode="bilinear", align_corners=False)
