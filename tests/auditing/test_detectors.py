"""Heads on frozen features tell origins where there are some, and play the benchmark by them as published."""

import csv
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import raises
from published import published
from tellapart.auditing.origin import Origins, detect, origins
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ModelError
from tellapart.models.reference import Constant
from tellapart.models.store.embedding_store import EmbeddingStore

#: Accuracy of images and of texts, of the published probabilities.
ACCURACIES = {"baseline": (0.9995, 0.573), "TROHN-Img": (1.0, 0.613)}


class Means:
    """A dual encoder: an image is its mean colours and spreads, a text how often it has each of eight letters."""

    name, fingerprint, kind = "means", "means-1", "similarity"

    def __init__(self) -> None:
        self.encoded = 0

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        self.encoded += len(images)
        rows = [np.concatenate([i.reshape(-1, 3).mean(axis=0), i.reshape(-1, 3).std(axis=0)]) for i in images]
        return np.array(rows, np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        return np.array([[text.count(letter) for letter in "aebcdort"] for text in texts], np.float32)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.zeros((len(images), len(texts)), np.float32)


@pytest.fixture
def tinted(made_set) -> Callable[..., PairSet]:
    """A set of noise whose second pictures are redder; captions are drawn alike."""

    def make(name: str = "tinted", **options) -> PairSet:
        from PIL import Image

        folder = made_set(name, **options)
        for path in (folder / "images").glob("*_1.png"):
            pixels = np.asarray(Image.open(path)).copy()
            pixels[..., 0] //= 2
            Image.fromarray(pixels).save(path)
        return read_pair_set(folder)

    return make


def rows_of(model: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with published("bivlc", f"BiVLC_Classifier_CORRECT_CLIP_{model}.csv").open(newline="", encoding="utf-8") as stream:
        rows = [[float(row[column]) for column in ("text_pred", "img_pred", "label")] for row in csv.DictReader(stream)]
    text, image, label = np.array(rows).T
    sides = [np.stack([values[label == 0], values[label == 1]], axis=1) for values in (image, text)]
    return sides[0], sides[1]


@pytest.mark.parametrize("model", ACCURACIES)
def test_the_published_probabilities_give_the_published_accuracies(model):
    result = Origins(*rows_of(model)).outcomes()
    image, text = (float(result[f"{side}_accuracy"].mean()) for side in ("image", "text"))
    assert (round(image, 4), round(text, 3)) == ACCURACIES[model]


def test_pictures_of_two_origins_are_told_captions_of_one_are_not_and_so_little_is_won(tinted):
    pairs = tinted(n=60)
    result = detect(pairs, Means(), cache=EmbeddingStore(None))
    assert result.scores["image_accuracy"].value > 0.95
    text = result.scores["text_accuracy"]
    assert text.low < 0.5 < float(text.high or 0)
    assert result.scores["group_score"].value < result.scores["text_score"].value + 0.01 < 0.8
    assert (result.items, result.clusters, result.folds, result.trained_on) == (60, 60, 5, None)
    assert type(result).model_validate_json(result.model_dump_json()) == result


def test_heads_fitted_on_another_set_judge_this_one(tinted):
    here, there = tinted("here", n=40, seed=1), tinted("there", n=60, seed=2)
    result = detect(here, Means(), cache=EmbeddingStore(None), trained_on=there)
    assert (result.trained_on, result.folds) == (there.name, None)
    assert result.scores["image_accuracy"].value > 0.95


def test_what_is_measured_is_not_trained_on(tinted):
    here = tinted("here", n=8, seed=1)
    with raises(DataError, "entries"):
        origins(here, Means(), store=EmbeddingStore(None), trained_on=tinted("again", n=8, seed=1))
    both = tinted("both", n=30, seed=3)
    alone = origins(here, Means(), store=EmbeddingStore(None), trained_on=both)
    again = (each.model_copy(update={"id": f"x{each.id}"}) for each in both.items)
    mixed = PairSet("mixed", (*both.items, *again), both.root)
    assert np.allclose(alone.images, origins(here, Means(), store=EmbeddingStore(None), trained_on=mixed).images)


@pytest.mark.slow
def test_vectors_come_from_the_store_the_second_time(tinted, tmp_path):
    pairs = tinted(n=20)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        model = Means()
        first = detect(pairs, model, cache=store)
        assert model.encoded > 0
        again = Means()
        assert detect(pairs, again, cache=store) == first
        assert again.encoded == 0


def test_no_number_depends_on_the_order_of_the_items(tinted):
    pairs = tinted(n=30, clusters=12)
    order = np.random.default_rng(0).permutation(len(pairs))
    one = origins(pairs, Means(), store=EmbeddingStore(None))
    other = origins(pairs.select(order.tolist()), Means(), store=EmbeddingStore(None))
    assert np.array_equal(one.images[order], other.images)
    assert np.array_equal(one.texts[order], other.texts)


def test_sets_and_models_that_no_detector_plays_are_refused(tinted, made_set):
    single = read_pair_set(made_set("single", shape=(1, 2)))
    pairs = tinted(n=6)
    with raises(DataError, "1", "2", "2", "2"):
        detect(pairs, Means(), cache=EmbeddingStore(None), trained_on=single)
    with raises(ModelError, "vectors", "images"):
        detect(pairs, Constant(), cache=EmbeddingStore(None))
    with raises(DataError, "9", "6", "2"):
        detect(pairs, Means(), cache=EmbeddingStore(None), folds=9)
