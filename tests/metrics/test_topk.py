"""The first entries of each query: what a full sort gives, whatever the blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.metrics import retrieval
from tellapart.metrics.retrieval import (
    DEPTH,
    Retrieval,
    TopEntries,
    embeddings_both_ways,
    merge_top_entries,
    scores_both_ways,
    top_entries,
)


def sorted_first(scores: np.ndarray) -> list[list[int]]:
    return np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH].tolist()


def tied_scores(seed: int, rows: int, columns: int) -> np.ndarray:
    """Scores of four values only, so that most are tied."""
    return np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(np.float32) / 3


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 12), st.integers(1, 12))
def test_parts_put_together_are_what_a_stable_sort_of_the_whole_gives(
    seed: int, rows: int, columns: int, width: int
) -> None:
    scores = tied_scores(seed, rows, columns)
    found: TopEntries | None = None
    for start in range(0, columns, width):
        found = merge_top_entries(found, top_entries(scores[:, start : start + width], start=start))
    assert found is not None
    assert found.entry.tolist() == sorted_first(scores)
    assert (found.score == np.take_along_axis(scores, found.entry, axis=1)).all()


def by_scores(rows: int, columns: int) -> tuple[Retrieval, np.ndarray]:
    scores = tied_scores(0, rows, columns)
    return scores_both_ways(scores, [(k % rows, k) for k in range(columns)]), scores


def by_embeddings(rows: int, columns: int) -> tuple[Retrieval, np.ndarray]:
    axes = np.eye(4, dtype=np.float32)
    images, captions = axes[np.arange(rows) % 3], axes[np.arange(columns) % 4]
    return embeddings_both_ways(images, captions, [(k % rows, k) for k in range(columns)]), images @ captions.T


@pytest.mark.parametrize("ranked", [by_scores, by_embeddings])
@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_both_directions_keep_their_first_whatever_the_block(
    ranked: Callable[[int, int], tuple[Retrieval, np.ndarray]], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "_BLOCK", block)
    found, scores = ranked(7, 16)
    before = scores.copy()
    for ranks, own in ((found.image_to_text, scores), (found.text_to_image, scores.T)):
        assert ranks.first is not None
        assert ranks.first.entry.tolist() == sorted_first(own)
    assert (scores == before).all()


def test_the_callers_scores_are_left_as_they_are() -> None:
    scores = tied_scores(1, 3, 9)
    before = scores.copy()
    top_entries(scores), top_entries(scores.T), top_entries(scores[:1].T)
    assert (scores == before).all()


def test_five_are_kept_of_each_query() -> None:
    assert DEPTH == 5  # as EqBen's Figure 9 and the board's gallery show them


def test_as_many_are_kept_as_the_figure_of_coco_counterfactuals_shows() -> None:
    assert top_entries(np.zeros((1, 9), np.float32)).entry.tolist() == [[0, 1, 2, 3, 4]]
