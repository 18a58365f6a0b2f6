"""The cache of unimodal halves, with an encoder that counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from facts import raises
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.fusion.scoring import FusionScorer, image_key

SIZE = 100


@dataclass(frozen=True)
class Half:
    value: float
    truncated: bool = False
    nbytes: int = SIZE


@dataclass
class Counting:
    """An encoder of 100 bytes a state: the mean of a picture, and a text's letters."""

    name: str = "counting"
    fingerprint: str = "counting-1"
    kind: ScoreKind = "probability"
    parameters: int = 0
    offers: dict[str, Any] = field(default_factory=dict)
    images: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lost: int = 0

    def prepare_image(self, pixels: NDArray[np.uint8]) -> dict[str, Any]:
        return {"mean": np.array([pixels.mean()], np.float32)}

    def encode_images(self, images: Sequence[Any]) -> list[Half]:
        prepared = [image if isinstance(image, dict) else self.prepare_image(image) for image in images]
        means = [float(image["mean"][0]) for image in prepared]
        self.images += means
        return [Half(mean) for mean in means][self.lost :]

    def encode_texts(self, texts: Sequence[str]) -> list[Half]:
        self.texts += texts
        return [Half(float(sum(map(ord, text)) % 97), truncated=len(text) > 5) for text in texts]

    def score_states(self, images: Sequence[Half], texts: Sequence[Half]) -> NDArray[np.float32]:
        return np.array([i.value * t.value / 1e5 for i, t in zip(images, texts, strict=True)], np.float32)


def picture(k: int) -> NDArray[np.uint8]:
    return np.full((2, 3, 3), k, np.uint8)


def truth(k: int, text: str) -> np.float32:
    return np.float32(k * (sum(map(ord, text)) % 97) / 1e5)


def check_scores(model: FusionScorer, pairs: list[tuple[int, str]], size: int) -> None:
    """Score pairs in calls of a size."""
    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        scores = model.score_pairs([picture(k) for k, _ in part], [text for _, text in part])
        np.testing.assert_array_equal(scores, [truth(k, text) for k, text in part])
        assert model.bytes_held <= model.cache_bytes


def test_every_half_is_computed_once_for_n_images_by_m_texts():
    encoder, texts = Counting(), ["a", "b", "cc", "dd", "eeeeee"]
    model = FusionScorer(encoder)
    check_scores(model, [(k, text) for k in range(7) for text in texts], 3)
    assert sorted(encoder.images) == list(range(7)) and sorted(encoder.texts) == texts
    assert (model.images_encoded, model.texts_encoded, model.truncated) == (7, 5, 1)
    assert model.bytes_held == 12 * SIZE


def test_images_are_told_apart_by_pixels_or_by_name_type_shape_and_bytes():
    encoder = Counting()
    zeros = [np.zeros((2, 3, 3), np.uint8), np.zeros((2, 3, 3), np.uint8), np.zeros((3, 2, 3), np.uint8)]
    FusionScorer(encoder).score_pairs(zeros, ["a", "b", "a"])
    assert encoder.images == [0.0, 0.0]
    zero, both = np.zeros(4, np.float32), {"a": np.zeros(1), "b": np.ones(1)}
    different = [{"a": zero}, {"b": zero}, {"a": zero.astype(np.int32)}, {"a": zero.reshape(2, 2)}, {"a": zero + 1}]
    different.append({"a": zero, "b": np.zeros(0)})
    assert len({image_key(image) for image in different}) == len(different)
    assert image_key(both) == image_key(dict(reversed(both.items())))


@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abcdefghij")), min_size=1, max_size=150),
    size=st.integers(1, 150),
    room=st.integers(0, 30),
)
def test_the_bound_holds_after_every_call_and_changes_no_score(pairs, size, room):
    model = FusionScorer(Counting())
    model.cache_bytes = room * SIZE
    check_scores(model, pairs, size)


def test_what_was_used_last_is_kept_and_a_cut_text_is_counted_once():
    encoder = Counting()
    model = FusionScorer(encoder)
    model.cache_bytes = 3 * SIZE  # two images and the text
    for k in (1, 2, 1, 3, 1, 2):
        model.score_pairs([picture(k)], ["a"])
    assert encoder.images == [1.0, 2.0, 3.0, 2.0] and encoder.texts == ["a"]
    model = FusionScorer(Counting())
    model.cache_bytes = 0
    for text in ("a long text", "another long text", "a long text", "ok"):
        model.score_pairs([picture(1)], [text])
    assert (model.truncated, model.texts_encoded) == (2, 4)


def test_what_does_not_match_is_refused():
    with raises(ModelError, "score_pairs", "1", "2"):
        FusionScorer(Counting()).score_pairs([picture(0)], ["a", "b"])
    with raises(ModelError, "1", "2", "images"):
        FusionScorer(Counting(lost=1)).score_pairs([picture(0), picture(1)], ["a", "b"])
