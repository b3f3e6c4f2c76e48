"""Fixtures of the pages' tests: two tiny trained runs, a server in a thread, and a real browser."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxmincaps import Recipe, fit
from maxmincaps.analysis.poll import Poll, Question
from maxmincaps.app import poll as poll_pages
from maxmincaps.app.serve import Listener
from maxmincaps.app.store import Store
from tests.conftest import TINY

BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
DIGITS = tuple("0123456789")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two tiny networks, trained with Max-Min and with Softmax."""
    folder = tmp_path_factory.mktemp("runs")
    for normalization in ("max-min", "softmax"):
        fit(Recipe(**{**TINY, "normalization": normalization, "epochs": 1}), folder / normalization)
    return [folder / "max-min", folder / "softmax"]


def question(number: int, label: int = 7, prediction: int = 1) -> Question:
    pixels = np.random.RandomState(number).randint(0, 256, (1, 28, 28)).astype(np.uint8)
    lengths = np.linspace(0, 0.9, 10)
    return Question(number, label, prediction, lengths, pixels, np.zeros(10, np.int64))


def asked(images: int = 17) -> Poll:
    return Poll("mnist", DIGITS, 3, [question(100 + number) for number in range(images)])


@contextmanager
def serving(
    app,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    policy: str = poll_pages.POLICY,
    most_bytes: int = poll_pages.MOST_BYTES,
):
    """Serve an app from a thread, behind the same listener as the command's."""
    listener = Listener.open(host, token=token)
    server = listener.server(app, policy=policy, most_bytes=most_bytes)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener.socket]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield listener
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def poll(tmp_path):
    """A served poll of five images: the store and the listener."""
    store = Store.create(tmp_path / "poll.sqlite", asked(5))
    with serving(poll_pages.poll_page(store)) as listener:
        yield store, listener
    store.close()


class Served:
    """A command that serves a page, in a process of its own, always on the same port."""

    def __init__(self, *command: str, **popen: Any) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            self.port = taken.getsockname()[1]
        self.command = [sys.executable, "-m", "maxmincaps", *command, "--port", str(self.port)]
        self.address = f"http://127.0.0.1:{self.port}/"
        self.popen = popen  # further arguments of subprocess.Popen
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}, **self.popen
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def persist(ask):
    """Retry until there is an answer, as the page does; a server that never answers fails the test."""
    given_up_at = time.monotonic() + 180
    while True:
        try:
            return ask()
        except (OSError, http.client.HTTPException):
            if time.monotonic() > given_up_at:
                raise
            time.sleep(0.05)


class Visitor:
    """A person without a browser: keeps its cookie."""

    def __init__(self, port: int, cookie: str = "") -> None:
        self.port, self.cookie = port, cookie

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str):
        """Return status and body, parsed if it is JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)) as connection:
            connection.request(method, path, body, {**({"cookie": self.cookie} if self.cookie else {}), **sent})
            answer = connection.getresponse()
            content = answer.read()
        if answer.getheader("set-cookie"):
            self.cookie = answer.getheader("set-cookie").partition(";")[0]
        if answer.getheader("content-type") == "application/json":
            content = json.loads(content)
        return answer.status, content

    def state(self):
        return self.ask("GET", "/state")[1]

    def answer(self, image, label):
        return self.ask("POST", "/answer", json.dumps({"image": image, "label": label}))


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium; without it the tests are skipped with a message."""
    playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TESTS: playwright is not installed")
    if not BROWSER or not Path(BROWSER).exists():
        pytest.skip("NO BROWSER TESTS: there is no chromium on this machine; the pages were not driven")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield chromium
        chromium.close()
