"""Exact McNemar tests of many pairs of runs at once: each is the binomial test of its own counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from tellapart.stats.paired import mcnemar, mcnemar_p

COUNTS = st.tuples(st.integers(0, 400), st.integers(0, 400))


@given(st.lists(COUNTS, min_size=1, max_size=8))
def test_each_is_the_two_sided_binomial_test(counts: list[tuple[int, int]]) -> None:
    only_a, only_b = np.array(counts).T
    expected = [min(1.0, binomtest(a, a + b, 0.5).pvalue) if a + b else 1.0 for a, b in counts]
    assert mcnemar_p(only_a, only_b).tolist() == expected


@given(COUNTS)
def test_it_does_not_matter_which_run_is_called_a(counts: tuple[int, int]) -> None:
    a, b = counts
    assert mcnemar_p(a, b) == mcnemar_p(b, a)


@pytest.mark.parametrize("items", [1, 7, 200])
def test_of_two_columns_it_is_mcnemar(items: int) -> None:
    first, second = np.random.default_rng(items).integers(0, 2, (2, items))
    found = mcnemar(first, second)
    assert mcnemar_p(found.only_a, found.only_b) == found.p
