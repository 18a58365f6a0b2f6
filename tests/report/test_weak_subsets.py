"""Subsets on which a model is clearly worse: found where they are, and not made up from noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tellapart.report.conclusions import own_models, weak_subsets
from tellapart.report.sections import ReportRun, sections


def scores_with(right) -> np.ndarray:
    good, bad = [[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]
    return np.float32([good if one else bad for one in right])


def found(make_run, right, tags, **changes):
    run = make_run(scores=scores_with(right), n=len(right), tags=tags, with_images=False)
    samples = [replace(sample, **changes.get("update", {})) for sample in run.samples["shapes"]]
    (section,) = sections([ReportRun(run.result, {"shapes": samples})])
    return weak_subsets(own_models(section)[0], "group_score")


def test_subsets_that_are_clearly_lower_are_named_lowest_first(make_run) -> None:
    tags = [
        {"kind": name, "side": "left" if k % 2 else "right"} for k in range(100) for name in ("add", "swap", "move")
    ]
    share = {"add": 90, "swap": 20, "move": 30}
    right = [k < share[tag["kind"]] for k, tag in zip(np.repeat(range(100), 3), tags, strict=True)]
    subsets = found(make_run, right, tags)
    assert [(one.tag, one.value, one.n) for one in subsets] == [("kind", "swap", 100), ("kind", "move", 100)]
    assert (subsets[0].mean, subsets[0].others) == pytest.approx((0.2, 0.6))
    assert (subsets[1].mean, subsets[1].others) == pytest.approx((0.3, 0.55))


@pytest.mark.parametrize("tags", [(), ({"kind": "all"},)])
def test_without_two_values_of_a_tag_there_is_none(make_run, tags) -> None:
    assert found(make_run, [True, False] * 40, tags) == ()


def test_a_few_wrong_items_of_a_small_subset_are_no_failing(make_run) -> None:
    tags = [{"kind": "rare" if k < 2 else "usual"} for k in range(60)]
    assert found(make_run, [k not in {0, 2, 3} for k in range(60)], tags) == ()


@pytest.mark.slow
def test_many_subsets_of_one_quality_rarely_yield_one(make_run) -> None:
    """The level holds for all values together: of 30 sets, one or two would show one by accident."""
    rng = np.random.default_rng(0)
    tags = [{"kind": f"k{k % 20}"} for k in range(400)]
    assert sum(bool(found(make_run, rng.random(400) < 0.6, tags)) for _ in range(30)) <= 3


def test_items_of_few_clusters_prove_less(make_run) -> None:
    tags = [{"kind": "swap" if k < 60 else "add"} for k in range(120)]
    right = [k >= 48 for k in range(120)]
    assert [one.value for one in found(make_run, right, tags)] == ["swap"]
    assert found(make_run, right, tags, update={"cluster": "one"}) == ()
