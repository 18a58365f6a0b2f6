"""The sentence at the end of a comparison: who is better, by how much, of how many items."""

from typing import Any

from tellapart.evaluation.compare import (
    Comparison,
    MetricComparison,
    MetricTiers,
    judge_leaders,
    judge_pair,
    judge_tiers,
)
from tellapart.stats.paired import Tier


def row(difference: float, p_holm: float, metric: str = "group_score", **changes) -> MetricComparison:
    tested: dict[str, Any] = {"only_a": 40, "only_b": 50, "test": "exact McNemar", "detectable": 0.07, **changes}
    return MetricComparison(
        benchmark="demo", metric=metric, n=400, a=0.3, b=0.3 + difference, difference=difference,
        low=difference - 0.03, high=difference + 0.03, method="m", p=p_holm, p_holm=p_holm,
        **tested,
    )  # fmt: skip


def test_the_better_model_has_a_positive_gain_whichever_side_it_is_on():
    for difference, best in ((0.043, "new"), (-0.043, "old")):
        rows = [row(0.5, 0.001, "text_score"), row(difference, 0.004)]
        (found,) = judge_pair("old", "new", rows, 2)
        assert (found.metric, found.best) == ("group_score", (best,))
        other = {"old": "new", "new": "old"}[best]
        assert f"{best} is better than {other} by 4.3 points [1.3, 7.3]" in found.sentence
        assert "400 items" in found.sentence and "p = 0.004, Holm" in found.sentence


def test_a_difference_that_is_not_shown_has_its_sign_and_the_items_that_would_show_it():
    (found,) = judge_pair("old", "new", [row(0.025, 0.3, limited_from=900)], 1)
    assert found.best == () and "not shown to differ" in found.sentence
    assert "+2.5 points [-0.5, +5.5]" in found.sentence and "400 of 900 items" in found.sentence
    assert "independent items would show 2.5 points" in found.sentence
    (found,) = judge_pair("old", "new", [row(0.025, 0.3, detectable=None, test="anytime")], 1)
    assert "at every look" in found.sentence and "would show" not in found.sentence


def test_few_clusters_stand_beside_the_items():
    (found,) = judge_pair("old", "new", [row(1.0, 0.5, clusters=3)], 1)
    assert "400 items in 3 clusters" in found.sentence
    (found,) = judge_pair("old", "new", [row(1.0, 0.5, clusters=400)], 1)
    assert "cluster" not in found.sentence


def test_of_many_models_the_best_tier_is_named():
    tiers = (Tier(1, ("x", "y"), (0.9, 0.8)), Tier(3, ("z",), (0.1,)))
    (found,) = judge_tiers([MetricTiers(benchmark="demo", metric="group_score", n=400, tiers=tiers)])
    assert found.best == ("x", "y") and "Holm over 3 pairs" in found.sentence and "y" in found.sentence


def test_at_every_look_the_first_and_those_near_it_are_named():
    values = {"x": 0.9, "y": 0.85, "z": 0.1}
    pairs = [
        Comparison(a=a, b=b, rows=(row(0, p, test="anytime").model_copy(update={"a": values[a], "b": values[b]}),))
        for a, b, p in (("x", "y", 0.4), ("x", "z", 0.001), ("y", "z", 0.001))
    ]
    (found,) = judge_leaders([(pair.a, pair.b, pair.rows) for pair in pairs])
    assert found.best == ("x", "y") and "at every look" in found.sentence and "3 tests" in found.sentence
