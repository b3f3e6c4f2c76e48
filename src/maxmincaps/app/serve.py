"""Serve a page: where it listens, and what protects it."""

import ipaddress
import secrets
import socket
import sys
from contextlib import redirect_stderr
from dataclasses import dataclass

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from maxmincaps.app.connections import BoundedProtocol, BoundedStream, connection_limit
from maxmincaps.app.guard import Guard
from maxmincaps.errors import InputError


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
