"""Convolutional capsules, place by place, child by child, on one image's grid (type, row, column, part)."""

import torch

from tests.reference.routing import final_couplings, ones_procedure, softmax_procedure, squash


def votes_of_place(grid, weights, kernel, top, left):
    """The prediction vectors of all children in one window; capsules outside the grid are zero vectors.

    `weights[i][j]` is the matrix of parent type j and child i, counted by type, then row, then column of the window.
    """
    types, rows, columns, _ = grid.shape
    votes = []
    for child_type in range(types):
        for row in range(top, top + kernel):
            for column in range(left, left + kernel):
                inside = 0 <= row < rows and 0 <= column < columns
                child = grid[child_type, row, column] if inside else 0 * grid[0, 0, 0]
                matrices = weights[len(votes)]
                votes.append(torch.stack([matrix @ child for matrix in matrices]))
    return torch.stack(votes)


def conv_capsules(grid, weights, kernel, stride, padding, r, normalization, full_backpropagation=False):
    """Route every place on its own by the paper's procedures; the result is (parent type, row, column, pose)."""
    _, rows, columns, _ = grid.shape
    tops = range(-padding, rows + padding - kernel + 1, stride)
    lefts = range(-padding, columns + padding - kernel + 1, stride)
    places = []
    for top in tops:
        for left in lefts:
            votes = votes_of_place(grid, weights, kernel, top, left)
            places.append(_routed(votes, r, normalization, full_backpropagation))
    return torch.stack(places).unflatten(0, (len(tops), len(lefts))).permute(2, 0, 1, 3)


def _routed(votes, r, normalization, full_backpropagation):
    if full_backpropagation or r == 1:
        if normalization == "softmax":
            return softmax_procedure(votes, r)
        start = 1 / (votes.shape[1] + 1) if normalization == "leaky-softmax" else 1.0
        return ones_procedure(votes, r, normalization, start)
    # By default the coefficients of the last weighted sum are constants to the gradient.
    coefficients = [[float(c) for c in row] for row in final_couplings(votes.detach(), r, normalization)]
    sums = (torch.tensor(coefficients, dtype=votes.dtype).unsqueeze(-1) * votes).sum(0)
    return torch.stack([squash(s) for s in sums])
