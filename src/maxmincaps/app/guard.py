"""What every request to a page passes: the token, the origin, the size of its body; and the headers of every answer."""

import hashlib
import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
BODIES_AT_ONCE = 4  # request bodies of the largest size that are held in memory at one time
MONTH_S = 30 * 24 * 3600


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
