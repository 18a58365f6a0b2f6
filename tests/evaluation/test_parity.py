"""Two doors to one model: outcomes are compared by every headline metric, as `compare` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tellapart as ta
from tellapart.evaluation.parity import compare_doors
from tellapart.models.find import find_model
from tellapart.stats.paired import paired_difference

Make = Callable[..., Path]


def test_a_metric_of_several_values_an_item_is_compared_by_its_mean(made_set: Make, installed: Path) -> None:
    """As VALSE's `min_pc_pf` of a model of probabilities."""
    pairs, door = ta.load_pairs(made_set(shape=(1, 2), n=20)), find_model("probable")
    other = type(door)()
    other.score_pairs = lambda images, texts: (1 - door.score_pairs(images, texts)).astype(np.float32)
    same, turned = compare_doors(door, door, pairs), compare_doors(door, other, pairs)
    assert [outcome.metric for outcome in same.outcomes] == ["pairwise", "acc", "min_pc_pf"]
    assert same.flipped == 0 and all(outcome.a == outcome.b for outcome in same.outcomes)
    scores = np.array(
        [[door.score_pairs([pairs.pixels(item.images[0])], [text])[0] for text in item.texts] for item in pairs.items]
    )
    first, second = ((side[:, 0] >= 0.5, side[:, 1] < 0.5) for side in (scores, 1 - scores))
    (outcome,) = (outcome for outcome in turned.outcomes if outcome.metric == "min_pc_pf")
    assert (outcome.a, outcome.b) == (min(np.mean(first, axis=1)), min(np.mean(second, axis=1)))
    assert outcome.flipped == 20
    difference = paired_difference(
        np.transpose(second), np.transpose(first), None, binary=False, reduce=lambda means: means.min(axis=-1)
    )
    assert (outcome.low, outcome.high) == pytest.approx((difference.low, difference.high))
