"""Untrusted files: damaged bytes, well-formed files with false claims, and pickles with other names."""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.data.test_fuzz import mutated as damaged

__all__ = ["NUMBERS", "WORDS", "damaged", "encoded", "harmful_json", "harmful_tensors", "inputs"]

DEEP = 100_000
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


def inputs(
    count: int, whole: bytes, harmful: Callable[[np.random.Generator], bytes], canary: Path
) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of harmful files: traps first, then damaged and false ones in turn.

    A trap creates the file `canary` if it is run as code.
    """
    traps = pickles(canary)[: count // 2]
    for number in range(count):
        random = np.random.default_rng([number, 11])
        if number < len(traps):
            yield f"trap {number}", traps[number]
        elif number % 3 == 0:
            yield f"damaged {number}", damaged(whole, random)
        else:
            yield f"harmful {number}", harmful(random)


def encoded(text: str) -> bytes:
    """Return a text as bytes, unpaired surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def harmful_json(value: Any, random: np.random.Generator) -> str:
    """Return a value as JSON with one to three harmful changes."""
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
    """Replace, remove, repeat or rename a random part of the value."""
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
    """Return a safetensors file with a false header or wrong numbers."""
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
        text = encoded(harmful_json(header, random))
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
    """Return pickles in all file formats that contain them; each creates the file `canary` if it is unpickled."""
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
