"""Heads: the last layer of a classifier, on top of any backbone."""

from collections.abc import Iterator

from einops import einsum
from torch import Tensor, nn

from maxmincaps.capsules.checks import check_input
from maxmincaps.capsules.layers import PrimaryCapsules, RoutedCapsules
from maxmincaps.capsules.normalizations import NormalizationChoice
from maxmincaps.capsules.routing import RoutingStep
from maxmincaps.capsules.shapes import Images, Lengths, Parts, Poses
from maxmincaps.errors import InputError


class CapsuleHead(nn.Module):
    """Classify feature maps or feature vectors by capsules, in the place of a backbone's last linear layer.

    Feature maps of any height and width are averaged onto a `grid`×`grid` grid, as `nn.AdaptiveAvgPool2d` does. So the
    number of children, `types · grid²`, does not depend on the size of the images. PrimaryCaps turns each place of the
    grid into `types` capsules, and routing forms one capsule per class. `grid=1` is global average pooling.

    The output is the length of each class capsule, (batch, classes), each in 0…1; the predicted class is the longest.
    Lengths are not probabilities: they do not add up to 1. Train them by `margin_loss(lengths, labels)`, or by
    cross-entropy after scaling them: `nn.functional.cross_entropy(10 * lengths, labels)`. (Unscaled, logits in 0…1
    cannot make the cross-entropy small.) With a decoder of `poses(features)`, `capsule_loss` applies as for `CapsNet`.

    Args:
        classes: Number of classes.
        in_channels: Channels of the feature maps, (batch, in_channels, rows, columns). Exclusive with `in_features`.
        in_features: Length of a feature vector, (batch, in_features).
        types: Capsule types at each place. Default: 8 for feature maps, 32 for vectors.
        part_pose: Number of components of a PrimaryCaps capsule.
        class_pose: Number of components of a class capsule.
        grid: Rows and columns of places that feature maps are averaged onto.
        kernel: Kernel size of PrimaryCaps on that grid, odd; the grid is padded with zeros.
        relu: ReLU in PrimaryCaps, as in the paper. Without it no capsule of PrimaryCaps can become inactive for good.
        normalization: A name in `NORMALIZATIONS`, a `Normalization`, or a function of logits.
        iterations: Routing iterations (r in the paper).
        bias: Add a learned bias to each class capsule's weighted sum.
        full_backpropagation: Backpropagate through all routing iterations, not only through the last weighted sum.

    >>> import torch
    >>> head = CapsuleHead(classes=10, in_channels=64)
    >>> head(torch.rand(2, 64, 7, 7)).shape, head(torch.rand(2, 64, 32, 24)).shape
    (torch.Size([2, 10]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        classes: int,
        *,
        in_channels: int | None = None,
        in_features: int | None = None,
        types: int | None = None,
        part_pose: int = 8,
        class_pose: int = 16,
        grid: int = 4,
        kernel: int = 1,
        relu: bool = False,
        normalization: NormalizationChoice = "max-min",
        iterations: int = 3,
        bias: bool = False,
        full_backpropagation: bool = False,
    ) -> None:
        super().__init__()
        if (in_channels is None) == (in_features is None):
            raise InputError(
                "CapsuleHead: expected either in_channels (for feature maps) or in_features (for vectors), "
                f"found {in_channels} and {in_features}"
            )
        if kernel % 2 == 0 or grid < 1:
            raise InputError(f"CapsuleHead: expected an odd kernel and a grid of at least 1, found {kernel} and {grid}")
        self.takes_maps, self.width = in_channels is not None, in_channels or in_features or 0
        self.grid = grid if self.takes_maps else 1
        types = types or (8 if self.takes_maps else 32)
        self.primary = PrimaryCapsules(
            self.width,
            types,
            part_pose,
            kernel=kernel,
            stride=1,
            padding=kernel // 2,
            relu=relu,
            convolution="direct",
        )
        self.routed = RoutedCapsules(
            types * self.grid**2,
            classes,
            part_pose,
            class_pose,
            normalization=normalization,
            iterations=iterations,
            bias=bias,
            full_backpropagation=full_backpropagation,
        )

    def forward(self, features: Tensor) -> Lengths:
        """Return the lengths of the class capsules, (batch, classes).

        Args:
            features: Feature maps (batch, in_channels, rows, columns), or vectors (batch, in_features).

        Raises:
            InputError: If the shape or dtype is another.
        """
        return self.poses(features).norm(dim=-1)

    def poses(self, features: Tensor) -> Poses:
        """Return the class capsules themselves, (batch, classes, class_pose), for example for a decoder."""
        return self.routed(self.parts(features))

    def parts(self, features: Tensor) -> Parts:
        """Return the capsules that are routed, (batch, types · grid², part_pose).

        `head.routed.steps(head.parts(features))` shows every routing iteration.
        """
        return self.primary(self._pooled(features))

    def _pooled(self, features: Tensor) -> Images:
        if not self.takes_maps:
            check_input(self, features, ("batch", self.width))
            return features[:, :, None, None]
        check_input(self, features, ("batch", self.width, "rows", "columns"))
        return nn.functional.adaptive_avg_pool2d(features, self.grid)

    def extra_repr(self) -> str:
        """Return what the head expects."""
        return f"in_channels={self.width}, grid={self.grid}" if self.takes_maps else f"in_features={self.width}"


class LinearClasses(RoutedCapsules):
    """A linear classifier in the place of routed capsules: the baseline `CapsNet(head="linear")`.

    The length of class j is `sigmoid(Σ_i w_ij · u_i + b_j)`, and its pose has that one number. So losses, decoder and
    evaluation are those of capsules. Its one routing step has coefficients of 1.

    Args:
        children: Number of capsules below.
        parents: Number of classes.
        part_pose: Number of components of a child's pose.
    """

    def __init__(self, children: int, parents: int, part_pose: int = 8) -> None:
        super().__init__(children, parents, part_pose, 1, normalization="uniform", iterations=1, bias=True)

    def _steps(self, parts: Parts, only_last: bool) -> Iterator[RoutingStep]:  # noqa: ARG002
        parts = self._scaled(parts)
        sums = einsum(parts, self.weights, "batch child part, child parent pose part -> batch parent pose")
        logits = sums if self.bias is None else sums + self.bias
        ones = parts.new_ones(()).expand(*parts.shape[:2], self.weights.shape[1])
        yield RoutingStep(ones - 1, ones, logits.sigmoid(), sums)
