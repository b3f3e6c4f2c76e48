"""Time one contestant in its own process: `python -m maxmincaps.benchmark.worker '{"contestant": "ours", …}'`."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from mmap import PAGESIZE
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from maxmincaps.benchmark.textbook import BareConvolutions, TextbookCapsNet
from maxmincaps.capsules.network import CapsNet
from maxmincaps.training.environment import peak_memory_mb
from maxmincaps.training.memory import keep_large_blocks
from maxmincaps.training.step import train_step

CONTESTANTS = {
    "textbook": "nn.Conv2d, votes in memory, autograd through all iterations",
    "textbook, routing outside autograd": "the same, with gradients through the last iteration only",
    "bare convolutions": "Conv1 and PrimaryCaps alone, directly, with our allocator settings",
    "ours": "this package, fp32",
    "ours, bf16": "this package, large products in bf16",
}
SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 24, 24)}


@dataclass(frozen=True)
class Case:
    """A training or inference step of one contestant, which is timed."""

    contestant: str
    network: str = "mnist"
    batch: int = 128
    iterations: int = 3
    training: bool = True
    normalization: str = "max-min"
    """Applies to our network only; the textbook network always has Max-Min."""


@dataclass(frozen=True)
class Timing:
    """The median step in milliseconds, and the peak memory above that before the first step."""

    step_ms: float
    peak_mb: float
    steps: int


def build(case: Case) -> nn.Module:
    """Return the network of a case."""
    shape = SHAPES[case.network]
    if case.contestant.startswith("textbook"):
        outside = case.contestant.endswith("outside autograd")
        return TextbookCapsNet(shape, iterations=case.iterations, routing_outside_autograd=outside)
    keep_large_blocks()
    if case.contestant == "bare convolutions":
        return BareConvolutions(shape)
    return CapsNet(image_shape=shape, normalization=case.normalization, iterations=case.iterations)


def measure(case: Case, *, warm_up: int = 2, steps: int = 5) -> Timing:
    """Time `steps` steps after `warm_up` steps that do not count."""
    step = _steps_of(case)
    held = _held_mb()
    times = []
    for _ in range(warm_up + steps):
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=case.contestant.endswith("bf16")):
            step()
        times.append(1000 * (time.perf_counter() - started))
    return Timing(median(times[warm_up:]), peak_memory_mb(torch.device("cpu")) - held, steps)


def profile(case: Case, *, most: int = 12) -> list[dict[str, float | str]]:
    """Return the `most` slowest operators of a step, with milliseconds and share of the step."""
    step = _steps_of(case)
    step()
    with torch.profiler.profile() as seen:
        step()
    spent = {event.key: event.self_cpu_time_total / 1000 for event in seen.key_averages()}
    total = sum(spent.values())
    largest = sorted(spent.items(), key=lambda each: -each[1])[:most]
    return [{"operator": name, "ms": round(ms, 1), "share": round(ms / total, 3)} for name, ms in largest]


def _steps_of(case: Case) -> Callable[[], None]:
    """Build network and images of a case, and return a function that makes one step."""
    torch.manual_seed(0)
    network = build(case)
    images, labels = torch.rand(case.batch, *SHAPES[case.network]), torch.randint(0, 10, (case.batch,))
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    return partial(_step, network, optimizer, images, labels, case)


def _step(network: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, case: Case) -> None:
    if not case.training:
        with torch.inference_mode():
            network(images, labels)
        return
    if isinstance(network, BareConvolutions):
        network(images).sum().backward()
        optimizer.zero_grad(set_to_none=True)
    else:
        train_step(network, optimizer, images, labels)


def _held_mb() -> float:
    """Return the resident memory of this process, or its peak on systems without /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_memory_mb(torch.device("cpu"))
    return pages * PAGESIZE / 2**20


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings.pop("threads"))
    wants_profile = settings.pop("profile")
    case = Case(**settings)
    print(json.dumps(profile(case) if wants_profile else asdict(measure(case))))
