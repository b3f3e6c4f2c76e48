"""SIGINT and SIGTERM as a request to stop, which training grants between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_bool
from multiprocessing import get_context
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether a signal asked a run to stop. The processes of a run share the request."""

    def __init__(self) -> None:
        self.made = get_context("spawn").RawValue(c_bool, False)

    def __bool__(self) -> bool:
        return self.made.value

    def note(self, *_: object) -> None:
        """Handle a signal by storing the request."""
        self.made.value = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Handle signals in another process as soon as the request arrives there by pickling.

        Ctrl-C reaches all processes. A process that it ended before its task began would be waited for, and only the
        first process decides when to interrupt at once.
        """
        self.__dict__.update(state)
        for number in SIGNALS:
            signal.signal(number, self.note)


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Run a block that must not be interrupted, such as the start of a process; raise the first Ctrl-C at its end."""
    with stop_requests() as request:
        yield
    if request:
        raise KeyboardInterrupt


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Store the first SIGINT or SIGTERM as a request; a second one interrupts at once, as usual."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only a main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore_handlers() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: object) -> None:
        request.note()
        restore_handlers()

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore_handlers()
