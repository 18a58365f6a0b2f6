"""The choice score and VALSE's metrics against the rules of the official code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from facts import raises
from tellapart.errors import ScoreError
from tellapart.metrics.choice import choice_score
from tellapart.metrics.registry import METRICS

acc, p_c, p_f, min_pc_pf, pairwise = (METRICS[name].per_item for name in ("acc", "p_c", "p_f", "min_pc_pf", "pairwise"))

LOGITS = arrays(np.float64, (20, 2, 2), elements=st.integers(-3, 3).map(float))  # (item, caption/foil, no-fit/fit)


@given(LOGITS)
def test_valse_metrics_are_those_of_the_official_script_where_the_foil_is_not_tied(logits):
    logits = logits[logits[:, 1, 0] != logits[:, 1, 1]]  # the script leaves these items out
    if len(logits) == 0:
        return
    fit = 1 / (1 + np.exp(logits[:, :, 0] - logits[:, :, 1]))
    scores = fit[:, None, :]
    caption = foil = 0
    for (no, yes), (foil_no, foil_yes) in logits.tolist():
        caption += no < yes
        foil += foil_no >= foil_yes
    assert p_c(scores).sum() == caption
    assert p_f(scores).sum() == foil
    assert acc(scores).sum() * 2 == caption + foil
    assert min_pc_pf(scores).mean(axis=0).min() == min(caption, foil) / len(logits)
    raw = logits[:, None, :, 1]
    assert pairwise(raw).sum() == (logits[:, 0, 1] > logits[:, 1, 1]).sum()


@given(arrays(np.float32, (6, 1, 2), elements=st.integers(0, 4).map(lambda k: k / 4)))
def test_acc_is_the_mean_and_min_the_pair_of_the_two_decisions(scores):
    np.testing.assert_array_equal(acc(scores), (p_c(scores) + p_f(scores)) / 2)
    np.testing.assert_array_equal(min_pc_pf(scores), np.stack([p_c(scores), p_f(scores)], axis=1))


def test_a_model_that_accepts_everything_has_half_the_accuracy_and_no_minimum():
    accepts = np.full((8, 1, 2), 0.9)
    metric = METRICS["min_pc_pf"]
    assert acc(accepts).mean() == 0.5
    measured = metric.measure(accepts)
    assert measured.over(measured.strict) == measured.over(measured.neutral) == 0


def test_a_probability_of_one_half_is_never_right_and_half_right_when_broken():
    scores = [[[0.5, 0.5]]]
    assert (p_c(scores)[0], p_f(scores)[0], acc(scores)[0]) == (0, 0, 0)
    for name in ("p_c", "p_f", "acc"):
        assert METRICS[name].tie_neutral(scores)[0] == 0.5
        assert METRICS[name].measure(scores).ties[0]


def test_the_true_entry_is_the_first_among_texts_and_among_images():
    assert choice_score([[[0.9, 0.1, 0.3]], [[0.1, 0.9, 0.3]]]).tolist() == [1, 0]
    assert choice_score([[[0.9], [0.1]], [[0.1], [0.9]]]).tolist() == [1, 0]


@pytest.mark.parametrize("metric", [acc, p_c, p_f, min_pc_pf])
@pytest.mark.parametrize("pair", [[0.5, 1.5], [1.5, 0.5], [-0.5, 0.5], [0.5, -0.5]])
def test_one_score_that_is_no_probability_is_refused(metric, pair):
    with raises(ScoreError, "[0, 1]", "1"):
        metric([[[0.0, 1.0]], [pair]])
