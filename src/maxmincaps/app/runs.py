"""Which trained runs a page shows: those that were named, or the quickstart's."""

from collections.abc import Sequence
from pathlib import Path

from maxmincaps.errors import InputError
from maxmincaps.training.record import Record, records_under

QUICKSTART = Path("quickstart")
FIRST = "`maxmincaps quickstart` trains two, which are then found by themselves"


def trained_runs(given: Sequence[Path], needs: str) -> list[Path]:
    """Give the folders of runs that have the file that is needed; a folder of several runs stands for all of them."""
    found = [record.folder for folder in given or [QUICKSTART] for record in _records(folder)]
    ready = [folder for folder in found if (folder / needs).is_file()]
    if not given and not ready:
        raise InputError(f"there is no trained run in {QUICKSTART}/ yet; {FIRST}; or name the folders of your own runs")
    if given and not found:
        raise InputError(f"{given[0]}: there is no record of a run in it; {FIRST}")
    missing = [folder for folder in found if folder not in ready]
    if given and missing:
        raise InputError(f"{missing[0]}: has no {needs} yet; train it to its end first (`maxmincaps train --resume`)")
    return ready


def _records(folder: Path) -> list[Record]:
    record = Record(folder)
    return [record] if record.exists else records_under(folder)
