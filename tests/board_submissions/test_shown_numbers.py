"""Published numbers of hidden labels: their interval and its name, their digits and their items on every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from scipy.stats import beta, binomtest

from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.board.submissions.hidden_items import Split
from tellapart.board.submissions.service import MeasuredSubmission, as_result, standings, values_of, write_results


@pytest.mark.parametrize(
    ("right", "n", "method", "same"),
    [(19, 20, "clopper-pearson", "exact"), (28, 40, "clopper-pearson", "exact"), (50, 100, "wilson", "wilson")],
)
def test_the_interval_is_that_of_the_method_that_the_json_names(right: int, n: int, method: str, same: Any) -> None:
    shown = values_of(Split(n, n, 0, {"group_score": right / n}), (2, 2))["group_score"]
    assert shown.method == f"{method} on clusters, around the rounded number"
    expected = binomtest(right, n).proportion_ci(method=same)
    assert (shown.low, shown.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_half_an_item_of_a_rounded_number_is_counted_and_rare_ones_are_widened() -> None:
    shown = values_of(Split(30, 30, 0, {"group_score": 0.95}), (2, 2))["group_score"]
    assert shown.method is not None and shown.method.startswith("clopper-pearson ")
    expected = beta.ppf(0.025, 28.5, 2.5), beta.ppf(0.975, 29.5, 1.5)
    assert (shown.low, shown.high) == pytest.approx(expected, abs=1e-9)
    rare = values_of(Split(100, 100, 0, {"group_score": 0.02}), (2, 2))["group_score"]
    plain = binomtest(2, 100).proportion_ci(method="wilson")
    assert rare.method is not None and rare.method.startswith("wilson, rare ")
    assert rare.low is not None and rare.low < plain.low and rare.high == pytest.approx(plain.high, abs=1e-9)


@pytest.fixture
def shown(board: Callable[..., Any]) -> Iterator[tuple[Any, TestClient]]:
    """A board of 60 pairs with one measured file, and a reader of its pages."""
    made = board(60, limits={"step": 0.05})
    split = Split(30, 30, 0, {"group_score": 0.95})
    (row,) = standings([MeasuredSubmission("0", "ann", "mine", 0.0, split, None)], "group_score")
    records = made.folder / "records"
    write_results(records, [as_result(row, made.service.prepared["clocks"])])
    with Store("sqlite://") as store:
        settings = BoardSettings(runs=(records,))
        read_in(store, settings, pytest.fail)
        with TestClient(create_app(settings, store, made.service), follow_redirects=False) as client:
            yield made, client


def test_no_page_shows_digits_that_rounding_took(shown: tuple[Any, TestClient]) -> None:
    _, client = shown
    for path in ("/", "/benchmarks/clocks", "/benchmarks/clocks/by/split/group_score", "/models/mine"):
        text = client.get(path).text
        assert '<span class="value">95</span>' in text and "95.0" not in text, path
        assert "30 public of 60 items, rounded to 5 points" in text, path


def test_a_heat_map_of_hidden_items_counts_those_that_are_published(shown: tuple[Any, TestClient]) -> None:
    _, client = shown
    path = "/benchmarks/clocks/map/split/group_score"
    rows = client.get(path, params={"format": "json"}).json()["rows"]
    assert [(row["title"], row["n"]) for row in rows] == [
        ("public", 30),
        ("30 public of 60 items, rounded to 5 points", 30),
    ]
    assert [cell["text"] for row in rows for cell in row["cells"]] == ["95", "95"]
    text = client.get(path).text
    assert ">95<" in text and "95.0" not in text and "all items" not in text


def test_every_page_of_a_board_that_takes_files_links_to_the_sign_in(shown: tuple[Any, TestClient]) -> None:
    made, client = shown
    page = {"Accept": "text/html"}
    for path in ("/", "/benchmarks/clocks", "/models/mine", "/hidden"):
        assert client.get(path, headers=page).text.count('href="/sign-in"') == 1, path
    with Store("sqlite://") as store, TestClient(create_app(BoardSettings(), store)) as without:
        assert "/sign-in" not in without.get("/").text
    assert "Your token" in client.get("/sign-in", headers=page).text
    client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=page)
    again = client.get("/sign-in", headers=page)
    assert (again.status_code, again.headers["Location"]) == (303, "/submissions")


def test_the_form_names_the_page_that_shows_the_user(shown: tuple[Any, TestClient]) -> None:
    made, client = shown
    page = {"Accept": "text/html"}
    client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=page)
    text = client.get("/hidden/clocks", headers=page).text
    (note,) = [line for line in text.splitlines() if 'id="public-name"' in line]
    assert "This page" in note and "user name" in note
    assert not [path for path in ("/", "/models/mine", "/benchmarks/clocks") if "ann" in client.get(path).text]
