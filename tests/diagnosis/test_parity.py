"""Two doors to one model: outcomes are compared by every headline metric, as `compare` does."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import tellapart as ta
from tellapart.diagnosis.parity import _cut_padding, _spread, compare_doors
from tellapart.models.find import find_model
from tellapart.stats.paired import paired_difference


def test_a_metric_of_several_values_an_item_is_compared_by_its_mean(made_set, installed):
    """As VALSE's `min_pc_pf` of a model of probabilities."""
    pairs, door = ta.load_pairs(made_set(shape=(1, 2), n=20)), find_model("probable")
    other = type(door)()
    other.score_pairs = lambda images, texts: (1 - door.score_pairs(images, texts)).astype(np.float32)
    same, turned = compare_doors(door, door, pairs), compare_doors(door, other, pairs)
    assert [outcome.metric for outcome in same.outcomes] == ["pairwise", "acc", "min_pc_pf"]
    assert same.flipped == 0 and all(outcome.a == outcome.b for outcome in same.outcomes)
    images = [pairs.pixels(item.images[0]) for item in pairs.items]
    scores = np.stack([door.score_pairs(images, [item.texts[k] for item in pairs.items]) for k in (0, 1)], axis=1)
    first, second = ((side[:, 0] >= 0.5, side[:, 1] < 0.5) for side in (scores, 1 - scores))
    (outcome,) = (outcome for outcome in turned.outcomes if outcome.metric == "min_pc_pf")
    assert (outcome.a, outcome.b) == (min(np.mean(first, axis=1)), min(np.mean(second, axis=1)))
    assert outcome.flipped == 20
    sides, how = (np.transpose(second), np.transpose(first)), {"reduce": lambda means: means.min(axis=-1)}
    difference = paired_difference(*sides, None, binary=False, **how)
    assert (outcome.low, outcome.high) == pytest.approx((difference.low, difference.high))


def encoder(side: int) -> SimpleNamespace:
    """A dual encoder that reads images of a side, and gives every input the same vector."""
    return SimpleNamespace(
        kind="similarity", traits={}, name=f"side-{side}", fingerprint=f"side-{side}",
        token_ids=lambda texts: [[1, len(text)] for text in texts],
        input_pixels=lambda pixels: np.full((3, side, side), pixels.mean(), np.float32),
        encode_images=lambda images: np.ones((len(images), 4), np.float32),
        encode_texts=lambda texts: np.ones((len(texts), 4), np.float32),
        similarity=lambda images, texts: images @ texts.T,
    )  # fmt: skip


def test_images_of_other_sizes_have_a_cause_and_no_largest_difference(made_set):
    found = compare_doors(encoder(8), encoder(16), ta.load_pairs(made_set(n=4)))
    assert found.first.step == "pixels"
    assert found.first.largest is None and found.first.differ == found.first.compared > 0
    assert "(3, 8, 8)" in found.first.cause and "(3, 16, 16)" in found.first.cause
    json.dumps(found.model_dump(mode="json"), allow_nan=False)


def test_padding_is_cut_and_texts_are_drawn_evenly():
    for ids, bare in (([5, 7, 0, 0], [5, 7]), ([5, 7, 0], [5, 7]), ([5, 7, 7, 7], [5, 7]), ([0], [0]), ([], [])):
        assert _cut_padding(ids) == bare
    assert (_spread("abcdefghi", 3), _spread("ab", 3)) == (["a", "e", "i"], ["a", "b"])
