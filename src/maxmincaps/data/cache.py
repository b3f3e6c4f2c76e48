"""Where datasets are kept: one folder a dataset, whole or absent, each file with its SHA-256.

A dataset's folder is written beside its final place and renamed into it, so that a full disk or a lost process leaves
nothing that could be taken for whole. `manifest.json` names the source and the hash of every file. What a lost process
left beside it is put back or cleared away by the next one that has the lock.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from maxmincaps.errors import InputError, one_line
from maxmincaps.files import make_directory, sync_directory, write_durably

MANIFEST = "manifest.json"
PATIENCE_S = 1800  # another process may be fetching the same dataset over a slow line


@dataclass(frozen=True)
class Manifest:
    """What a dataset's folder holds, and where it came from."""

    dataset: str
    source: str
    regenerated: bool
    sha256: dict[str, str]
    seed: int = 0
    procedure: int = 1
    """Of a regenerated set: which version of the procedure made it."""


def cache_folder(cache: Path | None = None) -> Path:
    """Give the folder that holds all datasets: `cache`, else $MAXMINCAPS_CACHE, else the platform's own place."""
    if cache is not None:
        return Path(cache)
    named = os.environ.get("MAXMINCAPS_CACHE")
    return Path(named) if named else user_cache_path("maxmincaps", appauthor=False)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time write the dataset `folder`; the others wait and then find it there."""
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=PATIENCE_S)
    with writing(folder):
        make_directory(folder.parent)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(f"{folder}: another process has been fetching it for {PATIENCE_S // 60} minutes") from None
    try:
        with writing(folder):
            _tidy(folder)
        yield
    finally:
        with writing(folder):
            lock.release()


@contextlib.contextmanager
def staging_directory(folder: Path) -> Iterator[Path]:
    """Give a folder for work on the dataset `folder`, on the same disk, for as long as it is locked."""
    # What cannot be removed now is removed by the next process.
    with tempfile.TemporaryDirectory(prefix=_room(folder), dir=folder.parent, ignore_cleanup_errors=True) as room:
        yield Path(room)


def _room(folder: Path) -> str:
    return f".{folder.name}.new-"


def _tidy(folder: Path) -> None:
    """Clear away the rooms of lost processes; one that was lost between two renames had put the old dataset aside."""
    for room in [path for path in folder.parent.iterdir() if path.name.startswith(_room(folder))]:
        if not folder.exists() and (room / "old").exists():
            (room / "old").replace(folder)
        shutil.rmtree(room)


def store(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    dataset: str,
    source: str,
    regenerated: bool,
    seed: int,
    procedure: int = 1,
) -> Manifest:
    """Write `files` and their manifest, all or nothing, in place of what `folder` held before; give the manifest."""
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = Manifest(dataset, source, regenerated, sha256, seed, procedure)
    with writing(folder), staging_directory(folder) as room:
        new, old = room / "new", room / "old"
        new.mkdir()
        for name, content in files.items():
            write_durably(new / name, content)
        write_durably(new / MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
        sync_directory(new)
        if folder.exists():
            sync_directory(folder.parent)  # so that the room is found again if the power fails between the two renames
            folder.replace(old)
        new.replace(folder)
        sync_directory(folder.parent)
    return manifest


def manifest_of(folder: Path) -> Manifest | None:
    """Read what `folder` holds, or None where there is no whole dataset."""
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{folder / MANIFEST}: cannot be read ({one_line(error)}); delete {folder} and fetch it again"
        ) from None
    if not isinstance(manifest.sha256, dict):
        raise InputError(f"{folder / MANIFEST}: expected a table of hashes; delete {folder} and fetch it again")
    return manifest


def read_whole(path: Path, sha256: str) -> bytes:
    """Read a cached file, and refuse it unless its bytes are those that were stored."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); delete {path.parent} and fetch it again"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: damaged, expected SHA-256 {sha256[:12]}…, found {found[:12]}…; "
            f"`maxmincaps data get {path.parent.name}` fetches it again"
        )
    return content


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one line what keeps us from writing: a full disk, a folder without permission, a file in the way."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); choose another folder with --cache or "
            "MAXMINCAPS_CACHE"
        ) from None
