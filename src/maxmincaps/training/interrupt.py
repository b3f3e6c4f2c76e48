"""Ctrl-C and the polite kill, turned into a wish that is granted between two steps."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopWish:
    """Whether somebody asked the run to stop: by a signal, or through `asked`."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self.made, self.asked = False, asked

    def __bool__(self) -> bool:
        return self.made or self.asked()


@contextmanager
def stop_wishes(asked: Callable[[], bool]) -> Iterator[StopWish]:
    """Collect the first SIGINT or SIGTERM as a wish; the second one interrupts at once, as usual."""
    wish = StopWish(asked)
    if threading.current_thread() is not threading.main_thread():
        yield wish  # only a main thread may handle signals
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: object) -> None:
        wish.made = True
        give_back()

    for number in signals:
        signal.signal(number, note)
    try:
        yield wish
    finally:
        give_back()
