"""What a report says first: the claims that intervals and tests carry, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tellapart.records.result import Value
from tellapart.report.conclusions import (
    ABOVE,
    BELOW,
    LEVEL,
    Conclusion,
    answer_lines,
    conclude,
    conclude_all,
    rivals_of,
)
from tellapart.report.numbers import percent
from tellapart.report.sections import ReportRun, sections

RIGHT, WRONG = [[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]


def scores_with(right) -> np.ndarray:
    return np.float32([RIGHT if one else WRONG for one in right])


def concluded(*runs: ReportRun) -> Conclusion:
    (section,) = sections(runs)
    return conclude(section, rivals_of(section))


def with_record(run: ReportRun, **changes) -> ReportRun:
    record = run.result.benchmarks["shapes"].model_copy(update=changes)
    return ReportRun(run.result.model_copy(update={"benchmarks": {"shapes": record}}), run.samples, run.read_image)


def share(make_run, right: int, of: int, **plan) -> ReportRun:
    return make_run(scores=scores_with([k < right for k in range(of)]), n=of, tags=(), with_images=False, **plan)


def test_one_model_is_set_against_chance_with_its_interval(make_run) -> None:
    found = concluded(share(make_run, 40, 50, model="clip"))
    assert found.sentences == (
        "clip reaches 80.00% by group_score (each image prefers its own text, and each text its own image) on 50 items "
        "(95% interval 67.0 to 88.8): above chance, 16.67%.",
    )
    assert (found.metric, found.standing, found.first) == ("group_score", {"clip": ABOVE}, ())


@pytest.mark.parametrize(("right", "standing"), [(50, ABOVE), (20, LEVEL), (13, LEVEL), (2, BELOW)])
def test_an_interval_that_holds_chance_is_no_claim(make_run, right, standing) -> None:
    run = share(make_run, right, 100, model="m")
    value = run.result.benchmarks["shapes"].metrics["group_score"]
    assert (standing == LEVEL) == (value.low <= value.chance <= value.high)
    found = concluded(run)
    assert found.standing == {"m": standing}
    assert f": {standing}, 16.67%." in found.sentences[0]


def test_ties_are_named_where_they_are_why_a_model_is_below_chance(make_run) -> None:
    run = make_run(scores=np.full((60, 2, 2), 0.5, np.float32), n=60, tags=(), model="constant")
    assert (
        concluded(run)
        .sentences[0]
        .endswith(
            "below chance, 16.67%, with ties in 60 items counted as wrong (16.67% if they were broken at random)."
        )
    )


def test_a_limited_run_says_of_how_many(make_run) -> None:
    run = with_record(share(make_run, 40, 50), limited_from=3000)
    assert " on 50 of 3,000 items (95% interval" in concluded(run).sentences[0]


@pytest.mark.parametrize(("low", "chance"), [(None, 1 / 6), (0.6, None), (0.6, 0.0)])
def test_without_an_interval_or_without_chance_nothing_is_said_of_it(make_run, low, chance) -> None:
    run = share(make_run, 40, 50, model="m")
    metrics = run.result.benchmarks["shapes"].metrics
    value = metrics["group_score"].model_copy(update={"low": low, "high": low and 0.9, "chance": chance})
    found = concluded(with_record(run, metrics={**metrics, "group_score": value}))
    assert "chance" not in " ".join(found.sentences)
    assert found.standing == {}


def test_the_first_of_several_is_named_with_those_that_no_test_tells_apart(make_run) -> None:
    found = concluded(
        share(make_run, 50, 100, model="low"),
        share(make_run, 88, 100, model="near"),
        share(make_run, 90, 100, model="top"),
    )
    assert found.sentences == (
        "top is first of 3 models on 100 items, with 90.00% by group_score (each image prefers its own text, and each "
        "text its own image); near (88.00%) is not distinguishable from it; low (50.00%) is lower (paired tests at 5%, "
        "Holm over 12).",
        "All are above chance, 16.67%.",
    )
    assert found.first == ("top", "near")


def test_no_model_is_first_of_equals(make_run) -> None:
    level = (share(make_run, 90, 100, model="a"), share(make_run, 90, 100, model="b"))
    first = concluded(*level).sentences[0]
    assert first.startswith("a and b are level") or first.startswith("b and a are level")
    assert "distinguishable" not in first
    among = concluded(*level, share(make_run, 20, 100, model="c")).sentences[0]
    assert "are level" in among
    assert "of 3 models" in among
    assert "c (20.00%) is lower" in among


def test_models_lie_where_their_intervals_lie(make_run) -> None:
    found = concluded(
        share(make_run, 90, 100, model="a"), share(make_run, 17, 100, model="b"), share(make_run, 0, 100, model="c")
    )
    assert found.sentences[1] == ("a is above chance, 16.67%; b is not distinguishable from chance; c is below chance.")


@pytest.mark.slow
def test_many_models_are_counted(make_run) -> None:
    found = concluded(*(share(make_run, 60 + k, 100, model=f"m{k}") for k in range(10)))
    assert "7 models are not distinguishable from it; 2 models after the first 8 were not tested" in found.sentences[0]
    assert found.sentences[1] == "All are above chance, 16.67%."


def test_what_the_first_model_fails_at_is_said_with_the_number_and_n(make_run) -> None:
    tags = [{"kind": "swap" if k % 2 else "add"} for k in range(120)]
    right = [k % 2 == 0 or k < 20 for k in range(120)]
    found = concluded(make_run(scores=scores_with(right), n=120, tags=tags, model="m"))
    assert found.sentences[1:] == (
        f"m fails most at items tagged kind = swap: {percent(10 / 60)}% of 60 items against 100.00% of the others.",
    )
    even = make_run(scores=scores_with([k % 4 < 2 for k in range(120)]), n=120, tags=tags, model="m")
    assert len(concluded(even).sentences) == 1


def test_reference_models_are_not_ranked(make_run) -> None:
    found = concluded(share(make_run, 90, 100, model="oracle"), share(make_run, 50, 100, model="mine"))
    assert found.sentences[0].startswith("mine reaches 50.00%")
    assert found.standing == {"mine": ABOVE}


def test_a_metric_that_can_be_negative_has_zero_for_chance(make_run) -> None:
    run = make_run(model="m")
    value = Value(value=0.3, low=0.2, high=0.4, method="bootstrap", n=30, clusters=30, chance=0.0, average="micro")
    samples = [
        replace(sample, outcomes={"kendall": 0.3, "spearman": 0.3}, unit="query") for sample in run.samples["shapes"]
    ]
    run = with_record(run, metrics={"kendall": value, "spearman": value}, by={})
    found = concluded(ReportRun(run.result, {"shapes": samples}))
    assert " on 30 queries (95% interval 20.0 to 40.0): above chance, 0.00%." in found.sentences[0]


def test_many_benchmarks_are_counted_up() -> None:
    def one(name: str, standing: dict[str, str], *first: str) -> Conclusion:
        return Conclusion(name, "accuracy", (f"of {name}.",), standing, first)

    few = [one("x", {"a": ABOVE, "b": ABOVE}, "a"), one("y", {"a": LEVEL, "b": ABOVE}, "a", "b")]
    assert answer_lines(few) == ("x: of x.", "y: of y.")
    many = [*few, one("z", {"a": BELOW, "b": ABOVE}, "b"), one("w", {"b": ABOVE}, "b")]
    assert answer_lines(many) == conclude_all(many)
    assert conclude_all(many) == (
        "a is above chance on 1 of 3 benchmarks, not distinguishable from it on y, below it on z.",
        "b is above chance on 4 of 4 benchmarks.",
        "First, or not distinguishable from the first, of 4 benchmarks with tests: b on 3 and a on 2.",
    )
    unjudged = [replace(one(name, {}), measured=("a",)) for name in "uv"]
    said = conclude_all([*many, *unjudged])[0]
    assert "above chance on 1 of 5 benchmarks" in said and said.endswith("judge by on u and v.")


def test_items_in_few_clusters_are_named_with_them(make_run) -> None:
    value = Value(value=1.0, low=0.29, high=1.0, method="m", n=30, clusters=3, chance=0.5, average="micro")
    run = with_record(make_run(), metrics={"group_score": value}, by={})
    assert " on 30 items in 3 clusters (" in concluded(run).sentences[0]


def test_words_without_order_are_named_only_if_two_values_of_a_tag_differ_clearly(make_run) -> None:
    right = [k % 3 == 1 for k in range(90)]  # the sides of `make_run`: left, right, none
    first, same = make_run(model="clip", n=90), make_run(model="bag-of-words", n=90, scores=scores_with([True] * 90))
    lost = make_run(model="bag-of-words", n=90, scores=scores_with([not one for one in right]))
    said = concluded(first, lost).sentences[-1]
    assert said.startswith("bag-of-words") and "100% of left" in said and "0% of right" in said
    for text in lost.samples["shapes"][1].texts:  # the first that it lost
        assert f'"{text}"' in said
    assert "bag-of-words" not in " ".join(concluded(first, same).sentences)
