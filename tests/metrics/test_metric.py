"""The facts a metric declares, and what it says of scores that it cannot measure."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from facts import raises
from tellapart.errors import MetricError, ScoreError
from tellapart.metrics.metric import fits, read_scores
from tellapart.metrics.registry import METRICS, defined_for, one_name_each

PAIR = [[[0.9, 0.1], [0.2, 0.8]]]


def test_the_registry_holds_the_metrics_of_the_papers_under_their_own_names():
    pairs = ["text_score", "image_score", "group_score", "i2t", "t2i", "ipos_2t", "ineg_2t", "tpos_2i", "tneg_2i"]
    valse = ["choice_score", "acc", "p_c", "p_f", "min_pc_pf", "pairwise"]
    shapes = ["itt", "individual_score", "pair_score", "set_score", "match_score", "match_score_of_probabilities"]
    assert list(METRICS) == [*pairs, *valse, *shapes, "v1", "v2_text", "v2_image"]
    assert all(name == metric.name for name, metric in METRICS.items())


@pytest.mark.parametrize(
    ("shape", "kind", "names"),
    [
        ((1, 2), "probability", ["choice_score", "acc", "p_c", "p_f", "min_pc_pf", "pairwise"]),
        ((1, 2), "logit", ["choice_score", "pairwise"]),
        ((1, 5), "similarity", ["choice_score"]),
        ((4, 1), "similarity", ["choice_score"]),
        ((1, 1), "similarity", []),
        ((3, 4), "probability", []),
        ((3, 3), "logit", ["individual_score", "set_score", "match_score"]),
        ((3, 3), "probability", ["individual_score", "set_score", "match_score", "match_score_of_probabilities"]),
        ((7, 7), "probability", ["individual_score", "set_score"]),
    ],
)
def test_a_metric_not_defined_for_a_shape_or_kind_does_not_exist_for_it(shape, kind, names):
    assert [metric.name for metric in defined_for(shape, kind)] == names


def test_two_names_of_one_metric_have_one_value_on_every_item_and_are_shown_once():
    aliases = {name: metric.same_as for name, metric in METRICS.items() if metric.same_as}
    assert aliases == {"i2t": "text_score", "t2i": "image_score", "pairwise": "choice_score"}
    levels = np.random.default_rng(0).integers(0, 3, size=(2000, 2, 2)) / 4
    for name, original in aliases.items():
        scores = levels[:, :1] if METRICS[name].defined_for((1, 2)) else levels
        np.testing.assert_array_equal(METRICS[name].per_item(scores), METRICS[original].per_item(scores))
        assert METRICS[name].chance(scores.shape[1:]) == METRICS[original].chance(scores.shape[1:])
    assert list(one_name_each(METRICS)) == [name for name in METRICS if name not in aliases]


def test_two_by_two_items_have_the_pair_metrics_and_the_deviations_whatever_the_kind():
    for kind in ("similarity", "logit", "probability"):
        matching = ["match_score"] + ["match_score_of_probabilities"] * (kind == "probability")
        names = [*list(METRICS)[:9], *matching, *list(METRICS)[-3:]]
        assert [metric.name for metric in defined_for((2, 2), kind)] == names


def test_only_values_of_zero_and_one_are_declared_binary():
    assert {name for name, metric in METRICS.items() if not metric.binary} == {
        *("acc", "min_pc_pf", "individual_score", "pair_score", "v1", "v2_text", "v2_image")
    }


def test_measured_items_have_the_facts_of_their_metric():
    square, texts = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]]]), np.array([[[0.9, 0.8, 0.8]]])
    group, deviation = METRICS["group_score"].measure(square), METRICS["v1"].measure(square)
    assert group.strict.tolist() == [1, 0] and group.neutral is not None and group.neutral.tolist() == [1, 1 / 2]
    facts = [(one.name, one.chance, one.binary, one.bounds, one.deviation, one.reduce) for one in (group, deviation)]
    assert facts == [("group_score", 1 / 6, True, (0, 1), False, None), ("v1", None, False, None, True, None)]
    decisions = [METRICS[name].measure(np.array([[[0.9, 0.1]]])).binary for name in ("acc", "p_c", "p_f")]
    assert decisions == [False, True, True]
    assert deviation.neutral is None and METRICS["itt"].measure(texts, true=2).chance == 1 / 3


def test_every_metric_can_be_sent_to_another_process():
    for metric in METRICS.values():
        copy = pickle.loads(pickle.dumps(metric))  # noqa: S301
        assert (copy.name, repr(copy.strict)) == (metric.name, repr(metric.strict))


def test_a_pattern_letter_stands_for_two_or_more():
    assert [fits("nx1", shape) for shape in ((1, 1), (2, 1), (9, 1), (2, 2))] == [False, True, True, False]


def test_checked_scores_are_float32():
    assert METRICS["text_score"].check(PAIR, "similarity", ["a"]).dtype == np.float32
    assert read_scores(np.array([[[3, 1]]]), "choice_score", ("1xm",)).dtype == np.float32


@pytest.mark.parametrize("name", ["acc", "p_c", "p_f", "min_pc_pf"])
def test_a_metric_with_a_threshold_refuses_similarities_and_logits(name):
    with raises(MetricError, name, "probabilities", "similarities"):
        METRICS[name].check([[[0.9, 0.1]]], "similarity")
    with raises(MetricError, "scores", "logits"):
        METRICS[name].check([[[0.9, 0.1]]], "logit")
    with raises(ScoreError, name, "[0, 1]", "1", "[31.0, 29.5]"):
        METRICS[name].per_item([[[0.9, 0.1]], [[31.0, 29.5]]])


def test_scores_that_are_not_finite_name_up_to_ten_items():
    scores = np.tile(np.array(PAIR), (30, 1, 1))
    scores[::2, 0, 1] = np.nan
    scores[1, 1, 1] = -np.inf
    ids = [f"q{item}" for item in range(30)]
    with raises(ScoreError, "16", "30", "q0, q1, q2, q4, q6, q8, q10, q12, q14, q16", "6"):
        METRICS["text_score"].check(scores, "similarity", ids)
    with raises(ScoreError, "16", "30", "0, 1, 2, 4"):
        METRICS["text_score"].per_item(scores)


def test_bounds_are_finite_only_if_both_are():
    unbounded = replace(METRICS["group_score"], bounds=(0.0, float("inf")))
    assert (unbounded.finite_bounds, METRICS["group_score"].finite_bounds) == (None, (0.0, 1.0))
