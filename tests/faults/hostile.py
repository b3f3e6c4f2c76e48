"""Hostile requests to a page, and how to send them."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

PATHS = [
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/assets/../../../etc/passwd",
    "/assets/%2e%2e/%2e%2e/config.py",
    "/static/..%5c..%5cx",
    "/file=/etc/passwd",
    "/gradio_api/file=/etc/passwd",
    "/gradio_api/file=../../x",
    "/gradio_api/proxy=http://127.0.0.1:1/",
    "/gradio_api/stream/a/b/c",
    "/custom_component/a/b/c/d",
    "/image/-1.png",
    "/image/99999999999999999999.png",
    "/image/1.png/../../x",
    "/image/%00.png",
    "/answer/",
    "/state/../answer",
    "//evil.example/",
    "/?token=x",
    "/gradio_api/queue/join",
    "/gradio_api/queue/data",
    "/gradio_api/upload",
    "/gradio_api/component_server",
    "/gradio_api/call/sample",
    "/gradio_api/reset",
    "/gradio_api/cancel",
    "/login",
    "/logout",
    "/monitoring",
    "/openapi.json",
    "/docs",
    "/redoc",
    "/.git/config",
    "/.env",
    "/poll.sqlite",
    "/%ff%fe",
    "/a%0d%0aset-cookie:x=1",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO"]
BODIES = [b"", b"{", b"null", b"[]", b'"x"', b"[" * 900, b"\xff\xfe\x00", b'{"image":0,"label":1e999}', b"a=b&c=d"]
BODIES += [json.dumps(body).encode() for body in (
    {"data": [], "fn_index": 0}, {"data": ["x"] * 50, "fn_index": 3, "session_hash": "h"}, {"fn_index": "draw"},
    {"data": [None] * 7, "fn_index": 5, "session_hash": "../../x"}, {"data": {}, "fn_index": -1}, {"fn_index": 10**9},
    {"data": [0, "nope", "x", "y", "z", 1, "w"], "fn_index": 5, "session_hash": "h"},
    {"data": [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}] * 7, "fn_index": 5, "session_hash": "h"},
)]  # fmt: skip
HEADERS = [
    {"host": "evil.example"},
    {"host": ""},
    {"host": "127.0.0.1.evil.example"},
    {"host": "[::1].evil.example"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"cookie": "=;;;=\x01", "content-type": "multipart/form-data; boundary=" + "x" * 500},
    {"content-length": "99999999999"},
    {"content-length": "-1"},
    {"x-forwarded-for": "8.8.8.8", "x-forwarded-host": "evil.example", "x-forwarded-proto": "https"},
    {"range": "bytes=0-99999999999", "if-range": "x"},
    {"transfer-encoding": "chunked", "content-length": "5"},
]


def hostile_requests(wide: bool) -> Iterator[bytes]:
    """Yield hostile requests as bytes: every method, path, body and header above, and bytes that are not HTTP."""
    plain = {"host": "127.0.0.1", "connection": "close"}
    for method in METHODS if wide else ["GET", "POST", "DELETE"]:
        for path in ["/", *PATHS]:
            yield _bytes(method, path, plain, b"{}")
    for body in BODIES:
        for path in ("/answer", "/gradio_api/run/predict", "/gradio_api/queue/join", "/gradio_api/component_server"):
            yield _bytes("POST", path, {**plain, "content-type": "application/json"}, body)
    for headers in HEADERS:
        yield _bytes("GET", "/", {**plain, **headers})
        yield _bytes("POST", "/answer", {**plain, **headers}, b"{}")
    yield from (
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(512),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"A" * 70_000,
    )
    yield b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: y\r\n" % number for number in range(5000)) + b"\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _bytes(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    lines += [] if "content-length" in headers or not body else [f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def asked_raw(port: int, content: bytes) -> tuple[int, bytes]:
    """Send bytes and return the status and body of the answer; 0 if the connection was closed without one."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=600)) as connection:
        try:
            connection.sendall(content)
            if b"connection: close" not in content:  # the other side would wait for the rest
                connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except ConnectionError:
            return 0, b""
    status = answer.partition(b" ")[2][:3]
    return int(status) if status.isdigit() else 0, answer.partition(b"\r\n\r\n")[2]
