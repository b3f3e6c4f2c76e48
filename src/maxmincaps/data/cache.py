"""The cache of datasets: one folder for each, complete or absent, with the SHA-256 of every file in `manifest.json`."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from platformdirs import user_cache_path
from pydantic import TypeAdapter

from maxmincaps import files as disk
from maxmincaps.errors import InputError, one_line

MANIFEST = "manifest.json"
LOCK_TIMEOUT_S = 1800  # another process may be fetching the same dataset over a slow connection
MOST_FILE_BYTES = 1 << 30
writing = partial(disk.reporting_write_errors, advice="; choose another folder with --cache or MAXMINCAPS_CACHE")
"""Report an error of the cache's disk or folder in one line, with the way to choose another one."""


@dataclass(frozen=True)
class Manifest:
    """The contents of a dataset's folder, and their source."""

    dataset: str
    source: str
    regenerated: bool
    sha256: dict[str, str]
    seed: int = 0
    procedure: int = 1
    """Version of the procedure that made a regenerated set."""
    verified: bool = True
    """Whether the files were compared with a hash that was known before they were fetched."""

    @property
    def state(self) -> str:
        """The origin in one word: verified, unverified or regenerated."""
        return "regenerated" if self.regenerated else "verified" if self.verified else "unverified"


def cache_folder(cache: Path | None = None) -> Path:
    """Return the folder of all datasets: `cache`, else $MAXMINCAPS_CACHE, else the platform's cache folder."""
    named = cache or os.environ.get("MAXMINCAPS_CACHE")
    if named:
        return Path(named)
    try:
        return user_cache_path("maxmincaps", appauthor=False)
    except RuntimeError:  # a user without an entry in the password file, and no $HOME
        raise InputError("there is no home folder for the datasets; set MAXMINCAPS_CACHE to a folder") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the dataset `folder` for one process. Others wait and then find the dataset there."""
    with writing(folder):
        disk.make_directory(folder.parent)
        message = f"{folder}: another process has been fetching it for {LOCK_TIMEOUT_S // 60} minutes"
        with disk.file_lock(folder.parent / f".{folder.name}.lock", LOCK_TIMEOUT_S, InputError(message)):
            disk.remove_abandoned(folder)
            yield


def store(folder: Path, files: Mapping[str, bytes], manifest: Manifest) -> Manifest:
    """Write a dataset's files and its manifest, with their hashes filled in, in place of what `folder` held before."""
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    whole = replace(manifest, sha256=sha256)
    with writing(folder), disk.replacing_directory(folder) as new:
        for name, content in files.items():
            disk.write_durably(new / name, content)
        disk.write_durably(new / MANIFEST, json.dumps(asdict(whole), indent=2).encode())
    return whole


def manifest_of(folder: Path) -> Manifest | None:
    """Read the manifest of a dataset's folder, or return None if there is no complete dataset."""
    try:
        return TypeAdapter(Manifest).validate_json(disk.read_bytes(folder / MANIFEST))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(folder / MANIFEST, error) from None


def read_verified(path: Path, sha256: str) -> bytes:
    """Read a cached file, and refuse it unless it has the hash with which it was stored."""
    try:
        content = disk.read_bytes(path, MOST_FILE_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: damaged, expected SHA-256 {sha256[:12]}…, found {found[:12]}…; "
            f"`maxmincaps data get {path.parent.name}` fetches it again"
        )
    return content


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: cannot be read ({one_line(error)}); delete {path.parent} and fetch it again")
