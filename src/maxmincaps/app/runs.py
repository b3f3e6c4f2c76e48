"""Which trained runs a page shows."""

from collections.abc import Sequence
from pathlib import Path

from maxmincaps.errors import InputError
from maxmincaps.training.run import Run, runs_under

QUICKSTART = Path("quickstart")


def trained_runs(given: Sequence[Path], needs: str) -> list[Path]:
    """Give the folders of runs, all of which have the file that is needed; a folder of several stands for all."""
    found = [record for folder in given for record in _records(folder)]
    if not found:
        lacks = "there is no record of a run in it" if given[0].exists() else "there is no such folder"
        raise InputError(f"{given[0]}: {lacks}; `maxmincaps quickstart` trains two")
    if without := [record for record in found if not (record.folder / needs).is_file()]:
        raise without[0].missing(needs)
    return [record.folder for record in found]


def _records(folder: Path) -> list[Run]:
    record = Run(folder)
    return [record] if record.exists else runs_under(folder)
