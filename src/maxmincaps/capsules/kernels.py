"""Compiled kernels of routing for 32-bit numbers on a CPU, used where numba is installed (`maxmincaps[fast]`).

Prediction vectors are never stored. Σ_i c_ij W_ij u_i is a sum over (part, child) of `c_ij u_i` times W_ij, and
û_ij · v_j = u_i · W_ijᵀ v_j. Each kernel takes one parent after the other, whose weights stay in the cache while all
images pass, two images at a time. Children are innermost in all arrays:

    parts       (image, part, child)            sums, poses, grad_sums    (image, parent, pose)
    weights     (parent, pose, part · child)    couplings, agreement      (image, parent, child)

`routing.py` has the same computations in plain PyTorch.
"""

import numba
import numpy as np

_compiled = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")


@_compiled
def _couple(coupling, parts, coupled):
    """Write c_i u_i of one image and one parent into `coupled`, (part · child)."""
    children = len(coupling)
    for part in range(len(parts)):
        own, row = coupled[part * children : (part + 1) * children], parts[part]
        for child in range(children):
            own[child] = coupling[child] * row[child]


@_compiled
def _project(weights, first, second, of_first, of_second):
    """Write Σ_pose v W of two vectors v, for the weights of one parent, into `of_first` and `of_second`."""
    poses = len(weights)
    of_first[:] = 0
    of_second[:] = 0
    for pose in range(0, poses, 4):
        row0, row1 = weights[pose], weights[min(pose + 1, poses - 1)]
        row2, row3 = weights[min(pose + 2, poses - 1)], weights[min(pose + 3, poses - 1)]
        a0, b0 = first[pose], second[pose]
        a1 = b1 = a2 = b2 = a3 = b3 = np.float32(0)
        if pose + 1 < poses:
            a1, b1 = first[pose + 1], second[pose + 1]
        if pose + 2 < poses:
            a2, b2 = first[pose + 2], second[pose + 2]
        if pose + 3 < poses:
            a3, b3 = first[pose + 3], second[pose + 3]
        for number in range(len(of_first)):
            w0, w1, w2, w3 = row0[number], row1[number], row2[number], row3[number]
            of_first[number] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            of_second[number] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3


@_compiled
def weighted_sums(parts, weights, couplings, sums, start, stop):
    """Write Σ_i c_ij û_ij of the images start … stop − 1 into `sums`."""
    poses, numbers = weights.shape[1:]
    first, second = np.empty(numbers, np.float32), np.empty(numbers, np.float32)
    for parent in range(len(weights)):
        for image in range(start, stop, 2):
            other = min(image + 1, stop - 1)
            _couple(couplings[image, parent], parts[image], first)
            _couple(couplings[other, parent], parts[other], second)
            for pose in range(0, poses, 4):
                pose1, pose2, pose3 = min(pose + 1, poses - 1), min(pose + 2, poses - 1), min(pose + 3, poses - 1)
                row0, row1 = weights[parent, pose], weights[parent, pose1]
                row2, row3 = weights[parent, pose2], weights[parent, pose3]
                a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
                for number in range(numbers):
                    a, b = first[number], second[number]
                    a0 += a * row0[number]
                    a1 += a * row1[number]
                    a2 += a * row2[number]
                    a3 += a * row3[number]
                    b0 += b * row0[number]
                    b1 += b * row1[number]
                    b2 += b * row2[number]
                    b3 += b * row3[number]
                own, others = sums[image, parent], sums[other, parent]
                own[pose], own[pose1], own[pose2], own[pose3] = a0, a1, a2, a3
                others[pose], others[pose1], others[pose2], others[pose3] = b0, b1, b2, b3


@_compiled
def agreements(parts, weights, poses, agreement, start, stop):
    """Write û_ij · v_j of the images start … stop − 1 into `agreement`."""
    numbers = weights.shape[2]
    children = parts.shape[2]
    first, second = np.empty(numbers, np.float32), np.empty(numbers, np.float32)
    for parent in range(len(weights)):
        for image in range(start, stop, 2):
            other = min(image + 1, stop - 1)
            _project(weights[parent], poses[image, parent], poses[other, parent], first, second)
            for which in range(image, other + 1):
                seen, out = first if which == image else second, agreement[which, parent]
                out[:] = 0
                for part in range(parts.shape[1]):
                    row, own = parts[which, part], seen[part * children : (part + 1) * children]
                    for child in range(children):
                        out[child] += row[child] * own[child]


@_compiled
def gradients_of_parts(weights, couplings, grad_sums, grad_parts, start, stop):
    """Write Σ_j c_ij W_ijᵀ g_j, the gradient of u_i, of the images start … stop − 1 into `grad_parts`."""
    numbers = weights.shape[2]
    children = couplings.shape[2]
    first, second = np.empty(numbers, np.float32), np.empty(numbers, np.float32)
    grad_parts[start:stop] = 0
    for parent in range(len(weights)):
        for image in range(start, stop, 2):
            other = min(image + 1, stop - 1)
            _project(weights[parent], grad_sums[image, parent], grad_sums[other, parent], first, second)
            for which in range(image, other + 1):
                seen, coupling = first if which == image else second, couplings[which, parent]
                for part in range(grad_parts.shape[1]):
                    out, own = grad_parts[which, part], seen[part * children : (part + 1) * children]
                    for child in range(children):
                        out[child] += coupling[child] * own[child]


@_compiled
def gradients_of_weights(parts, couplings, grad_sums, grad_weights, start, stop):
    """Write Σ over images of g_j (c_ij u_i), the gradient of W_ij, of the parents start … stop − 1 into its place."""
    images, poses, numbers = len(parts), grad_weights.shape[1], grad_weights.shape[2]
    coupled = np.zeros((4, numbers), np.float32)
    grad_weights[start:stop] = 0
    for parent in range(start, stop):
        for image in range(0, images, 4):
            several = min(4, images - image)
            for which in range(several):
                _couple(couplings[image + which, parent], parts[image + which], coupled[which])
            row0, row1, row2, row3 = coupled[0], coupled[1], coupled[2], coupled[3]
            for pose in range(poses):
                a0 = grad_sums[image, parent, pose]
                a1 = a2 = a3 = np.float32(0)
                if several > 1:
                    a1 = grad_sums[image + 1, parent, pose]
                if several > 2:
                    a2 = grad_sums[image + 2, parent, pose]
                if several > 3:
                    a3 = grad_sums[image + 3, parent, pose]
                out = grad_weights[parent, pose]
                for number in range(numbers):
                    out[number] += a0 * row0[number] + a1 * row1[number] + a2 * row2[number] + a3 * row3[number]
