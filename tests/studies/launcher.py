"""A launcher in a process of its own: `python -m tests.studies.launcher FOLDER WORKERS LOG`. Trainings are logged."""

import os
import sys
from pathlib import Path

from maxmincaps.studies.executors import LocalProcesses
from maxmincaps.studies.launch import launch
from tests.studies.conftest import grid


def log_trainings(log: Path) -> None:
    """Write a line for each run that is begun here, with the number of this process."""
    begin_run = sys.modules["maxmincaps.training.fit"].begin_run

    def logged(run, environment):
        with log.open("a") as file:
            file.write(f"{run.record.folder.name} {os.getpid()}\n")
        begin_run(run, environment)

    sys.modules["maxmincaps.training.fit"].begin_run = logged


if __name__ == "__main__":
    folder, workers, log = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    log_trainings(log)
    log.with_suffix(".ready").touch()
    if workers == 0:
        launch(grid(), folder)
    else:
        with LocalProcesses(workers) as executor:
            launch(grid(), folder, executor)
