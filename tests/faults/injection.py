"""A layer between our code and one folder of the file system that counts every change and makes one of them fail.

It keeps a list of the operations of a run. power.py derives from each prefix of the list what a disk may contain after
a power failure at that operation.
"""

import builtins
import errno
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

DEATH = 77
"""The exit code of a process that the layer has ended."""


@dataclass(frozen=True)
class Operation:
    """One requested change of the file system."""

    kind: str
    path: str
    """Relative to the watched folder, whose own path is empty."""
    target: str = ""
    """The new path of a rename."""
    data: bytes = b""
    """The bytes of a write."""


@dataclass(frozen=True)
class Fault:
    """The number of the operation that fails, from 0, and how it fails."""

    at: int
    how: Literal["fails", "fails from then on", "ends the process"]
    code: int = errno.EIO


class Layer:
    """All operations on the file system below `root`, in order."""

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self.root, self.fault = root.resolve(), fault
        self.operations: list[Operation] = []
        self.open_files: dict[int, str] = {}

    def place(self, path: Any, folder: int | None = None) -> str | None:
        """Return the path below the root, or None if it lies elsewhere. The last component may be a link."""
        if isinstance(path, int):
            return self.open_files.get(path)
        if folder is not None and folder not in self.open_files:
            return None
        absolute = Path(path).absolute() if folder is None else Path(self.root, self.open_files[folder], path)
        whole = absolute.parent.resolve() / absolute.name
        if not whole.is_relative_to(self.root):
            return None
        return "" if whole == self.root else str(whole.relative_to(self.root))

    def ask(self, operation: Operation, do: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        """Do it, unless it is the one that fails. A write that fails has written half of its bytes."""
        number, fault = len(self.operations), self.fault
        self.operations.append(operation)
        harmless = fault is None or number < fault.at or (number > fault.at and fault.how == "fails")
        # A disk that is full still removes, and locks.
        if harmless or (number > fault.at and operation.kind in ("unlink", "rmdir", "close", "open", "lock")):
            return self._do(number, do)
        half()
        if fault.how == "ends the process":
            os._exit(DEATH)
        raise OSError(fault.code, os.strerror(fault.code))

    def _do(self, number: int, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except OSError:
            # The system itself refused, for example to create an existing folder: nothing has changed.
            self.operations[number] = Operation("refused", self.operations[number].path)
            raise


class WatchedFile:
    """A file open for writing, without a buffer, because a buffer would hide where writes end."""

    def __init__(self, layer: Layer, file: Any, path: str) -> None:
        self._layer, self._file, self._path = layer, file, path
        layer.open_files[file.fileno()] = path

    def write(self, content: Any) -> int:
        """Write all of it, or half."""
        as_bytes = content.encode() if isinstance(content, str) else bytes(content)
        half = content[: len(content) // 2]
        return self._layer.ask(
            Operation("write", self._path, data=as_bytes), lambda: self._through(content), lambda: self._through(half)
        )

    def _through(self, content: Any) -> int:
        written = self._file.write(content)
        self._file.flush()
        return written

    def close(self) -> None:
        """Close it; a system may tell only now that it could not write."""
        if self._file.closed:
            return
        self._layer.open_files.pop(self._file.fileno(), None)
        self._layer.ask(Operation("close", self._path), self._file.close, self._file.close)

    def __enter__(self) -> "WatchedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def watching(layer: Layer) -> Iterator[Layer]:
    """Put the layer in place of the functions that change files."""
    places = [(builtins, "open"), (io, "open"), (fcntl, "flock")]
    places += [(os, name) for name in ("open", "write", "close", "fsync", "fdatasync", "truncate", "ftruncate")]
    places += [(os, name) for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "symlink")]
    before = {(module, name): getattr(module, name) for module, name in places if hasattr(module, name)}
    try:
        for (module, name), original in before.items():
            setattr(module, name, _watched(layer, name, original) if name != "open" else _opening(layer, original))
        yield layer
    finally:
        for (module, name), original in before.items():
            setattr(module, name, original)


def _opening(layer: Layer, original: Callable[..., Any]) -> Callable[..., Any]:
    if original is os.open:
        return _opening_a_number(layer, original)

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        path = layer.place(file)
        if path is None or not set(mode) & set("wax+"):
            return original(file, mode, *args, **kwargs)
        assert "w" in mode or "x" in mode, "the layer knows no file that is written into where it stands"
        made = layer.ask(Operation("create", path), lambda: original(file, mode, *args, **kwargs))
        return WatchedFile(layer, made, path)

    return opened


def _opening_a_number(layer: Layer, original: Callable[..., Any]) -> Callable[..., int]:
    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = layer.place(path, dir_fd)
        if place is None:
            return original(path, flags, mode, dir_fd=dir_fd)
        kind = "touch" if flags & os.O_CREAT else "open"
        number = layer.ask(Operation(kind, place), lambda: original(path, flags, mode, dir_fd=dir_fd))
        layer.open_files[number] = place
        return number

    return opened


def _watched(layer: Layer, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    kind = {"replace": "rename", "remove": "unlink", "flock": "lock"}.get(name, name)

    def asked(first: Any, *args: Any, **kwargs: Any) -> Any:
        path = layer.place(first, kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
        target = layer.place(args[0], kwargs.get("dst_dir_fd")) if kind in ("rename", "link", "symlink") else None
        if path is None and target is None:
            return original(first, *args, **kwargs)
        assert kind not in ("truncate", "ftruncate", "link", "symlink"), f"the model of the disk knows no {kind}"
        assert path is not None, "a file comes from outside the watched folder"
        data = bytes(args[0]) if kind == "write" else b""
        operation = Operation(kind, path, target or "", data)
        if kind == "close":
            layer.open_files.pop(first, None)
            return layer.ask(operation, lambda: original(first), lambda: original(first))
        half = (lambda: original(first, data[: len(data) // 2])) if kind == "write" else lambda: None
        return layer.ask(operation, lambda: original(first, *args, **kwargs), half)

    return asked
