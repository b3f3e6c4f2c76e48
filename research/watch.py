"""An observer that describes the inside of the network at each of the first steps: why it learns, or why it does not.

It writes one line for each step into steps.jsonl in the run folder. `python research/watch.py OUT` trains the runs of
the study `research/first_steps.py` with it.
"""

import sys
from pathlib import Path

import torch
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import nn

from maxmincaps import Observer, Recipe, fit
from maxmincaps.capsules.network import CapsNet
from maxmincaps.capsules.shapes import Images
from maxmincaps.data.batches import Batch
from maxmincaps.training.schema import RunFile

WATCHED_IMAGES = 32
QUANTILES = (0.1, 0.5, 0.9)


class WatchedStep(RunFile):
    """A line of steps.jsonl: the inside of the network at one of the first steps."""

    step: PositiveInt
    loss: float
    part_length: NonNegativeFloat
    dead_children: float = Field(ge=0, le=1)
    sum_length: NonNegativeFloat
    class_length: float = Field(ge=0, le=1)
    longest_class_length: float = Field(ge=0, le=1)
    couplings: tuple[float, float, float]
    gradients: dict[str, NonNegativeFloat]


class FirstSteps(Observer):
    """Describes the network at each of the first steps, before the step changes it.

    Args:
        folder: The run folder, in which steps.jsonl is written.
        steps: The number of steps to describe. Steps that were skipped, as not finite, are left out.
    """

    def __init__(self, folder: Path | str, steps: int) -> None:
        self.path, self.steps = Path(folder) / "steps.jsonl", steps

    def started(self, recipe: Recipe, steps: int, done: int) -> None:
        """Drop lines that a killed process wrote after its last checkpoint: those steps are made again."""
        self.step = done
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        self.path.write_text("".join(line for line in lines if WatchedStep.parse(line, self.path).step <= done))

    def gradients_computed(self, network: nn.Module, batch: Batch, loss: float) -> None:
        """Append a line."""
        if self.step < self.steps:
            line = describe(network, batch.images, step=self.step + 1, loss=loss).to_json(indent=None)
            with self.path.open("a") as file:
                file.write(line + "\n")

    def stepped(self, loss: float) -> None:
        """Count the steps."""
        self.step += 1


def describe(network: CapsNet, images: Images, step: int, loss: float) -> WatchedStep:
    """Describe capsules, routing coefficients and gradients. Lengths are means, gradients root mean squares."""
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
    """Invert squash, which maps a length n to n²/(1 + n²). A length that is 1 in float32 counts as 4096."""
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


if __name__ == "__main__":
    from first_steps import STEPS, STUDY

    for recipe in STUDY.grid("small"):
        folder = Path(sys.argv[1]) / recipe.run_name
        fit(recipe, folder, resume=True, observer=FirstSteps(folder, STEPS))
