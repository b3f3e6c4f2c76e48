"""What strangers hand over: files that are damaged, or made to do harm; and somebody who watches them being read."""

import io
import json
import pickle
import resource
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maxmincaps.errors import DivergedError, InputError
from tests.data.test_fuzz import mutated as damaged

__all__ = ["NUMBERS", "WORDS", "Readings", "damaged", "harmful_json", "harmful_tensors", "pickles"]

DEEP = 100_000
MOST_GROWTH_MB = 600
"""Reading all inputs of one kind may add so much to the memory of the process."""

MOST_LETTERS = 4000
"""Of a refusal: it may list what it expected, but not repeat what it was given."""

NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, float("nan"), float("inf"), -0.0]
WORDS = [
    "",
    "a" * 20_000,
    "../../../../etc/passwd",
    "/etc/passwd",
    "..\\..\\windows",
    "C:\\x",
    "\x00",
    "line\nbreak\rreturn",
    "[/bold]",
    "[red]",
    "\x1b[2J\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "%s%n{0}{x}",
    "'; DROP TABLE runs; --",
    "\u202eright to left",
    "\ud800",
    "🦭é\u0301",
    "__class__",
    "NaN",
    "1e999",
    "nan",
    "max-min",
]
THINGS = [None, True, False, [], {}, [[]], {"": {}}, [0] * 1000, ["a"] * 300, [1, [2, [3]]], {"__reduce__": ["x"]}]


