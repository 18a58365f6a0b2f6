"""Connections that owe something are closed, and requests that are not for this board are not answered.

A real server.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from starlette.middleware.trustedhost import TrustedHostMiddleware

from boards import serve
from facts import check_facts
from tellapart.board import app as connections
from tellapart.board.app import LOOPBACK, BoardAddress, secure_answers

Served = tuple[str, int]


def made_app() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def hello() -> Response:
        return Response("hello")

    @app.get("/large")
    def large() -> Response:
        return Response(bytes(32 << 20))

    @app.post("/body")
    async def body(request: Request) -> Response:
        return Response(str(len(await request.body())))

    @app.post("/told")
    async def told(request: Request) -> Response:
        folded = " ".join(request.headers.get("x-a", "").split())
        return Response(f"[{(await request.body()).decode()}] {folded}\n")

    app.add_middleware(secure_answers)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "board.example.org"], www_redirect=False)
    return app


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(made_app(), http=connections.Connection, log_level="critical") as address:
        host, _, port = address.rpartition("/")[2].partition(":")
        yield host, int(port)


@pytest.fixture
def hurried(monkeypatch) -> None:
    """The same waits, in tenths of seconds."""
    monkeypatch.setattr(connections, "SECONDS", {"request": 0.6, "body": 0.4, "reading": 0.5})


@contextmanager
def connected(served: Served, sent: bytes = b"") -> Iterator[socket.socket]:
    """Connect and send; a server that refuses a request may close before it has read all of it."""
    with socket.create_connection(served, timeout=60) as one:
        with suppress(ConnectionError):
            one.sendall(sent)
        yield one


def everything(one: socket.socket) -> bytes:
    """What comes until the other side closes; a `TimeoutError` if it does not."""
    found = b""
    try:
        while piece := one.recv(1 << 20):
            found += piece
    except ConnectionError:
        pass
    return found


def asked(served: Served, head: str) -> bytes:
    with connected(served, f"{head}\nConnection: close\n\n".replace("\n", "\r\n").encode()) as one:
        return everything(one)


def test_a_connection_whose_request_does_not_come_to_its_end_is_closed(served, hurried):
    started = time.monotonic()  # before the server's own clock begins
    with connected(served) as one:
        assert everything(one) == b""
        assert time.monotonic() - started > 0.3
    with connected(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n") as one, pytest.raises(ConnectionError):
        for _ in range(1000):
            one.sendall(b"X-A: b\r\n")
            time.sleep(0.05)
    with connected(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as one:
        one.sendall(b"GET / HT")  # uvicorn's own limit ends with the first byte
        assert everything(one).endswith(b"hello")


@pytest.mark.slow
def test_a_body_that_stops_is_closed_and_one_that_goes_on_is_not(served, monkeypatch):
    monkeypatch.setitem(connections.SECONDS, "body", 1.2)
    head = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n"
    with connected(served, head + b"abc") as one:
        everything(one)
    with connected(served, head) as one:
        for _ in range(12):
            time.sleep(0.15)
            one.sendall(b"a")
        assert everything(one).endswith(b"12")


@pytest.mark.slow
def test_an_answer_that_nobody_takes_is_given_up(served, hurried):
    with connected(served, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n") as one:
        time.sleep(1.5)
        assert 0 < len(everything(one)) < 32 << 20


def test_idle_connections_do_not_keep_readers_out(served, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 50)
    with ExitStack() as open_:
        idle = [open_.enter_context(connected(served)) for _ in range(80)]
        upload = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"
        sending = open_.enter_context(connected(served, upload))
        assert b"hello" in asked(served, "GET / HTTP/1.1\nHost: localhost")  # the upload's head has been read by now
        idle += [open_.enter_context(connected(served)) for _ in range(60)]
        for _ in range(3):
            assert b"hello" in asked(served, "GET / HTTP/1.1\nHost: localhost")  # who asks is answered at once
        sending.sendall(b"abc")
        assert b"200 OK" in sending.recv(1 << 16)  # and who is being served is served to the end
        assert everything(idle[0]) == b""  # who waited longest made room


def test_one_address_has_not_all_the_connections(served, monkeypatch):
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", 5)
    monkeypatch.setitem(connections.SECONDS, "request", 600.0)  # nothing is closed because it is late
    assert b"hello" in asked(served, "GET / HTTP/1.1\nHost: localhost")  # this machine's own do not count: a proxy's
    monkeypatch.setattr(connections, "network", lambda host: "one")
    counted = connections.Connection._count_of_address
    monkeypatch.setattr(connections.Connection, "_count_of_address", _without_loopback(counted))
    with ExitStack() as open_:
        for _ in range(5):
            open_.enter_context(connected(served))
        assert everything(open_.enter_context(connected(served))) == b""


def _without_loopback(counted: Callable[[Any], int]) -> Callable[[Any], int]:
    """Count as if this machine's own connections came from elsewhere: from an address of documentation."""

    def count(self) -> int:
        own, self.client = self.client, ("192.0.2.7", 1)
        try:
            return counted(self)
        finally:
            self.client = own

    return count


