"""A served explorer and poll, and a visitor of the explorer, for the fault tests of the pages."""

import asyncio
import base64
import gc
import io
import json
from contextlib import contextmanager

import pytest
from PIL import Image

from maxmincaps import fit
from maxmincaps.app import explorer as explorer_pages
from maxmincaps.app import poll as poll_pages
from maxmincaps.app.store import Store
from tests.app.conftest import Visitor, asked, serving
from tests.faults.own import own_recipe, write_own

NAMES = ["<script>alert(1)</script>", "[/bold]", "\x1b[2Jcleared"]


@pytest.fixture(scope="module", name="run")
def run_fixture(tmp_path_factory):
    """A run whose class names are hostile."""
    images = write_own(tmp_path_factory.mktemp("own") / "images.npz", names=NAMES)
    return fit(own_recipe(images, epochs=1), tmp_path_factory.mktemp("runs") / "run").folder


@contextmanager
def explorer_of(page, host="127.0.0.1"):
    with serving(page, host=host, policy=explorer_pages.POLICY, most_bytes=explorer_pages.MOST_BYTES) as listener:
        yield listener
    # Gradio leaves an event loop open, which in a process of its own ends with the process.
    loops = [one for one in gc.get_objects() if isinstance(one, asyncio.AbstractEventLoop) and not one.is_running()]
    for loop in loops:
        loop.close()


@pytest.fixture(scope="module", name="explorer")
def explorer_fixture(run):
    with explorer_of(explorer_pages.explorer_page([run])) as listener:
        yield listener


@pytest.fixture(name="poll")
def poll_fixture(tmp_path):
    store = Store.create(tmp_path / "poll.sqlite", asked(3))
    with serving(poll_pages.poll_page(store)) as listener:
        yield listener
    store.close()


class Guest(Visitor):
    """A visitor of the explorer."""

    def __init__(self, port, number, events=None):
        super().__init__(port)
        self.session, self.events = f"guest{number}", events or {}

    def open(self):
        """Load the page and read its events, each with its default inputs."""
        assert self.ask("GET", "/")[0] == 200
        config = self.ask("GET", "/config")[1]
        values = {part["id"]: part["props"].get("value") for part in config["components"]}
        self.events = {
            event["api_name"]: (event["id"], [values[number] for number in event["inputs"]])
            for event in config["dependencies"]
        }
        return self

    def do(self, name, *first, **sent):
        """Send one of the page's events; `first` replaces the first of its default inputs."""
        number, data = self.events[name]
        body = {"data": [*first, *data[len(first) :]], "fn_index": number, "session_hash": self.session}
        body |= {"event_data": sent} if sent else {}
        return self.ask("POST", "/gradio_api/run/predict", json.dumps(body), content_type="application/json")


def png(width, height):
    return encoded(Image.new("L", (width, height), 200))


def encoded(picture):
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def url(content, kind="png"):
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
