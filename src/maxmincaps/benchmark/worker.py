"""Time one case in its own process: `python -m maxmincaps.benchmark.worker '{"contestant": "ours", …}'`."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from maxmincaps.benchmark.textbook import TextbookCapsNet
from maxmincaps.capsules.network import CapsNet
from maxmincaps.training.environment import keep_large_blocks, peak_memory_mb
from maxmincaps.training.step import train_step

NETWORKS: dict[str, dict[str, Any]] = {
    "mnist": {"image_shape": (1, 28, 28)},
    "cifar10": {"image_shape": (3, 24, 24)},
    "quarter-size": {"image_shape": (1, 28, 28), "conv_channels": 64, "types": 8},
}
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Case:
    """A training or inference step that is timed.

    Args:
        contestant: `textbook` (autograd through all iterations); `textbook, routing outside autograd` (gradients
            through the last one only); `bare convolutions` (Conv1 and PrimaryCaps alone); `ours`; `ours, bf16`.
        network: A name in `NETWORKS`.
        batch: Images of a step.
        iterations: Routing iterations.
        training: Whether the step trains; otherwise it only classifies.
        normalization: Applies to our network only; the textbook network always has Max-Min.
        types: Capsule types of PrimaryCaps. Default: the network's.
        classes: Classes, that is higher-level capsules.
        side: Height and width of the images. Default: the network's.
        copies: Processes of one thread each that make steps side by side. Times are divided by their number.
    """

    contestant: str
    network: str = "mnist"
    batch: int = 128
    iterations: int = 3
    training: bool = True
    normalization: str = "max-min"
    types: int | None = None
    classes: int = 10
    side: int | None = None
    copies: int = 1

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the network, ours or the textbook's."""
        settings: dict[str, Any] = {**NETWORKS[self.network], "classes": self.classes, "iterations": self.iterations}
        if self.types:
            settings["types"] = self.types
        if self.side:
            settings["image_shape"] = (settings["image_shape"][0], self.side, self.side)
        return settings


def build(case: Case) -> nn.Module:
    """Return the network of a case."""
    shape = case.settings["image_shape"]
    if case.contestant.startswith("textbook"):
        return TextbookCapsNet(**case.settings, routing_outside_autograd=case.contestant.endswith("outside autograd"))
    keep_large_blocks()
    if case.contestant == "bare convolutions":
        maps = 256 if shape[0] == 1 else 512
        return nn.Sequential(nn.Conv2d(shape[0], 256, 9), nn.ReLU(), nn.Conv2d(256, maps, 9, stride=2))
    return CapsNet(**case.settings, normalization=case.normalization, relu=True)


def build_step(case: Case, device: torch.device = CPU) -> Callable[[], None]:
    """Build network and images of a case, and return a function that makes one step."""
    torch.manual_seed(0)
    network = build(case).to(device)
    images = torch.rand(case.batch, *case.settings["image_shape"]).to(device)
    labels = torch.randint(0, case.classes, (case.batch,)).to(device)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def step() -> None:
        if not case.training:
            with torch.inference_mode():
                network(images, labels)
        elif case.contestant == "bare convolutions":
            network(images).sum().backward()
            optimizer.zero_grad(set_to_none=True)
        else:
            train_step(network, optimizer, images, labels)

    return step


def measure(case: Case, *, warm_up: int = 2, steps: int = 5) -> dict[str, float]:
    """Return the median step in milliseconds, after `warm_up` others, and the peak memory above that at the start."""
    step, times = build_step(case), []
    held = _held_mb()
    for _ in range(warm_up + steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=case.contestant.endswith("bf16")):
            times.append(time_ms(step))
    return {"step_ms": median(times[warm_up:]), "peak_mb": peak_memory_mb(CPU) - held, "steps": steps}


def time_ms(step: Callable[[], None]) -> float:
    """Return the milliseconds of one call."""
    started = time.perf_counter()
    step()
    return 1000 * (time.perf_counter() - started)


def profile(case: Case, *, most: int = 12) -> list[dict[str, float | str]]:
    """Return the `most` slowest operators of a step, with milliseconds and share of the step."""
    step = build_step(case)
    step()
    with torch.profiler.profile() as seen:
        step()
    spent = {event.key: event.self_cpu_time_total / 1000 for event in seen.key_averages()}
    total = sum(spent.values())
    largest = sorted(spent.items(), key=lambda each: -each[1])[:most]
    return [{"operator": name, "ms": round(ms, 1), "share": round(ms / total, 3)} for name, ms in largest]


def _held_mb() -> float:
    """Return the resident memory of this process, or its peak on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE / 2**20
    except OSError:
        return peak_memory_mb(CPU)


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings.pop("threads"))
    task = profile if settings.pop("profile") else measure
    print(json.dumps(task(Case(**settings))))
