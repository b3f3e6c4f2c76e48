"""Compare cases, each timed in its own process. Rounds alternate between them, so that other load affects all alike."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import torch

from maxmincaps.benchmark.worker import CONTESTANTS, Case
from maxmincaps.training.environment import environment
from maxmincaps.training.processes import has_bf16

TEXTBOOK, OUTSIDE, BARE, OURS, BF16 = (Case(name) for name in CONTESTANTS)
TEN = replace(OURS, iterations=10)


@dataclass(frozen=True)
class Ratio:
    """One line of the comparison: a measure of the case `above` divided by that of the case `below`."""

    name: str
    above: Case
    below: Case
    of: str = "step_ms"
    floor: float | None = None
    """The ratio that this project promises: a lower bound, or an upper bound for ten iterations against three."""


def _both(name: str, floor: float | None = None, **settings: Any) -> Ratio:
    return Ratio(name, replace(TEXTBOOK, **settings), replace(OURS, **settings), floor=floor)


RATIOS = [
    _both("training step, batch 128: textbook / ours", 5.0),
    Ratio("the same, ours in bf16", TEXTBOOK, BF16, floor=6.5),
    Ratio("textbook with routing outside autograd / ours", OUTSIDE, OURS),
    Ratio("bare direct convolutions / our whole step", BARE, OURS, floor=1.8),
    Ratio("peak memory above start: textbook / ours", TEXTBOOK, OURS, "peak_mb", 2.0),
    Ratio("ours: ten iterations / three", TEN, OURS, floor=1.35),
    Ratio("ours, ten iterations: Softmax / Max-Min", replace(TEN, normalization="softmax"), TEN),
    Ratio("ours: three iterations / one", OURS, replace(OURS, iterations=1)),
    _both("inference, batch 500: textbook / ours", 3.0, batch=500, training=False),
    _both("CIFAR10, training step: textbook / ours", 3.5, network="cifar10"),
    _both("ten iterations: textbook / ours", iterations=10),
    _both("one iteration: textbook / ours", iterations=1),
    _both("batch 32: textbook / ours", batch=32),
    _both("batch 400: textbook / ours", batch=400),
]
"""What `maxmincaps bench` prints."""


def compare(
    ratios: list[Ratio],
    *,
    rounds: int,
    threads: int,
    profiles: bool = False,
    on_case: Callable[[Case], None] | None = None,
) -> dict[str, Any]:
    """Time every case once per round.

    Args:
        ratios: The ratios to compute; those with bf16 are left out on processors without it.
        rounds: Number of rounds.
        threads: CPU threads of each process.
        profiles: Whether to profile a step of the textbook network and of ours too.
        on_case: Called before each timing.

    Returns:
        All timings, and the median and range over rounds of each ratio.
    """
    bf16 = has_bf16(torch.device("cpu"))
    ratios = [ratio for ratio in ratios if bf16 or BF16 not in (ratio.above, ratio.below)]
    timings: dict[Case, list[dict[str, float]]] = {case: [] for case in cases_of(ratios)}
    for _ in range(rounds):
        for case, times in timings.items():
            if on_case:
                on_case(case)
            times.append(_in_own_process(case, threads))
    return {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": rounds,
        "environment": {**environment(torch.device("cpu")).model_dump(), "threads": threads, "bf16": bf16},
        "timings": [{**asdict(case), "rounds": times} for case, times in timings.items()],
        "ratios": [_summary(ratio, timings) for ratio in ratios if _is_known(ratio, timings)],
        "profiles": {case.contestant: _in_own_process(case, threads, profile=True) for case in (TEXTBOOK, OURS)}
        if profiles
        else {},
    }


def cases_of(ratios: list[Ratio]) -> list[Case]:
    """Return the cases of all ratios, without duplicates."""
    return list(dict.fromkeys(case for ratio in ratios for case in (ratio.above, ratio.below)))


def _is_known(ratio: Ratio, timings: dict[Case, list[dict[str, float]]]) -> bool:
    """Return whether a ratio can be computed; some systems do not report the memory of a process."""
    return all(found[ratio.of] for found in timings[ratio.below])


def _summary(ratio: Ratio, timings: dict[Case, list[dict[str, float]]]) -> dict[str, Any]:
    each = list(_each_round(ratio, timings))
    return {"name": ratio.name, "median": median(each), "lowest": min(each), "highest": max(each), "floor": ratio.floor}


def _each_round(ratio: Ratio, timings: dict[Case, list[dict[str, float]]]) -> Iterator[float]:
    for above, below in zip(timings[ratio.above], timings[ratio.below], strict=True):
        yield above[ratio.of] / below[ratio.of]


def _in_own_process(case: Case, threads: int, *, profile: bool = False) -> Any:
    settings = {**asdict(case), "threads": threads, "profile": profile}
    words = [sys.executable, "-m", "maxmincaps.benchmark.worker", json.dumps(settings)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case} failed:\n{done.stderr}")
    return json.loads(done.stdout)
