"""Unpack published files from archives, as data only: nothing is installed, run, or written anywhere else."""

import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from maxmincaps.data.formats import reading
from maxmincaps.errors import InputError
from maxmincaps.files import reporting_write_errors


def unpack(archive: Path, wanted: Mapping[str, int], into: Path) -> None:
    """Unpack the wanted members of a zip, wheel, deb or tar.gz archive, and ignore the folders of their names.

    `wanted` has the published names of members, with the most bytes that each may hold.
    """
    with reading(archive, "a complete archive"):
        for name, file in _members(archive):
            published = wanted_name(name, wanted)
            if published is None:
                continue
            with reading(f"{archive}, {name}", "a complete member"):
                content = file.read(wanted[published] + 1)
            if len(content) > wanted[published]:
                raise InputError(f"{archive}, {name}: expected at most {wanted[published]:,} bytes, found more")
            target = into / PurePosixPath(name).name
            with reporting_write_errors(target):
                target.write_bytes(content)


def wanted_name(name: str, wanted: Mapping[str, int]) -> str | None:
    """Return the published name of a file (gzipped or not, with a dot or a hyphen before `idx`), or None."""
    plain = PurePosixPath(name).name.removesuffix(".gz").replace(".idx", "-idx")
    return plain if plain in wanted else None


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Open each regular file in turn. Links in an archive are not followed."""
    if archive.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(archive) as members:
            for name in members.namelist():
                with members.open(name) as file:
                    yield name, file
    else:
        with _open_deb(archive) if archive.suffix == ".deb" else tarfile.open(archive, "r|gz") as members:
            for member in members:
                if member.isreg() and (file := members.extractfile(member)):
                    yield member.name, file


@contextmanager
def _open_deb(archive: Path) -> Iterator[tarfile.TarFile]:
    if shutil.which("dpkg-deb") is None:
        raise InputError(f"{archive}: dpkg-deb, which unpacks it, is not on this machine")
    # It knows every compression that Debian uses, and only writes the files' tar to standard output.
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as members:
                yield members
        finally:
            process.kill()
