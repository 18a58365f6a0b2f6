"""Published numbers of hidden labels: their interval and its name, their digits and their items on every page."""

import json
import math
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Any

import numpy as np
import pytest
from bench.label_attack import RECORDS, HiddenLabels, attack, search
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from boards import open_board
from facts import raises
from tellapart.board.records import BoardSettings
from tellapart.board.submissions.hidden import (
    allowed_submissions,
    first_step,
    in_points,
    label_bits,
    leaked_bits,
    rise_chances,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.board.submissions.prepared import worth_of
from tellapart.board.submissions.service import MeasuredSubmission, as_result, standings, values_of
from tellapart.board.submissions.worker import Split, round_to
from tellapart.errors import MetricError
from tellapart.metrics.pairs import group_score


@pytest.mark.parametrize(
    ("right", "n", "method", "same"),
    [(19, 20, "clopper-pearson", "exact"), (28, 40, "clopper-pearson", "exact"), (50, 100, "wilson", "wilson")],
)
def test_the_interval_is_that_of_the_method_that_the_json_names(right, n, method, same):
    shown = values_of(Split(n, n, 0, {"group_score": right / n}), (2, 2))["group_score"]
    assert shown.method == f"{method} on clusters, around the rounded number"
    expected = binomtest(right, n).proportion_ci(method=same)
    assert (shown.low, shown.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_half_an_item_of_a_rounded_number_is_counted_and_rare_ones_are_widened():
    shown = values_of(Split(30, 30, 0, {"group_score": 0.95}), (2, 2))["group_score"]
    assert shown.method is not None and shown.method.startswith("clopper-pearson ")
    expected = beta.ppf(0.025, 28.5, 2.5), beta.ppf(0.975, 29.5, 1.5)
    assert (shown.low, shown.high) == pytest.approx(expected, abs=1e-9)
    rare = values_of(Split(100, 100, 0, {"group_score": 0.02}), (2, 2))["group_score"]
    plain = binomtest(2, 100).proportion_ci(method="wilson")
    assert rare.method is not None and rare.method.startswith("wilson, rare ")
    assert rare.low is not None and rare.low < plain.low and rare.high == pytest.approx(plain.high, abs=1e-9)


@pytest.fixture
def shown(board) -> Iterator[tuple[Any, TestClient]]:
    """A board of 60 pairs with one measured file, and a reader of its pages."""
    made = board(60, limits={"step": 0.05})
    split = Split(30, 30, 0, {"group_score": 0.95})
    (row,) = standings([MeasuredSubmission("0", "ann", "mine", 0.0, split, None)], "group_score")
    made.service.results = lambda: [as_result(row, made.service.prepared["clocks"])]
    client, _ = open_board(BoardSettings(), submissions=made.service)
    client.follow_redirects = False
    yield made, client


def test_no_page_shows_digits_that_rounding_took(shown):
    _, client = shown
    for path in ("/", "/benchmarks/clocks", "/benchmarks/clocks/by/split/group_score", "/models/mine"):
        text = client.get(path).text
        assert '<span class="value">95</span>' in text and "95.0" not in text, path
        assert "30 public of 60 items, rounded to 5 points" in text, path


def test_a_heat_map_of_hidden_items_counts_those_that_are_published(shown):
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


def test_every_page_of_a_board_that_takes_files_links_to_the_sign_in(shown):
    made, client = shown
    page = {"Accept": "text/html"}
    for path in ("/", "/benchmarks/clocks", "/models/mine", "/hidden"):
        assert client.get(path, headers=page).text.count('href="/sign-in"') == 1, path
    without, _ = open_board(BoardSettings())
    assert "/sign-in" not in without.get("/").text
    assert "Your token" in client.get("/sign-in", headers=page).text
    client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=page)
    again = client.get("/sign-in", headers=page)
    assert (again.status_code, again.headers["Location"]) == (303, "/submissions")


def test_the_form_names_the_page_that_shows_the_user(shown):
    made, client = shown
    page = {"Accept": "text/html"}
    client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=page)
    text = client.get("/hidden/clocks", headers=page).text
    (note,) = [line for line in text.splitlines() if 'id="public-name"' in line]
    assert "This page" in note and "user name" in note
    assert not [path for path in ("/", "/models/mine", "/benchmarks/clocks") if "ann" in client.get(path).text]


def test_the_documents_numbers_of_files_and_bits():
    assert (round(leaked_bits(20, 0.01), 1), submissions_for_all_labels(4000, (2, 2), 0.01)) == (133.2, 601)
    assert (allowed_submissions(150, (2, 2), 0.02, 0.5), round(label_bits(100, (1, 5)), 1)) == (13, 232.2)
    boards = ((4000, 0.01), (4000, 0.001), (150, 0.02))
    assert [round(submissions_for_one_label(*board), 2) for board in boards] == [4.71, 2.75, 2.75]
    assert (round_to(0.4361, 0.005), round_to(0.125, 0.01), worth_of(["a", "a", "a", "b"])) == (0.435, 0.13, 1.6)
    assert [in_points(step) for step in (0.05, 0.01, 0.001)] == ["5 points", "1 point", "0.1 points"]


STEPS = st.sampled_from([0.1, 0.05, 0.02, 0.01, 0.005, 0.001])


