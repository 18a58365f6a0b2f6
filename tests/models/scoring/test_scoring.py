"""No score changes with the batch size, the order or the neighbours, nor with where an image was prepared."""

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tellapart.data.video
from facts import raises
from pictures import encoded, noise
from stored import count_rows
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ModelError, StoreError
from tellapart.models.find import Deferred
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random
from tellapart.models.scoring.score import Scored, score
from tellapart.models.store import embedding_store
from tellapart.models.store.content_hash import image_hashes
from tellapart.models.store.embedding_store import EmbeddingStore

MODELS = [Random, Constant, Oracle, Blind, BagOfWords, "histogram", "fusion", "likelihood", "onnx"]


def fresh(model, pairset: PairSet, **options) -> Scored:
    """Scores of a pair set that nothing was stored of."""
    with EmbeddingStore(None) as store:
        return score(model, pairset, store=store, **options)


every_model = pytest.mark.parametrize("new_model", MODELS, indirect=True)


@pytest.mark.few(4)
@every_model
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_no_score_changes_with_the_batch_size_the_order_or_the_neighbours(new_model, picture_set, shape):
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


def test_texts_come_by_length_so_that_little_is_padded_and_those_that_begin_alike_together(histogram, picture_set):
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


class Preparing:
    """A model that has its images halved, ahead of it if it is asked to prepare them, and takes whole ones, too."""

    def __init__(self, model: Any, *, ahead: bool = True) -> None:
        self.threads, self.prepared = set[str](), list[int]()
        # Set, for `isinstance` of a protocol does not see what `__getattr__` gives.
        for name in {"name", "fingerprint", "kind", "encode_texts", "similarity"} & {*dir(model)}:
            setattr(self, name, getattr(model, name))
        for method in {"encode_images", "score_pairs"} & {*dir(model)}:
            setattr(self, method, partial(self.take, getattr(model, method)))
        if ahead:
            self.prepare_image = self.halve

    def halve(self, pixels: np.ndarray) -> dict[str, np.ndarray]:
        self.threads.add(threading.current_thread().name)
        self.prepared.append(pixels.size)
        return {"halved": pixels // 2}

    def take(self, method, images, *texts) -> np.ndarray:
        return method([image["halved"] if isinstance(image, dict) else image // 2 for image in images], *texts)


@pytest.mark.parametrize("kind", ["histogram", "fusion"])
def test_a_model_gets_the_images_it_prepared_in_the_readers_threads(kind, request, picture_set):
    pairset, make = picture_set(6), request.getfixturevalue(kind)
    model = Preparing(make())
    prepared = fresh(model, pairset, batch_size=5)
    assert len(model.prepared) == 12  # each image once
    assert all(name.startswith("prefetch") for name in model.threads)
    plain = fresh(Preparing(make(), ahead=False), pairset)
    np.testing.assert_array_equal(prepared.scores.values, plain.scores.values)
    with EmbeddingStore(None) as store:
        score(model, pairset, store=store)
        before = len(model.prepared)
        score(model, pairset, store=store)
    assert len(model.prepared) == before  # a warm run prepares nothing


@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_items_scored_in_one_call_get_the_same_bits(histogram, picture_set, shape):
    pairset = picture_set(9, shape)
    model, calls = histogram(), []
    apart = fresh(model, pairset)
    model.similarities = lambda *sides: (calls.append(len(sides[0])), model.similarity(*sides))[1]
    np.testing.assert_array_equal(fresh(model, pairset).scores.values, apart.scores.values)
    assert calls == [9]
    model.similarities = lambda images, texts: np.zeros((len(images), 7, 7), np.float32)
    with raises(ModelError, "'item-0'", "(9, 7, 7)"):
        fresh(model, pairset)


def test_models_that_read_no_image_need_none(tmp_path):
    pairset = PairSet("absent", (Item(id="a", images=("0.png", "1.png"), texts=("one cat", "a cat")),), tmp_path)
    for model in (Constant(), Blind(), Oracle(), BagOfWords()):
        assert fresh(model, pairset).images_distinct == 0
    with raises(DataError, "'images[0]'", "'0.png'"):
        fresh(Random(), pairset)


def test_progress_ends_at_the_total_and_never_goes_back(histogram, fusion, picture_set):
    for model, stages in ((histogram(), {"images", "texts", "pairs"}), (fusion(), {"pairs"}), (Oracle(), {"items"})):
        said = []
        fresh(model, picture_set(7), batch_size=4, progress=lambda *args, said=said: said.append(args))
        assert {stage for stage, _, _ in said} == stages
        for stage in stages:
            done = [(d, t) for s, d, t in said if s == stage]
            assert done[-1][0] == done[-1][1]
            assert [d for d, _ in done] == sorted(d for d, _ in done)


def test_an_image_that_changes_during_a_run_is_an_error(histogram, fusion, picture_set):
    pairset, hashes = picture_set(2), {}
    with EmbeddingStore(None) as store:
        score(histogram(), pairset, store=store, hashes=hashes)
        (pairset.root / "0-1.png").write_bytes((pairset.root / "1-1.png").read_bytes())
        with raises(DataError, "item-0", "'images[1]'", "0-1.png"):
            score(fusion(), pairset, store=store, hashes=hashes)


@pytest.mark.parametrize("method", ["put_numbers", "put_pixel_hash"])
def test_a_store_that_cannot_be_written_ends_the_run(histogram, picture_set, monkeypatch, method):
    def refuse(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(EmbeddingStore, method, refuse)
    with raises(StoreError, "the disk is full", "disk"):
        fresh(histogram(), picture_set(9), batch_size=2)


WRONG = {
    "of another shape": (lambda v: v[:, None], ("(4, 'd')", "(4, 1, 7)")),
    "one too few": (lambda v: v[:-1], ("(4, 'd')", "(3, 7)")),
    "in float64": (lambda v: v.astype(np.float64), ("float32", "float64")),
    "a list": (lambda v: v.tolist(), ("float32", "list")),
    "NaN": (lambda v: np.where(np.arange(len(v))[:, None] == 2, np.float32(np.nan), v), "NaN"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("method", ["encode_images", "encode_texts"])
def test_wrong_vectors_are_an_error_that_names_the_model_and_the_input(histogram, picture_set, method, case):
    pairset = picture_set(4)
    model, (spoil, message) = histogram(), WRONG[case]
    right = getattr(model, method)
    setattr(model, method, lambda batch: spoil(right(batch)))
    texts = sorted((text for item in pairset.items for text in item.texts), key=lambda text: (len(text) // 24, text))
    given, third = ("0-0.png", "1-0.png") if method == "encode_images" else (texts[0], texts[2])
    with raises(ModelError, "'histogram'", repr(given), "1 more", message) as raised:
        fresh(model, pairset, batch_size=4)
    assert case != "NaN" or repr(third) in str(raised.value).split("NaN")[1]


def test_wrong_scores_are_an_error_that_names_the_pair_or_the_item(fusion, histogram, picture_set):
    pairset = picture_set(2)
    model = fusion()
    model.score_pairs = lambda images, texts: np.full(len(texts), np.inf, np.float32)
    with raises(ModelError, f"'0-0.png with {pairset.items[0].texts[0]}'"):
        fresh(model, pairset)
    model.score_pairs = lambda images, texts: np.zeros((len(texts), 1), np.float32)
    with raises(ModelError, "(8,)", "(8, 1)"):
        fresh(model, pairset)
    model = histogram()
    model.similarity = lambda images, texts: np.zeros((1, 2), np.float32)
    with raises(ModelError, "'item-0'", "(2, 2)", "(1, 2)"):
        fresh(model, pairset)


def test_a_changed_model_with_an_old_fingerprint_is_an_error(histogram, picture_set):
    pairset = picture_set(4)
    with EmbeddingStore(None) as store:
        score(histogram(), pairset.select(range(2)), store=store)
        changed = histogram()
        changed.encode_images = lambda images: np.ones((len(images), 3), np.float32)
        with raises(StoreError, "3", "7", "model", "'histogram'"):
            score(changed, pairset, store=store)


def test_what_is_no_model_is_refused(picture_set):
    with raises(ModelError, "object", "model", "encode_images"):
        fresh(object(), picture_set(1))
    with raises(ModelError, "batch_size", "1", "0"):
        fresh(Oracle(), picture_set(1), batch_size=0)


@pytest.mark.parametrize("method", ["prepare_image", "encode_images", "score_pairs", "score_matrix"])
def test_what_a_model_raises_for_one_picture_names_item_and_file(histogram, fusion, picture_set, method):
    pairset = picture_set(4)
    Image.fromarray(np.zeros((8, 300, 3), np.uint8)).save(pairset.root / "2-1.png")
    model = fusion() if method == "score_pairs" else histogram()
    right = getattr(model, method, None)

    def fail(images, *rest):
        for image in images if isinstance(images, list) else [images]:
            if image.shape[1] == 300:
                raise ValueError("aspect ratio must be smaller than 20")
        return right(images, *rest) if right else np.ones((len(images), 2), np.float32)

    if method == "prepare_image":
        model.prepare_image = lambda pixels: fail(pixels) if right else (fail([pixels]), pixels)[1]
    elif method == "score_matrix":
        model = SimpleNamespace(name="matrices", fingerprint="m-1", kind="similarity", score_matrix=fail)
    else:
        setattr(model, method, fail)
    with raises(ModelError, model.name, "item-2", "2-1.png", "aspect ratio") as raised:
        fresh(model, pairset, batch_size=4)
    assert isinstance(raised.value.__cause__, ValueError)
    assert method == "score_matrix" or "2-0.png" not in str(raised.value)


every_encoder = pytest.mark.parametrize(
    "new_model", ["histogram", "fusion", "likelihood", "onnx", Random], indirect=True
)


@every_encoder
def test_a_second_run_loads_decodes_and_computes_nothing_and_says_the_same(
    new_model, picture_set, tmp_path, monkeypatch
):
    pairset, model = picture_set(7), new_model()
    part = pairset.select(range(6))
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        first = score(model, part, store=store, batch_size=4)
    assert first.images_encoded + first.texts_encoded + first.pairs_scored > 0
    idle = Deferred(model.name, model.fingerprint, model.kind, lambda: pytest.fail("loaded for nothing"))
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        with monkeypatch.context() as patched:
            patched.setattr("tellapart.data.video.decode", lambda *_: pytest.fail("decoded for nothing"))
            second = score(idle, part, store=store, batch_size=3)
        assert (second.images_encoded, second.texts_encoded, second.pairs_scored) == (0, 0, 0)
        assert (second.images_distinct, second.texts_distinct) == (12, 12)
        np.testing.assert_array_equal(second.scores.values, first.scores.values)
        third = score(Deferred(model.name, model.fingerprint, model.kind, lambda: model), pairset, store=store)
        assert third.images_encoded + third.pairs_scored in {2, 4}  # of the seventh item alone
        np.testing.assert_array_equal(third.scores.values[:6], first.scores.values)


@every_encoder
def test_numbers_of_other_versions_of_libraries_are_computed_again(new_model, picture_set, tmp_path, monkeypatch):
    def run():
        with EmbeddingStore(tmp_path / "store.sqlite") as store:
            scored = score(new_model(), picture_set(3), store=store)
            assert len(store.models()) == 1 and store.models()[0].fingerprint == new_model().fingerprint
        return scored.images_encoded, scored.texts_encoded, scored.pairs_scored

    first, versions = run(), embedding_store.versions()
    monkeypatch.setattr(embedding_store, "versions", lambda: versions | {"pillow": "99"})
    for call in (embedding_store.library_versions, embedding_store._digest):
        call.cache_clear()
    try:
        assert (run(), run()) == (first, (0, 0, 0))
        with EmbeddingStore(tmp_path / "store.sqlite") as store:
            store.forget([new_model().fingerprint])
            assert store.models() == [] and count_rows(store).keys() <= {"pictures", "models"}
    finally:
        monkeypatch.undo()
        for call in (embedding_store.library_versions, embedding_store._digest):
            call.cache_clear()


def test_each_distinct_image_and_text_is_encoded_once_over_benchmarks_and_each_pair_is_scored_once(
    histogram, fusion, picture_set
):
    pairset = picture_set(6)
    twice = [item.model_copy(update={"id": f"{item.id}-again"}) for item in pairset.items]
    doubled = PairSet("doubled", (*pairset.items, *twice), pairset.root)
    model = histogram()
    with EmbeddingStore(None) as store:
        scored = score(model, doubled, store=store, batch_size=5)
        assert (scored.images_distinct, scored.images_encoded, model.image_batches) == (12, 12, [5, 5, 2])
        assert (scored.texts_distinct, scored.texts_encoded, model.text_batches) == (12, 12, [5, 5, 2])
        np.testing.assert_array_equal(scored.scores.values[:6], scored.scores.values[6:])
        other = score(model, pairset.select(range(3)), store=store)
        assert (other.images_distinct, other.images_encoded, other.texts_encoded) == (6, 0, 0)
    pairs = fusion()
    assert fresh(pairs, doubled, batch_size=10).pairs_scored == 24
    assert pairs.batches == [10, 10, 4]


@pytest.fixture
def decoded(monkeypatch):
    """Images that are decoded during the test."""
    said, decode = list[str](), tellapart.data.video.decode
    monkeypatch.setattr("tellapart.data.video.decode", lambda data, where: (said.append(where), decode(data, where))[1])
    return said


def test_pairs_come_image_by_image_and_an_image_is_one_object_and_decoded_once(fusion, picture_set, decoded):
    pairset = picture_set(4)
    # Every image stands in four items, far apart.
    items = [
        item.model_copy(update={"id": f"{item.id}-{k}", "texts": tuple(f"{text} {k}" for text in item.texts)})
        for k in range(4)
        for item in pairset.items
    ]
    model, seen = fusion(), []
    right = model.score_pairs
    model.score_pairs = lambda images, texts: (seen.append([id(image) for image in images]), right(images, texts))[1]
    many = PairSet("many", tuple(items), pairset.root)
    scored = fresh(model, many, batch_size=16)
    assert (scored.pairs_scored, scored.images_distinct, scored.texts_distinct) == (64, 8, 32)
    assert sorted(decoded) == sorted(image for item in pairset.items for image in item.images)
    assert [len(set(batch)) for batch in seen] == [2, 2, 2, 2]
    np.testing.assert_array_equal(fresh(fusion(), many, batch_size=3).scores.values, scored.scores.values)


def test_a_cold_run_decodes_each_image_once_with_its_fingerprint(histogram, picture_set, decoded, monkeypatch):
    pairset, read, read_bytes = picture_set(6), [], PairSet.read_bytes
    expected = pairset.fingerprint()
    decoded.clear()
    monkeypatch.setattr(PairSet, "read_bytes", lambda self, ref: (read.append(ref), read_bytes(self, ref))[1])
    hashes = {}
    with EmbeddingStore(None) as store:
        score(histogram(), pairset, store=store, hashes=hashes)
        assert pairset.fingerprint(image_hashes(pairset, store=store, hashes=hashes).__getitem__) == expected
        assert len(decoded) == len(read) == 12
        score(histogram(), pairset, store=store, hashes=hashes)  # what is known of the images serves the next model
    assert len(decoded) == len(read) == 12


def test_an_interrupted_run_keeps_what_was_computed_and_leaves_no_thread(histogram, picture_set):
    pairset, model = picture_set(20), histogram()
    encode = model.encode_images

    def interrupted(images):
        if len(model.image_batches) == 3:
            raise KeyboardInterrupt
        return encode(images)

    model.encode_images = interrupted
    with EmbeddingStore(None) as store:
        with pytest.raises(KeyboardInterrupt):
            score(model, pairset, store=store, batch_size=4)
        assert not [t.name for t in threading.enumerate() if t.name.startswith(("prefetch", "store-writer"))]
        assert count_rows(store)["vectors"] == 40 + 3 * 4
        model.encode_images = encode
        assert score(model, pairset, store=store, batch_size=4).images_encoded == 40 - 3 * 4


def test_one_picture_in_three_formats_is_one_image(histogram, tmp_path):
    for name in ("a.png", "b.webp", "c.npy"):
        (tmp_path / name).write_bytes(encoded(noise(8, 9), name[2:]))
    items = [Item(id=file.name, images=(file.name,), texts=("x", "y")) for file in tmp_path.iterdir()]
    for batch_size in (1, 2, 8):
        scored = fresh(histogram(), PairSet("formats", tuple(items), tmp_path), batch_size=batch_size)
        assert (scored.images_distinct, scored.images_encoded) == (1, 1)
        assert len(np.unique(scored.scores.values, axis=0)) == 1
