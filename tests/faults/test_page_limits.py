"""Limits of the pages: connections, slow requests, messages, memory of uploads, routes, ids and files."""

import base64
import json
import socket
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import h11
import pytest
from PIL import Image

from maxmincaps.app import serve
from maxmincaps.app.poll import poll_page
from maxmincaps.app.serve import BoundedStream
from maxmincaps.app.store import Store
from tests.app.conftest import Served, Visitor, asked, persist, serving
from tests.faults.pages import (  # noqa: F401
    Guest,
    encoded,
    explorer_fixture,
    poll_fixture,
    run_fixture,
    url,
)
from tests.faults.readings import fresh_peak_mb, peak_mb

pytestmark = pytest.mark.filterwarnings("ignore")  # of Gradio, about itself
OPEN_FILES, SILENT = 256, 400


def few_files():
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


@pytest.fixture(params=["poll", "explorer"])
def served(request, tmp_path, run):
    """A page in a process that may open few files, and the file of its messages."""
    Store.create(tmp_path / "poll.sqlite", asked(3)).close()
    command = ["app", str(run)] if request.param == "explorer" else ["poll", "open", "--out", f"{tmp_path}/poll.sqlite"]
    with (tmp_path / "messages").open("w") as messages:
        page = Served(*command, stderr=messages, preexec_fn=few_files)
    try:
        persist(lambda: Visitor(page.port).ask("GET", "/"))
        yield page, tmp_path / "messages"
    finally:
        page.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of open files to set")
def test_more_idle_connections_than_open_files_block_no_visitor_and_fill_no_log(served):
    page, messages = served
    with ExitStack() as silent:
        for _ in range(SILENT):
            silent.enter_context(closing(socket.create_connection(("127.0.0.1", page.port), timeout=30)))
        began = time.monotonic()
        assert Visitor(page.port).ask("GET", "/")[0] == 200
        assert time.monotonic() - began < 30
    assert messages.stat().st_size < 10_000


def test_requests_that_fail_fill_no_log(served):
    page, messages = served
    for _ in range(30):
        body = json.dumps({"data": [None] * 3, "fn_index": 5, "session_hash": "x"})
        Visitor(page.port).ask("POST", "/gradio_api/run/predict", body, content_type="application/json")
    assert messages.stat().st_size < 2 * serve.MOST_LOGGED


def test_a_stream_of_messages_is_cut_and_says_so(tmp_path):
    with (tmp_path / "messages").open("w") as file:
        stream = BoundedStream(file, most=100)
        for _ in range(1000):
            assert stream.write("x" * 30) == 30
    output = (tmp_path / "messages").read_text()
    assert output.count("x") == 100
    assert output.count("not shown") == 1


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: 127", b"POST / HTTP/1.1\r\ncontent-length: 9\r\n"])
def test_a_request_that_does_not_arrive_in_time_is_closed(poll, monkeypatch, sent):
    monkeypatch.setitem(serve.TIMEOUTS_S, h11.IDLE, 0.2)
    with closing(socket.create_connection(("127.0.0.1", poll.port), timeout=20)) as slow:
        slow.sendall(sent)
        assert _closed(slow)


