"""The benchmark as a picture."""

from pathlib import Path
from statistics import median
from typing import Any

from maxmincaps.errors import import_extra


def plot(found: dict[str, Any], path: Path) -> Path:
    """Draw the median step of each case, with its range over the rounds."""
    plt = import_extra("report", "matplotlib.pyplot")
    rows = [(_label(case), [each["step_ms"] for each in case["rounds"]]) for case in found["timings"]]
    figure, axes = plt.subplots(figsize=(8, 0.36 * len(rows) + 1), layout="constrained")
    for place, (label, times) in enumerate(rows):
        middle = median(times)
        ours = label.startswith("ours")
        axes.barh(place, middle, color="tab:blue" if ours else "0.75")
        axes.errorbar(middle, place, xerr=[[middle - min(times)], [max(times) - middle]], color="black", capsize=2)
        axes.text(max(times), place, f"  {middle:.0f}", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a step (median over rounds, with range)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _label(case: dict[str, Any]) -> str:
    kind = "training" if case["training"] else "inference"
    return f"{case['contestant']} · {case['network']} · {kind} · batch {case['batch']} · r = {case['iterations']}"
