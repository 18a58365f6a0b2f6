"""Two doors to one model: outcomes are compared by every headline metric, as `compare` does."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest
from numpy.typing import NDArray

import tellapart as ta
from tellapart.data.scores import ScoreKind
from tellapart.diagnosis.parity import compare_doors
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


class Encoder:
    """A dual encoder that reads images of a side, and gives every input the same vector."""

    kind: ScoreKind = "similarity"
    traits: Mapping[str, str] = MappingProxyType({})

    def __init__(self, side: int) -> None:
        self.side, self.name, self.fingerprint = side, f"side-{side}", f"side-{side}"

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[1, len(text)] for text in texts]

    def input_pixels(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.full((3, self.side, self.side), pixels.mean(), np.float32)

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        return np.ones((len(images), 4), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 4), np.float32)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return images @ texts.T


def test_images_of_other_sizes_have_a_cause_and_no_largest_difference(made_set):
    found = compare_doors(Encoder(8), Encoder(16), ta.load_pairs(made_set(n=4)))
    assert found.first is not None and found.first.step == "pixels"
    assert found.first.largest is None and found.first.differ == found.first.compared > 0
    assert "(3, 8, 8)" in found.first.cause and "(3, 16, 16)" in found.first.cause
    json.dumps(found.model_dump(mode="json"), allow_nan=False)
