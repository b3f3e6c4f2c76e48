"""The pages under load and under attack: all requests are answered, nothing leaks, and memory is bounded."""

import http.client
import json
import re
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from maxmincaps.analysis import poll as polls
from maxmincaps.app import explorer as explorer_pages
from tests.app.conftest import Visitor
from tests.faults.hostile import PATHS, asked_raw, hostile_requests
from tests.faults.pages import NAMES, Guest, explorer_fixture, explorer_of, png, poll_fixture, run_fixture, url  # noqa: F401
from tests.faults.readings import fresh_peak_mb, peak_mb

pytestmark = pytest.mark.filterwarnings("ignore")  # of Gradio, about itself
FOLDERS = {tempfile.gettempdir(), str(Path.home()), str(Path.cwd()), sys.prefix, sys.base_prefix}
LEAKS = re.compile("|".join([*map(re.escape, FOLDERS), "site-packages", "Traceback", r"\.py\b"]).encode())
MOST_GROWTH_MB = 400


connected = []
sys.addaudithook(lambda event, given: connected.append(str(given[1])) if event == "socket.connect" else None)


def test_fifty_people_at_once_explore_and_each_sees_their_own_image(explorer, scale, tally):
    first = Guest(explorer.port, "first").open()
    turns = scale(1, 8)

    def visit(number):
        guest = Guest(explorer.port, number, first.events)
        assert turns == 1 or guest.open()
        answers = []
        for image in ((number + turn) % 6 for turn in range(turns)):
            status, reply = guest.do("sample", image)
            assert status == 200
            assert f"test image {image}, " in reply["data"][1]
            answers.append((image, reply["data"][2]))
        return answers

    before = fresh_peak_mb()
    with ThreadPoolExecutor(50) as people:
        answers = [answer for visited in people.map(visit, range(50)) for answer in visited]
    assert len(answers) == 50 * turns
    assert len(set(answers)) == 6  # the same image, the same answer, to all
    assert peak_mb() - before < MOST_GROWTH_MB
    requests = len(answers) + (100 if turns > 1 else 0)
    tally("explorer", people_at_once=50, requests=requests, unanswered=0, MB_grown=round(peak_mb() - before))


def test_no_name_of_a_class_becomes_a_part_of_the_page(explorer):
    guest = Guest(explorer.port, "names").open()
    reply = [part for number in range(6) for part in guest.do("sample", number)[1]["data"]]
    pages = " ".join(part for part in reply if isinstance(part, str) and part[:1] == "<" and part not in NAMES)
    assert "alert(1)" in pages
    assert "<script>" not in pages


def test_a_network_of_other_classes_than_digits_is_not_said_to_take_digits(explorer):
    config = json.dumps(Guest(explorer.port, "digits").ask("GET", "/config")[1])
    assert "Draw an image" in config
    assert not re.search(r"(a|the) digit\b", config)


def test_of_more_visitors_than_are_kept_those_who_came_first_are_given_up(run, monkeypatch):
    monkeypatch.setattr(explorer_pages, "MOST_VISITORS", 3)
    page = explorer_pages.explorer_page([run])
    apps = [route.app for route in page.routes if hasattr(getattr(route, "app", None), "state_holder")]
    (kept,) = (app.state_holder.session_data for app in apps)
    with explorer_of(page) as listener:
        guest = Guest(listener.port, 0).open()
        for number in range(6):
            guest.session = f"flood{number}"
            assert guest.do("sample")[0] == 200
    assert set(kept) == {"flood3", "flood4", "flood5"}


def test_the_views_of_many_sessions_do_not_add_up_without_end(explorer, scale, tally):
    guest = Guest(explorer.port, 0).open()
    sessions = scale(10, 300)
    before = fresh_peak_mb()
    for number in range(sessions):
        guest.session = f"flood{number}"
        assert guest.do("sample")[0] == 200
    assert peak_mb() - before < MOST_GROWTH_MB
    tally("sessions", tried=sessions, kept_at_most=explorer_pages.MOST_VISITORS, MB_grown=round(peak_mb() - before))


