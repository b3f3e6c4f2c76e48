"""The axes, each word once.

    batch    images that are worked on together
    channel, height, width   of an image
    child    a capsule of the layer below (PrimaryCaps: type by type, and within a type row by row)
    parent   a capsule of the layer above (DigitCaps: one per class)
    part     the components of a child's pose (8 in the paper)
    pose     the components of a parent's pose (16 in the paper)

Read "batch child parent" as the shape of a tensor. A normalization runs across the parents of one child, never across
the children of one parent.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Images = Float[Tensor, "batch channel height width"]  # pixels in 0…1
Labels = Int[Tensor, "batch *several"] | Bool[Tensor, "batch parent"]  # the class of each image, several, or which
Reconstructions = Float[Tensor, "batch *several channel height width"]  # one for each of the labels
Parts = Float[Tensor, "batch child part"]  # u_i
Votes = Float[Tensor, "batch child parent pose"]  # û_j|i
Weights = Float[Tensor, "child parent pose part"]  # W_ij
Logits = Float[Tensor, "*batch parent"]  # b_ij
Couplings = Float[Tensor, "*batch parent"]  # c_ij
Poses = Float[Tensor, "batch parent pose"]  # v_j
Lengths = Float[Tensor, "batch parent"]  # ‖v_j‖
