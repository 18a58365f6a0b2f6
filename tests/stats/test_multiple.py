"""Adjusted p-values: a worked example, laws, scipy, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from tellapart.stats.multiple import benjamini_hochberg, holm

p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=30)

# Benjamini & Hochberg (1995), section 4.1: fifteen p-values of a thrombolysis trial. At 0.05, Bonferroni and Holm's
# kind of control reject three hypotheses, theirs rejects four.
THROMBOLYSIS = [
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
    *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
]


def test_the_published_example_rejects_what_the_paper_says():
    assert (holm(THROMBOLYSIS) <= 0.05).sum() == 3
    assert (benjamini_hochberg(THROMBOLYSIS) <= 0.05).sum() == 4


@given(p_lists)
def test_holm_lies_between_the_raw_p_and_bonferroni_and_keeps_their_order(p_values):
    raw, adjusted = np.array(p_values), holm(p_values)
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1, raw * len(raw))).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()


@given(p_lists, st.randoms(use_true_random=False))
def test_holm_moves_with_its_tests(p_values, random):
    order = random.sample(range(len(p_values)), len(p_values))
    assert holm([p_values[at] for at in order]).tolist() == holm(p_values)[order].tolist()


@given(p_lists, st.floats(0.001, 0.5))
def test_holm_rejects_exactly_what_the_step_down_procedure_rejects(p_values, alpha):
    adjusted = holm(p_values)
    expected = 0
    for step, p in enumerate(sorted(p_values)):
        if p * (len(p_values) - step) > alpha:
            break
        expected += 1
    assert (adjusted <= alpha).sum() == expected


@given(p_lists)
def test_benjamini_hochberg_equals_scipy_and_never_exceeds_holm(p_values):
    adjusted = benjamini_hochberg(p_values)
    assert adjusted == pytest.approx(false_discovery_control(p_values))
    assert (adjusted <= holm(p_values) * (1 + 1e-12)).all()
