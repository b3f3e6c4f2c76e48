"""The poll's page: one image at a time, large and crisp, ten buttons and the keys 0 to 9.

It is a page of its own, not Gradio's: an answer is one key and one small request, and the same page must serve many
people at once, on their phones, and go on where it was after the server has been killed.
"""

import json
import re
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from maxmincaps.analysis.poll import CANNOT_TELL
from maxmincaps.app import asset
from maxmincaps.app.store import ClosedError, Store
from maxmincaps.errors import InputError

MOST_BYTES = 1024
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
ASSETS = {
    "/": ("poll.html", "text/html"),
    "/poll.js": ("poll.js", "text/javascript"),
    "/poll.css": ("poll.css", "text/css"),
    "/palette.css": ("palette.css", "text/css"),
}
A_YEAR = 365 * 24 * 3600


def poll_page(store: Store) -> Starlette:
    """Make the app that puts a poll's images to people."""
    page = _Page(store)
    return Starlette(
        routes=[
            *(Route(path, _file(name, kind)) for path, (name, kind) in ASSETS.items()),
            Route("/state", page.state),
            Route("/image/{number}.png", page.image),
            Route("/answer", page.answer, methods=["POST"]),
        ]
    )


def _file(name: str, kind: str) -> Any:
    content = asset(name)

    def send(_: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return send


class _Page:
    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self, request: Request) -> Response:
        """Say what a person needs to begin or to go on; a person without an id gets one."""
        store = self._store
        signed = request.cookies.get(store.cookie, "")
        person = store.person(signed)
        if not person:
            signed = store.new_person()
            person = store.person(signed) or ""
        try:
            told = {
                "classes": store.classes,
                "order": store.order(person),
                "answers": store.answers_of(person),
                "open": store.is_open,
                "cannotTell": CANNOT_TELL,
            }
        except InputError:
            return _refused("The poll's file cannot be read at the moment. Please try again later.", 503)
        answer = JSONResponse(told, headers={"cache-control": "no-store"})
        answer.set_cookie(store.cookie, signed, max_age=A_YEAR, httponly=True, samesite="strict")
        return answer

    def image(self, request: Request) -> Response:
        """Send one image."""
        number = request.path_params["number"]
        png = self._store.images.get(int(number)) if re.fullmatch("[0-9]{1,18}", number) else None
        if png is None:
            return _refused("There is no such image in this poll.", 404)
        return Response(png, media_type="image/png", headers={"cache-control": "private, max-age=3600"})

    async def answer(self, request: Request) -> Response:
        """Keep an answer, and say so when it is on the disk, not before."""
        person = self._store.person(request.cookies.get(self._store.cookie, ""))
        if not person:
            return _refused("This browser has no valid id for this poll. Please reload the page.", 403)
        try:
            given: Any = json.loads(await request.body())
        except (ValueError, RecursionError, ClientDisconnect):
            given = {}
        if not _is_answer(given):
            return _refused('Expected {"image": number, "label": number}.', 400)
        return await run_in_threadpool(self._keep, person, given["image"], given["label"])

    def _keep(self, person: str, number: int, label: int) -> Response:
        try:
            answered = self._store.answer(person, number, label)
        except ClosedError:
            return _refused("This poll is closed. Thank you for your interest.", 409)
        except InputError as error:
            if error.__cause__ is None:
                return _refused(f"This answer does not fit the poll: {error}.", 400)
            # The disk is full or the file is gone. The message names the file, so it is not for the page.
            return _refused("Your answer could not be stored. Please keep this page open and try again.", 507)
        return JSONResponse({"answered": answered})


def _is_answer(given: Any) -> bool:
    # Exactly int: true is no label, and neither is 3.0.
    return (
        isinstance(given, dict)
        and given.keys() == {"image", "label"}
        and all(type(value) is int for value in given.values())
    )


def _refused(reason: str, code: int) -> JSONResponse:
    return JSONResponse({"error": reason}, code)
