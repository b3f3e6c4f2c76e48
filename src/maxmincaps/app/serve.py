"""Serve a page: where it listens, what every request passes, and the limits of its connections and messages."""

import asyncio
import hashlib
import io
import ipaddress
import re
import secrets
import socket
import sys
import time
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Any, TextIO

import h11
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from maxmincaps.errors import InputError

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
BODIES_AT_ONCE = 4  # request bodies of the largest size that are held in memory at one time
MONTH_S = 30 * 24 * 3600
MOST_CONNECTIONS = 512
TIMEOUTS_S: dict[Any, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 120.0}
"""Seconds in which a request's headers, and then its body, must arrive."""
MOST_LOGGED = 32_768  # characters of messages on stderr in a minute


@dataclass(frozen=True)
class Listener:
    """A listening socket, and the token that visitors need if others than this machine can reach it."""

    host: str
    port: int
    token: str | None
    socket: socket.socket

    @classmethod
    def open(cls, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> "Listener":
        """Listen at once, so that an address in use is an error before anything else is done.

        Port 0 means any free one. If `host` is not a loopback address, visitors need `token`, or else a new random one.
        """
        try:
            if not 0 <= port < 1 << 16:
                raise OverflowError("a port is 0 to 65535")
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
            listening = socket.create_server(address, family=family, dualstack_ipv6=both)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{host}:{port} cannot be listened on ({reason}); choose another --host or --port"
            ) from None
        token = None if is_loopback(host) else token or secrets.token_urlsafe(18)
        return cls(host, listening.getsockname()[1], token, listening)

    @property
    def address(self) -> str:
        """The URL to open in a browser."""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://{_bracketed(name)}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def server(self, app: ASGIApp, *, policy: str, most_bytes: int) -> uvicorn.Server:
        """Build the server of a page, given its Content-Security-Policy and the largest request body that it takes."""
        if self.token is None:
            # The name of another site may resolve to this machine; that site must not read the page.
            hosts = ["localhost", "127.0.0.1", "[::1]", _bracketed(self.host)]
            app = TrustedHostMiddleware(app, allowed_hosts=hosts, www_redirect=False)
        config = uvicorn.Config(
            Guard(app, self.token, policy=policy, most_bytes=most_bytes),
            http=BoundedProtocol,
            # asyncio accepts this many connections before any is counted, so they must fit beside the limit.
            backlog=max(4, connection_limit() // 4),
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,  # an open page keeps a stream open, which Ctrl-C does not wait for
        )
        return uvicorn.Server(config)

    def serve(self, app: ASGIApp, *, policy: str, most_bytes: int) -> None:
        """Serve a page until Ctrl-C; see `server` for the arguments."""
        with redirect_stderr(BoundedStream(sys.stderr)):
            self.server(app, policy=policy, most_bytes=most_bytes).run(sockets=[self.socket])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Guard:
    """ASGI middleware in front of a page: requires a token if there is one, and sends the page's security policy."""

    def __init__(self, app: ASGIApp, token: str | None, *, policy: str, most_bytes: int) -> None:
        self._app, self._token, self._most_bytes = app, token, most_bytes
        # A browser sends its cookies to all ports of a machine, which may serve several pages.
        self._cookie = f"maxmincaps_token_{hashlib.sha256((token or '').encode()).hexdigest()[:8]}"
        self._headers = {**HEADERS, "content-security-policy": policy}
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the page."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request, taken = Request(scope), 0
        size = self._stated_size(request.headers)

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            # A body without a stated length ends as a disconnect when it exceeds the limit.
            return {"type": "http.disconnect"} if taken > self._most_bytes else message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        answer = self._refusal(request.headers, size) or self._entrance(request)
        if answer:
            return await answer(scope, receive, with_headers)
        self._held_bytes += size
        try:
            return await self._app(scope, limited, with_headers)
        finally:
            self._held_bytes -= size

    def _stated_size(self, headers: Headers) -> int:
        """Return how many bytes a request's body may have: the stated length, or the limit if none is stated."""
        if "transfer-encoding" in headers:
            return self._most_bytes
        stated = headers.get("content-length", "0")
        return int(stated) if re.fullmatch("[0-9]{1,18}", stated) else self._most_bytes + 1

    def _refusal(self, headers: Headers, size: int) -> Response | None:
        origin = headers.get("origin")
        if origin and origin.partition("://")[2] != headers.get("host"):
            return PlainTextResponse("This page does not answer other sites.", 403)
        if size > self._most_bytes:
            return PlainTextResponse(f"A request may have at most {self._most_bytes:,} bytes.", 413)
        if self._held_bytes + size > BODIES_AT_ONCE * self._most_bytes:
            return PlainTextResponse("Too many large requests at once. Please try again.", 503)
        return None

    def _entrance(self, request: Request) -> Response | None:
        """Return None for a visitor with the token's cookie, a redirect that sets it, or a refusal."""
        if self._token is None or self._is_token(request.cookies.get(self._cookie, "")):
            return None
        given, path = request.query_params.get("token", ""), request.scope["path"]
        if not self._is_token(given):
            return PlainTextResponse(
                "This page needs the whole address that the terminal printed, with its token.", 401
            )
        welcome = RedirectResponse("/" if path.startswith("//") else path, 303)
        # Lax: a visitor who follows a link in webmail must bring the cookie through the redirect.
        welcome.set_cookie(self._cookie, given, httponly=True, samesite="lax", max_age=MONTH_S)
        return welcome

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), (self._token or "").encode())


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
