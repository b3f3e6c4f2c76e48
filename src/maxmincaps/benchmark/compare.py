"""Compare cases, each timed in its own process. Rounds alternate between them, so that other load affects all alike."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median
from typing import Any

from maxmincaps.benchmark.worker import CPU, Case
from maxmincaps.errors import import_extra
from maxmincaps.training.environment import environment
from maxmincaps.training.processes import has_bf16

TEXTBOOK, OURS, BF16 = Case("textbook"), Case("ours"), Case("ours, bf16")
TEN = replace(OURS, iterations=10)
QUARTER = replace(BF16, network="quarter-size")


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
    Ratio("quarter-size network, bf16: textbook / ours", replace(TEXTBOOK, network="quarter-size"), QUARTER),
    Ratio("quarter-size network: paper's size / quarter", BF16, QUARTER),
    _both("quarter-size, inference, batch 500: textbook / ours", network="quarter-size", batch=500, training=False),
    Ratio("ours, bf16: two threads / two runs of one thread", BF16, replace(BF16, copies=2)),
    Ratio("the same, quarter-size network", QUARTER, replace(QUARTER, copies=2)),
]
"""What `maxmincaps bench` prints."""


SMALL = replace(OURS, batch=16)
GROWTH = {
    "images of a batch": {batch: replace(OURS, batch=batch) for batch in (1, 8, 32, 128, 512)},
    "routing iterations": {count: replace(OURS, batch=32, iterations=count) for count in (1, 3, 5, 10, 20)},
    "capsule types": {types: replace(SMALL, types=types) for types in (4, 8, 16, 32, 64)},
    "classes": {classes: replace(SMALL, classes=classes) for classes in (10, 20, 50, 100)},
    "side of the image": {side: replace(SMALL, side=side) for side in (28, 48, 64, 96)},
}
"""How the cost of a step grows: for each kind of work, our cases by their amount of it."""
MOST_TEXTBOOK_BYTES = 7 * 2**29


def grow(*, threads: int, on_case: Callable[[Case], None] = lambda _: None) -> list[dict[str, Any]]:
    """Time every case of `GROWTH`, and the textbook's step of the same work where it fits into memory."""
    rows = []
    for kind, cases in GROWTH.items():
        for value, case in cases.items():
            row: dict[str, Any] = {"kind": kind, "value": value}
            for name, contestant in (("ours", case), ("textbook", replace(case, contestant="textbook"))):
                on_case(contestant)
                fits = name == "ours" or _textbook_bytes(case) < MOST_TEXTBOOK_BYTES
                row[name] = _in_own_process(contestant, threads) if fits else None
            rows.append(row)
    return rows


def _textbook_bytes(case: Case) -> int:
    """Estimate the memory of a textbook step: a few copies of all votes for every iteration."""
    _, height, _ = case.settings["image_shape"]
    children = (case.types or 32) * ((height - 17) // 2 + 1) ** 2
    return case.batch * children * case.classes * 16 * 4 * (2 + 2 * case.iterations)


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
    """Time a case, or profile it. Several copies run side by side, and their mean time is divided by their number."""
    settings = {**asdict(case), "threads": threads if case.copies == 1 else 1, "profile": profile}
    words = [sys.executable, "-m", "maxmincaps.benchmark.worker", json.dumps(settings)]
    pipe = subprocess.PIPE
    workers = [subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) for _ in range(case.copies)]
    found = []
    for worker in workers:
        printed, errors = worker.communicate()
        if worker.returncode:
            raise RuntimeError(f"{case} failed:\n{errors}")
        found.append(json.loads(printed))
    if case.copies == 1:
        return found[0]
    return {**found[0], "step_ms": mean(each["step_ms"] for each in found) / case.copies}


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


def plot_growth(rows: list[dict[str, Any]], path: Path) -> Path:
    """Draw one panel for each kind of work: milliseconds of a step, ours and the textbook's, on logarithmic axes."""
    plt = import_extra("report", "matplotlib.pyplot")
    figure, panels = plt.subplots(1, len(GROWTH), figsize=(13, 2.8), layout="constrained", sharey=True)
    for axes, kind in zip(panels, GROWTH, strict=True):
        for name, colour, marker in (("textbook", "0.55", "o"), ("ours", "tab:blue", "^")):
            found = [(row["value"], row[name]["step_ms"]) for row in rows if row["kind"] == kind and row[name]]
            axes.loglog(*zip(*found, strict=True), color=colour, marker=marker, markersize=4, label=name)
        values = [row["value"] for row in rows if row["kind"] == kind]
        axes.set_xticks(values, [str(value) for value in values])
        axes.minorticks_off()
        axes.set_xlabel(kind)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("milliseconds a step")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
