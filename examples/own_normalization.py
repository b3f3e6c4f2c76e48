"""Compare normalizations, one of them your own, on the same votes: how decided do couplings become?"""

import torch

from maxmincaps import NORMALIZATIONS, Normalization, routing_steps

NORMALIZATIONS["sigmoid"] = Normalization(torch.sigmoid, start=0.5)

torch.manual_seed(0)
agreed = torch.randn(1, 1, 10, 16)  # a pose for each parent that the children agree on, more or less
votes = 0.1 * (agreed + torch.randn(1, 200, 10, 16))
for name in NORMALIZATIONS:
    spreads = [(step.couplings.amax(-1) - step.couplings.amin(-1)).mean() for step in routing_steps(votes, name, 4)]
    print(f"{name:>17}", *(f"{spread:.3f}" for spread in spreads))
