"""Max-Min over the whole matrix of logits, instead of over the parents of each child.

Claim    none of the paper's, whose equation leaves open what minimum and maximum are taken over. Over the whole matrix
         the coefficients of most children differ little, so the result should be close to uniform coefficients.
Runs     a quarter-size network on rotated and background MNIST, one seed, with the epochs of the scale `laptop`:
         Max-Min over each child's parents, over the whole matrix, and uniform coefficients. ReLU in PrimaryCaps.
Measure  the best test accuracy, and the final one.
Cost     5 to 10 minutes a run on one core.
Command  maxmincaps study run research/whole_matrix.py
"""

import torch

from maxmincaps import NORMALIZATIONS, Normalization
from maxmincaps.studies.laptop import LARGE_TEST_SETS, NOTE, laptop_budgets
from maxmincaps.studies.study import MAX_MIN, UNIFORM, Line, Study


def whole_matrix_max_min(logits: torch.Tensor) -> torch.Tensor:
    """Scale the logits of an image, (…, child, parent), to 0…1 over all children and parents together."""
    low = logits.amin(dim=(-2, -1), keepdim=True)
    width = logits.amax(dim=(-2, -1), keepdim=True) - low
    return (logits - low) / width.clamp(min=torch.finfo(logits.dtype).tiny)


NORMALIZATIONS["whole-matrix-max-min"] = Normalization(whole_matrix_max_min)

STUDY = Study(
    name="whole-matrix",
    title="Max-Min over the whole matrix",
    claim="Max-Min over the whole matrix of logits is close to uniform coefficients.",
    datasets=LARGE_TEST_SETS,
    lines=(MAX_MIN, Line("Max-Min over the whole matrix", {"normalization": "whole-matrix-max-min"}), UNIFORM),
    settings={"relu": True},
    scales={"quarter": laptop_budgets(1, LARGE_TEST_SETS)},
    notes={"quarter": NOTE},
)
