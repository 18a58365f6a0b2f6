"""A law of every statistic: neither the order of items nor the names of clusters matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart.stats.intervals import interval_for
from tellapart.stats.paired import anytime_p, net_wins, paired, paired_difference, paired_permutation, tiers

#: A value, outcomes of four models and a cluster for each item.
ITEMS = st.lists(st.tuples(st.floats(-5, 5), *[st.integers(0, 1)] * 4, st.integers(0, 30)), min_size=1, max_size=90)


def flip_signs(a, b, codes):
    p = paired_permutation(a, b, codes, resamples=500)
    assert 0 < p <= 1 and p == paired_permutation(b, a, codes, resamples=500)
    return p


def subtract(a, b, codes):
    found = paired_difference(a, b, codes, binary=True)
    assert found.value == pytest.approx(np.mean(a) - np.mean(b))
    return found


def rank(*models, codes):
    named = {f"m{k}": model for k, model in enumerate(models)}
    found = tiers(named, codes)
    assert found == tiers(dict(reversed(named.items())), codes)
    assert sorted(name for tier in found for name in tier.names) == list(named)
    return found


STATISTICS = {
    "interval of values": lambda x, a, b, c, d, codes: interval_for(x, codes, binary=False),
    "interval of outcomes": lambda x, a, b, c, d, codes: interval_for(a, codes, binary=True),
    "difference": lambda x, a, b, c, d, codes: subtract(a, b, codes),
    "sign flips": lambda x, a, b, c, d, codes: flip_signs(a, b, codes),
    "comparison": lambda x, a, b, c, d, codes: paired(a, b, codes, flips=500),
    "every look": lambda x, a, b, c, d, codes: anytime_p(*net_wins(a, b, codes)[:2]),
    "tiers": lambda x, a, b, c, d, codes: rank(a, b, c, d, codes=codes),
}


@pytest.mark.parametrize("name", STATISTICS)
@settings(max_examples=25)
@given(ITEMS, st.randoms(use_true_random=False))
def test_neither_the_order_of_items_nor_the_names_of_clusters_matter(name, items, random):
    names = [f"{random.random()} {code}" for code in range(31)]
    mixed = [(*numbers, names[code]) for *numbers, code in random.sample(items, len(items))]
    assert STATISTICS[name](*zip(*items, strict=True)) == STATISTICS[name](*zip(*mixed, strict=True))
