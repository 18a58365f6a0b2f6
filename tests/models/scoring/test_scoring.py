"""No score changes with the batch size, the order or the neighbours, nor with where an image was prepared."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scored_anew import fresh

from facts import raises
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ModelError
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore

MODELS = [Random, Constant, Oracle, Blind, BagOfWords, "histogram", "fusion", "likelihood", "onnx"]
every_model = pytest.mark.parametrize("new_model", MODELS, indirect=True)


@pytest.mark.few(4)
@every_model
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_no_score_changes_with_the_batch_size_the_order_or_the_neighbours(
    new_model: Any, picture_set: Any, shape: Any
) -> None:
    pairset = picture_set(9, shape)
    reference = fresh(new_model(), pairset, batch_size=32).scores
    assert reference.values.shape == (9, *shape)
    for batch_size in (1, 2, 5, 100):
        again = fresh(new_model(), pairset, batch_size=batch_size).scores
        np.testing.assert_array_equal(again.values, reference.values)
    backwards = pairset.select(range(8, -1, -1))
    np.testing.assert_array_equal(fresh(new_model(), backwards, batch_size=3).scores.values, reference.values[::-1])
    alone = fresh(new_model(), pairset.select(range(4, 5))).scores
    np.testing.assert_array_equal(alone.values, reference.values[4:5])


@every_model
def test_no_score_changes_if_the_batch_size_is_left_to_the_model(new_model: Any, picture_set: Any) -> None:
    pairset = picture_set(9)
    reference = fresh(new_model(), pairset, batch_size=3).scores
    np.testing.assert_array_equal(fresh(new_model(), pairset).scores.values, reference.values)
    sized = new_model()
    if hasattr(sized, "image_batches"):
        sized.batch_size = 7
        np.testing.assert_array_equal(fresh(sized, pairset).scores.values, reference.values)
        assert sized.image_batches == [7, 7, 4]


def test_texts_come_by_length_so_that_little_is_padded_and_those_that_begin_alike_together(
    histogram: Any, picture_set: Any
) -> None:
    model, batches = histogram(), []
    encode = model.encode_texts
    model.encode_texts = lambda texts: (batches.append(texts), encode(texts))[1]
    pairset = picture_set(9)
    ends = ["", " and beside it another one"]  # long and short ones by turns
    items = [
        item.model_copy(update={"texts": tuple(text + ends[k % 2] for text in item.texts)})
        for k, item in enumerate(pairset.items)
    ]
    pairs = PairSet("long", tuple(items), pairset.root)
    backwards = fresh(model, pairs.select(range(8, -1, -1)), batch_size=4).scores
    texts = [text for batch in batches for text in batch]
    long = [len(text) >= 24 for text in texts]
    assert long == sorted(long) and set(long) == {False, True}
    for group in ([text for text in texts if len(text) < 24], [text for text in texts if 24 <= len(text) < 48]):
        assert group == sorted(group) and len(group) > 4
    np.testing.assert_array_equal(backwards.values[::-1], fresh(histogram(), pairs).scores.values)


@dataclass
class Preparing:
    """A model that has its images halved ahead of it, and takes whole ones, too."""

    model: Any
    threads: set[str] = field(default_factory=set)
    prepared: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def prepare_image(self, pixels: np.ndarray) -> dict[str, np.ndarray]:
        self.threads.add(threading.current_thread().name)
        self.prepared.append(pixels.size)
        return {"halved": pixels // 2}

    def whole(self, images: Any) -> list[np.ndarray]:
        return [image["halved"] if isinstance(image, dict) else image // 2 for image in images]


class PreparingDual(Preparing):
    def encode_images(self, images: Any) -> np.ndarray:
        return self.model.encode_images(self.whole(images))

    def encode_texts(self, texts: Any) -> np.ndarray:
        return self.model.encode_texts(texts)

    def similarity(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        return self.model.similarity(images, texts)


class PreparingPairs(Preparing):
    def score_pairs(self, images: Any, texts: Any) -> np.ndarray:
        return self.model.score_pairs(self.whole(images), texts)


@pytest.mark.parametrize("kind", ["histogram", "fusion"])
def test_a_model_gets_the_images_it_prepared_in_the_readers_threads(
    kind: str, request: pytest.FixtureRequest, picture_set: Any
) -> None:
    pairset, make = picture_set(6), request.getfixturevalue(kind)
    model = (PreparingDual if kind == "histogram" else PreparingPairs)(make())
    prepared = fresh(model, pairset, batch_size=5)
    assert len(model.prepared) == 12  # each image once
    assert all(name.startswith("prefetch") for name in model.threads)
    plain = make()
    for method in ("encode_images", "score_pairs"):
        if hasattr(plain, method):
            right = getattr(plain, method)
            setattr(plain, method, lambda images, *rest, right=right: right([i // 2 for i in images], *rest))
    np.testing.assert_array_equal(prepared.scores.values, fresh(plain, pairset).scores.values)
    with EmbeddingStore(None) as store:
        score(model, pairset, store=store)
        before = len(model.prepared)
        score(model, pairset, store=store)
    assert len(model.prepared) == before  # a warm run prepares nothing


class Stacked(PreparingDual):
    """One that scores many items in one call."""

    def similarities(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        return self.model.similarity(images, texts)


@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_items_scored_in_one_call_get_the_same_bits(histogram: Any, picture_set: Any, shape: Any) -> None:
    pairset = picture_set(9, shape)
    apart, calls = fresh(PreparingDual(histogram()), pairset), []
    model = Stacked(histogram())
    together = model.model.similarity
    model.model.similarity = lambda *sides: (calls.append(len(sides[0])), together(*sides))[1]
    np.testing.assert_array_equal(fresh(model, pairset).scores.values, apart.scores.values)
    assert calls == [9]
    model.model.similarity = lambda images, texts: np.zeros((len(images), 7, 7), np.float32)
    with raises(ModelError, "'item-0'", "(9, 7, 7)"):
        fresh(model, pairset)


def test_models_that_read_no_image_need_none(tmp_path: Path) -> None:
    pairset = PairSet("absent", (Item(id="a", images=("0.png", "1.png"), texts=("one cat", "a cat")),), tmp_path)
    for model in (Constant(), Blind(), Oracle(), BagOfWords()):
        assert fresh(model, pairset).images_distinct == 0
    with raises(DataError, "'images[0]'", "'0.png'"):
        fresh(Random(), pairset)


def test_progress_ends_at_the_total_and_never_goes_back(histogram: Any, fusion: Any, picture_set: Any) -> None:
    for model, stages in ((histogram(), {"images", "texts", "pairs"}), (fusion(), {"pairs"}), (Oracle(), {"items"})):
        said: list[tuple[str, int, int]] = []
        fresh(model, picture_set(7), batch_size=4, progress=lambda *args, said=said: said.append(args))
        assert {stage for stage, _, _ in said} == stages
        for stage in stages:
            done = [(d, t) for s, d, t in said if s == stage]
            assert done[-1][0] == done[-1][1]
            assert [d for d, _ in done] == sorted(d for d, _ in done)
