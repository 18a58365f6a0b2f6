"""The address that browsers have: links below a proxy's path, and hosts that are refused."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from facts import check_facts
from tellapart.board.app import BoardAddress


@pytest.mark.parametrize("strips", [True, False])
def test_below_a_path_every_link_of_every_page_stays_below_it(client: TestClient, *, strips: bool) -> None:
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


def test_a_refused_host_is_logged_once_with_the_option_that_lets_it_in(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    browser = TestClient(BoardAddress(client.app, ["testserver"]))
    for host in ("board.example.org", "board.example.org:443", "evil\x1b.example", "testserver"):
        assert browser.get("/", headers={"Host": host}).status_code == (200 if host == "testserver" else 400)
    named, hostile = (record.getMessage() for record in caplog.records)
    check_facts(named, "'board.example.org'", "--name board.example.org", "Host $host")
    assert "\x1b" not in hostile
    for number in range(50):
        browser.get("/", headers={"Host": f"host-{number}.example"})
    assert len(caplog.records) == 20
