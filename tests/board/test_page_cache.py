"""Pages that are kept: made once, by one, and never older than the records that their reader could know of."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Semaphore
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.board.app import CachedPage, PageCache, create_app
from tellapart.board.records import Board, BoardSettings, Tables
from tellapart.errors import UnknownNameError

READERS = 24


def body(text: str) -> CachedPage:
    return CachedPage("text/plain", text.encode())


def together(work: Callable[[int], Any]) -> list[Any]:
    """What each of many readers gets who ask at the same moment."""
    ready = Barrier(READERS)

    def ask(k: int):
        ready.wait(timeout=10)
        return work(k)

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(ask, range(READERS)))


def test_many_pages_at_once_are_each_made_by_one():
    pages, made = PageCache(), []

    def make(key: int) -> CachedPage:
        made.append(key)
        time.sleep(0.01)
        return body(str(key))

    found = together(lambda k: pages.get(1, k % 3, lambda: make(k % 3)))
    assert sorted(made) == [0, 1, 2]
    assert [page.content for page in found] == [str(k % 3).encode() for k in range(READERS)]


def test_an_error_is_told_to_all_who_wait_and_the_next_reader_tries_again():
    pages, asked, tried = PageCache(), Semaphore(0), []

    def fail() -> CachedPage:
        tried.append(1)
        for _ in range(READERS):
            assert asked.acquire(timeout=10)
        time.sleep(0.05)
        raise UnknownNameError("no such page")

    def ask(_: int) -> None:
        asked.release()
        with raises(UnknownNameError, "page"):
            pages.get(1, "a", fail)

    together(ask)
    assert (len(tried), pages.get(1, "a", lambda: body("now")).content) == (1, b"now")


def test_whoever_asks_for_a_newer_version_does_not_wait_and_the_pages_used_last_are_kept():
    pages, begun, go_on = PageCache(), Event(), Event()

    def slow() -> CachedPage:
        begun.set()
        assert go_on.wait(timeout=10)
        return body("old")

    with ThreadPoolExecutor(1) as pool:
        old = pool.submit(pages.get, 1, "a", slow)
        assert begun.wait(timeout=10)
        assert pages.get(2, "a", lambda: body("new")).content == b"new"
        go_on.set()
        assert old.result().content == b"old"
    # The old page came last, and took nobody's place.
    assert pages.find(1, "a") is None
    assert pages.find(2, "a").content == b"new"
    pages = PageCache(10)
    for key in "ab":
        pages.get(0, key, lambda: body("12345"))
    pages.find(0, "a")
    pages.get(0, "c", lambda: body("12345"))
    assert [key for key in "abc" if pages.find(0, key)] == ["a", "c"]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), max_size=30), st.integers(0, 40))
def test_a_page_is_always_the_one_of_the_version_that_was_asked_for(asked, budget):
    pages, newest = PageCache(budget), 0
    for version, key in asked:
        newest, wanted = max(newest, version), f"{key} of {version}".encode()
        assert pages.get(version, key, lambda: CachedPage("text/plain", wanted)).content == wanted  # noqa: B023
        found = pages.find(newest, key)
        assert found is None or found.content == f"{key} of {newest}".encode()


@pytest.fixture
def answered() -> Any:
    """An application behind a cache, the pages it keeps, its board, and what reached it."""
    reached: list[str] = []
    app, made, board = FastAPI(), PageCache(), Board(BoardSettings())

    @app.get("/{name}")
    def page(request: Request, name: str) -> Response:
        reached.append(name)
        return Response("made anew")

    app.add_middleware(made.before, board=board)
    with TestClient(app) as client:
        yield client, made, board, reached


def test_a_page_that_is_made_is_answered_before_the_application_until_the_records_are_newer(answered):
    client, made, board, reached = answered
    made.get(0, ("/a", "html"), lambda: body("kept"))
    made.get(0, ("/a", "json"), lambda: body("kept as JSON"))
    assert (client.get("/a").text, client.get("/a", params={"format": "json"}).text) == ("kept", "kept as JSON")
    assert client.get("/a", headers={"accept": "application/json"}).text == "kept as JSON"
    assert (client.get("/a", headers={"if-none-match": body("kept").tag}).status_code, reached) == (304, [])
    board.tables = Tables(board.settings, version=1)
    assert (client.get("/a").text, reached) == ("made anew", ["a"])


@pytest.mark.parametrize("query", ["x=1", "format=html&x=1", "format=yaml", "FORMAT=json"])
def test_a_query_of_another_kind_is_the_application_s(answered, query):
    client, made, _, reached = answered
    made.get(0, ("/a", "html"), lambda: body("kept"))
    assert (client.get(f"/a?{query}").text, client.post("/a").status_code, reached) == ("made anew", 405, ["a"])


def test_a_page_is_answered_again_as_it_was_made(shown):
    for path in ("/", "/benchmarks/shapes", "/models/good?format=json", "/ranks?format=csv", "/compare"):
        for encoding in ("gzip", "identity"):
            fresh = TestClient(create_app(shown))
            anew, again = (fresh.get(path, headers={"accept-encoding": encoding}) for _ in range(2))
            assert anew.status_code == again.status_code == 200
            assert (anew.content, dict(anew.headers)) == (again.content, dict(again.headers))
