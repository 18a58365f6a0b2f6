import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from published import published
from scripts import run_python
from tellapart.data.item import Item
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random

WORD = st.sampled_from(["cat", "dog", "Red", "the", "two", "n't"])
CAPTION = st.lists(WORD, min_size=1, max_size=6).map(" ".join)


def test_names_and_fingerprints_are_distinct():
    models = [Random(0), Random(1), Constant(), Blind(), Oracle(), BagOfWords()]
    assert len({model.fingerprint for model in models}) == 6
    assert [m.name for m in models[1:]] == ["random", "constant", "blind", "oracle", "bag-of-words"]


def test_random_scores_are_uniform_and_depend_on_seed_pixels_and_text():
    images = [np.full((1, 1, 3), k, np.uint8) for k in range(50)]
    texts = [f"caption {k}" for k in range(50)]
    grid = np.array([Random(0).score_pairs([image] * 50, texts) for image in images])
    assert grid.dtype == np.float32
    assert 0 <= grid.min() < 0.01 < 0.99 < grid.max() < 1
    assert abs(grid.mean() - 0.5) < 4 * np.sqrt(1 / 12 / grid.size)
    assert abs(grid.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / grid.size)
    assert len(np.unique(grid)) == grid.size
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 4 / np.sqrt(grid.size)
    other = np.array([Random(1).score_pairs([image] * 50, texts) for image in images])
    assert abs(np.corrcoef(grid.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(grid.size)
    one, same, turned = (np.arange(24, dtype=np.uint8).reshape(s) for s in ((2, 4, 3), (2, 4, 3), (4, 2, 3)))
    a, b, c = Random(3).score_pairs([one, same, turned], ["x", "x", "x"])
    assert a == b != c


@given(st.lists(st.text(max_size=30), min_size=2, max_size=6))
def test_blind_prefers_fewer_words_then_fewer_characters(texts):
    scores = Blind().score_texts(texts)
    order = sorted(range(len(texts)), key=lambda k: (-len(texts[k].split()), -len(texts[k])))
    assert [scores[k] for k in order] == sorted(scores)
    for a, one in enumerate(texts):
        for b, other in enumerate(texts):
            same = (len(one.split()), len(one)) == (len(other.split()), len(other))
            assert (scores[a] == scores[b]) == same


def test_blind_numbers_stay_exact_on_enormous_texts():
    a, b = Blind().score_texts(["word " * 10**5, "word " * 10**6])
    assert a == b == -(4095 * 4096 + 4095) > -(2**24)


@pytest.mark.parametrize(("shape", "expected"), [
    ((2, 2), [[1, 0], [0, 1]]), ((1, 3), [[1, 0, 0]]), ((3, 1), [[1], [0], [0]]), ((3, 3), np.eye(3).tolist()),
])  # fmt: skip
def test_the_oracle_marks_the_true_pairs(shape, expected):
    item = Item(id="a", images=tuple("012"[: shape[0]]), texts=tuple("xyz"[: shape[1]]))
    assert Oracle().score_item(item).tolist() == expected


@given(CAPTION, CAPTION)
def test_bag_of_words_is_right_unless_the_captions_hold_the_same_words(one, other):
    scores = BagOfWords().score_item(Item(id="a", images=("0", "1"), texts=(one, other)))
    assert scores.dtype == np.float32
    assert scores[0, 0] == scores[1, 1] == 1
    assert scores[0, 1] == scores[1, 0]
    same = sorted(one.lower().split()) == sorted(other.lower().split())
    assert (scores[0, 1] == 1) == same


@given(CAPTION, CAPTION, st.randoms(use_true_random=False))
def test_bag_of_words_sees_no_order(one, other, random):
    words = other.split()
    random.shuffle(words)
    model = BagOfWords()
    a = model.score_item(Item(id="a", images=("0",), texts=(one, other)))
    b = model.score_item(Item(id="a", images=("0",), texts=(one, " ".join(words))))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("images", "texts", "scores"),
    [
        (1, ("a cat", "a cat, a cat"), [[1, 0.5]]),  # a repetition is another caption
        (3, ("a cat",), [[1], [0], [0]]),  # no caption of the other images is there
        (1, ("...", "?!"), [[1, 1]]),  # without a word
        (1, ("एक बेटा", "एक बेटी"), [[1, np.float32(1 / 3)]]),  # a son and a daughter: a vowel sign is read
    ],
)
def test_bag_of_words_on_small_items(images, texts, scores):
    item = Item(id="a", images=tuple(map(str, range(images))), texts=texts)
    assert BagOfWords().score_item(item).tolist() == scores


@pytest.mark.parametrize(
    ("subset", "ties"), [("swap_obj", 164), ("swap_att", 408), ("replace_rel", 0), ("add_att", 0), ("add_obj", 0)]
)
def test_bag_of_words_ties_on_the_counted_reorderings_of_sugarcrepe(subset, ties):
    records = json.loads(published("sugarcrepe", "data", f"{subset}.json").read_text(encoding="utf-8")).values()
    model = BagOfWords()
    scores = [
        model.score_item(Item(id="a", images=("0",), texts=(r["caption"], r["negative_caption"])))[0] for r in records
    ]
    assert sum(caption == foil for caption, foil in scores) == ties
    assert sum(caption > foil for caption, foil in scores) == len(scores) - ties


def test_the_reference_models_load_no_heavy_library():
    code = (
        "import sys, tellapart.models.reference, tellapart.models.scoring.score, tellapart.models.onnx.dual_encoder, "
        "tellapart.models.memory.external; "
        "print([m for m in ('torch', 'PIL', 'onnxruntime', 'tokenizers', 'scipy', 'onnx') if m in sys.modules])"
    )
    assert run_python("-c", code).stdout.strip() == "[]"
