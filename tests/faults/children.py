"""Processes that may be killed. They are forked from one that has made a small training, so that they start fast."""

import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from maxmincaps.errors import InputError
from maxmincaps.studies import launch
from maxmincaps.training.run import Run
from maxmincaps.training.trainer import Trainer
from tests.faults.injection import Fault, Layer, watching
from tests.faults.scenarios import InterruptedGridError

ROOT = Path(__file__).parents[2]
SAID, RAISED = 2, 1
"""Exit codes: refused with a message, any other exception."""
PHASES = [
    (launch, "fit", "training"),
    (Trainer, "save_checkpoint", "checkpointing"),
    (Trainer, "save", "record_writing"),
    (Run, "write", "record_writing"),
]
"""Functions that are phases of their own within the phase of a scenario."""


def child(task: Callable[..., Any], *args: Any) -> BaseProcess:
    """Start a process that does the task and nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.warm"])
    process = context.Process(target=task, args=args, daemon=True)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with patch.dict(os.environ, PYTHONPATH=path):  # the fork server starts with it
        process.start()
    return process


def disturbed(scenario: Any, folder: Path, fault: Fault) -> tuple[int | None, list[str]]:
    """Run a scenario with one fault in its own process; return its exit code and messages."""
    with tempfile.NamedTemporaryFile("r") as output:
        process = child(_act_with_fault, scenario, folder, fault, output.name)
        process.join()
        return process.exitcode, output.read().splitlines()


def command(words: list[str], *, limits: dict[int, int] | None = None) -> tuple[int | None, str]:
    """Run a command in its own process with limited resources; return its exit code and error output."""
    with started_command(words, limits=limits) as running:
        return running.ended()


@dataclass(frozen=True)
class Running:
    """A command that is running."""

    process: BaseProcess
    output: str

    def ended(self) -> tuple[int | None, str]:
        """Wait until it ends; return its exit code and error output."""
        self.process.join()
        return self.process.exitcode, Path(self.output).read_text()


@contextmanager
def started_command(words: list[str], *, limits: dict[int, int] | None = None) -> Iterator[Running]:
    """Start a command in its own process. Limits are by resource; that of memory is added to what is in use."""
    with tempfile.NamedTemporaryFile() as output:
        yield Running(child(_command, words, limits or {}, output.name), output.name)


def _command(words: list[str], limits: dict[int, int], output: str) -> None:
    from maxmincaps.cli import main

    with Path(output).open("w") as file:
        os.dup2(file.fileno(), 2)
    with Path(os.devnull).open("w") as file:
        os.dup2(file.fileno(), 1)
    for kind, most in limits.items():
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if kind == resource.RLIMIT_AS else 0
        resource.setrlimit(kind, (most + pages * resource.getpagesize(),) * 2)
    try:
        main(words)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))


@dataclass(frozen=True)
class Kill:
    """The outcome of an attempt to kill a process."""

    was_done: bool
    phase: str
    """The phase in which it was killed."""
    lived_s: float


def killed(scenario: Any, folder: Path, after_s: float) -> Kill:
    """Run a scenario in its own process, and kill it `after_s` seconds after its start unless it has ended."""
    with tempfile.NamedTemporaryFile() as phase:
        process = child(_act_with_phases, scenario, folder, phase.name)
        while not (Path(phase.name).read_bytes() or process.exitcode is not None):
            process.join(0.001)
        began_at = time.monotonic()
        process.join(after_s)
        lived_s = time.monotonic() - began_at
        process.kill()
        process.join()
        return Kill(process.exitcode == 0, Path(phase.name).read_text().strip(), lived_s)


def _act_with_phases(scenario: Any, folder: Path, path: str) -> None:
    """Run a scenario, and keep its current phase in a file."""
    file = os.open(path, os.O_WRONLY)
    phases: list[str] = []

    def write_phase() -> None:
        os.pwrite(file, phases[-1].ljust(20).encode(), 0)

    def with_phase(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            phases.append(phase)
            write_phase()
            try:
                return function(*args, **kwargs)
            finally:
                phases.pop()
                write_phase()

        return wrapped

    for place, name, phase in PHASES:
        setattr(place, name, with_phase(phase, getattr(place, name)))
    phases.append(scenario.phase)
    write_phase()
    scenario.act(folder)
    os._exit(0)


def _act_with_fault(scenario: Any, folder: Path, fault: Fault, output: str) -> None:
    lines, code = [], 0
    with watching(Layer(folder, fault)):
        try:
            scenario.act(folder)
        except InputError as error:
            lines, code = [str(error)], SAID
        except InterruptedGridError as error:
            lines, code = error.lines, SAID
        except BaseException as error:
            lines, code = [f"{type(error).__name__}: {error}"], RAISED
    Path(output).write_text("\n".join(lines))
    os._exit(code)
