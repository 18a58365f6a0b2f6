"""Two-stage retrieval keeps each stage's order, and the second stage's word is last among the candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from facts import raises
from tellapart.errors import MetricError, ScoreError
from tellapart.metrics.retrieval import candidates, rerank, scores_both_ways

LEVELS = st.sampled_from([np.float32(x) for x in (-3.5, -1, 0, 0.125, 0.5, 7)])


@settings(deadline=None, max_examples=80)
@given(
    arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=LEVELS), st.integers(1, 7), st.data()
)
def test_candidates_come_first_in_the_order_of_the_second_stage_and_the_rest_keeps_its_own(
    first: Any, k: int, data: Any
) -> None:
    pairs = candidates(first, k)
    second = data.draw(arrays(np.float32, len(pairs), elements=LEVELS))
    result = rerank(first, pairs, second)
    again = {(q, e): s for (q, e), s in zip(pairs.tolist(), second, strict=True)}
    for q, row in enumerate(first):
        chosen = [e for e in range(len(row)) if (q, e) in again]
        rest = [e for e in range(len(row)) if (q, e) not in again]
        assert len(chosen) >= min(k, len(row))
        assert all(row[c] > row[r] for c in chosen for r in rest)
        assert all(result[q, c] > result[q, r] for c in chosen for r in rest)
        for a in chosen:
            for b in chosen:
                assert np.sign(result[q, a] - result[q, b]) == np.sign(again[q, a] - again[q, b])
        for a in rest:
            for b in rest:
                assert np.sign(result[q, a] - result[q, b]) == np.sign(row[a] - row[b])


def test_the_number_of_candidates_is_k_unless_the_cut_is_tied() -> None:
    assert candidates([[0.3, 0.2, 0.1]], 2).tolist() == [[0, 0], [0, 1]]
    assert candidates([[0.3, 0.1, 0.1]], 2).tolist() == [[0, 0], [0, 1], [0, 2]]
    assert len(candidates([[0.3, 0.2, 0.1]], 99)) == 3


def test_a_second_stage_that_repeats_the_first_changes_no_rank() -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((30, 30)).astype(np.float32)
    pairs = candidates(first, 8)
    true = [(k, k) for k in range(30)]
    after = scores_both_ways(rerank(first, pairs, first[pairs[:, 0], pairs[:, 1]]), true).image_to_text
    np.testing.assert_array_equal(after.rank, scores_both_ways(first, true).image_to_text.rank)


def test_a_perfect_second_stage_wins_exactly_where_the_truth_is_a_candidate() -> None:
    rng = np.random.default_rng(1)
    first = rng.standard_normal((50, 50)).astype(np.float32)
    true = [(k, k) for k in range(50)]
    pairs = candidates(first, 10)
    after = scores_both_ways(rerank(first, pairs, pairs[:, 0] == pairs[:, 1]), true).image_to_text
    np.testing.assert_array_equal(after.recall(1), scores_both_ways(first, true).image_to_text.recall(10))


@pytest.mark.parametrize(
    ("pairs", "second", "error", "message"),
    [
        ([[0, 0]], [1.0, 2.0], ScoreError, "second score"),
        ([[0, 0, 0]], [1.0], ScoreError, ("pairs", "integer")),
        ([[0, 0]], [np.nan], ScoreError, ("1", "0", "scores")),
        ([[0, 2]], [1.0], MetricError, ("1", "2", "scores")),
        ([[0, 0], [0, 0]], [1.0, 2.0], MetricError, "twice"),
    ],
)
def test_second_scores_that_do_not_fit_raise(
    pairs: Any, second: Any, error: Any, message: str | tuple[str, ...]
) -> None:
    with raises(error, message):
        rerank([[0.1, 0.2]], pairs, second)


def test_a_query_without_candidates_keeps_its_order() -> None:
    first = np.array([[0.9, 0.1, 0.5], [0.3, 0.2, 0.1]], np.float32)
    after = rerank(first, [[1, 2], [1, 1]], [7.0, 9.0])
    np.testing.assert_array_equal(after[0], first[0])
    assert after[1].tolist() == [first[1, 0], 2.0, 1.0]


def test_the_largest_first_scores_keep_their_order() -> None:
    largest = 2**22 - 1
    assert rerank([[largest, 0.0, 0.5]], [[0, 1], [0, 2]], [5.0, 1.0]).tolist() == [[largest, 2**22 + 1, 2**22]]


@pytest.mark.parametrize("value", [np.nan, np.inf, 2**22, -(2**22)])
def test_one_first_score_that_is_too_large_is_refused(value: float) -> None:
    with raises(ScoreError, "4194304", "1", "1"):
        candidates([[0.1, 0.2], [0.1, value]], 1)


def test_first_scores_that_cannot_be_ordered_raise() -> None:
    with raises(ScoreError, "1", "1", "rows"):
        candidates([[0.1], [np.inf]], 1)
    with raises(ScoreError, "first scores"):
        candidates([0.1], 1)
    with raises(MetricError, "k", "1", "0"):
        candidates([[0.1]], 0)
