"""Ctrl-C and the polite kill, turned into a request that is granted between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_bool
from multiprocessing import get_context
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
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
def stop_requests() -> Iterator[StopRequest]:
    """Collect the first SIGINT or SIGTERM as a request; the second one interrupts at once, as usual."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only a main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: object) -> None:
        request.note()
        give_back()

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield request
    finally:
        give_back()
