"""The bound on unavoidable misses holds for every model that sees content alone, and some models attain it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import MetricError
from tellapart.metrics.retrieval import scores_both_ways, unavoidable_misses


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_model_of_content_misses_less(data: Any) -> None:
    owners = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    present = sorted(set(owners))
    pairs = [(present.index(owner), caption) for caption, owner in enumerate(owners)]
    images = [data.draw(st.sampled_from("ab")) for _ in present]
    captions = [data.draw(st.sampled_from("xyz")) for _ in owners]
    k = data.draw(st.integers(1, 3))
    level = {(i, c): data.draw(st.integers(0, 4)) for i in "ab" for c in "xyz"}
    found = scores_both_ways([[level[i, c] for c in captions] for i in images], pairs)
    to_text, to_image = unavoidable_misses(images, captions, pairs, k)
    assert (found.image_to_text.recall(k) == 0).sum() >= to_text
    assert (found.text_to_image.recall(k) == 0).sum() >= to_image


@pytest.mark.parametrize(
    ("images", "captions", "pairs", "k", "expected"),
    [
        (["a", "b"], ["x", "y"], [(0, 0), (1, 1)], 1, (0, 0)),
        (["a", "a"], ["x", "y"], [(0, 0), (1, 1)], 1, (1, 2)),
        (["a", "a"], ["x", "y"], [(0, 0), (1, 1)], 2, (0, 0)),
        (["a", "b"], ["x", "x"], [(0, 0), (1, 1)], 1, (2, 1)),
        (["a", "a", "a"], ["x", "y", "z"], [(0, 0), (1, 1), (2, 2)], 2, (1, 3)),
        (["a", "a"], ["x", "y", "x"], [(0, 0), (0, 1), (1, 2)], 1, (1, 3)),
        (["a", "a"], ["x", "y", "z"], [(0, 0), (0, 1), (1, 1), (1, 2)], 1, (0, 2)),  # y is true of both
    ],
)
def test_small_galleries_have_the_bound_that_all_orders_attain(
    images: list[str], captions: list[str], pairs: list[tuple[int, int]], k: int, expected: tuple[int, int]
) -> None:
    assert unavoidable_misses(images, captions, pairs, k) == expected
    cells = [(i, c) for i in sorted(set(images)) for c in sorted(set(captions))]
    fewest = [len(images) + 1, len(captions) + 1]
    for order in permutations(range(len(cells))):
        level = dict(zip(cells, order, strict=True))
        found = scores_both_ways(np.array([[level[i, c] for c in captions] for i in images]), pairs)
        for side, ranks in enumerate((found.image_to_text, found.text_to_image)):
            fewest[side] = min(fewest[side], int((ranks.recall(k) == 0).sum()))
    assert tuple(fewest) == expected


def test_bad_arguments_raise() -> None:
    with raises(MetricError, "k", "1", "0"):
        unavoidable_misses(["a"], ["x"], [(0, 0)], 0)
    with raises(MetricError, "1", "1", "images"):
        unavoidable_misses(["a"], ["x"], [(0, 1)])
    with raises(MetricError, "2", "1", "images"):
        unavoidable_misses(["a", "b"], ["x"], [(0, 0), (2, 0)])
    with raises(MetricError, "1", "1", "images"):
        unavoidable_misses(["a"], ["x"], [(0, 0), (0, 1)])
