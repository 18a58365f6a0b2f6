"""What a model, a store or an image does wrong ends the run, with its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scored_anew import fresh

from facts import raises
from tellapart.errors import DataError, ModelError, StoreError
from tellapart.models.reference import Oracle
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore


def test_an_image_that_changes_during_a_run_is_an_error(histogram: Any, fusion: Any, picture_set: Any) -> None:
    pairset, hashes = picture_set(2), {}
    with EmbeddingStore(None) as store:
        score(histogram(), pairset, store=store, hashes=hashes)
        (pairset.root / "0-1.png").write_bytes((pairset.root / "1-1.png").read_bytes())
        with raises(DataError, "item-0", "'images[1]'", "0-1.png"):
            score(fusion(), pairset, store=store, hashes=hashes)


@pytest.mark.parametrize("method", ["put_vectors", "put_pixel_hashes"])
def test_a_store_that_cannot_be_written_ends_the_run(
    histogram: Any, picture_set: Any, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(EmbeddingStore, method, refuse)
    with raises(StoreError, "the disk is full", "disk"):
        fresh(histogram(), picture_set(9), batch_size=2)


def test_a_truncated_image_is_named_and_nothing_is_stored_of_it(histogram: Any, picture_set: Any) -> None:
    pairset = picture_set(4)
    file = pairset.root / "2-1.png"
    file.write_bytes(file.read_bytes()[:60])
    with EmbeddingStore(None) as store:
        with raises(DataError, "item-2", "'images[1]'", "2-1.png"):
            score(histogram(), pairset, store=store, batch_size=2)
        assert store.counts().pictures == 4


WRONG = {
    "of another shape": (lambda v: v[:, None], ("(4, 'd')", "(4, 1, 7)")),
    "one too few": (lambda v: v[:-1], ("(4, 'd')", "(3, 7)")),
    "in float64": (lambda v: v.astype(np.float64), ("float32", "float64")),
    "a list": (lambda v: v.tolist(), ("float32", "list")),
    "NaN": (lambda v: np.where(np.arange(len(v))[:, None] == 2, np.float32(np.nan), v), "NaN"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("method", ["encode_images", "encode_texts"])
def test_wrong_vectors_are_an_error_that_names_the_model_and_the_input(
    histogram: Any, picture_set: Any, method: str, case: str
) -> None:
    pairset = picture_set(4)
    model, (spoil, message) = histogram(), WRONG[case]
    right = getattr(model, method)
    setattr(model, method, lambda batch: spoil(right(batch)))
    texts = sorted((text for item in pairset.items for text in item.texts), key=lambda text: (len(text) // 24, text))
    given, third = ("0-0.png", "1-0.png") if method == "encode_images" else (texts[0], texts[2])
    with raises(ModelError, "'histogram'", repr(given), "1 more", message) as raised:
        fresh(model, pairset, batch_size=4)
    assert case != "NaN" or repr(third) in str(raised.value).split("NaN")[1]


def test_wrong_pair_scores_are_an_error_that_names_the_pair(fusion: Any, picture_set: Any) -> None:
    pairset = picture_set(2)
    model = fusion()
    model.score_pairs = lambda images, texts: np.full(len(texts), np.inf, np.float32)
    with raises(ModelError, f"'0-0.png with {pairset.items[0].texts[0]}'"):
        fresh(model, pairset)
    model.score_pairs = lambda images, texts: np.zeros((len(texts), 1), np.float32)
    with raises(ModelError, "(8,)", "(8, 1)"):
        fresh(model, pairset)


def test_a_wrong_similarity_is_an_error_that_names_the_item(histogram: Any, picture_set: Any) -> None:
    model = histogram()
    model.similarity = lambda images, texts: np.zeros((1, 2), np.float32)
    with raises(ModelError, "'item-0'", "(2, 2)", "(1, 2)"):
        fresh(model, picture_set(2))


def test_a_changed_model_with_an_old_fingerprint_is_an_error(histogram: Any, picture_set: Any) -> None:
    pairset = picture_set(4)
    with EmbeddingStore(None) as store:
        score(histogram(), pairset.select(range(2)), store=store)
        changed = histogram()
        changed.encode_images = lambda images: np.ones((len(images), 3), np.float32)
        with raises(StoreError, "3", "7", "model", "'histogram'"):
            score(changed, pairset, store=store)


def test_what_is_no_model_is_refused(picture_set: Any) -> None:
    with raises(ModelError, "object", "model", "encode_images"):
        fresh(object(), picture_set(1))
    with raises(ModelError, "batch_size", "1", "0"):
        fresh(Oracle(), picture_set(1), batch_size=0)


@pytest.mark.parametrize("method", ["prepare_image", "encode_images", "score_pairs", "score_matrix"])
def test_what_a_model_raises_for_one_picture_names_item_and_file(
    histogram: Any, fusion: Any, picture_set: Any, method: str
) -> None:
    pairset = picture_set(4)
    Image.fromarray(np.zeros((8, 300, 3), np.uint8)).save(pairset.root / "2-1.png")
    model = fusion() if method == "score_pairs" else histogram()
    right = getattr(model, method, None)

    def fail(images: Any, *rest: Any) -> Any:
        for image in images if isinstance(images, list) else [images]:
            if image.shape[1] == 300:
                raise ValueError("aspect ratio must be smaller than 20")
        return right(images, *rest) if right else np.ones((len(images), 2), np.float32)

    if method == "prepare_image":
        model.prepare_image = lambda pixels: fail(pixels) if right else (fail([pixels]), pixels)[1]
    elif method == "score_matrix":
        model = SimpleNamespace(name="m", fingerprint="m-1", kind="similarity", score_matrix=fail)
    else:
        setattr(model, method, fail)
    with raises(ModelError, "item-2", "2-1.png", "aspect ratio") as raised:
        fresh(model, pairset, batch_size=4)
    assert isinstance(raised.value.__cause__, ValueError)
    assert method == "score_matrix" or "2-0.png" not in str(raised.value)
