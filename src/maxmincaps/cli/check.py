"""`maxmincaps check`."""

import json
import sys
from pathlib import Path

from maxmincaps.benchmark.check import describe_device, run_checks
from maxmincaps.cli.terminal import ProgressBar, console, styled
from maxmincaps.files import write_atomic
from maxmincaps.training.environment import keep_large_blocks
from maxmincaps.training.processes import find_device

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "yellow")}


def check(*, device: str = "auto", out: Path = Path("maxmincaps-check.json")) -> None:
    """Check this installation: compare the device with the CPU, train for one epoch, time a step.

    Takes one to two minutes. The exit code is 1 if a check fails. Attach the written file to a bug report.

    Parameters
    ----------
    device: str
        The device to check: cpu, cuda, cuda:1, mps, …; auto takes an accelerator if there is one.
    out: Path
        File for the results, as JSON.
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
    failed = [result.name for result in results if result.passed is False]
    skipped = [result.name for result in results if result.passed is None]
    verdict = f"{chosen}: wrong in {', '.join(failed)}" if failed else f"{chosen}: everything that was checked is right"
    if skipped:
        verdict += f"; not checked: {', '.join(skipped)}"
    console.print_line(f"{verdict}. Results: {out}")
    if failed:
        sys.exit(1)
