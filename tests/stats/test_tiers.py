"""Tiers: who shares a rank, invariances, the family-wise error, and what is refused."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart.stats.multiple import holm
from tellapart.stats.paired import mcnemar, tiers


def right_on(share, n=200):
    """Outcomes right on the first `share` of the items."""
    return (np.arange(n) < share * n).astype(float)


def ranked(found):
    return [(tier.rank, tier.names) for tier in found]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"best": 0.80, "near": 0.79, "far": 0.60, "last": 0.59}, [(1, ("best", "near")), (3, ("far", "last"))]),
        # A chain of small steps of 4 items (p = .125): only the tier's best counts, not the neighbour.
        ({f"m{step}": 0.9 - 0.02 * step for step in range(5)}, [(1, ("m0", "m1", "m2")), (4, ("m3", "m4"))]),
        # 6 items differ: p = .031 alone is significant; times the three pairs of three models it is not.
        ({"a": 0.50, "b": 0.47}, [(1, ("a",)), (2, ("b",))]),
        ({"a": 0.50, "b": 0.47, "c": 0.47}, [(1, ("a", "b", "c"))]),
        ({"z": 0.5, "a": 0.5}, [(1, ("a", "z"))]),  # equal means are ordered by name
        ({"only": 0.5}, [(1, ("only",))]),
    ],
)
def test_a_tier_holds_what_cannot_be_told_from_its_best(shares, expected):
    found = tiers({name: right_on(share) for name, share in shares.items()}, None)
    assert ranked(found) == expected
    assert found[0].means == pytest.approx([shares[name] for name in found[0].names])


def test_a_model_below_one_that_differs_is_tested_too_and_clusters_merge_what_items_would_part():
    # "near" lies below "apart", yet differs from the best in both directions (20 and 8 items), "apart" in one (10).
    models = {"best": right_on(0.8), "apart": right_on(0.75), "near": np.roll(right_on(0.74), 20)}
    assert mcnemar(models["best"], models["near"]).p > 0.03 > 3 * mcnemar(models["best"], models["apart"]).p
    assert ranked(tiers(models, None)) == [(1, ("best", "near")), (3, ("apart",))]
    models = {"a": right_on(0.55), "b": right_on(0.5)}
    assert (len(tiers(models, None)), len(tiers(models, np.arange(200) // 40))) == (2, 1)
    rng = np.random.default_rng(0)
    base = rng.normal(size=100)
    models = {"high": base + 1, "level": base + 0.9 + rng.normal(size=100), "low": base - 1}
    assert ranked(tiers(models, None)) == [(1, ("high", "level")), (3, ("low",))]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_a_tier_is_of_all_models_left_that_do_not_differ_from_its_best(seed):
    rng = np.random.default_rng(seed)
    table = (rng.random((120, 7)) < rng.uniform(0.2, 0.9, 7)).astype(float)
    models = {f"m{k}": column for k, column in enumerate(table.T)}
    pairs = list(combinations(models, 2))
    adjusted = dict(zip(pairs, holm([mcnemar(models[a], models[b]).p for a, b in pairs]), strict=True))
    found = tiers(models, None)
    for place, tier in enumerate(found):
        best, later = tier.names[0], [name for one in found[place + 1 :] for name in one.names]
        p_of = {name: adjusted[min(best, name), max(best, name)] for name in [*tier.names[1:], *later]}
        assert all((p_of[name] <= 0.05) == (name in later) for name in p_of)
        assert all(models[best].mean() >= models[name].mean() for name in p_of)


def test_many_models_can_still_be_told_apart_by_drawn_flips():
    # 15 models are 105 pairs: 10,000 draws would leave an adjusted p of at least .0105, so alpha .001 needs more.
    rng = np.random.default_rng(1)
    base = rng.normal(size=80)
    models = {f"m{place:02}": base - place for place in range(15)}
    assert len(tiers(models, np.arange(80) // 2, alpha=0.001)) == 15


@pytest.mark.parametrize("size", [1, 3])
def test_equal_models_are_parted_no_more_often_than_alpha(size):
    rng = np.random.default_rng(2)
    codes = np.arange(60) // size
    parted = 0
    for _ in range(200):
        cluster = rng.integers(0, 2, (60 // size, 4))[codes]  # all items of a cluster alike
        parted += len(tiers(dict(zip("abcd", cluster.T, strict=True)), codes)) > 1
    assert parted / 200 <= 0.08
