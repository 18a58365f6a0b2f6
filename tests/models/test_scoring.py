from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ModelError, StoreError
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random
from tellapart.models.scoring import Scored, score
from tellapart.models.store import EmbeddingStore


@pytest.fixture
def new_model(request: pytest.FixtureRequest) -> Callable[[], Any]:
    """Make a fresh model of the parametrised kind."""
    if isinstance(request.param, str):
        if request.param == "onnx":
            from tellapart.models.onnx import OnnxDualEncoder

            folder = request.getfixturevalue("tiny_encoder").folder
            return lambda: OnnxDualEncoder.load(folder)
        return request.getfixturevalue(request.param)  # type: ignore[no-any-return]
    return request.param  # type: ignore[no-any-return]


MODELS = [Random, Constant, Oracle, Blind, BagOfWords, "histogram", "fusion", "likelihood", "onnx"]
every_model = pytest.mark.parametrize("new_model", MODELS, indirect=True)
every_encoder = pytest.mark.parametrize(
    "new_model", ["histogram", "fusion", "likelihood", "onnx", Random], indirect=True
)


def fresh(model: Any, pairset: PairSet, **options: Any) -> Scored:
    with EmbeddingStore(None) as store:
        return score(model, pairset, store=store, **options)


@every_model
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)])
def test_no_score_changes_with_the_batch_size_the_order_or_the_neighbours(
    new_model: Callable[[], Any], picture_set: Callable[..., PairSet], shape: tuple[int, int]
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


@every_encoder
def test_a_second_run_computes_nothing_and_says_the_same(
    new_model: Callable[[], Any], picture_set: Callable[..., PairSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairset = picture_set(7)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        first = score(new_model(), pairset, store=store, batch_size=4)
    assert first.images_encoded + first.texts_encoded + first.pairs_scored > 0

    def refuse(*_: object) -> None:
        raise AssertionError("a warm run decoded an image")

    monkeypatch.setattr("tellapart.models.content.decode", refuse)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        second = score(new_model(), pairset, store=store, batch_size=3)
    assert (second.images_encoded, second.texts_encoded, second.pairs_scored) == (0, 0, 0)
    assert (second.images_distinct, second.texts_distinct) == (first.images_distinct, first.texts_distinct) == (14, 14)
    np.testing.assert_array_equal(second.scores.values, first.scores.values)


def test_each_distinct_image_and_text_is_encoded_once_over_benchmarks(
    histogram: Any, picture_set: Callable[..., PairSet]
) -> None:
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


def test_each_distinct_pair_is_scored_once(fusion: Any, picture_set: Callable[..., PairSet]) -> None:
    pairset = picture_set(6)
    twice = [item.model_copy(update={"id": f"{item.id}-again"}) for item in pairset.items]
    model = fusion()
    scored = fresh(model, PairSet("doubled", (*pairset.items, *twice), pairset.root), batch_size=10)
    assert (scored.pairs_scored, model.batches) == (24, [10, 10, 4])
    assert (scored.images_distinct, scored.texts_distinct) == (12, 12)


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


def test_models_that_read_no_image_need_none(tmp_path: Path) -> None:
    pairset = PairSet("absent", (Item(id="a", images=("0.png", "1.png"), texts=("one cat", "a cat")),), tmp_path)
    for model in (Constant(), Blind(), Oracle(), BagOfWords()):
        assert fresh(model, pairset).images_distinct == 0
    with pytest.raises(DataError, match=r"absent: item a: field 'images\[0\]': no image '0\.png'"):
        fresh(Random(), pairset)


def test_a_truncated_image_is_named_and_nothing_is_stored_of_it(
    histogram: Any, picture_set: Callable[..., PairSet]
) -> None:
    pairset = picture_set(4)
    file = pairset.root / "2-1.png"
    file.write_bytes(file.read_bytes()[:60])
    with EmbeddingStore(None) as store:
        with pytest.raises(DataError, match=r"pictures: item item-2: field 'images\[1\]': 2-1\.png: cannot be decoded"):
            score(histogram(), pairset, store=store, batch_size=2)
        assert store.counts().pictures == 4


def test_progress_ends_at_the_total_and_never_goes_back(
    histogram: Any, fusion: Any, picture_set: Callable[..., PairSet]
) -> None:
    for model, stages in ((histogram(), {"images", "texts"}), (fusion(), {"pairs"}), (Oracle(), {"items"})):
        said: list[tuple[str, int, int]] = []
        fresh(model, picture_set(7), batch_size=4, progress=lambda *args, said=said: said.append(args))
        assert {stage for stage, _, _ in said} == stages
        for stage in stages:
            done = [(d, t) for s, d, t in said if s == stage]
            assert done[-1][0] == done[-1][1]
            assert [d for d, _ in done] == sorted(d for d, _ in done)


WRONG = {
    "of another shape": (lambda v: v[:, None], r"must return an array \(4, 'd'\); it returned \(4, 1, 7\)"),
    "one too few": (lambda v: v[:-1], r"must return an array \(4, 'd'\); it returned \(3, 7\)"),
    "in float64": (lambda v: v.astype(np.float64), "must return a float32 array; it returned float64"),
    "a list": (lambda v: v.tolist(), "must return a float32 array; it returned list"),
    "NaN": (lambda v: np.where(np.arange(len(v))[:, None] == 2, np.float32(np.nan), v), "NaN or infinity, first for"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("method", ["encode_images", "encode_texts"])
def test_wrong_vectors_are_an_error_that_names_the_model_and_the_input(
    histogram: Any, picture_set: Callable[..., PairSet], method: str, case: str
) -> None:
    pairset = picture_set(4)
    model, (spoil, message) = histogram(), WRONG[case]
    right = getattr(model, method)
    setattr(model, method, lambda batch: spoil(right(batch)))
    given = "0-0.png" if method == "encode_images" else pairset.items[0].texts[0]
    third = "1-0.png" if method == "encode_images" else pairset.items[1].texts[0]
    with pytest.raises(ModelError, match=rf"model 'histogram', given '{given}', .* and 1 more, .*{message}") as raised:
        fresh(model, pairset, batch_size=4)
    assert case != "NaN" or repr(third) in str(raised.value).split("first for")[1]


def test_wrong_pair_scores_are_an_error_that_names_the_pair(fusion: Any, picture_set: Callable[..., PairSet]) -> None:
    pairset = picture_set(2)
    model = fusion()
    model.score_pairs = lambda images, texts: np.full(len(texts), np.inf, np.float32)
    with pytest.raises(ModelError, match=rf"first for '0-0\.png with {pairset.items[0].texts[0]}'"):
        fresh(model, pairset)
    model.score_pairs = lambda images, texts: np.zeros((len(texts), 1), np.float32)
    with pytest.raises(ModelError, match=r"must return an array \(8,\); it returned \(8, 1\)"):
        fresh(model, pairset)


def test_a_wrong_similarity_is_an_error_that_names_the_item(
    histogram: Any, picture_set: Callable[..., PairSet]
) -> None:
    model = histogram()
    model.similarity = lambda images, texts: np.zeros((1, 2), np.float32)
    with pytest.raises(ModelError, match=r"given 'item-0', must return an array \(2, 2\); it returned \(1, 2\)"):
        fresh(model, picture_set(2))


def test_a_changed_model_with_an_old_fingerprint_is_an_error(
    histogram: Any, picture_set: Callable[..., PairSet]
) -> None:
    pairset = picture_set(4)
    with EmbeddingStore(None) as store:
        score(histogram(), pairset.select(range(2)), store=store)
        changed = histogram()
        changed.encode_images = lambda images: np.ones((len(images), 3), np.float32)
        with pytest.raises(StoreError, match=r"vectors of 3 and 7 dimensions for model 'histogram'.*delete the store"):
            score(changed, pairset, store=store)


def test_what_is_no_model_is_refused(picture_set: Callable[..., PairSet]) -> None:
    with pytest.raises(ModelError, match="object is no model that can be scored; it must have one of encode_images"):
        fresh(object(), picture_set(1))
    with pytest.raises(ModelError, match="batch_size must be at least 1; got 0"):
        fresh(Oracle(), picture_set(1), batch_size=0)


def test_a_killed_run_goes_on_where_it_was(picture_set: Callable[..., PairSet], tmp_path: Path) -> None:
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
    assert encoded == {"texts": 60, "images": 60 + batch}
    calm.communicate(timeout=60)
    assert calm.returncode == resumed.returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "calm.npy"))
