"""`maxmincaps bench` and `maxmincaps check`."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.progress import Progress

from maxmincaps.benchmark.check import describe_device, run_checks
from maxmincaps.benchmark.compare import GROWTH, RATIOS, cases_of, compare, grow, plot, plot_growth
from maxmincaps.cli.terminal import Count, ProgressBar, console, print_table, styled
from maxmincaps.files import write_atomic
from maxmincaps.training.environment import keep_large_blocks
from maxmincaps.training.processes import find_device

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "yellow")}


def bench(
    *, rounds: Count = 3, threads: Count = 2, quick: bool = False, growth: bool = False, out: Path | None = None
) -> None:
    """Time our training step against a textbook implementation, each case in its own process.

    Args:
        rounds: How often each case is timed; the rounds alternate between cases.
        threads: CPU threads of each process.
        quick: Time only the first ratio: a training step with batch 128.
        growth: Time how the cost of a step grows instead: with batch, iterations, capsules, classes and image size.
        out: Write all timings and a profile of a step to this .json file, and a plot beside it.
    """
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
    rows = [
        (row["name"], f"{row['median']:.2f}×", f"{row['lowest']:.2f}–{row['highest']:.2f}", row["floor"] or "–")
        for row in found["ratios"]
    ]
    title = f"{found['environment']['processor']}, {threads} threads, {rounds} rounds"
    print_table(title, ("", "#median", "#range", "#floor"), rows)
    if not found["environment"]["bf16"]:
        console.print("bf16 was not timed: this processor has no bfloat16 arithmetic.")
    if out:
        _write(out, found)
        console.print_line(f"timings: {out}, plot: {plot(found, out.with_suffix('.png'))}")


def _print_growth(threads: int, out: Path | None) -> None:
    """Time the growing cases, print them, and write them if asked."""
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("timing", total=2 * sum(map(len, GROWTH.values())))
        found = grow(
            threads=threads, on_case=lambda case: progress.update(task, advance=1, description=case.contestant)
        )
    rows = []
    for row in found:
        ours, beside = row["ours"], ("–", "–")
        if textbook := row["textbook"]:
            beside = (f"{textbook['step_ms']:.0f}", f"{textbook['step_ms'] / ours['step_ms']:.1f}×")
        rows.append((row["kind"], row["value"], f"{ours['step_ms']:.0f}", *beside, f"{ours['peak_mb']:.0f}"))
    columns = ("", "#", "#ours, ms", "#textbook, ms", "#ratio", "#ours, MB")
    print_table(f"a training step, {threads} threads", columns, rows)
    if out:
        _write(out, found)
        console.print_line(f"timings: {out}, plot: {plot_growth(found, out.with_suffix('.png'))}")


def _write(path: Path, found: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


def check(*, device: str = "auto", out: Path = Path("maxmincaps-check.json")) -> None:
    """Check this installation: compare the device with the CPU, train for one epoch, time a step.

    Takes one to two minutes. The exit code is 1 if a check fails. Attach the written file to a bug report.

    Args:
        device: The device to check: cpu, cuda, cuda:1, mps, …; auto takes an accelerator if there is one.
        out: File for the results, as JSON.
    """
    chosen = find_device(device)
    keep_large_blocks()
    about = describe_device(chosen)
    console.print_line(
        f"maxmincaps {about['maxmincaps']}, torch {about['torch']}, Python {about['python']}, {about['system']}"
    )
    bf16 = "with bf16" if about["bf16"] else "without bf16"
    console.print_line(f"{about['processor']}, {about['threads']} threads; device {chosen} ({about['device']}, {bf16})")
    results = []
    for result in run_checks(chosen, observer=ProgressBar()):
        results.append(result)
        console.print_line(styled(MARKS[result.passed], f" {result.name}: {result.detail}"))
    found = {"environment": about, "checks": [result._asdict() for result in results]}
    write_atomic(out, (json.dumps(found, indent=2) + "\n").encode())
    failed, skipped = (", ".join(one.name for one in results if one.passed is state) for state in (False, None))
    verdict = f"{chosen}: wrong in {failed}" if failed else f"{chosen}: everything that was checked is right"
    console.print_line(f"{verdict}{f'; not checked: {skipped}' if skipped else ''}. Results: {out}")
    if failed:
        sys.exit(1)
