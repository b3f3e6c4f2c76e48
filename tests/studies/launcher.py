"""A launcher in a process of its own: `python -m tests.studies.launcher FOLDER WORKERS LOG`. Trainings are logged."""

import os
import sys
from pathlib import Path

from maxmincaps.studies.cluster import local_cluster
from maxmincaps.studies.launch import launch
from tests.studies.conftest import grid


def log_trainings(log: Path) -> None:
    """Write a line for each run that begins in this process."""
    begin_run = sys.modules["maxmincaps.training.fit"].begin_run

    def logged(trainer, environment):
        with log.open("a") as file:
            file.write(f"{trainer.run.folder.name} {os.getpid()}\n")
        begin_run(trainer, environment)

    sys.modules["maxmincaps.training.fit"].begin_run = logged


if __name__ == "__main__":
    folder, workers, log = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    log_trainings(log)
    log.with_suffix(".ready").touch()
    try:
        if workers == 0:
            launch(grid(), folder)
        else:
            with local_cluster(workers) as client:
                launch(grid(), folder, client)
    except KeyboardInterrupt:
        sys.exit(130)
