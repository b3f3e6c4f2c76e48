"""What a user can put right: one exception, and the sentence that lists the right names."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from shlex import quote
from types import ModuleType

CONTROLS = {code: "�" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
"""Characters that steer a terminal. In the words of others they are shown as what they are: nothing to be read."""


class InputError(ValueError):
    """Something handed to us is wrong. The message is one line that says what was expected and what was found.

    The command line prints that line and exits with code 2; it never shows a traceback for an `InputError`.
    """


class DivergedError(RuntimeError):
    """A loss or a gradient was not finite. The last good weights are kept, and the message says where."""


def is_lack_of_memory(error: Exception) -> bool:
    """Tell whether memory was refused; each library that torch calls says so in its own words."""
    words = ("allocate memory", "out of memory", "not enough memory", "bad_alloc", "could not create a primitive")
    return isinstance(error, MemoryError) or any(said in str(error) for said in words)


def check_name(name: str, names: Iterable[str], kind: str) -> str:
    """Give `name` back if it is one of `names`, else say which names there are, and which is the nearest.

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
    """Give what others say in one line that has an end and steers no terminal."""
    line = " ".join(str(words).split()).translate(CONTROLS)
    return line if len(line) <= most else f"{line[:most]}…"


def import_extra(name: str, module: str) -> ModuleType:
    """Import `module`, which the optional part `name` of this package brings, or say how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        # By this very Python, as an environment need not be active for its commands to be called.
        install = f"{quote(sys.executable)} -m pip install -e '.[{name}]'"
        raise InputError(f"this needs the optional part {name}; where maxmincaps was checked out: {install}") from None


known = check_name
extra = import_extra
