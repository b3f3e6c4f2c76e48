"""Compare normalizations, one of them your own, on the same prediction vectors: range of the routing coefficients."""

import torch

from maxmincaps import NORMALIZATIONS, Normalization, routing_steps

NORMALIZATIONS["sigmoid"] = Normalization(torch.sigmoid, start=0.5)

torch.manual_seed(0)
agreed = torch.randn(1, 1, 10, 16)  # the pose of each parent, on which the children agree up to noise
votes = 0.1 * (agreed + torch.randn(1, 200, 10, 16))
for name in NORMALIZATIONS:
    spreads = [(step.couplings.amax(-1) - step.couplings.amin(-1)).mean() for step in routing_steps(votes, name, 4)]
    print(f"{name:>17}", *(f"{spread:.3f}" for spread in spreads))
