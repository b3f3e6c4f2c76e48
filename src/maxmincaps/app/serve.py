"""A page's door: where it listens, whom it lets in, how much it takes, and what it lets a page load."""

import hashlib
import ipaddress
import os
import secrets
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maxmincaps.errors import InputError, import_extra

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Door:
    """Where a page listens, and the token that it asks for where others can reach it."""

    host: str
    port: int
    token: str | None
    sockets: tuple[socket.socket, ...]

    @classmethod
    def open(cls, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> "Door":
        """Take the address at once, so that one in use is an error before anything else is done; 0 is any port.

        Beyond this machine a door has a token: a new one, or the one that the addresses already sent have.
        """
        try:
            listening = _listening(host, port)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{host}:{port} cannot be listened on ({reason}); choose another --host or --port"
            ) from None
        token = None if is_loopback(host) else token or secrets.token_urlsafe(18)
        return cls(host, listening.getsockname()[1], token, (listening,))

    @property
    def address(self) -> str:
        """Give what to open in a browser."""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::", "") else self.host
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def server(self, app: ASGIApp, *, policy: str, most_bytes: int) -> Any:
        """Give the uvicorn server that stands behind this door; `run` serves until Ctrl-C."""
        uvicorn = import_extra("app", "uvicorn")
        guarded = Guard(app, self.token, policy=policy, most_bytes=most_bytes)
        config = uvicorn.Config(
            guarded,
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,  # an open page holds a stream open for ever; Ctrl-C does not wait for it
        )
        return uvicorn.Server(config)

    def serve(self, app: ASGIApp, *, policy: str, most_bytes: int) -> None:
        """Serve until Ctrl-C."""
        self.server(app, policy=policy, most_bytes=most_bytes).run(sockets=list(self.sockets))


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise OverflowError("a port is 0 to 65535")
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # where a server that was killed may be started again at once; elsewhere beside another
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # now, or a second server would learn only after its start that the port is taken
    except BaseException:
        listening.close()
        raise
    return listening


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Stands before an app: refuses strangers and floods, and forbids the browser to ask anyone else for anything."""

    def __init__(self, app: ASGIApp, token: str | None, *, policy: str, most_bytes: int) -> None:
        self._app, self._token, self._most_bytes = app, token, most_bytes
        # Cookies are shared among the ports of a machine, and a machine may serve several pages.
        self._cookie = f"maxmincaps_token_{hashlib.sha256((token or '').encode()).hexdigest()[:8]}"
        self._headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the app answer it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        answer = self._refusal(headers) or self._entrance(scope, headers)
        if answer:
            return await answer(scope, receive, self._with_headers(send))
        return await self._app(scope, self._limited(receive), self._with_headers(send))

    def _refusal(self, headers: dict[str, str]) -> PlainTextResponse | None:
        if self._token is None and not is_loopback(_name_of(headers.get("host", ""))):
            # Another site's name that resolves to this machine must not read a page that is for this machine alone.
            return PlainTextResponse("This page is for the machine that it runs on.", 421)
        origin = headers.get("origin")
        if origin and origin.partition("://")[2] != headers.get("host"):
            return PlainTextResponse("This page answers no other site.", 403)
        stated = headers.get("content-length", "0")
        if not stated.isdigit() or int(stated[:20]) > self._most_bytes:
            return PlainTextResponse(f"This page takes at most {self._most_bytes:,} bytes at once.", 413)
        return None

    def _entrance(self, scope: Scope, headers: dict[str, str]) -> PlainTextResponse | RedirectResponse | None:
        if self._token is None or self._is_token(_cookie(headers, self._cookie)):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self._is_token(given):
            return PlainTextResponse(
                "This page needs the whole address that the terminal printed, token included.", 401
            )
        welcome = RedirectResponse(scope["path"] if scope["path"][:2] != "//" else "/", 303)
        # Lax: who comes by a link on another site's page, such as webmail, brings the cookie through the redirect.
        welcome.set_cookie(self._cookie, given, httponly=True, samesite="lax", max_age=30 * 24 * 3600)
        return welcome

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), (self._token or "").encode())

    def _limited(self, receive: Receive) -> Receive:
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            # A body without a stated length is cut off where it grows too long: the app sees its reader go away.
            return {"type": "http.disconnect"} if taken > self._most_bytes else message

        return limited

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in self._headers.items()]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        return sending


def _name_of(host: str) -> str:
    """Give the name in a Host header, without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _cookie(headers: dict[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
