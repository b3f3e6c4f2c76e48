"""Processes that may die. They are forked from one that has done a small training, so that each begins at once."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from maxmincaps.errors import InputError
from tests.faults.injection import Fault, Layer, watching
from tests.faults.scenarios import InterruptedGridError

ROOT = Path(__file__).parents[2]
SAID, RAISED = 2, 1
"""Exit codes: one line of ours, anything else."""


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
