"""The strided convolution by its definition, one output at a time."""

import torch
from torch import Tensor


def convolution(
    images: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, int], padding: tuple[int, int]
) -> Tensor:
    batch, channels, height, width = images.shape
    out, _, kernel, kernel2 = weight.shape
    padded = torch.zeros(batch, channels, height + 2 * padding[0], width + 2 * padding[1], dtype=images.dtype)
    padded[:, :, padding[0] : padding[0] + height, padding[1] : padding[1] + width] = images
    rows = (padded.shape[2] - kernel) // stride[0] + 1
    columns = (padded.shape[3] - kernel2) // stride[1] + 1
    outputs = torch.empty(batch, out, rows, columns, dtype=images.dtype)
    for row in range(rows):
        for column in range(columns):
            top, left = row * stride[0], column * stride[1]
            window = padded[:, :, top : top + kernel, left : left + kernel2]
            for kind in range(out):
                outputs[:, kind, row, column] = (window * weight[kind]).sum((1, 2, 3))
    return outputs if bias is None else outputs + bias[:, None, None]
