"""The poll's page: one image at a time, a button for each class, and the keys 0 to 9.

It does not use Gradio: an answer is one small request, the page serves many people at once, also on phones, and it
continues after the server was killed.
"""

import re
from typing import Any

from pydantic import BaseModel
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
ASSETS = {"poll.html": "text/html", "poll.js": "text/javascript", "poll.css": "text/css", "palette.css": "text/css"}
YEAR_S = 365 * 24 * 3600


class Answer(BaseModel, extra="forbid", strict=True):
    """What the page sends: an image's number and a label, exactly whole numbers."""

    image: int
    label: int


def poll_page(store: Store) -> Starlette:
    """Build the ASGI application of a poll."""
    page = _Page(store)
    return Starlette(
        routes=[
            *(Route("/" if kind == "text/html" else f"/{name}", _file(name, kind)) for name, kind in ASSETS.items()),
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
        """Send what a person needs to begin or to continue, and an id if the person has none."""
        store = self._store
        signed = request.cookies.get(store.cookie, "")
        person = store.person(signed)
        if not person:
            signed = store.new_person()
            person = store.person(signed) or ""
        try:
            state = {
                "classes": store.classes,
                "order": store.order(person),
                "answers": store.answers_of(person),
                "open": store.is_open,
                "cannotTell": CANNOT_TELL,
            }
        except InputError:
            return _refused("The poll's file cannot be read at the moment. Please try again later.", 503)
        answer = JSONResponse(state, headers={"cache-control": "no-store"})
        answer.set_cookie(store.cookie, signed, max_age=YEAR_S, httponly=True, samesite="strict")
        return answer

    def image(self, request: Request) -> Response:
        """Send one image as PNG."""
        number = request.path_params["number"]
        png = self._store.images.get(int(number)) if re.fullmatch("[0-9]{1,18}", number) else None
        if png is None:
            return _refused("There is no such image in this poll.", 404)
        return Response(png, media_type="image/png", headers={"cache-control": "private, max-age=3600"})

    async def answer(self, request: Request) -> Response:
        """Store an answer, and acknowledge it when it is on the disk."""
        person = self._store.person(request.cookies.get(self._store.cookie, ""))
        if not person:
            return _refused("This browser has no valid id for this poll. Please reload the page.", 403)
        try:
            given = Answer.model_validate_json(await request.body())
        except (ValueError, ClientDisconnect):
            return _refused('Expected {"image": number, "label": number}.', 400)
        return await run_in_threadpool(self._store_answer, person, given.image, given.label)

    def _store_answer(self, person: str, number: int, label: int) -> Response:
        try:
            answered = self._store.answer(person, number, label)
        except ClosedError:
            return _refused("This poll is closed. Thank you for your interest.", 409)
        except InputError as error:
            if error.__cause__ is None:
                return _refused(f"This answer does not fit the poll: {error}.", 400)
            # The disk is full or the file is gone. The message names the file and must not reach the page.
            return _refused("Your answer could not be stored. Please keep this page open and try again.", 507)
        return JSONResponse({"answered": answered})


def _refused(reason: str, code: int) -> JSONResponse:
    return JSONResponse({"error": reason}, code)
