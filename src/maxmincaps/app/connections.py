"""Limits for a page's server: open connections, the time in which a request must arrive, and what is logged."""

import asyncio
import io
import time
from typing import Any, TextIO

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 512
TIMEOUTS_S: dict[Any, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 120.0}
"""Seconds in which a request's headers, and then its body, must arrive."""
MOST_LOGGED = 32_768  # characters of messages on stderr in a minute


def connection_limit() -> int:
    """Return how many connections may be open: at most half of the files that this process may open."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files < 0 else max(8, min(MOST_CONNECTIONS, files // 2))


class BoundedProtocol(H11Protocol):
    """An HTTP connection with deadlines, one of a limited number.

    Of too many, the one that has waited longest for its request is closed: silent ones do not keep others out.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._phase: Any = None
        self._phase_began = 0.0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, and close another one if there are too many."""
        super().connection_made(transport)
        self._update_deadline()
        open_now: set[Any] = self.connections
        if len(open_now) > connection_limit():
            closed = min(open_now, key=lambda one: (one.conn.their_state not in TIMEOUTS_S, one._phase_began))
            self.connections.discard(closed)  # asyncio would only do this in its next cycle
            closed.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and set the deadline of what must arrive next."""
        super().data_received(data)
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its deadline."""
        if self._deadline:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _update_deadline(self) -> None:
        phase = self.conn.their_state
        if phase is self._phase:
            return
        if self._deadline:
            self._deadline.cancel()
        self._phase, self._phase_began = phase, self.loop.time()
        seconds = TIMEOUTS_S.get(phase)
        self._deadline = self.loop.call_later(seconds, self.transport.abort) if seconds else None


class BoundedStream(io.TextIOBase):
    """A text stream that drops what exceeds a number of characters a minute, so that errors cannot fill a disk."""

    def __init__(self, stream: TextIO, most: int = MOST_LOGGED) -> None:
        self._stream, self._most = stream, most
        self._minute, self._left = -1.0, most

    def write(self, text: str) -> int:
        """Write a text, or drop it. Returns its length either way, as callers expect."""
        minute = time.monotonic() // 60
        if minute != self._minute:
            self._minute, self._left = minute, self._most
        if self._left > 0:
            self._stream.write(text[: self._left])
            self._left -= len(text)
            if self._left <= 0:
                self._stream.write("\n[further messages of this minute are not shown]\n")
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self._stream.flush()
