"""Compare cases, each timed in its own process. Rounds alternate between them, so that other load affects all alike."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from maxmincaps.benchmark.worker import CPU, Case
from maxmincaps.errors import import_extra
from maxmincaps.training.environment import environment
from maxmincaps.training.processes import has_bf16

TEXTBOOK, OURS, BF16 = Case("textbook"), Case("ours"), Case("ours, bf16")
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
    Ratio("textbook with routing outside autograd / ours", Case("textbook, routing outside autograd"), OURS),
    Ratio("bare direct convolutions / our whole step", Case("bare convolutions"), OURS, floor=1.8),
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


def cases_of(ratios: list[Ratio]) -> list[Case]:
    """Return the cases of all ratios, without duplicates."""
    return list(dict.fromkeys(case for ratio in ratios for case in (ratio.above, ratio.below)))


def compare(
    ratios: list[Ratio],
    *,
    rounds: int,
    threads: int,
    profiles: bool = False,
    on_case: Callable[[Case], None] = lambda _: None,
) -> dict[str, Any]:
    """Time every case once per round. Return all timings, and the median and range over rounds of each ratio.

    Ratios with bf16 are left out on processors without it. `profiles` adds the slowest operators of a step of the
    textbook network and of ours.
    """
    bf16 = has_bf16(CPU)
    ratios = [ratio for ratio in ratios if bf16 or BF16 not in (ratio.above, ratio.below)]
    timings: dict[Case, list[dict[str, float]]] = {case: [] for case in cases_of(ratios)}
    for _ in range(rounds):
        for case, times in timings.items():
            on_case(case)
            times.append(_in_own_process(case, threads))
    profiled = (TEXTBOOK, OURS) if profiles else ()
    return {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": rounds,
        "environment": {**environment(CPU).model_dump(), "threads": threads, "bf16": bf16},
        "timings": [{**asdict(case), "rounds": times} for case, times in timings.items()],
        "ratios": [
            _summary(ratio, timings[ratio.above], timings[ratio.below])
            for ratio in ratios
            if all(found[ratio.of] for found in timings[ratio.below])  # some systems do not report memory
        ],
        "profiles": {case.contestant: _in_own_process(case, threads, profile=True) for case in profiled},
    }


def _summary(ratio: Ratio, above: list[dict[str, float]], below: list[dict[str, float]]) -> dict[str, Any]:
    each = [upper[ratio.of] / lower[ratio.of] for upper, lower in zip(above, below, strict=True)]
    return {"name": ratio.name, "median": median(each), "lowest": min(each), "highest": max(each), "floor": ratio.floor}


def _in_own_process(case: Case, threads: int, *, profile: bool = False) -> Any:
    settings = {**asdict(case), "threads": threads, "profile": profile}
    words = [sys.executable, "-m", "maxmincaps.benchmark.worker", json.dumps(settings)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def plot(found: dict[str, Any], path: Path) -> Path:
    """Draw the median step of each case, with its range over the rounds."""
    plt = import_extra("report", "matplotlib.pyplot")
    cases = found["timings"]
    figure, axes = plt.subplots(figsize=(8, 0.36 * len(cases) + 1), layout="constrained")
    for place, case in enumerate(cases):
        times = [each["step_ms"] for each in case["rounds"]]
        middle = median(times)
        axes.barh(place, middle, color="tab:blue" if case["contestant"].startswith("ours") else "0.75")
        axes.errorbar(middle, place, xerr=[[middle - min(times)], [max(times) - middle]], color="black", capsize=2)
        axes.text(max(times), place, f"  {middle:.0f}", va="center", fontsize=8)
    axes.set_yticks(range(len(cases)), [_label(case) for case in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a step (median over rounds, with range)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _label(case: dict[str, Any]) -> str:
    kind = "training" if case["training"] else "inference"
    return f"{case['contestant']} · {case['network']} · {kind} · batch {case['batch']} · r = {case['iterations']}"
