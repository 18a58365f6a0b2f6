"""Cosines have the bits of each pair alone, and vectors without a direction are named."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from facts import raises
from tellapart.errors import ScoreError
from tellapart.metrics import retrieval as module
from tellapart.metrics.retrieval import cosines


@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_every_pair_has_the_bits_it_has_alone(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(37, 129)).astype(np.float32), rng.normal(size=(23, 129)).astype(np.float32)
    left[20] = left[3] * 2  # the same direction
    monkeypatch.setattr(module, "_HELD", block)
    found = cosines(left, right)
    alone = np.array([[cosines(a[None], b[None])[0, 0] for b in right] for a in left])
    assert np.array_equal(found, alone)
    assert np.array_equal(found[20], found[3])
    assert np.array_equal(cosines(right, left).T, found)
    assert found == pytest.approx(cosine_similarity(left.astype(np.float64), right), abs=1e-7)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ([[1.0, 0.0]], [[1.0]], ("(1, 2)", "(1, 1)")),
        ([1.0], [[1.0]], ("(1,)", "(1, 1)")),
        ([[1.0], [0.0]], [[1.0]], ("1", "vectors", "finite")),
        ([[1.0]], [[np.nan], [1.0], [np.inf]], ("0", "2", "vectors")),
    ],
)
def test_what_has_no_cosine_is_refused(left: list[object], right: list[object], said: str | tuple[str, ...]) -> None:
    with raises(ScoreError, said):
        cosines(left, right)  # type: ignore[arg-type]
