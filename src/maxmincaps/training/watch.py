"""The inside of a network at one step: why it learns, or why it does not."""

import torch

from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Images
from maxmincaps.training.schema import WatchedStep

WATCHED_IMAGES = 32
QUANTILES = (0.1, 0.5, 0.9)


def describe(network: CapsNet, images: Images, step: int, loss: float) -> WatchedStep:
    """Describe capsules, couplings and gradients, before the step changes them. Lengths are means.

    The gradients are root mean squares over a layer's weights.
    """
    with torch.inference_mode():
        parts = network.parts(images[:WATCHED_IMAGES]).float()
        *_, last = network.digits.steps(parts)
    lengths = last.poses.float().norm(dim=-1).clamp(max=1)
    part_lengths = parts.norm(dim=-1)
    alive = part_lengths > 0
    couplings = last.couplings[alive].float().flatten()
    return WatchedStep(
        step=step,
        loss=loss,
        part_length=part_lengths.mean().item(),
        dead_children=1 - alive.float().mean().item(),
        sum_length=_before_squash(lengths).mean().item(),
        class_length=lengths.mean().item(),
        longest_class_length=lengths.amax(dim=1).mean().item(),
        couplings=_quantiles(couplings),
        gradients={name: _rms(layer) for name, layer in _layers(network).items()},
    )


def _before_squash(lengths: torch.Tensor) -> torch.Tensor:
    """Take back squash, which makes n²/(1 + n²) of a length n. What is 1 in float32 counts as 4096."""
    return (lengths / (1 - lengths).clamp(min=2**-24)).sqrt()


def _layers(network: CapsNet) -> dict[str, torch.nn.Module]:
    return {"conv1": network.conv1, "primary": network.primary, "votes": network.digits, "decoder": network.decoder}


def _rms(layer: torch.nn.Module) -> float:
    gradients = [parameter.grad.flatten() for parameter in layer.parameters() if parameter.grad is not None]
    return torch.cat(gradients).square().mean().sqrt().item() if gradients else 0.0


def _quantiles(values: torch.Tensor) -> tuple[float, float, float]:
    # torch.quantile refuses more than 16 million values; a sorted list is one line.
    ordered = values.sort().values
    low, middle, high = (ordered[int(q * (len(ordered) - 1))].item() if len(ordered) else 0.0 for q in QUANTILES)
    return low, middle, high
