"""Unpack published files from archives, as data only: nothing is installed, run, or written anywhere else."""

import gzip
import io
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from maxmincaps.data.formats import reading
from maxmincaps.errors import InputError
from maxmincaps.files import reporting_write_errors

MOST_ARCHIVED_BYTES = 8 << 30  # no published archive unpacks to more
PIECE = 1 << 20


def unpack(archive: Path, wanted: Mapping[str, int], into: Path) -> None:
    """Unpack the wanted members of a zip, wheel, deb or tar.gz archive.

    Args:
        archive: The archive.
        wanted: The published names of members, with the most bytes that each may hold.
        into: The folder to write to.
    """
    with reading(archive, "a complete archive"):
        for name, file in _members(archive):
            published = wanted_name(name, wanted)
            if published is not None:
                _copy(file, into / PurePosixPath(name).name, wanted[published], f"{archive}, {name}")


def wanted_name(name: str, wanted: Mapping[str, int]) -> str | None:
    """Return the published name of a file (gzipped or not, with a dot or a hyphen before `idx`), or None."""
    plain = PurePosixPath(name).name.removesuffix(".gz").replace(".idx", "-idx")
    return plain if plain in wanted else None


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix in (".zip", ".whl"):
        return _zip_members(archive)
    return _deb_members(archive) if archive.suffix == ".deb" else _tgz_members(archive)


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as members:
        for member in members.infolist():
            _check_stays_inside(member.filename, archive)
            if not member.is_dir():
                with members.open(member) as file:
                    yield member.filename, file


def _tgz_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with gzip.open(archive) as stream:
        yield from _tar_members(_Bounded(stream, archive), archive)


def _deb_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if shutil.which("dpkg-deb") is None:
        raise InputError(f"{archive}: dpkg-deb, which unpacks it, is not on this machine")
    # It knows every compression that Debian uses, and only writes the files' tar to standard output.
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            yield from _tar_members(_Bounded(process.stdout, archive), archive)
        finally:
            process.kill()


def _tar_members(stream: "_Bounded", archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=stream, mode="r|") as members:
        for member in members:
            _check_stays_inside(member.name, archive)
            file = members.extractfile(member) if member.isreg() else None
            if file is not None:
                yield member.name, file


def _check_stays_inside(name: str, archive: Path) -> None:
    path = PureWindowsPath(name)  # it parses both kinds of slashes, and drives
    if path.anchor or ".." in path.parts:
        raise InputError(f"{archive}: expected members inside the archive's folder, found {name!r}")


def _copy(file: IO[bytes], target: Path, most: int, where: str) -> None:
    copied = 0
    with reporting_write_errors(target), target.open("wb") as out:
        for piece in _pieces(file, where):
            copied += len(piece)
            if copied > most:
                raise InputError(f"{where}: expected at most {most:,} bytes, found more")
            out.write(piece)


def _pieces(file: IO[bytes], where: str) -> Iterator[bytes]:
    with reading(where, "a complete member"):
        while piece := file.read(PIECE):
            yield piece


class _Bounded(io.BufferedIOBase):
    """A stream that raises an error when more than `MOST_ARCHIVED_BYTES` are unpacked."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, archive: Path) -> None:
        self._stream, self._archive, self._left = stream, archive, MOST_ARCHIVED_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        piece = self._stream.read(PIECE if size is None or size < 0 else min(size, PIECE))
        self._left -= len(piece)
        if self._left < 0:
            raise InputError(f"{self._archive}: expected under {MOST_ARCHIVED_BYTES >> 30} GB unpacked, found more")
        return piece
