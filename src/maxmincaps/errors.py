"""Exceptions for wrong input, and helpers for their messages."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from shlex import quote
from types import ModuleType

CONTROLS = {code: "�" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
"""Control characters, which could change a terminal's state. They are replaced in all text that comes from files."""


class InputError(ValueError):
    """Wrong input. The message is one line: what was wrong, what was expected, what to do.

    The command line prints that line without a traceback and exits with code 2.
    """


class DivergedError(RuntimeError):
    """A loss or a gradient was not finite. The last good weights are kept; the message names their file."""


def is_lack_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory was refused. The libraries below torch word it differently."""
    words = ("allocate memory", "out of memory", "not enough memory", "bad_alloc", "could not create a primitive")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def check_name(name: str, names: Iterable[str], kind: str) -> str:
    """Return `name` if it is one of `names`; otherwise the `InputError` lists them and suggests the nearest one.

    >>> check_name("maxmn", ["softmax", "max-min"], "normalization")
    Traceback (most recent call last):
    maxmincaps.errors.InputError: no normalization is called 'maxmn'; there are softmax, max-min (did you mean max-min?)
    """
    names = list(names)
    if name in names:
        return name
    near = get_close_matches(name[:100], names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InputError(f"no {kind} is called {name!r:.100}; there are {', '.join(names)}{hint}")


def one_line(words: object, most: int = 300) -> str:
    """Return a text in one line of at most `most` letters, without control characters."""
    line = " ".join(str(words).split()).translate(CONTROLS)
    return line if len(line) <= most else f"{line[:most]}…"


def import_extra(name: str, module: str) -> ModuleType:
    """Import a module of an optional extra. If it is missing, the `InputError` has the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        # With this Python, as its environment may not be the active one.
        install = f"{quote(sys.executable)} -m pip install -e '.[{name}]'"
        raise InputError(
            f"this needs the optional part {name}; install it in the folder of the clone with {install}"
        ) from None
