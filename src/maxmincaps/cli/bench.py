"""`maxmincaps bench` and `maxmincaps check`."""

import json
import sys
from pathlib import Path
from typing import Any, cast

from rich.progress import Progress

from maxmincaps.benchmark.check import describe_device, run_checks
from maxmincaps.benchmark.compare import GROWTH, RATIOS, cases_of, compare, grow, plot, plot_growth
from maxmincaps.benchmark.worker import Case
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
        quick: Time only the first comparison: a training step with batch 128.
        growth: Instead, time how the cost of a step grows with batch size, iterations, capsules, classes and image
            size.
        out: Write all timings and a profile of a step to this .json file, and a plot beside it.
    """
    ratios = RATIOS[:1] if quick else RATIOS
    total = 2 * sum(map(len, GROWTH.values())) if growth else rounds * len(cases_of(ratios))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("timing", total=total)

        def show(case: Case) -> None:
            progress.update(task, advance=1, description=f"{case.contestant}, batch {case.batch}")

        how: dict[str, Any] = {"threads": threads, "on_case": show}
        timed = grow(**how) if growth else compare(ratios, rounds=rounds, profiles=out is not None, **how)
    found = cast(Any, timed)  # rows or a dictionary
    if growth:
        columns = ("", "#", "#ours, ms", "#textbook, ms", "#ratio", "#ours, MB")
        print_table(f"a training step, {threads} threads", columns, map(_growth_cells, found))
    else:
        rows = [
            (row["name"], f"{row['median']:.2f}×", f"{row['lowest']:.2f}–{row['highest']:.2f}", row["floor"] or "–")
            for row in found["ratios"]
        ]
        title = f"{found['environment']['processor']}, {threads} threads, {rounds} rounds"
        print_table(title, ("", "#median", "#range", "#floor"), rows)
        if not found["environment"]["bf16"]:
            console.print("bf16 was not timed: this processor has no bfloat16 arithmetic.")
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n")
        drawn = (plot_growth if growth else plot)(found, out.with_suffix(".png"))
        console.print_line(f"timings: {out}, plot: {drawn}")


def _growth_cells(row: dict[str, Any]) -> tuple[Any, ...]:
    ours, beside = row["ours"], ("–", "–")
    if textbook := row["textbook"]:
        beside = (f"{textbook['step_ms']:.0f}", f"{textbook['step_ms'] / ours['step_ms']:.1f}×")
    return row["kind"], row["value"], f"{ours['step_ms']:.0f}", *beside, f"{ours['peak_mb']:.0f}"


def check(*, device: str = "auto", out: Path = Path("maxmincaps-check.json")) -> None:
    """Check this installation: compare the device with the CPU, train for one epoch, time a step.

    Takes one to two minutes. The exit code is 1 if a check fails. Attach the written file to a bug report.

    Args:
        device: The device to check: cpu, cuda, cuda:1, mps, …; auto uses an accelerator if there is one.
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
