"""Ctrl-C and the polite kill, turned into a wish that is granted between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_bool
from multiprocessing import get_context
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopWish:
    """Whether a signal asked a run to stop. The processes of the run share it, whichever of them was asked."""

    def __init__(self) -> None:
        self.made = get_context("spawn").RawValue(c_bool, False)

    def __bool__(self) -> bool:
        return self.made.value

    def note(self, *_: object) -> None:
        """Handle a signal."""
        self.made.value = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Listen from the arrival in another process on: one that a signal ends before its task begins is waited for.

        It listens for good, as Ctrl-C reaches all processes: when to interrupt at once is for the first one to say.
        """
        self.__dict__.update(state)
        for number in SIGNALS:
            signal.signal(number, self.note)


@contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """Do what must not be left half done, such as the start of a process; the first Ctrl-C interrupts it at its end."""
    with stop_wishes() as wish:
        yield
    if wish:
        raise KeyboardInterrupt


@contextmanager
def stop_wishes() -> Iterator[StopWish]:
    """Collect the first SIGINT or SIGTERM as a wish; the second one interrupts at once, as usual."""
    wish = StopWish()
    if threading.current_thread() is not threading.main_thread():
        yield wish  # only a main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: object) -> None:
        wish.note()
        give_back()

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield wish
    finally:
        give_back()
