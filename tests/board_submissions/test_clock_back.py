"""A server's clock that is set back gives nobody anything: no attempt, no closing undone, no token good again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

pytestmark = pytest.mark.slow

DAY = 86_400.0
MakeBoard = Callable[..., Any]


@pytest.mark.parametrize("back", [60.0, DAY, 400 * DAY])
def test_limits_count_what_was_sent_later_than_now(board: MakeBoard, back: float) -> None:
    made = board(8, limits={"daily": 2})
    for share in (1.0, 0.5):
        made.measured(made.npz(made.right(share)))
    assert made.send(made.npz(made.right(0.25))).status_code == 429
    made.clock.now -= back
    refused = made.send(made.npz(made.right(0.25)))
    assert refused.status_code == 429 and "submissions (2)" in refused.json()["detail"]


def test_a_file_that_waits_is_measured_and_counted_once(board: MakeBoard) -> None:
    made = board(8, limits={"daily": 1})
    first, second = made.send(made.npz(made.right())), made.send(made.npz(made.right(0.5)))
    made.clock.now -= 3 * DAY
    with made.queue.lock():
        while made.queue.work_one():
            pass
    assert (made.see(first)["state"], made.see(second)["state"]) == ("done", "surplus")


def test_a_closing_by_date_stays_when_the_clock_or_the_server_goes_back(board: MakeBoard) -> None:
    closes = datetime.fromtimestamp(20_001 * DAY, UTC)
    made = board(8, limits={"closes": closes})
    made.clock.now += DAY
    assert made.service.is_closed("clocks")
    made.clock.now -= 2 * DAY
    assert made.service.is_closed("clocks")
    assert made.send(made.npz(made.right())).status_code == 409


def test_a_token_that_was_refused_as_expired_is_not_good_again(board: MakeBoard) -> None:
    made = board(4)
    assert made.client.get("/submissions", headers=made.of("ann")).status_code == 200
    made.clock.now += 366 * DAY
    assert made.client.get("/submissions", headers=made.of("ann")).status_code == 401
    made.clock.now -= 366 * DAY
    assert made.client.get("/submissions", headers=made.of("ann")).status_code == 401
    assert made.client.get("/submissions", headers=made.of("bob")).status_code == 200  # nobody else's is touched


def test_a_session_that_was_over_is_not_open_again(board: MakeBoard) -> None:
    made = board(4)
    accounts = made.service.accounts
    cookie = accounts.sign_in(made.tokens["ann"], hours=1)
    assert accounts.of_session(cookie).user == "ann"
    made.clock.now += 3601
    assert accounts.of_session(cookie) is None
    made.clock.now -= 7200
    assert accounts.of_session(cookie) is None
    made.clock.now += 3600
    assert accounts.of_session(accounts.sign_in(made.tokens["ann"], hours=1)).user == "ann"