def test_uploads_have_limits_and_a_refusal_is_a_sentence(explorer, tally):
    guest = Guest(explorer.port, "upload").open()
    bomb = bytearray(png(8, 8))
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    refused = [
        url(bytes(bomb)),
        url(b"0" * (8 << 20 | 9)),
        url(b"<svg onload=alert(1)>", "svg+xml"),
        "/etc/passwd",
        "file:///etc/passwd",
        {"url": "http://127.0.0.1/"},
        ["x"] * 1000,
        None,
        url(png(6000, 6000)),
    ]
    for sent in refused:
        status, reply = guest.do("upload", picture=sent, invert=False)
        assert status == 200
        assert 'role="alert">This cannot be shown' in reply["data"][1]
        assert not LEAKS.search(json.dumps(reply["data"][1]).encode())
    status, reply = guest.do("upload", picture=url(png(50, 40)), invert=True)
    assert "your picture at 12×12" in reply["data"][1]
    assert guest.do("upload", picture="x" * (17 << 20), invert=False)[0] == 413
    tally("uploads", tried=len(refused) + 2, refused=len(refused) + 1)


def test_the_explorer_connects_to_no_other_machine(explorer, tally):
    before = len(connected)
    guest = Guest(explorer.port, "watched").open()
    assert guest.do("sample")[0] == 200
    assert guest.ask("GET", "/theme.css")[0] == 200
    assert len(connected) > before  # we do hear of connections
    assert {address.split("'")[1] for address in connected if "'" in address} == {"127.0.0.1"}
    tally("connections", to_others=0)


def besieged(port, wide):
    """Send all hostile requests, and count the responses by class of status."""
    statuses = {}
    for content in hostile_requests(wide):
        status, body = asked_raw(port, content)
        assert not LEAKS.search(body), (content[:200], body[:500])
        statuses[status // 100] = statuses.get(status // 100, 0) + 1
    return statuses


def test_hostile_requests_to_the_explorer_leak_nothing_and_it_lives(explorer, scale, tally):
    statuses = besieged(explorer.port, scale(False, True))
    guest = Guest(explorer.port, "after").open()
    assert guest.do("sample")[0] == 200
    figures = {"refused": statuses[4], "server_errors_without_a_path": statuses.get(5, 0)}
    tally("requests to the explorer", tried=sum(statuses.values()), leaks=0, **figures)


def test_hostile_requests_to_the_poll_leak_nothing_keep_nothing_and_it_lives(poll, tmp_path, scale, tally):
    statuses = besieged(poll.port, scale(False, True))
    assert 5 not in statuses
    assert polls.read(tmp_path / "poll.sqlite").answers == 0
    visitor = Visitor(poll.port)
    visitor.state()
    assert visitor.answer(0, 1)[0] == 200
    tally("requests to the poll", tried=sum(statuses.values()), leaks=0, server_errors=0, refused=statuses[4])


def test_elsewhere_no_part_of_a_page_is_given_without_the_token(run, tally):
    with explorer_of(explorer_pages.explorer_page([run]), host="0.0.0.0") as listener:
        outsider = Visitor(listener.port)
        paths = ["/", "/config", "/theme.css", "/gradio_api/info", "/gradio_api/startup-events", "/assets/x.js", *PATHS]
        paths = [path for path in paths if "token" not in path]
        assert {outsider.ask("GET", path)[0] for path in paths} == {401}
        assert outsider.ask("POST", "/gradio_api/run/predict", b"{}")[0] == 401
        guest = Guest(listener.port, "known")
        assert guest.ask("GET", f"/?token={listener.token}")[0] == 303
        guest.open()
        assert guest.do("sample")[0] == 200
    tally("requests without the token", tried=len(paths) + 1, let_in=0)


def test_idle_connections_do_not_block_other_visitors(poll, scale, tally):
    idle = scale(100, 500)
    with ExitStack() as silent:
        for number in range(idle):
            connection = silent.enter_context(closing(socket.create_connection(("127.0.0.1", poll.port), timeout=30)))
            connection.sendall(
                b"POST /answer HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{"[: 10 + number]
            )
        visitor = Visitor(poll.port)
        visitor.state()
        assert visitor.answer(0, 1)[0] == 200
    tally("idle connections", tried=idle, kept_out=0)


def test_a_body_without_end_is_cut_off(explorer, poll):
    for listener in (explorer, poll):
        with closing(http.client.HTTPConnection("127.0.0.1", listener.port, timeout=60)) as connection:
            before = fresh_peak_mb()
            path = "/answer" if listener is poll else "/gradio_api/run/predict"
            try:
                connection.request("POST", path, iter([b"x" * (1 << 20)] * 64), encode_chunked=True)
                status = connection.getresponse().status
            except (ConnectionError, http.client.HTTPException):
                status = 400  # the server closed the connection
            assert status >= 400
            assert peak_mb() - before < 100
