"""Convolutional capsules: each place of a grid is routed from the capsules in a window below it."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from maxmincaps.capsules.checks import check_input
from maxmincaps.capsules.layers import RoutedCapsules
from maxmincaps.capsules.normalizations import NormalizationChoice
from maxmincaps.capsules.shapes import Parts
from maxmincaps.errors import InputError

CapsuleGrid = Float[Tensor, "batch type row column pose"]

PIECE_BYTES = 2**28
"""Most bytes that one piece of a batch may take. A larger batch is routed in pieces, which backward computes again."""


class ConvCapsules(nn.Module):
    """Route capsules in a grid locally, as a convolution sums pixels locally.

    The parents at one place of the output have as children all capsules in a `kernel`×`kernel` window of the input. The
    transformation matrices W depend on the child's type and its position in the window; all places share them. Each
    place is routed on its own by the loop of `RoutedCapsules`: a child's routing coefficients are normalized across the
    parent types of that place. Capsules outside the grid (`padding`) are zero vectors.

    Input `(batch, child_types, rows, columns, part_pose)`, output `(batch, parent_types, rows2, columns2, pose)` with
    `rows2 = (rows + 2·padding − kernel) // stride + 1`. `PrimaryCapsules` produces such a grid by
    `primary(features).unflatten(1, (types, rows, columns))`; `grid.flatten(1, 3)` is the input of `RoutedCapsules`.
    A residual connection, `grid + layer(grid)`, takes equal types and pose sizes, stride 1 and `padding=kernel // 2`.

    The prediction vectors of a batch are never in memory at once. What is kept for backward is limited too: a batch
    whose windows and routing coefficients exceed `PIECE_BYTES` is routed in pieces, which backward computes again.

    Args:
        child_types: Capsule types in the input grid.
        parent_types: Capsule types in the output grid.
        part_pose: Number of components of an input capsule.
        pose: Number of components of an output capsule.
        kernel: Rows and columns of a window.
        stride: Distance between neighbouring windows.
        padding: Rows and columns of zero capsules around the grid.
        normalization: A name in `NORMALIZATIONS`, a `Normalization`, or a function of logits.
        iterations: Routing iterations (r in the paper).
        bias: Add a learned bias to each parent's weighted sum.
        full_backpropagation: Backpropagate through all routing iterations, not only through the last weighted sum.

    >>> layer = ConvCapsules(4, 6, part_pose=8, pose=8, kernel=3, stride=2)
    >>> layer(torch.rand(2, 4, 9, 9, 8)).shape
    torch.Size([2, 6, 4, 4, 8])
    """

    def __init__(
        self,
        child_types: int,
        parent_types: int,
        part_pose: int = 8,
        pose: int = 16,
        *,
        kernel: int = 3,
        stride: int = 1,
        padding: int = 0,
        normalization: NormalizationChoice = "max-min",
        iterations: int = 3,
        bias: bool = False,
        full_backpropagation: bool = False,
    ) -> None:
        super().__init__()
        if kernel < 1 or stride < 1 or padding < 0:
            raise InputError(
                f"ConvCapsules: expected kernel and stride of at least 1 and padding of at least 0, "
                f"found {kernel}, {stride} and {padding}"
            )
        self.child_types, self.part_pose = child_types, part_pose
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.routed = RoutedCapsules(
            child_types * kernel * kernel,
            parent_types,
            part_pose,
            pose,
            normalization=normalization,
            iterations=iterations,
            bias=bias,
            full_backpropagation=full_backpropagation,
        )

    def forward(self, grid: Tensor) -> CapsuleGrid:
        """Return the grid of parents, (batch, parent_types, rows2, columns2, pose).

        Args:
            grid: Children, (batch, child_types, rows, columns, part_pose).

        Raises:
            InputError: If the shape or dtype is another, or the grid is smaller than a window.
        """
        check_input(self, grid, ("batch", self.child_types, "rows", "columns", self.part_pose))
        padded = self._padded(grid)
        images, rows = self._piece(padded)
        is_one_piece = images >= len(grid) and rows >= self._places(padded)[0]
        if is_one_piece or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self._route(padded)
        pieces = [
            torch.cat([self._recomputed(part) for part in self._split_rows(some, rows)], dim=2)
            for some in padded.split(images)
        ]
        return torch.cat(pieces)

    def windows(self, grid: Tensor) -> Parts:
        """Return the children of every place, (batch · rows2 · columns2, child_types · kernel², part_pose).

        `layer.routed.steps(layer.windows(grid))` shows every routing iteration of every place.
        """
        return self._windows(self._padded(grid))

    def _padded(self, grid: Tensor) -> Tensor:
        padded = nn.functional.pad(grid, (0, 0, *[self.padding] * 4))
        if min(padded.shape[2:4]) < self.kernel:
            raise InputError(
                f"ConvCapsules: expected a grid of at least {self.kernel}×{self.kernel} places, padding included, "
                f"found {padded.shape[2]}×{padded.shape[3]}"
            )
        return padded

    def _windows(self, padded: Tensor) -> Parts:
        unfolded = padded.unfold(2, self.kernel, self.stride).unfold(3, self.kernel, self.stride)
        return rearrange(
            unfolded, "batch type row column part k_row k_column -> (batch row column) (type k_row k_column) part"
        )

    def _route(self, padded: Tensor) -> CapsuleGrid:
        rows, columns = self._places(padded)
        poses = self.routed(self._windows(padded))
        return rearrange(poses, "(batch row column) type pose -> batch type row column pose", row=rows, column=columns)

    def _recomputed(self, padded: Tensor) -> CapsuleGrid:
        return checkpoint(self._route, padded, use_reentrant=False, preserve_rng_state=False)

    def _places(self, padded: Tensor) -> tuple[int, int]:
        rows, columns = ((size - self.kernel) // self.stride + 1 for size in padded.shape[2:4])
        return rows, columns

    def _piece(self, padded: Tensor) -> tuple[int, int]:
        """Return how many images and how many rows of the output are routed at once."""
        children, parents, pose, part = self.routed.weights.shape
        numbers = children * (part + 2 * parents)  # windows, logits and routing coefficients
        if self.routed.full_backpropagation:
            numbers += children * parents * (pose + 2 * self.routed.iterations)
        rows, columns = self._places(padded)
        row_bytes = numbers * columns * self.routed.weights.element_size()
        images = max(1, min(len(padded), PIECE_BYTES // (row_bytes * rows)))
        return images, rows if images > 1 else max(1, min(rows, PIECE_BYTES // row_bytes))

    def _split_rows(self, padded: Tensor, rows: int) -> list[Tensor]:
        """Cut the grid into overlapping strips that give `rows` rows of the output each."""
        starts = range(0, self._places(padded)[0], rows)
        reach = (rows - 1) * self.stride + self.kernel
        return [padded[:, :, start * self.stride : start * self.stride + reach] for start in starts]

    def extra_repr(self) -> str:
        """Return the geometry of the windows."""
        return f"kernel={self.kernel}, stride={self.stride}, padding={self.padding}"