OWN = ("localhost", "LOCALHOST:8421", "127.0.0.1:80", "[::1]:8421", "[::1]", "board.example.org")
OTHERS = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "evil.example:8421")


@pytest.mark.parametrize("host", [*OWN, *OTHERS])
def test_the_boards_own_names_are_answered_and_another_that_points_here_reads_nothing(served, host):
    answer = asked(served, f"GET / HTTP/1.1\nHost: {host}")
    assert (b"hello" in answer, answer.startswith(b"HTTP/1.1 400")) == (host in OWN, host in OTHERS)


SMUGGLED = {
    "two lengths": "POST /body HTTP/1.1\nHost: localhost\nContent-Length: 3\nContent-Length: 4",
    "a length and chunks": "POST /body HTTP/1.1\nHost: localhost\nContent-Length: 3\nTransfer-Encoding: chunked",
    "chunks that are none": "POST /body HTTP/1.1\nHost: localhost\nTransfer-Encoding: xchunked",
    "chunks twice": "POST /body HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked, identity",
    "a length with a sign": "POST /body HTTP/1.1\nHost: localhost\nContent-Length: +3",
    "a folded header": "POST /body HTTP/1.1\nHost: localhost\nX: a\n Transfer-Encoding: chunked\nContent-Length: 3x",
    "two hosts": "GET / HTTP/1.1\nHost: localhost\nHost: evil.example",
    "a space before the colon": "POST /body HTTP/1.1\nHost: localhost\nTransfer-Encoding : chunked",
    "a carriage return alone in a header": "POST /body HTTP/1.1\nHost: localhost\nX: a\rContent-Length: 3",
    "a carriage return alone after the request": "POST /body HTTP/1.1\rHost: localhost\nHost: localhost",
    "a folded length": "POST /body HTTP/1.1\nHost: localhost\nContent-Length: 1\n 0",
    "a folded transfer": "POST /body HTTP/1.1\nHost: localhost\nTransfer-Encoding:\n chunked, x",
    "a first header that is folded": "POST /body HTTP/1.1\n Host: localhost\nHost: localhost",
    "a null": "POST /body HTTP/1.1\nHost: localhost\nX: a\0b",
    "a head without end": "GET / HTTP/1.1\nHost: localhost\nX: " + "a" * 1_000_000,
    "an address without end": f"GET /{'a' * 1_000_000} HTTP/1.1\nHost: localhost",
}


