"""Packs of texts hold every text's tokens, and each shared beginning once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tellapart.models.torch.shared_beginnings import HIDDEN, pack_texts


def beginnings(tokens: NDArray[np.int64]) -> set[tuple[tuple[int, int], ...]]:
    """The distinct beginnings of texts: tuples of (place, token), each ending at a place that is seen."""
    paths = [tuple((place, int(token)) for place, token in enumerate(row) if token != HIDDEN) for row in tokens]
    return {path[: end + 1] for path in paths for end in range(len(path))}


@given(
    tokens=arrays(np.int64, st.tuples(st.integers(0, 12), st.integers(1, 6)), elements=st.integers(-1, 2)),
    spare=st.integers(0, 9),
)
def test_each_text_is_in_one_pack_with_its_tokens_and_each_beginning_once(
    tokens: NDArray[np.int64], spare: int
) -> None:
    tokens[:, 0] = 3  # as every tokenizer starts
    size = tokens.shape[1] + spare
    packs = list(pack_texts(tokens, size))
    assert sorted(text for pack in packs for text in pack.texts.tolist()) == list(range(len(tokens)))
    for pack in packs:
        rows = tokens[pack.texts]
        seen = rows != HIDDEN
        assert pack.tokens.shape == pack.depths.shape == (size,)
        assert np.array_equal(pack.tokens[pack.nodes][seen], rows[seen])
        assert np.array_equal(pack.depths[pack.nodes][seen], np.nonzero(seen)[1])
        nodes = pack.nodes[pack.first]
        assert sorted(nodes.tolist()) == list(range(len(beginnings(rows)))) and not (pack.first & ~seen).any()
        # A node stands for one beginning: no two texts share one unless they agree up to it.
        for place in range(rows.shape[1]):
            for node in set(pack.nodes[seen[:, place], place].tolist()):
                sharing = (pack.nodes[:, place] == node) & seen[:, place]
                assert len(np.unique(rows[sharing, : place + 1], axis=0)) == 1


@pytest.mark.parametrize(("size", "packs"), [(6, 1), (5, 2), (4, 2)])
def test_a_pack_that_is_full_starts_the_next_and_a_text_beyond_a_pack_is_refused(size: int, packs: int) -> None:
    texts = np.array([[7, 1, 2, 9], [7, 1, 3, 9]])
    assert len(list(pack_texts(texts, size))) == packs
    with pytest.raises(ValueError, match=r"4 tokens.*size=3"):
        list(pack_texts(texts, 3))
