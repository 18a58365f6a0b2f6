"""What was computed is computed once: over items, benchmarks, runs, and runs that were killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scored_anew import fresh

import tellapart.data.video
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.reference import Random
from tellapart.models.scoring.deferred import Deferred
from tellapart.models.scoring.score import score
from tellapart.models.store import embedding_store
from tellapart.models.store.content_hash import image_hashes
from tellapart.models.store.embedding_store import EmbeddingStore

every_encoder = pytest.mark.parametrize(
    "new_model", ["histogram", "fusion", "likelihood", "onnx", Random], indirect=True
)


@every_encoder
def test_a_second_run_computes_nothing_and_says_the_same(
    new_model: Any, picture_set: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairset = picture_set(7)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        first = score(new_model(), pairset, store=store, batch_size=4)
    assert first.images_encoded + first.texts_encoded + first.pairs_scored > 0

    def refuse(*_: object) -> None:
        raise AssertionError("a warm run decoded an image")

    monkeypatch.setattr("tellapart.data.video.decode", refuse)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        second = score(new_model(), pairset, store=store, batch_size=3)
    assert (second.images_encoded, second.texts_encoded, second.pairs_scored) == (0, 0, 0)
    assert (second.images_distinct, second.texts_distinct) == (first.images_distinct, first.texts_distinct) == (14, 14)
    np.testing.assert_array_equal(second.scores.values, first.scores.values)


@every_encoder
def test_numbers_of_other_versions_of_libraries_are_computed_again(
    new_model: Any, picture_set: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> tuple[int, int, int]:
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
            assert store.counts().models == store.counts().vectors == store.counts().pairs == 0
    finally:
        monkeypatch.undo()
        for call in (embedding_store.library_versions, embedding_store._digest):
            call.cache_clear()


def test_each_distinct_image_and_text_is_encoded_once_over_benchmarks(histogram: Any, picture_set: Any) -> None:
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


def test_each_distinct_pair_is_scored_once(fusion: Any, picture_set: Any) -> None:
    pairset = picture_set(6)
    twice = [item.model_copy(update={"id": f"{item.id}-again"}) for item in pairset.items]
    model = fusion()
    scored = fresh(model, PairSet("doubled", (*pairset.items, *twice), pairset.root), batch_size=10)
    assert (scored.pairs_scored, model.batches) == (24, [10, 10, 4])
    assert (scored.images_distinct, scored.texts_distinct) == (12, 12)


def test_pairs_come_image_by_image_and_an_image_is_one_object_and_decoded_once(
    fusion: Any, picture_set: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairset = picture_set(4)
    # Every image stands in four items, far apart.
    items = [
        item.model_copy(update={"id": f"{item.id}-{k}", "texts": tuple(f"{text} {k}" for text in item.texts)})
        for k in range(4)
        for item in pairset.items
    ]
    model, seen, decoded = fusion(), [], []
    right = model.score_pairs
    model.score_pairs = lambda images, texts: (seen.append([id(image) for image in images]), right(images, texts))[1]
    decode = tellapart.data.video.decode
    monkeypatch.setattr(
        "tellapart.data.video.decode", lambda data, where: (decoded.append(where), decode(data, where))[1]
    )
    many = PairSet("many", tuple(items), pairset.root)
    scored = fresh(model, many, batch_size=16)
    assert (scored.pairs_scored, scored.images_distinct, scored.texts_distinct) == (64, 8, 32)
    assert sorted(decoded) == sorted(image for item in pairset.items for image in item.images)
    assert [len(set(batch)) for batch in seen] == [2, 2, 2, 2]
    np.testing.assert_array_equal(fresh(fusion(), many, batch_size=3).scores.values, scored.scores.values)


def test_a_cold_run_decodes_each_image_once_with_its_fingerprint(
    histogram: Any, picture_set: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairset, decoded, read = picture_set(6), [], []
    expected = pairset.fingerprint()
    decode, read_bytes = tellapart.data.video.decode, PairSet.read_bytes
    monkeypatch.setattr(
        "tellapart.data.video.decode", lambda data, where: (decoded.append(where), decode(data, where))[1]
    )
    monkeypatch.setattr(PairSet, "read_bytes", lambda self, ref: (read.append(ref), read_bytes(self, ref))[1])
    hashes: dict[str, str] = {}
    with EmbeddingStore(None) as store:
        score(histogram(), pairset, store=store, hashes=hashes)
        assert pairset.fingerprint(image_hashes(pairset, store=store, hashes=hashes).__getitem__) == expected
        assert len(decoded) == len(read) == 12
        score(histogram(), pairset, store=store, hashes=hashes)  # what is known of the images serves the next model
    assert len(decoded) == len(read) == 12


def test_an_interrupted_run_keeps_what_was_computed_and_leaves_no_thread(histogram: Any, picture_set: Any) -> None:
    pairset, model = picture_set(20), histogram()
    encode = model.encode_images

    def interrupted(images: Any) -> np.ndarray:
        if len(model.image_batches) == 3:
            raise KeyboardInterrupt
        return encode(images)

    model.encode_images = interrupted
    with EmbeddingStore(None) as store:
        with pytest.raises(KeyboardInterrupt):
            score(model, pairset, store=store, batch_size=4)
        assert not [t.name for t in threading.enumerate() if t.name.startswith(("prefetch", "store-writer"))]
        assert store.counts().vectors == 40 + 3 * 4
        model.encode_images = encode
        assert score(model, pairset, store=store, batch_size=4).images_encoded == 40 - 3 * 4


def test_one_picture_in_three_formats_is_one_image(histogram: Any, tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (8, 9, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels).save(tmp_path / "b.webp", lossless=True)
    np.save(tmp_path / "c.npy", pixels[:, :, ::-1])
    items = [Item(id=name, images=(name,), texts=("x", "y")) for name in ("a.png", "b.webp", "c.npy")]
    for batch_size in (1, 2, 8):
        scored = fresh(histogram(), PairSet("formats", tuple(items), tmp_path), batch_size=batch_size)
        assert (scored.images_distinct, scored.images_encoded) == (1, 1)
        assert len(np.unique(scored.scores.values, axis=0)) == 1


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(picture_set: Any, tmp_path: Path) -> None:
    pairset, batch = picture_set(30), 7
    (pairset.root / "pairs.txt").write_text("\n".join(item.model_dump_json() for item in pairset.items))
    script = str(Path(__file__).with_name("slow_scoring.py"))

    def start(cache: Path, hang_at: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, script, str(pairset.root), str(cache), str(batch), str(hang_at)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    calm = start(tmp_path / "calm.sqlite")
    # 60 texts are 9 batches; it hangs in the fourth batch of images, and is killed there.
    killed = start(tmp_path / "killed.sqlite", hang_at=13)
    assert killed.stdout is not None
    lines = [killed.stdout.readline() for _ in range(13)]
    killed.send_signal(signal.SIGKILL)
    assert killed.communicate()[0] == ""
    assert killed.returncode == -signal.SIGKILL
    resumed = start(tmp_path / "killed.sqlite")
    lines += resumed.communicate(timeout=60)[0].splitlines()
    encoded = Counter[str]()
    for line in lines:
        what, n = line.split()
        encoded[what] += int(n)
    assert encoded["texts"] == 60
    # Lost is the batch at hand; and the one before it, if its writing had only begun.
    assert encoded["images"] in {60 + batch, 60 + 2 * batch}
    calm.communicate(timeout=60)
    assert calm.returncode == resumed.returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "calm.npy"))


def test_what_is_stored_is_scored_again_without_the_model_and_without_a_pixel(
    histogram: Any, fusion: Any, picture_set: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairset = picture_set(5)
    for make in (histogram, fusion):
        model, loads = make(), []

        def load(model: Any = model, loads: list[int] = loads) -> Any:
            loads.append(1)
            return model

        with EmbeddingStore(None) as store:
            deferred = Deferred(model.name, model.fingerprint, model.kind, load)
            first = score(deferred, pairset.select(range(4)), store=store)
            assert loads == [1]
            again = Deferred(model.name, model.fingerprint, model.kind, lambda: pytest.fail("loaded for nothing"))
            with monkeypatch.context() as patched:
                patched.setattr(tellapart.data.video, "decode", lambda *_: pytest.fail("decoded for nothing"))
                second = score(again, pairset.select(range(4)), store=store)
            np.testing.assert_array_equal(second.scores.values, first.scores.values)
            assert (second.images_encoded, second.texts_encoded, second.pairs_scored) == (0, 0, 0)
            assert (second.images_distinct, second.texts_distinct) == (8, 8)
            third = score(deferred, pairset, store=store)  # a fifth item: only that is computed
            assert third.images_encoded + third.pairs_scored in {2, 4}
            np.testing.assert_array_equal(third.scores.values[:4], first.scores.values)
            assert loads == [1]
