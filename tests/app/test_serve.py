"""Who can open a page, and how much a request may hold."""

import http.client
import socket
from contextlib import closing, suppress

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

from maxmincaps import InputError
from maxmincaps.app.serve import Listener, is_loopback
from maxmincaps.app.store import Store
from tests.app.conftest import Visitor, asked, serving


async def counting(scope, receive, send):
    """An app that says how much it was sent."""
    if scope["type"] != "http":
        return
    try:
        length = len(await Request(scope, receive).body())
    except ClientDisconnect:
        return
    await PlainTextResponse(f"{length} bytes")(scope, receive, send)


@pytest.fixture
def listener():
    with serving(counting) as opened:
        yield opened


def test_a_page_is_for_this_machine_alone_unless_told_otherwise(listener):
    assert listener.token is None
    assert listener.socket.getsockname()[0] == "127.0.0.1"
    assert Visitor(listener.port).ask("GET", "/") == (200, b"0 bytes")
    assert [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "192.168.1.5", "")] == [
        *[True] * 3,
        *[False] * 3,
    ]


def test_a_name_of_another_site_that_leads_here_is_turned_away(listener):
    visitor = Visitor(listener.port)
    assert visitor.ask("GET", "/", host="evil.example:80")[0] == 400
    assert visitor.ask("GET", "/", host=f"localhost:{listener.port}")[0] == 200
    assert visitor.ask("POST", "/", origin="http://evil.example")[0] == 403
    assert visitor.ask("POST", "/", origin=f"http://127.0.0.1:{listener.port}")[0] == 200


def test_elsewhere_a_page_asks_for_the_token_that_its_address_has():
    with serving(counting, host="0.0.0.0") as listener:
        assert listener.address.endswith(f"/?token={listener.token}")
        assert len(listener.token) >= 24
        outsider, guest = Visitor(listener.port), Visitor(listener.port)
        assert outsider.ask("GET", "/")[0] == 401
        assert outsider.ask("GET", "/?token=")[0] == 401
        assert outsider.ask("GET", f"/?token={listener.token[:-1]}")[0] == 401
        assert guest.ask("GET", f"/?token={listener.token}")[0] == 303
        assert guest.ask("GET", "/") == (200, b"0 bytes")
        assert Visitor(listener.port, f"{guest.cookie[:-1]}!").ask("GET", "/")[0] == 401
        assert outsider.ask("POST", "/", b"x")[0] == 401


def test_an_address_that_was_sent_stays_good_after_the_poll_is_opened_again(tmp_path):
    tokens = []
    for _ in range(2):
        store = Store.create(tmp_path / "poll.sqlite", asked(3))
        tokens.append(store.token)
        with serving(counting, host="0.0.0.0", token=store.token) as listener:
            assert Visitor(listener.port).ask("GET", f"/?token={tokens[0]}")[0] == 303
        store.close()
    other = Store.create(tmp_path / "other.sqlite", asked(3))
    assert tokens[0] == tokens[1] != other.token
    other.close()


def test_a_visitor_from_a_link_on_another_site_is_admitted():
    """A strict cookie would be kept from the page that the link's redirect leads to."""
    with serving(counting, host="0.0.0.0") as listener, socket.create_connection(("127.0.0.1", listener.port)) as line:
        line.sendall(f"GET /?token={listener.token} HTTP/1.1\r\nHost: localhost:{listener.port}\r\n\r\n".encode())
        assert b"samesite=lax" in line.recv(4096).lower()


def test_two_pages_of_one_machine_do_not_lock_each_other_out():
    """A browser sends its cookies to every port of a machine, and keeps one of each name."""
    with serving(counting, host="0.0.0.0") as one, serving(counting, host="0.0.0.0") as other:
        kept = {}
        for listener in (one, other):
            guest = Visitor(listener.port)
            assert guest.ask("GET", f"/?token={listener.token}")[0] == 303
            name, _, value = guest.cookie.partition("=")
            kept[name] = value
        browser = "; ".join(f"{name}={value}" for name, value in kept.items())
        assert [Visitor(listener.port, browser).ask("GET", "/")[0] for listener in (one, other)] == [200, 200]


def test_more_than_the_limit_is_refused_also_when_its_length_is_not_stated(listener):
    assert Visitor(listener.port).ask("POST", "/", b"x" * 1024) == (200, b"1024 bytes")
    assert Visitor(listener.port).ask("POST", "/", b"x" * 1025)[0] == 413
    status = 400  # the connection may be closed before all is sent
    with closing(http.client.HTTPConnection("127.0.0.1", listener.port, timeout=30)) as connection:
        with suppress(ConnectionError, http.client.HTTPException):
            connection.request("POST", "/", iter([b"x" * 600] * 4), encode_chunked=True)
            status = connection.getresponse().status
        assert status >= 400
    assert Visitor(listener.port).ask("GET", "/")[0] == 200


def test_the_browser_may_contact_no_other_host(listener):
    with closing(http.client.HTTPConnection("127.0.0.1", listener.port, timeout=30)) as connection:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
    assert answer.getheader("content-security-policy").startswith("default-src 'none'")
    assert answer.getheader("x-content-type-options") == "nosniff"
    assert answer.getheader("server") is None


def test_an_address_in_use_or_nowhere_is_one_line():
    taken = socket.create_server(("127.0.0.1", 0))
    with closing(taken), pytest.raises(InputError, match="cannot be listened on"):
        Listener.open("127.0.0.1", taken.getsockname()[1])
    own = Listener.open("127.0.0.1", 0)  # that has not begun to serve
    with pytest.raises(InputError, match="cannot be listened on"):
        Listener.open("127.0.0.1", own.port)
    own.socket.close()
    for host, port in (("no.such.host.invalid", 0), ("127.0.0.1", 70_000), ("203.0.113.7", 0)):
        with pytest.raises(InputError, match="--host or --port"):
            Listener.open(host, port)
