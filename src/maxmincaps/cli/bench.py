"""`maxmincaps bench`."""

import json
from pathlib import Path

from rich.progress import Progress

from maxmincaps.benchmark.compare import GROWTH, RATIOS, cases_of, compare, grow, plot, plot_growth
from maxmincaps.cli.terminal import console, table
from maxmincaps.errors import InputError


def bench(
    *, rounds: int = 3, threads: int = 2, quick: bool = False, growth: bool = False, out: Path | None = None
) -> None:
    """Time our training step against a textbook implementation, each case in its own process.

    Parameters
    ----------
    rounds: int
        How often each case is timed; the rounds alternate between cases.
    threads: int
        CPU threads of each process.
    quick: bool
        Time only the first ratio: a training step with batch 128.
    growth: bool
        Time how the cost of a step grows instead: with batch, iterations, capsules, classes and image size.
    out: Path
        Write all timings and a profile of a step to this .json file, and a plot beside it.
    """
    for name, count in (("rounds", rounds), ("threads", threads)):
        if count < 1:
            raise InputError(f"--{name}: expected at least 1, found {count}")
    if growth:
        _print_growth(threads, out)
        return
    ratios = RATIOS[:1] if quick else RATIOS
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("timing", total=rounds * len(cases_of(ratios)))
        found = compare(
            ratios,
            rounds=rounds,
            threads=threads,
            profiles=out is not None,
            on_case=lambda case: progress.update(task, advance=1, description=f"{case.contestant}, batch {case.batch}"),
        )
    shown = table(
        f"{found['environment']['processor']}, {threads} threads, {rounds} rounds", "", "#median", "#range", "#floor"
    )
    for row in found["ratios"]:
        spread = f"{row['lowest']:.2f}–{row['highest']:.2f}"
        shown.add_row(row["name"], f"{row['median']:.2f}×", spread, f"{row['floor'] or '–'}")
    console.print(shown)
    if not found["environment"]["bf16"]:
        console.print("bf16 was not timed: this processor has no bfloat16 arithmetic.")
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n")
        console.print(f"timings: {out}, plot: {plot(found, out.with_suffix('.png'))}")


def _print_growth(threads: int, out: Path | None) -> None:
    """Time the growing cases, print them, and write them if asked."""
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("timing", total=2 * sum(map(len, GROWTH.values())))
        rows = grow(threads=threads, on_case=lambda case: progress.update(task, advance=1, description=case.contestant))
    shown = table(f"a training step, {threads} threads", "", "#", "#ours, ms", "#textbook, ms", "#ratio", "#ours, MB")
    for row in rows:
        ours, textbook = row["ours"], row["textbook"]
        beside = (
            (f"{textbook['step_ms']:.0f}", f"{textbook['step_ms'] / ours['step_ms']:.1f}×") if textbook else ("–", "–")
        )
        shown.add_row(row["kind"], str(row["value"]), f"{ours['step_ms']:.0f}", *beside, f"{ours['peak_mb']:.0f}")
    console.print(shown)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(rows, indent=1) + "\n")
        console.print(f"timings: {out}, plot: {plot_growth(rows, out.with_suffix('.png'))}")
