"""A sender learns how many files are left, and the name of a benchmark that was misspelt."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from facts import check_facts

MakeBoard = Callable[..., Any]


def left(made: Any) -> tuple[dict[str, int], ...]:
    """The files that ann and bob have left, as their pages give them."""
    answers = [made.client.get("/submissions", headers=made.of(user)).json() for user in ("ann", "bob")]
    return tuple(answer["left"]["clocks"] for answer in answers)


def test_a_senders_pages_have_the_files_that_are_left(board: MakeBoard) -> None:
    made = board(4, limits={"daily": 2, "total": 7})
    assert left(made) == ({"today": 2, "in_all": 7},) * 2
    assert made.client.get("/submissions", headers=made.of("rita")).json()["left"] == {}  # she may not send
    page = made.of("ann") | {"Accept": "text/html"}
    facts = re.compile(r"still.* 2 today \(UTC\), 7 in all")
    assert facts.search(made.client.get("/submissions", headers=page).text)
    assert not facts.search(made.client.get("/hidden/clocks", headers=page).text)  # a program has no form there
    made.client.post("/sign-in", data={"token": made.tokens["ann"]})
    for path in ("/submissions", "/hidden/clocks"):
        assert facts.search(made.client.get(path, headers={"Accept": "text/html"}).text)
    made.service.close("clocks", by="test")
    assert made.client.get("/submissions", headers=made.of("ann")).json()["left"] == {}


@pytest.mark.parametrize(("typed", "facts"), [("clock", "did you mean 'clocks'?"), ("zebra", "this board has clocks")])
def test_a_misspelt_benchmark_is_answered_with_its_name(board: MakeBoard, typed: str, facts: str) -> None:
    made = board(4)
    ann, params = made.of("ann"), {"model": "a", "file": "a.npz"}
    sent = made.client.post(f"/hidden/{typed}/submissions", params=params, content=b"x", headers=ann)
    seen = [made.client.get(f"/hidden/{typed}{what}", headers=ann) for what in ("", "/task.zip")]
    for answer in (sent, *seen):
        assert answer.status_code == 404
        check_facts(answer.json()["detail"], repr(typed), facts)


@pytest.mark.slow
def test_limits_of_a_day_and_in_all_hold_for_each_user(board: MakeBoard) -> None:
    made = board(4, limits={"daily": 2, "total": 3})
    counted = [made.measured(made.npz(made.right(share)))["state"] for share in (1.0, 0.5)]
    assert counted == ["done", "done"]
    assert left(made) == ({"today": 0, "in_all": 1}, {"today": 2, "in_all": 3})
    assert made.send(b"x").status_code == 429
    assert made.send(b"x", user="bob").status_code == 202
    made.clock.now += 86_399
    assert (
        made.send(b"x")
        .json()["detail"]
        .startswith("ann has used today's submissions (2) to clocks; the next day (UTC)")
    )
    made.clock.now += 1
    assert left(made)[0] == {"today": 1, "in_all": 1}  # of two a day
    assert made.measured(made.npz(made.right(0.25)))["state"] == "done"
    assert made.send(b"x").json()["detail"] == "ann has used all submissions (3) to clocks"
