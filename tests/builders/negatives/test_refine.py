"""After refinement no scorer of texts does better than chance, whatever it said before, and in whatever order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from facts import raises
from tellapart.builders.negatives.thresholds import Refine, balance
from tellapart.data.item import Item
from tellapart.errors import DataError
from tellapart.models.text.find import Length, score_captions

SUGARCREPE = Path(__file__).parents[4] / "shared/data/sugarcrepe/data"

#: Few distinct values, so that ties and zeros occur, and the numbers that log-likelihoods are.
VALUES = st.one_of(st.integers(-4, 4).map(float), st.floats(-60, 60, width=32))
GAPS = st.tuples(st.integers(0, 40), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=VALUES)
)


def text_accuracy(gaps: NDArray[np.float64]) -> float:
    """How often a scorer prefers the true caption, a tie counting half."""
    return float((np.sign(gaps) + 1).mean() / 2)


def names(gaps: NDArray[np.float64]) -> list[str]:
    return [f"item-{k}" for k in range(len(gaps))]


@given(GAPS, st.integers(1, 8), st.integers(0, 3))
def test_every_scorer_is_exactly_at_chance(gaps: NDArray[np.float64], bins: int, seed: int) -> None:
    stays = balance(gaps, names(gaps), bins, seed)
    left = gaps[stays]
    for axis in range(gaps.shape[1]):
        assert (left[:, axis] > 0).sum() == (left[:, axis] < 0).sum()


@given(GAPS, st.integers(1, 8))
def test_no_more_is_left_out_than_the_balance_needs(gaps: NDArray[np.float64], bins: int) -> None:
    # What is balanced by itself stays whole: a set with its own mirror image.
    both = np.concatenate([gaps, -gaps])
    assert balance(both, names(both), bins, 0).all()


@given(GAPS, st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_order_of_the_items_does_not_matter(gaps: NDArray[np.float64], bins: int, random: Any) -> None:
    ids = names(gaps)
    order = list(range(len(ids)))
    random.shuffle(order)
    first = {name for name, kept in zip(ids, balance(gaps, ids, bins, 7), strict=True) if kept}
    ids = [ids[place] for place in order]
    assert {name for name, kept in zip(ids, balance(gaps[order], ids, bins, 7), strict=True) if kept} == first


@given(GAPS, st.integers(1, 8))
def test_true_and_false_may_change_places(gaps: NDArray[np.float64], bins: int) -> None:
    # As many stay when all captions change sides: nothing favours the true ones.
    assert balance(gaps, names(gaps), bins, 0).sum() == balance(-gaps, names(gaps), bins, 0).sum()


def test_the_seed_chooses_within_a_cell() -> None:
    gaps = np.array([[1.0]] * 20 + [[-1.0]] * 5)
    chosen = [frozenset(np.flatnonzero(balance(gaps, names(gaps), 3, seed)).tolist()) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(some) == 10 for some in chosen)


def test_a_weighted_sum_of_two_scorers_is_near_chance_too() -> None:
    rng = np.random.default_rng(0)
    gaps = rng.normal([0.6, 0.4], [1.0, 2.0], (4000, 2)) @ np.array([[1.0, 0.7], [0.0, 1.0]])
    left = gaps[balance(gaps, names(gaps), 10, 0)]
    assert len(left) > 1500
    for angle in np.linspace(0, np.pi, 37):
        weights = np.array([np.cos(angle), np.sin(angle) / 2])
        assert abs(text_accuracy(left @ weights) - 0.5) < 0.03
    assert max(text_accuracy(gaps @ np.array([np.cos(a), np.sin(a) / 2])) for a in np.linspace(0, np.pi, 37)) > 0.7


def item(name: str, true: str, false: str, subset: str = "") -> Item:
    return Item(id=name, images=("a.png",), texts=(true, false), tags={"subset": subset} if subset else {})


def test_each_subset_is_balanced_by_itself() -> None:
    items = [item("a1", "x", "x y", "add"), item("a2", "x", "x y", "add"), item("s1", "x y", "x", "swap")]
    assert set(Refine(scorers=["words"]).left_out(items, seed=0, home=Path())) == {"a1", "a2", "s1"}
    assert len(Refine(scorers=["words"], by="").left_out(items, seed=0, home=Path())) == 1


def test_an_item_of_another_shape_is_named() -> None:
    four = Item(id="q", images=("a.png", "b.png"), texts=("x", "y"))
    with raises(DataError, "'q'", "2", "2"):
        Refine(scorers=["words"]).left_out([four], seed=0, home=Path())


@pytest.mark.slow
@pytest.mark.skipif(not SUGARCREPE.is_dir(), reason="needs SugarCrepe's captions in ../shared/data")
def test_sugarcrepe_s_longer_captions_no_longer_give_the_true_ones_away() -> None:
    items = []
    for path in sorted(SUGARCREPE.glob("*.json")):
        rows = json.loads(path.read_text())
        items += [item(f"{path.stem}-{k}", r["caption"], r["negative_caption"], path.stem) for k, r in rows.items()]
    gaps = np.stack([-np.diff(score_captions(Length(unit), items))[:, 0] for unit in ("words", "characters")], axis=1)
    assert text_accuracy(gaps[:, 0]) < 0.35  # a false caption with something added is longer
    left_out = Refine(scorers=["words", "characters"]).left_out(items, seed=0, home=Path())
    stays = np.array([each.id not in left_out for each in items])
    assert [text_accuracy(gaps[stays, axis]) for axis in (0, 1)] == [0.5, 0.5]
    assert stays.sum() > 3000
