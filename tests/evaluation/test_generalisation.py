"""The correlation over models, on VLUE's table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from facts import raises
from tellapart.errors import MetricError
from tellapart.evaluation.gap import pearson

# VLUE Table 2: VQA test-dev and out of domain, for ViLBERT, LXMERT, UNITER, VL-T5, ALBEF, X-VLM 4M and 16M, METER.
VQA = (72.70, 69.90, 73.82, 69.80, 75.84, 78.07, 78.22, 77.68)
VQA_OUT = (48.38, 46.18, 47.79, 46.31, 51.52, 51.55, 52.57, 53.76)


def test_the_correlation_over_vlues_models_is_scipys() -> None:
    assert pearson(VQA, VQA_OUT) == pytest.approx(stats.pearsonr(VQA, VQA_OUT).statistic, abs=1e-12)


NUMBERS = st.lists(st.tuples(*[st.floats(-1e6, 1e6).map(lambda x: round(x, 3))] * 2), min_size=3, max_size=12)


@settings(deadline=None)
@given(NUMBERS)
def test_it_is_scipys_wherever_both_vary_and_none_elsewhere(pairs: list[tuple[float, float]]) -> None:
    x, y = map(np.array, zip(*pairs, strict=True))
    found = pearson(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert found is None
        return
    assert found is not None
    if min(np.ptp(x), np.ptp(y)) > 1e-3 * max(np.abs(x).max(), np.abs(y).max()):  # scipy warns of the rest
        assert found == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert pearson(y, x) == pytest.approx(found, abs=1e-12)
    assert pearson(-x, y) == pytest.approx(-found, abs=1e-12)
    assert pearson(x[::-1], y[::-1]) == found


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_neither_tiny_nor_huge_numbers_are_lost_when_they_are_squared(scale: float) -> None:
    x, y = np.array(VQA), np.array(VQA_OUT)
    for found in (pearson(scale * x, y), pearson(x, scale * y)):
        assert found == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)


def test_bad_arguments_raise() -> None:
    with raises(MetricError, "models", "numbers"):
        pearson([1.0], [1.0])
    with raises(MetricError, "finite"):
        pearson([1.0, np.nan], [1.0, 2.0])
    with raises(MetricError, "finite"):
        pearson([1.0, 2.0], [1.0, np.nan])