def harmful_json(value: Any, random: np.random.Generator) -> str:
    """Write a JSON value with one to three harmful places in it."""
    value = json.loads(json.dumps(value))
    for _ in range(random.integers(1, 4)):
        value = _with_harm(value, random)
    text = json.dumps(value, indent=int(random.integers(3)) or None)
    tricks = [
        lambda: text,
        lambda: text,
        lambda: text,
        lambda: text,
        lambda: text.replace("{", '{"twice": 1, "twice": [2], ', 1),
        lambda: text.replace(":", ":" + "[" * DEEP, 1),
        lambda: text.replace(":", ':{"a"' * (DEEP // 4) + ":", 1),
        lambda: text.replace("0", "9" * 6000, 1),
        lambda: text.replace('"', "'"),
        lambda: "\ufeff" + text,
        lambda: text + text,
    ]
    return tricks[random.integers(len(tricks))]()


def _with_harm(value: Any, random: np.random.Generator) -> Any:
    """Replace, remove, double or rename something, somewhere in the value."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        name = list(value)[random.integers(len(value))]
        kind = random.integers(8)
        if kind == 0:
            return {key: inner for key, inner in value.items() if key != name}
        if kind == 1:
            return {(_word(random) if key == name else key): inner for key, inner in value.items()}
        return {key: (_with_harm(inner, random) if key == name else inner) for key, inner in value.items()}
    if isinstance(value, list) and value and random.random() < 0.6:
        place = int(random.integers(len(value)))
        kind = random.integers(4)
        if kind == 0:
            return value[:place]
        if kind == 1:
            return value * 3
        return [*value[:place], _with_harm(value[place], random), *value[place + 1 :]]
    if isinstance(value, int | float) and random.random() < 0.3:
        return [-value, value + 1, str(value), float(value), [value]][random.integers(5)]
    chosen = [NUMBERS, WORDS, THINGS][random.integers(3)]
    return chosen[random.integers(len(chosen))]


def _word(random: np.random.Generator) -> str:
    return WORDS[random.integers(len(WORDS))]


def harmful_tensors(whole: bytes, random: np.random.Generator) -> bytes:
    """Write a safetensors file whose header lies, or whose numbers are not what they should be."""
    (length,) = struct.unpack("<Q", whole[:8])
    header, numbers = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    kind = random.integers(8)
    if kind == 0:
        claimed = [0, 1, length - 1, length + 1, 2**31, 2**63 - 1, 2**64 - 1, 100_000_001][random.integers(8)]
        return struct.pack("<Q", claimed) + whole[8:]
    if kind in (1, 2, 3):
        name = list(header)[random.integers(len(header))]
        text = json.dumps({**header, name: _lying(header[name], random)}).encode()
    elif kind == 4:
        text = harmful_json(header, random).encode("utf-8", "surrogatepass")
    elif kind == 5:
        note = harmful_json(json.loads(header["__metadata__"]["note"]), random)
        text = json.dumps({**header, "__metadata__": {"note": note}}).encode()
    else:
        text, numbers = json.dumps(header).encode(), _other_numbers(numbers, random)
    return struct.pack("<Q", len(text)) + text + numbers


def _lying(entry: dict[str, Any], random: np.random.Generator) -> Any:
    lies = [
        {"shape": [2**40, 2**40]},
        {"shape": [-1, *entry.get("shape", [])]},
        {"shape": [*entry.get("shape", []), 1]},
        {"shape": entry.get("shape", [])[::-1]},
        {"shape": []},
        {"shape": "big"},
        {"data_offsets": [0, 2**62]},
        {"data_offsets": [2**62, 0]},
        {"data_offsets": [8, 4]},
        {"data_offsets": [-8, 8]},
        *({"dtype": kind} for kind in ("F64", "I64", "BOOL", "F8_E4M3", "C64", "I32", "PICKLE", 7)),
    ]
    return {**entry, **lies[random.integers(len(lies))]}


def _other_numbers(numbers: bytes, random: np.random.Generator) -> bytes:
    found = bytearray(numbers)
    pattern = [b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff" * 8, b"\x00\x00\x00\x00"][random.integers(4)]
    at = int(random.integers(max(1, len(found) // 4))) * 4
    return bytes(found[:at]) + pattern + bytes(found[at + len(pattern) :])


class _Canary:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable, tuple]:
        return (Path.touch, (self.path,))


def pickles(canary: Path) -> list[bytes]:
    """Give pickles in all the clothes they wear, each of which creates the file `canary` when somebody reads it."""
    trap = _Canary(canary)
    files = [io.BytesIO() for _ in range(4)]
    torch.save({"digits.weights": trap}, files[0])
    torch.save(trap, files[1], _use_new_zipfile_serialization=False)
    np.save(files[2], np.array([trap, trap], dtype=object), allow_pickle=True)
    np.savez(files[3], images=np.array([trap], dtype=object), labels=np.array([trap], dtype=object))
    plain = [pickle.dumps(trap, protocol) for protocol in (0, 2, 5)]
    return [*plain, *(file.getvalue() for file in files), _zipped(plain[1])]


def _zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        for name in ("data.pkl", "images.npy", "labels.npy"):
            members.writestr(name, content)
    return file.getvalue()


FORBIDDEN = {"pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"}
WRITES = {"w", "a", "x", "+"}
_watched: list["Readings"] = []


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event == "subprocess.Popen" and arguments[0] == "git":
        return  # a run asks for the commit of its own source
    if event in FORBIDDEN or (event == "open" and _is_write_elsewhere(*arguments[:2], _watched[-1].folder)):
        _watched[-1].trespasses.append(f"{event} {arguments[:2]}")


def _is_write_elsewhere(path: Any, mode: Any, folder: Path) -> bool:
    writes = isinstance(mode, str) and WRITES & set(mode)
    return bool(writes) and isinstance(path, str) and not path.startswith((str(folder), "/dev/", "/proc/"))


sys.addaudithook(_on_event)  # cannot be taken away again, and is silent unless somebody reads a stranger's file


class Readings:
    """Watches files being read: each is accepted or refused in one line that names it, and nothing else happens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.canary = folder / "canary"
        self.tried = self.refused = 0
        self.slowest_cpu_s, self.slowest = 0.0, ""
        self.before_mb = fresh_peak_mb()
        self.trespasses: list[str] = []
        self.wrong: list[str] = []

    def read(self, reader: Callable[[], Any], named: str, what: str) -> None:
        """Call a reader; `named` must stand in what it says if it refuses, `what` says which input this was."""
        self.tried += 1
        began = time.process_time()
        try:
            with self._watching():
                reader()
        except (InputError, DivergedError) as error:
            self.refused += 1
            said = str(error)
            if named not in said or "\n" in said or len(said) > MOST_LETTERS:
                self.wrong.append(f"{what}: refused without its name or in several lines: {said[:300]!r}")
        except Exception as error:  # any other is what we look for
            self.wrong.append(f"{what}: {_place(error)} {type(error).__name__}: {str(error)[:200]}")
        spent = time.process_time() - began
        if spent > self.slowest_cpu_s:
            self.slowest_cpu_s, self.slowest = spent, what

    @contextmanager
    def _watching(self) -> Iterator[None]:
        _watched.append(self)
        try:
            yield
        finally:
            _watched.pop()

    def conclude(self, tally: Callable[..., None], what: str) -> None:
        """State the figures, and fail if anything happened that must not."""
        grown_mb = peak_mb() - self.before_mb
        assert self.wrong == [], f"{len(self.wrong)} of {self.tried}\n" + "\n".join(_distinct(self.wrong))
        assert self.trespasses == [], self.trespasses[:5]
        assert not self.canary.exists()
        assert grown_mb < MOST_GROWTH_MB, self.slowest
        assert 0 < self.refused < self.tried
        tally(
            what,
            tried=self.tried,
            refused_in_one_line=self.refused,
            other_errors=0,
            codes_run=0,
            MB_grown_at_most=round(grown_mb),
            s_of_CPU_at_most=round(self.slowest_cpu_s, 2),
        )


def _distinct(wrong: list[str]) -> list[str]:
    """Give one example of each place and kind of error."""
    found: dict[str, str] = {}
    for one in wrong:
        found.setdefault(one.partition(": ")[2][:90], one)
    return list(found.values())[:40]


def _place(error: BaseException) -> str:
    """Say where in our own code an error came up."""
    place, trace = "", error.__traceback__
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if "maxmincaps" in name and "tests" not in name:
            place = f"{name.rpartition('maxmincaps/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def fresh_peak_mb() -> float:
    """Forget the most memory that this process has had, where the system can, and give what it has now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Give the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