def test_a_slow_second_request_and_a_slow_body_are_closed_too(poll, monkeypatch):
    for phase in serve.TIMEOUTS_S:
        monkeypatch.setitem(serve.TIMEOUTS_S, phase, 0.5)
    with closing(socket.create_connection(("127.0.0.1", poll.port), timeout=20)) as slow:
        slow.sendall(b"GET /palette.css HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert slow.recv(1 << 16).startswith(b"HTTP/1.1 200")
        slow.sendall(b"GET /palette.css HT")
        assert _closed(slow)
    visitor = Visitor(poll.port)
    visitor.state()
    with closing(socket.create_connection(("127.0.0.1", poll.port), timeout=20)) as slow:
        head = f"POST /answer HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: {visitor.cookie}\r\ncontent-length: 9\r\n\r\n["
        slow.sendall(head.encode())
        assert _closed(slow)


def _closed(connection):
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_a_small_file_that_decodes_to_a_huge_picture_is_refused_before_it_is_decoded(explorer):
    guest = Guest(explorer.port, "huge").open()
    for mode in ("L", "RGBA", "I;16"):
        small = encoded(Image.new(mode, (5792, 5792)))
        assert len(small) < 1 << 18
        before = fresh_peak_mb()
        assert "million pixels" in guest.do("upload", picture=url(small), invert=False)[1]["data"][1]
        assert peak_mb() - before < 100


def test_large_pictures_are_decoded_one_at_a_time(explorer):
    first = Guest(explorer.port, "first").open()
    largest = url(encoded(Image.new("RGBA", (3500, 3500))))

    def upload(number):
        return Guest(explorer.port, f"large{number}", first.events).do("upload", picture=largest, invert=False)

    assert upload("warm")[0] == 200
    before = fresh_peak_mb()
    upload("alone")
    alone = peak_mb() - before
    before = fresh_peak_mb()
    with ThreadPoolExecutor(8) as people:
        answers = list(people.map(upload, range(8)))
    assert all("your picture" in reply["data"][1] for _, reply in answers)
    assert peak_mb() - before < 1.5 * max(alone, 100)


def test_bodies_that_do_not_fit_into_memory_together_are_refused(run):
    body = b'{"picture": "' + base64.b64encode(bytes(700))
    with serving(poll_page_that_waits(), most_bytes=1024) as listener, ExitStack() as held:
        for _ in range(4):
            line = held.enter_context(closing(socket.create_connection(("127.0.0.1", listener.port), timeout=20)))
            line.sendall(b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1024\r\n\r\n" + body)
        persist_until(lambda: Visitor(listener.port).ask("POST", "/", b"x" * 1024)[0] == 503)
        assert Visitor(listener.port).ask("GET", "/")[0] == 200


def poll_page_that_waits():
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse

    async def page(scope, receive, send):
        if scope["type"] == "http":
            content = await Request(scope, receive).body()
            await PlainTextResponse(f"{len(content)} bytes")(scope, receive, send)

    return page


def persist_until(holds):
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("path", ["queue/join", "call/sample", "call/v2/sample", "api/sample", "upload", "run/sample"])
def test_routes_of_gradio_that_the_page_does_not_use_are_closed(explorer, path):
    guest = Guest(explorer.port, "queue").open()
    number, data = guest.events["sample"]
    body = json.dumps({"data": data, "fn_index": number, "session_hash": "queue", "event_data": "x" * (1 << 20)})
    assert guest.ask("POST", f"/gradio_api/{path}", body, content_type="application/json")[0] == 404
    assert guest.ask("GET", "/gradio_api/queue/data?session_hash=queue")[0] == 404


def test_the_number_of_an_image_may_have_any_length(poll):
    for number in ("9" * 5000, "0" * 5000, "-1", "%D9%A3", "1e3", "%00"):
        assert Visitor(poll.port).ask("GET", f"/image/{number}.png")[0] == 404
    assert Visitor(poll.port).ask("GET", "/image/0.png")[0] == 200


def test_the_token_of_a_poll_s_address_is_no_id_of_a_person(tmp_path):
    store = Store.create(tmp_path / "poll.sqlite", asked(3))
    assert store.person(f"token.{store.token}") is None
    with serving(poll_page(store), host="0.0.0.0", token=store.token) as listener:
        guest = Visitor(listener.port)
        guest.ask("GET", f"/?token={store.token}")
        guest.cookie += f"; {store.cookie}=token.{store.token}"
        assert guest.answer(0, 1)[0] == 403
    store.close()


def test_no_other_site_may_embed_a_part_of_a_page(explorer, poll):
    for listener in (explorer, poll):
        with closing(socket.create_connection(("127.0.0.1", listener.port), timeout=30)) as line:
            line.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            head = b"".join(iter(lambda line=line: line.recv(1 << 16), b"")).partition(b"\r\n\r\n")[0].lower()
        assert b"cross-origin-resource-policy: same-origin" in head


@pytest.mark.skipif(sys.platform == "win32", reason="no POSIX modes")
def test_only_the_owner_may_read_the_file_of_a_poll(tmp_path):
    store = Store.create(tmp_path / "poll.sqlite", asked(3))
    store.answer(store.person(store.new_person()), 0, 1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("poll.sqlite*")}
    store.close()
    assert modes["poll.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="no POSIX modes")
@pytest.mark.parametrize("again", [Store.existing, lambda path: Store.create(path, asked(3))])
def test_the_file_of_an_earlier_poll_is_closed_to_others_when_it_is_opened(tmp_path, again):
    path = tmp_path / "poll.sqlite"
    Store.create(path, asked(3)).close()
    path.chmod(0o644)
    again(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