@pytest.mark.parametrize("what", ["a folded header", "line feeds alone", "both"])
def test_an_old_form_is_read_as_the_standard_says_and_hides_no_second_request(served, what):
    """RFC 9112: a fold is spaces (5.2), and a line feed alone may end a line (2.2); the framing stays the same."""
    fold = "X-A: one\r\n\ttwo\r\n  GET /large HTTP/1.1\r\n" if what != "line feeds alone" else ""
    request = f"POST /told HTTP/1.1\r\nHost: localhost\r\n{fold}Content-Length: 4\r\n\r\nGET POST /body HTTP/1.1\r\n"
    request += "Host: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab"
    with connected(served, (request if what == "a folded header" else request.replace("\r\n", "\n")).encode()) as one:
        answer = everything(one)
    assert answer.count(b"HTTP/1.1 200 OK") == 2 and answer.count(b"HTTP/1.1 ") == 2  # two were sent, and two answered
    assert answer.endswith(b"\r\n\r\n2")
    assert (b"[GET ] one two GET /large HTTP/1.1\n" if fold else b"[GET ] \n") in answer


@pytest.mark.parametrize("name", list(SMUGGLED))
def test_a_request_of_two_meanings_or_without_end_is_refused_and_ends_the_connection(served, name):
    with connected(served, SMUGGLED[name].replace("\n", "\r\n").encode() + b"\r\n\r\n0\r\n\r\n") as one:
        answer = everything(one)
    assert answer.split(b" ")[1] in (b"400", b"501")
    assert answer.count(b"HTTP/1.1 ") == 1


CHUNKS = {
    "a size that is none": b"0x3\r\nabc\r\n0\r\n\r\n",
    "a size with a sign": b"+3\r\nabc\r\n0\r\n\r\n",
    "an end of a chunk that is none": b"3\r\nabcXX0\r\n\r\n",
    "a line feed alone after a chunk": b"3\r\nabc\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", list(CHUNKS))
def test_a_chunk_of_two_meanings_ends_the_connection(served, name):
    head = b"POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(served, head + CHUNKS[name] + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as one:
        answer = everything(one)
    assert b"hello" not in answer and answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 500"))


def test_head_is_answered_as_get_without_the_body(served):
    with connected(served, b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n") as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        first, _, second = everything(one).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 OK") and b"content-length: 5" in first
    assert second.startswith(b"HTTP/1.1 200 OK") and second.endswith(b"hello")


@pytest.mark.parametrize("strips", [True, False])
def test_below_a_path_every_link_of_every_page_stays_below_it(client, *, strips):
    browser = TestClient(BoardAddress(client.app, ["testserver"], "/lab"))
    taken = "" if strips else "/lab"
    seen, todo = set[str](), ["/"]
    while todo and len(seen) < 30:
        seen.add(at := todo.pop(0))
        page = browser.get(taken + at)
        assert page.status_code == 200, at
        assert page.text == browser.get(taken + at).text  # the second one out of the cache
        for address in re.findall(r'(?:href|src|action|hx-get)="([^"#]+)"', page.text):
            assert address.startswith(("/lab/", "?")), (at, address)
            inner = address.removeprefix("/lab")
            there = inner.startswith("/") and "/pictures/" not in inner  # this set's pictures are not here
            todo += [inner] if there and inner not in {*seen, *todo} else []
    assert {"/", "/compare"} < seen
    assert browser.get("/lab").text == browser.get("/lab/").text  # some proxies pass on what a person typed
    assert browser.get("/labs").status_code == browser.get("/lab/labs").status_code == 404
    answer = browser.get(f"{taken}/compare?a=good&b=poor", follow_redirects=False)
    assert answer.headers["location"] == "/lab/compare/good/poor"


def test_a_refused_host_is_logged_once_with_the_option_that_lets_it_in(client, caplog):
    browser = TestClient(BoardAddress(client.app, ["testserver"]))
    for host in ("board.example.org", "board.example.org:443", "evil\x1b.example", "testserver"):
        assert browser.get("/", headers={"Host": host}).status_code == (200 if host == "testserver" else 400)
    named, hostile = (record.getMessage() for record in caplog.records)
    check_facts(named, "'board.example.org'", "--name board.example.org", "Host $host")
    assert "\x1b" not in hostile
    for number in range(50):
        browser.get("/", headers={"Host": f"host-{number}.example"})
    assert len(caplog.records) == 20
