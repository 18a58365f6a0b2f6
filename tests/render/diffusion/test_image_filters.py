"""Filters follow their rule, at the threshold too; directional similarity is the cosine of the two changes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import ModelError
from tellapart_render.diffusion.image_filters import (
    STEPS,
    Keep,
    PairSimilarity,
    measure_pair,
    open_scorer,
    unit_vectors,
)

COSINES = st.floats(-1, 1)
SIMILARITIES = st.builds(
    PairSimilarity, st.tuples(COSINES, COSINES), st.tuples(COSINES, COSINES), images=COSINES, directional=COSINES
)


def pictures(n: int, seed: int = 0) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(0, 256, (2, 24, 24, 3), dtype=np.uint8)) for _ in range(n)]


@given(SIMILARITIES)
def test_the_codes_rule_is_the_four_conditions_of_instruct_pix2pix(found):
    passes = found.images >= 0.7 and found.directional >= 0.2 and found.own[0] >= 0.2 and found.own[1] >= 0.2
    assert (Keep().step_failed(found) is None) == passes


@given(SIMILARITIES)
def test_the_papers_rule_leaves_out_the_direction_and_so_keeps_no_less(found):
    step = Keep(rule="paper").step_failed(found)
    assert step != "directional"
    assert (step is None) == (Keep().step_failed(found) in {None, "directional"})


@given(SIMILARITIES)
def test_argmax_asks_for_each_picture_nearer_its_own_caption_and_both_asks_for_both(found):
    nearer = found.own[0] > found.crossed[0] and found.own[1] > found.crossed[1]
    choices = ("threshold", "argmax", "both")
    fails = {choose: Keep(choose=choose).step_failed(found) == STEPS[0] for choose in choices}
    assert fails["argmax"] == (not nearer)
    assert fails["both"] == (fails["threshold"] or fails["argmax"])


def test_a_pair_on_every_threshold_stays_and_a_tie_is_not_nearer():
    found = PairSimilarity((0.2, 0.2), (0.2, 0.1), 0.7, 0.2)
    assert Keep().step_failed(found) is None
    assert Keep(choose="argmax").step_failed(found) == "caption-image"


def test_similarities_are_the_cosines_of_the_models_own_vectors():
    model = open_scorer("demo-encoder", "cpu")
    captions, pairs = ("a red mug", "two blue bowls"), pictures(3)
    seen, told = unit_vectors(model, [image for pair in pairs for image in pair], captions)
    np.testing.assert_allclose([np.linalg.norm(v) for v in (*seen, *told)], 1, atol=1e-6)
    for k, found in enumerate(measure_pair(model, pair, captions) for pair in pairs):
        first, second = seen[2 * k], seen[2 * k + 1]
        own = model.similarity(seen[2 * k : 2 * k + 2].astype(np.float32), told.astype(np.float32))
        np.testing.assert_allclose(found.own, np.diag(own), atol=1e-6)
        np.testing.assert_allclose(found.crossed, [own[0, 1], own[1, 0]], atol=1e-6)
        assert found.images == pytest.approx(float(first @ second), abs=1e-6)
        moved, meant = second - first, told[1] - told[0]
        expected = float(moved @ meant / np.linalg.norm(moved) / np.linalg.norm(meant))
        assert found.directional == pytest.approx(expected, abs=1e-6)


def test_no_change_has_no_direction_and_both_sides_swapped_have_the_same():
    model = open_scorer("demo-encoder", "cpu")
    same, (first, second) = pictures(1)[0][0], pictures(1, seed=1)[0]
    unchanged = measure_pair(model, (same, same), ("a red mug", "a blue mug"))
    assert (unchanged.directional, unchanged.images) == (0, pytest.approx(1))
    forward = measure_pair(model, (first, second), ("a red mug", "a blue mug"))
    backward = measure_pair(model, (second, first), ("a blue mug", "a red mug"))
    assert forward.directional == pytest.approx(backward.directional)


def test_a_scorer_of_pairs_is_refused():
    with raises(ModelError, "'blind'", "scorer"):
        open_scorer("blind", "cpu")


def test_vectors_of_two_spaces_are_refused():
    class TwoSpaces:
        name, fingerprint, kind = "two-spaces", "1", "similarity"

        def encode_images(self, images):
            return np.ones((len(images), 4), np.float32)

        def encode_texts(self, texts):
            return np.ones((len(texts), 3), np.float32)

        def similarity(self, images, texts):
            return np.zeros((len(images), len(texts)), np.float32)

    with raises(ModelError, "'two-spaces'", "4", "3"):
        measure_pair(TwoSpaces(), pictures(1)[0], ("a", "b"))
