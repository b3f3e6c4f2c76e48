"""What a disk may contain after a power failure: what was synced, and any part of the rest.

A file's bytes are durable after an fsync of the file, its name after an fsync of its folder. This is all that POSIX
promises; most file systems promise more.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.faults.injection import Operation

Name = tuple[int, str]
"""The folder's number and the name in it."""
ROOT = 0
Survives = Callable[[], float]
"""Returns the fraction of unsynced bytes that reached the disk, from 0 to 1."""


@dataclass
class Disk:
    """Files by number and names by folder, as the running system sees them and as they are durable."""

    names: dict[Name, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    """The bytes of each file; folders have none."""
    sure_names: dict[Name, int] = field(default_factory=dict)
    sure_contents: dict[int, bytes] = field(default_factory=dict)
    pending: list[dict[Name, int | None]] = field(default_factory=list)
    """Changes of names that are not durable yet; each is atomic."""
    numbers: Iterable[int] = field(default_factory=lambda: count(1))

    def number_of(self, path: str) -> int:
        """Return the number of a file or folder."""
        number = ROOT
        for part in path.split("/") if path else []:
            number = self.names[number, part]
        return number

    def name_of(self, path: str) -> Name:
        """Return the number of a path's folder, and its name there."""
        folder, _, name = path.rpartition("/")
        return self.number_of(folder), name

    def change(self, names: dict[Name, int | None]) -> None:
        """Set names, or remove those that are None."""
        _apply(names, self.names)
        self.pending.append(names)

    def make(self, path: str, *, is_file: bool) -> None:
        """Create an empty file or folder."""
        number = next(iter(self.numbers))
        if is_file:
            self.contents[number] = b""
        self.change({self.name_of(path): number})

    def force(self, number: int) -> None:
        """Make a file's bytes or a folder's names durable."""
        if number in self.contents:
            self.sure_contents[number] = self.contents[number]
            return
        touching = [change for change in self.pending if any(folder == number for folder, _ in change)]
        for change in touching:
            _apply(change, self.sure_names)
        self.pending = [change for change in self.pending if change not in touching]

    def do(self, operation: Operation) -> None:
        """Apply an operation."""
        path = operation.path
        match operation.kind:
            case "create" | "touch":
                if self.name_of(path) not in self.names:
                    self.make(path, is_file=True)
                elif operation.kind == "create":
                    self.contents[self.number_of(path)] = b""
            case "mkdir":
                self.make(path, is_file=False)
            case "write":
                self.contents[self.number_of(path)] += operation.data
            case "rename":
                self.change({self.name_of(path): None, self.name_of(operation.target): self.number_of(path)})
            case "unlink" | "rmdir":
                self.change({self.name_of(path): None})
            case "fsync" | "fdatasync":
                self.force(self.number_of(path))

    def leave(self, folder: Path, survives: Survives = lambda: 0.0) -> None:
        """Write into an empty folder what is left after a power failure now."""
        names, contents = dict(self.sure_names), dict(self.sure_contents)
        for change in self.pending:
            if survives() >= 0.5:
                _apply(change, names)
        for number, content in self.contents.items():
            if self.sure_contents.get(number) != content:
                sure = self.sure_contents.get(number, b"")
                share = survives()
                contents[number] = content[: int(len(content) * share)] if share else sure
        self._lay_out(folder, ROOT, names, contents)

    def leave_all(self, folder: Path) -> None:
        """Write into an empty folder what the running system sees."""
        self._lay_out(folder, ROOT, self.names, self.contents)

    def _lay_out(self, folder: Path, number: int, names: dict[Name, int], contents: dict[int, bytes]) -> None:
        for (parent, name), child in names.items():
            if parent != number:
                continue
            if child in self.contents:
                (folder / name).write_bytes(contents.get(child, b""))
            else:
                (folder / name).mkdir()
                self._lay_out(folder / name, child, names, contents)


def disk_after(operations: Iterable[Operation]) -> Disk:
    """Return the disk after these operations on an empty folder."""
    disk = Disk()
    for operation in operations:
        disk.do(operation)
    return disk


def _apply(change: dict[Name, int | None], names: dict[Name, int]) -> None:
    for name, number in change.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number
