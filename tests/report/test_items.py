"""Margins, order and outcomes of items."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tellapart.metrics.choice import choice_score
from tellapart.metrics.pairs import group_score
from tellapart.records.result import Sample
from tellapart.report.items import ends, item_table, margins, model_table, shared_outcomes, worst_first

# Small whole numbers tie often; any float32 checks rounding and underflow.
SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(arrays(np.float32, (5, 2, 2), elements=SCORES))
def test_margin_is_positive_exactly_where_the_group_score_is_right(scores) -> None:
    assert ((margins(scores) > 0) == (group_score(scores) == 1)).all()


@given(
    st.sampled_from([(1, 2), (1, 5), (3, 1)]).flatmap(lambda shape: arrays(np.float32, (4, *shape), elements=SCORES))
)
def test_margin_is_positive_exactly_where_the_choice_is_right(scores) -> None:
    assert ((margins(scores) > 0) == (choice_score(scores) == 1)).all()


@given(arrays(np.float32, (9,), elements=SCORES), arrays(np.float32, (9,), elements=SCORES))
def test_every_models_worst_item_comes_before_any_that_is_nobodys_worst(a, b) -> None:
    order = worst_first([a, b])
    assert sorted(order) == list(range(9))
    if len(set(a.tolist())) == len(set(b.tolist())) == 9:
        assert {int(a.argmin()), int(b.argmin())} == set(order[: len({int(a.argmin()), int(b.argmin())})])


@given(st.permutations(range(25)), st.integers(1, 30))
def test_a_browser_holds_the_worst_items_and_a_tenth_of_the_best(order: list[int], most: int) -> None:
    kept = ends(order, most)
    assert len(kept) == min(most, 25)
    assert kept == order if most >= 25 else kept == order[: most - most // 10] + order[25 - most // 10 :]


def test_a_metric_that_one_item_lacks_is_not_shared() -> None:
    samples = [Sample(id=str(k), cluster="a", outcomes={"x": 1.0, "y": 0.0}) for k in range(3)]
    assert shared_outcomes(samples) == {"x", "y"}
    assert shared_outcomes([*samples, Sample(id="3", cluster="a", outcomes={"y": 1.0})]) == {"y"}
    assert shared_outcomes([]) == set()


def test_a_constant_model_does_not_disturb_the_order() -> None:
    margin = np.float32([0.3, -0.2, 0.1, -0.9, 0.6])
    assert worst_first([margin])[:2] == worst_first([margin, np.zeros(5, np.float32)])[:2] == [3, 1]


def test_scores_are_written_shortest_and_read_back_as_the_same_float32(make_run) -> None:
    samples = make_run(skill=1.0).samples["shapes"]
    table = json.loads(json.dumps(model_table(samples, ["group_score"])))
    exact = np.array([sample.scores for sample in samples], np.float32).reshape(30, 4)
    assert np.array_equal(np.array(table["scores"], np.float32), exact)
    assert max(len(repr(score)) for scores in table["scores"] for score in scores) <= 13


def test_an_overflowing_margin_still_makes_json(make_run) -> None:
    scores = np.tile(np.float32([[-3e38, 3e38], [3e38, -3e38]]), (30, 1, 1))
    table = model_table(make_run(scores=scores).samples["shapes"], ["group_score"])
    assert json.loads(json.dumps(table, allow_nan=False))["margins"][0] == pytest.approx(-3.4028235e38)


def test_outcomes_are_coded_right_wrong_and_tied(make_run) -> None:
    scores = np.tile(np.float32([[0.9, 0.1], [0.2, 0.8]]), (30, 1, 1))
    scores[1, 0] = 0.5, 0.6
    scores[2, 0] = 0.9, 0.9
    codes = model_table(make_run(scores=scores).samples["shapes"], ["text_score"])["outcomes"]["text_score"]
    assert codes[:4] == "10t1"


def test_tags_are_columns_and_an_item_without_one_has_none(make_run) -> None:
    samples = [
        replace(sample, tags=tags)
        for sample, tags in zip(
            make_run().samples["shapes"][:3], ({"type": ""}, {}, {"type": "swap", "side": "left"}), strict=True
        )
    ]
    assert item_table(samples, {})["tags"] == {
        "side": {"values": ["left"], "of": [-1, -1, 0]},
        "type": {"values": ["", "swap"], "of": [0, -1, 1]},
    }
