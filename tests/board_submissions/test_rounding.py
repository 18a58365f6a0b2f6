"""Rounding: the bound on leaked bits, and the attack that finds one label, carried out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.board.submissions.rounding import (
    first_step,
    label_bits,
    leaked_bits,
    round_to,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.errors import MetricError
from tellapart.metrics.pairs import group_score

STEPS = st.sampled_from([0.1, 0.05, 0.02, 0.01, 0.005, 0.001])


class Server:
    """Measures files of 2x2 items whose texts are swapped or not, and tells the rounded group score."""

    def __init__(self, items: int, step: float, seed: int) -> None:
        self.swapped = np.random.default_rng(seed).integers(0, 2, items).astype(bool)
        self.step, self.asked = step, 0

    def score(self, guesses: np.ndarray) -> float:  # type: ignore[type-arg]
        """Guesses: 1 as published, -1 swapped, 0 all tied."""
        self.asked += 1
        sent = guesses[:, None, None] * np.eye(2)
        restored = np.where(self.swapped[:, None, None], sent[:, :, ::-1], sent)
        return round_to(float(np.mean(group_score(restored.astype(np.float32)))), self.step)


def attack(server: Server, items: int, step: float) -> tuple[int, bool] | None:
    """Find one item's label as `submissions_for_one_label` describes; None if the first file reveals nothing."""

    def tried(count: int) -> float:
        return server.score(np.where(np.arange(items) < count, 1, 0))

    needed = first_step(items, step)
    if needed == 1:
        return 0, tried(1) > 0
    low, high = 0, min(items, 4 * needed)
    if not tried(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tried(middle) else (middle, high)
    return high - 1, True


@pytest.mark.parametrize(("items", "step"), [(4000, 0.01), (4000, 0.001), (600, 0.05), (40, 0.01)])
def test_one_label_takes_as_many_submissions_as_is_said(items: int, step: float) -> None:
    found, most = 0, 0
    for seed in range(20):
        server = Server(items, step, seed)
        learnt = attack(server, items, step)
        most = max(most, server.asked)
        if learnt is not None:
            found += 1
            item, as_published = learnt
            assert server.swapped[item] != as_published
    assert found >= 15
    assert most == submissions_for_one_label(items, step)


def test_after_the_first_label_each_submission_tells_one_more() -> None:
    items, step = 1000, 0.01
    server = Server(items, step, 3)
    learnt = attack(server, items, step)
    assert learnt is not None
    guesses = np.where(np.arange(items) < learnt[0], 1, 0)  # one right item short of the step
    for item in range(900, 920):
        one = guesses.copy()
        one[item] = 1
        assert (server.score(one) > 0) == (not server.swapped[item])
    assert server.asked <= submissions_for_one_label(items, step) + 20


class Statements:
    """Measures statements that are true or false: no prediction is wrong for certain, and none can be left out."""

    def __init__(self, items: int, step: float, seed: int) -> None:
        self.labels = np.random.default_rng(seed).integers(0, 2, items).astype(bool)
        self.step, self.asked = step, 0

    def score(self, said: np.ndarray) -> float:  # type: ignore[type-arg]
        self.asked += 1
        return round_to(float(np.mean(said == self.labels)), self.step)


@pytest.mark.parametrize(("items", "step"), [(4000, 0.01), (600, 0.05), (40, 0.01)])
def test_one_label_of_a_statement_takes_longer_on_average_than_is_said(items: int, step: float) -> None:
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
def test_a_rounded_number_is_a_multiple_within_half_a_step(value: float, step: float) -> None:
    found = round_to(value, step)
    assert abs(found - value) <= step / 2 + 1e-12
    assert round_to(found, step) == found
    assert math.isclose(found / step, round(found / step), abs_tol=1e-9)


@given(st.integers(1, 5000), STEPS, st.integers(1, 3))
def test_so_many_files_are_needed_that_their_bits_reach_the_labels(items: int, step: float, numbers: int) -> None:
    fewest = submissions_for_all_labels(items, (2, 2), step, numbers)
    assert leaked_bits(fewest, step, numbers) >= label_bits(items, (2, 2)) - 1e-6
    assert leaked_bits(fewest - 1, step, numbers) < label_bits(items, (2, 2)) + 1e-6


@given(st.integers(1, 5000), STEPS)
def test_the_first_step_is_where_the_rounded_number_first_rises(items: int, step: float) -> None:
    needed = first_step(items, step)
    if needed <= items:
        assert round_to(needed / items, step) > 0
    assert round_to((needed - 1) / items, step) == 0


@pytest.mark.parametrize("step", [0.03, 0.0, -0.1, 0.7, 1.0])
def test_a_step_that_does_not_divide_one_is_refused(step: float) -> None:
    with raises(MetricError, "1", "divide"):
        round_to(0.5, step)


def test_only_fractions_are_rounded() -> None:
    with raises(MetricError, "[0, 1]"):
        round_to(1.5, 0.01)
