"""Durable files: a write is complete or has not happened, whenever the machine stops."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maxmincaps.errors import InputError


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file so that readers see the old content or the new, never a part of it.

    The content is written to a temporary file in the same directory, forced to the disk and renamed into place.

    Raises:
        InputError: If the file cannot be written (full disk, missing permission, a directory in the way).
    """
    temporary = path.with_name(f".{path.name}.new-{uuid.uuid4().hex}")
    with reporting_write_errors(path):
        try:
            write_durably(temporary, content)
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file whose bytes are on the disk on return. Its name is durable after `sync_directory`."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, all durable on return."""
    if not directory.is_dir():
        if directory != directory.parent:  # a missing drive is its own parent
            make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Force the names in a directory to the disk. Systems that cannot open a directory do not need it."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def reporting_write_errors(path: Path, advice: str = "") -> Iterator[None]:
    """Turn an `OSError` into an `InputError` that names the path, the reason, and optionally what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}{advice}") from error