def test_a_file_is_measured_in_the_attack_as_a_board_measures_it():
    hidden = HiddenLabels(40, 0.05, np.random.default_rng(0))
    for guesses in np.random.default_rng(1).integers(-1, 2, (20, 40), np.int8):
        scores = guesses[:, None, None] * np.eye(2)
        restored = np.where((hidden.labels < 0)[:, None, None], scores[:, :, ::-1], scores)
        share = float(np.mean(group_score(restored.astype(np.float32))))
        assert hidden.measure(guesses) == round_to(share, hidden.step)


@pytest.mark.parametrize(("items", "step"), [(4000, 0.01), (4000, 0.001), (600, 0.05), (150, 0.02), (40, 0.01)])
def test_the_first_label_takes_as_many_files_on_average_as_is_said(items, step):
    told = submissions_for_one_label(items, step)
    assert attack(items, step, 30, 300)["first_label_after"] == pytest.approx(told, abs=0.3)


def test_no_search_among_places_takes_fewer_files():
    """The best of all trees, by dynamic programming over every first and last place."""
    totals = [0.0, *accumulate(rise_chances(4000, 0.01))]
    places = len(totals) - 1
    best = np.zeros((places + 1, places + 1))
    for width in range(2, places + 1):
        for start in range(places - width + 1):
            end = start + width
            parts = best[start, start + 1 : end] + best[start + 1 : end, end]
            best[start, end] = totals[end] - totals[start] + parts.min()
    assert best[0, places] <= submissions_for_one_label(4000, 0.01) < best[0, places] + 0.01


def test_after_the_first_label_each_file_tells_one_more():
    counts = list(islice(search(HiddenLabels(1000, 0.01, np.random.default_rng(3))), 30))
    first = counts.index(1)
    assert counts[first:] == [*range(1, 31 - first)]


def test_where_a_step_is_a_few_items_sums_tell_more_than_a_label_a_file():
    assert attack(150, 0.02, 10, 5, places=13)["labels"] > 10 > attack(150, 0.02, 10, 100)["labels"]


def test_the_record_of_the_attack_says_what_the_pages_say():
    record = json.loads((RECORDS / "label_attack.json").read_text())
    for (items, step), found in zip([(4000, 0.01), (150, 0.02)], record.values(), strict=True):
        assert found["search"]["first_label_after"] == pytest.approx(submissions_for_one_label(items, step), abs=0.1)
        for kind in found.values():
            assert kind["labels"] <= leaked_bits(kind["files"], step)


class Statements:
    """Measures statements that are true or false: no prediction is wrong for certain, and none can be left out."""

    def __init__(self, items: int, step: float, seed: int) -> None:
        self.labels = np.random.default_rng(seed).integers(0, 2, items).astype(bool)
        self.step, self.asked = step, 0

    def score(self, said: np.ndarray) -> float:
        self.asked += 1
        return round_to(float(np.mean(said == self.labels)), self.step)


@pytest.mark.parametrize(("items", "step"), [(4000, 0.01), (600, 0.05), (40, 0.01)])
def test_one_label_of_a_statement_takes_longer_on_average_than_is_said(items, step):
    """Find two files with different numbers, and search between them for the one statement that differs."""
    asked = []
    for seed in range(20):
        server, rng = Statements(items, step, seed), np.random.default_rng(seed)
        low = np.ones(items, dtype=bool)
        at_low = server.score(low)
        high, at_high = low, at_low
        while at_high == at_low:
            high = rng.integers(0, 2, items).astype(bool)
            at_high = server.score(high)
        while (differ := np.flatnonzero(low != high)).size > 1:
            middle = low.copy()
            middle[differ[: differ.size // 2]] = high[differ[: differ.size // 2]]
            at_middle = server.score(middle)
            low, at_low, high, at_high = (
                (low, at_low, middle, at_middle) if at_middle != at_low else (middle, at_middle, high, at_high)
            )
        (item,) = differ
        assert server.labels[item] == (high if at_high > at_low else low)[item]
        asked.append(server.asked)
    assert np.mean(asked) > submissions_for_one_label(items, step, None)


@given(st.floats(0, 1), STEPS)
def test_a_rounded_number_is_a_multiple_within_half_a_step(value, step):
    found = round_to(value, step)
    assert abs(found - value) <= step / 2 + 1e-12
    assert round_to(found, step) == found
    assert math.isclose(found / step, round(found / step), abs_tol=1e-9)


@given(st.integers(1, 5000), STEPS, st.integers(1, 3))
def test_so_many_files_are_needed_that_their_bits_reach_the_labels(items, step, numbers):
    fewest = submissions_for_all_labels(items, (2, 2), step, numbers)
    assert leaked_bits(fewest, step, numbers) >= label_bits(items, (2, 2)) - 1e-6
    assert leaked_bits(fewest - 1, step, numbers) < label_bits(items, (2, 2)) + 1e-6


@given(st.integers(1, 5000), STEPS)
def test_the_first_step_is_where_the_rounded_number_first_rises(items, step):
    needed = first_step(items, step)
    if needed <= items:
        assert round_to(needed / items, step) > 0
    assert round_to((needed - 1) / items, step) == 0


@pytest.mark.parametrize("step", [0.03, 0.0, -0.1, 0.7, 1.0])
def test_a_step_that_does_not_divide_one_is_refused(step):
    with raises(MetricError, "1", "divide"):
        round_to(0.5, step)


def test_only_fractions_are_rounded():
    with raises(MetricError, "[0, 1]"):
        round_to(1.5, 0.01)
