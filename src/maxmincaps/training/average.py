"""A moving average of the weights: often better than the weights themselves, which Adam keeps shaking."""

import torch

from maxmincaps.capsules.network import CapsNet


@torch.no_grad()
def update_ema(averaged: CapsNet, network: CapsNet, keep: float, step: int) -> None:
    """Move the average towards the network; it keeps the share `keep` of itself, less in the first steps."""
    # So it reaches back over the last ninth of the steps, however few they are, and the initial values do not linger.
    keep = min(keep, (1 + step) / (10 + step))
    for mine, theirs in zip(averaged.parameters(), network.parameters(), strict=True):
        mine.lerp_(theirs, 1 - keep)
