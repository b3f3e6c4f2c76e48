"""Durable writes, staging directories, and reads of files of unknown origin.

A write is complete or has not happened, whenever the machine stops. A read takes regular files of a bounded size only:
a named pipe would block for ever, and a link to a device never ends.
"""

import json
import lzma
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from maxmincaps.errors import InputError

MOST_TEXT_BYTES = 1 << 25  # settings, results and histories are far smaller: a line of a history has about 500 bytes
LOCK = ".lock"
ABANDONED_S = 60  # a staging directory without a lock file is being created, unless it is older than this


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; links to one are followed.

    Raises:
        FileNotFoundError: If there is no such file. Other `OSError`s are passed on too.
        InputError: If it is a directory, a device, a named pipe or a socket.
    """
    # Without O_NONBLOCK the call would wait until another process writes into a named pipe.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        kinds = {"a folder": path.is_dir, "a named pipe": path.is_fifo, "a socket": path.is_socket}
        found = next((kind for kind, is_one in kinds.items() if is_one()), "a device")
        raise InputError(f"{path}: expected a regular file, found {found}")
    return os.fdopen(handle, "rb")


def check_regular(path: Path) -> None:
    """Refuse what is not a regular file, for readers that open it by themselves."""
    open_regular(path).close()


def read_bytes(path: Path, most_bytes: int = MOST_TEXT_BYTES) -> bytes:
    """Read a regular file. A file of more than `most_bytes` is refused."""
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise InputError(f"{path}: expected at most {most_bytes:,} bytes, found more")
    return content


def read_text(path: Path) -> str:
    """Read a regular UTF-8 file."""
    return read_bytes(path).decode("utf-8")


def read_table(path: Path, kind: str = "file", parse: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """Read a file that holds one table of settings. Its errors name the file, or the `kind` of file that is missing."""
    try:
        table = parse(read_text(path))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such {kind}") from None
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected a table of settings, found {type(table).__name__}")
    return table


def read_compressed(path: Path, most: int = 1 << 28) -> bytes:
    """Read an .xz file. One that is damaged or expands to more than `most` bytes is refused."""
    try:
        decompressor = lzma.LZMADecompressor(memlimit=1 << 28)
        content = decompressor.decompress(read_bytes(path, most), max_length=most)
    except (lzma.LZMAError, EOFError) as error:
        raise InputError(f"{path}: is not a complete .xz file: {error}") from None
    if not decompressor.eof:
        raise InputError(f"{path}: is truncated, or expands to more than {most:,} bytes")
    return content


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
        raise InputError(f"{path}: cannot be written: {error.strerror or error}{advice}") from None


@contextmanager
def file_lock(path: Path, timeout_s: float, refused: InputError) -> Iterator[None]:
    """Hold a lock file; raise `refused` if another process still holds it after `timeout_s` seconds.

    The lock ends with its process, so a killed process leaves none behind.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout_s)
    except Timeout:
        raise refused from None
    try:
        yield
    finally:
        with suppress(OSError):  # the lock ends with its process in any case
            lock.release()


@contextmanager
def staging_directory(target: Path) -> Iterator[Path]:
    """Create a directory beside `target`, in which it can be built before it is renamed into place.

    The directory is unique and on the same disk, and is removed at the end. What killed processes left for the same
    target is removed first.
    """
    remove_abandoned(target)
    with (
        tempfile.TemporaryDirectory(
            prefix=f".{target.name}.new-", dir=target.parent, ignore_cleanup_errors=True
        ) as directory,
        file_lock(Path(directory) / LOCK, 0, InputError(f"{directory}: is in use")),
    ):
        yield Path(directory)


@contextmanager
def replacing_directory(target: Path) -> Iterator[Path]:
    """Yield a new directory, which takes the place of `target` at the end, durably if its files are.

    An old one is put aside until the new one is there. `remove_abandoned` restores it if the process ends in between.
    """
    with staging_directory(target) as staging:
        new = staging / "new"
        new.mkdir()
        yield new
        sync_directory(new)
        if target.exists():
            sync_directory(target.parent)
            target.replace(staging / "old")
        new.replace(target)
        sync_directory(target.parent)


def remove_abandoned(target: Path) -> None:
    """Remove staging directories whose process has ended; restore `target` if one of them had put it aside."""
    for staging in [path for path in target.parent.iterdir() if path.name.startswith(f".{target.name}.new-")]:
        with suppress(OSError):  # another process may be removing it
            if not _is_abandoned(staging):
                continue
            if not target.exists() and (staging / "old").exists():
                (staging / "old").replace(target)
            shutil.rmtree(staging, ignore_errors=True)


def _is_abandoned(staging: Path) -> bool:
    if not (staging / LOCK).exists():
        return time.time() - staging.stat().st_mtime > ABANDONED_S
    try:
        with file_lock(staging / LOCK, 0, InputError("its process is working")):
            return True
    except InputError:
        return False
