"""Processes that may die. They are forked from one that has done a small training, so that each begins at once."""

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
from maxmincaps.training import results
from maxmincaps.training.run import Run
from maxmincaps.training.trainer import Trainer
from tests.faults.injection import Fault, Layer, watching
from tests.faults.scenarios import InterruptedGridError

ROOT = Path(__file__).parents[2]
SAID, RAISED = 2, 1
"""Exit codes: one line of ours, anything else."""
PHASES = [
    (launch, "fit", "training"),
    (Trainer, "save_checkpoint", "checkpointing"),
    (Trainer, "save_weights", "record_writing"),
    (Run, "write", "record_writing"),
    (results, "save_tensors", "record_writing"),
]
"""What a process may be doing besides what its scenario is called after."""


def child(task: Callable[..., Any], *args: Any) -> BaseProcess:
    """Start a process that does the task and nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.warm"])
    process = context.Process(target=task, args=args, daemon=True)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with patch.dict(os.environ, PYTHONPATH=path):  # the server of forks starts with it
        process.start()
    return process


def disturbed(scenario: Any, folder: Path, fault: Fault) -> tuple[int | None, list[str]]:
    """Do a scenario in a process of its own, with one fault; give its exit code and what it said."""
    with tempfile.NamedTemporaryFile("r") as said:
        process = child(_suffer, scenario, folder, fault, said.name)
        process.join()
        return process.exitcode, said.read().splitlines()


def command(words: list[str], *, limits: dict[int, int] | None = None) -> tuple[int | None, str]:
    """Give a command to our command line in a process of its own, with less of something; give its code and lines."""
    with started_command(words, limits=limits) as running:
        return running.ended()


@dataclass(frozen=True)
class Running:
    """A command at work."""

    process: BaseProcess
    said: str

    def ended(self) -> tuple[int | None, str]:
        """Wait for its exit code and what it said of errors."""
        self.process.join()
        return self.process.exitcode, Path(self.said).read_text()


@contextmanager
def started_command(words: list[str], *, limits: dict[int, int] | None = None) -> Iterator[Running]:
    """Give a command to our command line, and go on while it works. Limits are by resource; memory is on top."""
    with tempfile.NamedTemporaryFile() as said:
        yield Running(child(_command, words, limits or {}, said.name), said.name)


def _command(words: list[str], limits: dict[int, int], said: str) -> None:
    from maxmincaps.cli import main

    with Path(said).open("w") as file:
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
    """What became of a process that was to be killed."""

    was_done: bool
    phase: str
    """What it was doing."""
    lived_s: float


def killed(scenario: Any, folder: Path, after_s: float) -> Kill:
    """Do a scenario in a process of its own, and kill it some time after it has begun, unless it is done."""
    with tempfile.NamedTemporaryFile() as phase:
        process = child(_tell, scenario, folder, phase.name)
        while not (Path(phase.name).read_bytes() or process.exitcode is not None):
            process.join(0.001)
        began_at = time.monotonic()
        process.join(after_s)
        lived_s = time.monotonic() - began_at
        process.kill()
        process.join()
        return Kill(process.exitcode == 0, Path(phase.name).read_text().strip(), lived_s)


def _tell(scenario: Any, folder: Path, path: str) -> None:
    """Do a scenario, and keep in a file what is being done."""
    file = os.open(path, os.O_WRONLY)
    phases: list[str] = []

    def tell() -> None:
        os.pwrite(file, phases[-1].ljust(20).encode(), 0)

    def told(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            phases.append(phase)
            tell()
            try:
                return function(*args, **kwargs)
            finally:
                phases.pop()
                tell()

        return wrapped

    for place, name, phase in PHASES:
        setattr(place, name, told(phase, getattr(place, name)))
    phases.append(scenario.phase)
    tell()
    scenario.act(folder)
    os._exit(0)


def _suffer(scenario: Any, folder: Path, fault: Fault, said: str) -> None:
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
    Path(said).write_text("\n".join(lines))
    os._exit(code)
