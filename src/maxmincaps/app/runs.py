"""Find the trained runs that a page shows."""

from collections.abc import Sequence
from pathlib import Path

from maxmincaps.errors import InputError
from maxmincaps.training.run import Run, runs_under

QUICKSTART = Path("quickstart")


def find_runs(folders: Sequence[Path], needs: str) -> list[Path]:
    """Return the folders of runs, all of which must have the file `needs`; a folder of runs stands for all of them."""
    found = [run for folder in folders for run in ([Run(folder)] if Run(folder).exists else runs_under(folder))]
    if not found:
        problem = "there is no run in it" if folders[0].exists() else "there is no such folder"
        raise InputError(f"{folders[0]}: {problem}; `maxmincaps quickstart` trains two runs")
    for run in found:
        if not (run.folder / needs).is_file():
            raise run.missing(needs)
    return [run.folder for run in found]
