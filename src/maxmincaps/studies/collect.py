"""Small copies of finished runs, to commit or to share: numbers and curves without weights."""

import lzma
from collections.abc import Iterable
from pathlib import Path

from maxmincaps.files import make_directory, write_atomic
from maxmincaps.studies.study import Study
from maxmincaps.studies.table import deduplicate, read, seeds_among
from maxmincaps.training.run import DIVERGED, Run

TEXT_FILES = ("recipe.json", "data.json", "environment.json", "history.jsonl", "steps.jsonl", DIVERGED, "result.json")
"""The files that every small copy has, if the run has them. `result.json` is last, as it marks a complete run."""


def copy_small(run: Run, destination: Path, files: Iterable[str] = ()) -> Run:
    """Copy a run to a new folder without its weights. `files` are tensor files to keep, compressed (`NAME.xz`)."""
    make_directory(destination)
    for name in files:
        source, compressed = run.folder / name, f"{name}.xz"
        if source.exists():
            write_atomic(destination / compressed, lzma.compress(source.read_bytes(), preset=9))
        elif (run.folder / compressed).exists():
            write_atomic(destination / compressed, (run.folder / compressed).read_bytes())
    for name in TEXT_FILES:
        if (run.folder / name).exists():
            write_atomic(destination / name, (run.folder / name).read_bytes())
    return Run(destination)


def collect(study: Study, source: Path, out: Path, studies: Iterable[Study] = ()) -> list[Run]:
    """Copy the finished runs of a study that `out` does not have yet to `out/STUDY/RUN`, small; return the copies.

    `studies` are further studies whose figures need files of these runs, such as those that borrow them.
    """
    present = {row.fingerprint for row in read(out).rows}
    rows = [row for row in deduplicate(read(source).rows) if row.status != "unfinished"]
    seeds = seeds_among(rows)
    needed: dict[str, list[str]] = {}  # files by the fingerprint of the run
    for one in (study, *studies):
        for fingerprint in _fingerprints(one, seeds):
            needed.setdefault(fingerprint, []).extend(one.files)
    planned = _fingerprints(study, seeds)
    return [
        copy_small(Run(row.folder), out / study.name / row.name, set(needed[row.fingerprint]))
        for row in rows
        if row.fingerprint in planned and row.fingerprint not in present
    ]


def _fingerprints(study: Study, seeds: int) -> set[str]:
    return {recipe.fingerprint() for scale in study.scale_names() for recipe in study.grid(scale, seeds)}
