"""Mined negatives are the nearest and highest-scored ones, never true ones, and the same however they are computed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import tellapart as ta
from facts import raises
from pictures import encoded
from sets import write_file
from tellapart.errors import DataError, ModelError
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.training.data.rows import TrainingRows, read_rows, write_rows
from tellapart.training.mining.negatives import coarse_to_fine, nearest, nearest_images

Pixels = NDArray[np.uint8]
FEW = {"near": 6, "negatives": 7, "hard": 4}


class Colours:
    """A dual encoder: an image is its mean colours and spreads."""

    name, fingerprint, kind = "colours", "colours-1", "similarity"

    def encode_images(self, images: Sequence[Pixels]) -> NDArray[np.float32]:
        rows = [np.concatenate([i.reshape(-1, 3).mean(axis=0), i.reshape(-1, 3).std(axis=0)]) for i in images]
        return np.array(rows, np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError("no text has to be encoded to find near images")

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        raise AssertionError("no similarity has to be computed to find near images")


class Together:
    """A pair scorer whose number depends on the picture and on the text, in no way that could be guessed."""

    name, fingerprint, kind = "together", "together-1", "probability"

    def __init__(self, *, stop_after: int | None = None) -> None:
        self.scored, self.stop_after = 0, stop_after

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        if self.stop_after is not None and self.scored + len(texts) > self.stop_after:
            raise KeyboardInterrupt
        self.scored += len(texts)
        return np.array([of_pair(image, text) for image, text in zip(images, texts, strict=True)], np.float32)


def of_pair(image: Pixels, text: str) -> float:
    return hashlib.sha256(image.tobytes() + text.encode()).digest()[0] / 255


@pytest.fixture
def listed(tmp_path):
    """Write a file of rows: pictures of one colour with some noise, two captions each."""

    def make(n=12, captions=2, name="rows.jsonl", **fields):
        rng, lines = np.random.default_rng(n), []
        for k in range(n):
            pixels = rng.integers(0, 200, 3) + rng.integers(0, 56, (8, 8, 3))
            (tmp_path / f"{k}.png").write_bytes(encoded(pixels.astype(np.uint8)))
            lines += [{"image": f"{k}.png", "caption": f"picture {k}, said {c}", **fields} for c in range(captions)]
        return write_file(tmp_path / name, lines)

    return make


def rows_of(path: Path) -> TrainingRows:
    return read_rows([path.name], path.parent)


def by_hand(vectors: NDArray[np.float32], k: int) -> list[list[int]]:
    exact, result = vectors.astype(np.float64), []
    unit = (exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    for row in range(len(unit)):
        cosines = [(unit[row] * other).sum() for other in unit]
        result.append(sorted((j for j in range(len(unit)) if j != row), key=lambda j: (-cosines[j], j))[:k])
    return result


@given(st.integers(0, 10_000), st.integers(2, 24), st.integers(1, 40), st.integers(1, 9))
@settings(max_examples=40)
def test_neighbours_are_those_of_the_slow_way_in_any_block(seed, n, dimensions, block):
    rng = np.random.default_rng(seed)
    # Few different vectors, and some that differ by a last bit: ties, and what float32 cannot order.
    vectors = rng.integers(-2, 3, (n, dimensions)).astype(np.float32) + np.float32(0.5)
    vectors[rng.random(n) < 0.5] *= np.float32(1 + 2**-23)
    k = int(rng.integers(1, n))
    assert nearest(vectors, k, block=block).tolist() == by_hand(vectors, k)


@pytest.mark.parametrize("k", [0, 3])
def test_as_many_neighbours_as_there_are_others_can_be_had(k):
    with raises(DataError, k, "3", "1"):
        nearest(np.eye(3, dtype=np.float32), k)
    with raises(ModelError, "length"):
        nearest(np.zeros((3, 2), np.float32), 1)


def test_a_further_true_caption_of_a_picture_is_never_its_negative(listed):
    rows = rows_of(listed())
    first = replace(rows.rows[0], positives=tuple(f"Picture {k}, said 0!" for k in range(1, 10)))
    true, told = {f"picture {k}, said 0" for k in range(1, 10)}, TrainingRows((first, *rows.rows[1:]))
    mined = nearest_images(told, Colours(), store=EmbeddingStore(None), count=9)
    assert not {rows.rows[number].caption for number in mined.rows[0].counterparts} & true
    few = coarse_to_fine(told, Colours(), Together(), store=EmbeddingStore(None), **FEW)
    assert not true & set(few.rows[0].negatives)


def test_hard_negatives_are_the_highest_scored_captions_of_near_images(listed):
    rows = rows_of(listed())
    mined = coarse_to_fine(rows, Colours(), Together(), store=EmbeddingStore(None), **FEW)
    pictures = [rows.pixels(2 * k) for k in range(12)]
    near = by_hand(Colours().encode_images(pictures), FEW["near"])
    for number, row in enumerate(mined.rows):
        candidates = [2 * other + c for other in near[number // 2] for c in range(2)]
        scores = {each: np.float32(of_pair(pictures[number // 2], rows.rows[each].caption)) for each in candidates}
        expected = sorted(candidates, key=lambda each: (-scores[each], candidates.index(each)))[: FEW["hard"]]
        assert [*row.counterparts[: FEW["hard"]]] == expected
        assert row.negatives == tuple(rows.rows[each].caption for each in row.counterparts)
        assert len(set(row.negatives)) == FEW["negatives"]
        assert not set(row.negatives) & {f"picture {number // 2}, said {c}" for c in range(2)}


def test_the_others_are_drawn_by_seed_and_row(listed):
    rows = rows_of(listed())

    def mined(seed):
        found = coarse_to_fine(rows, Colours(), Together(), store=EmbeddingStore(None), seed=seed, **FEW)
        return [row.counterparts for row in found.rows]

    assert mined(0) == mined(0)
    assert mined(0) != mined(1)
    assert [row[:4] for row in mined(0)] == [row[:4] for row in mined(1)]
    assert len({row[4:] for row in mined(0)}) > len(rows) // 2


def test_a_caption_of_the_same_picture_or_of_the_same_words_is_no_negative(listed):
    path = listed(n=10)
    told = [json.loads(line) for line in path.read_text().splitlines()]
    Image.open(path.parent / "3.png").save(path.parent / "again.webp", lossless=True)  # the pixels of 3.png
    told += [{"image": "again.webp", "caption": f"again {k}"} for k in range(2)]
    told[0]["caption"] = told[12]["caption"] = "the same words"
    told[2]["caption"] = "The same words."
    told[8]["positive_captions"] = ["Picture 5, said 0.", "it is 5 degrees"]  # true of 4.png, by its row
    told[14]["caption"], told[15]["caption"] = "it is -5 degrees", "it is 5 degrees"
    write_file(path, told)
    rows, wide = rows_of(path), {"near": 9, "negatives": 15, "hard": 12}
    mined = coarse_to_fine(rows, Colours(), Together(), store=EmbeddingStore(None), **wide)
    for numbers, true in (
        ((6, 7, 20, 21), {"picture 3, said 0", "picture 3, said 1", "again 0", "again 1"}),
        ((0, 1, 2, 3, 12, 13), {"the same words", "The same words."}),
        ((8, 9), {"picture 5, said 0", "it is 5 degrees"}),
    ):
        assert not true & {text for number in numbers for text in mined.rows[number].negatives}
    assert {"it is -5 degrees"} <= {text for number in (8, 9) for text in mined.rows[number].negatives}
    chosen = [{"the same words", "The same words."} & set(row.negatives) for row in mined.rows]
    assert max(map(len, chosen)) == 1
    crossed = ((row, other) for row in range(22) for other in mined.rows[row].counterparts)
    assert not any(np.array_equal(rows.pixels(row), rows.pixels(other)) for row, other in crossed)


def test_what_was_scored_before_a_stop_is_not_scored_again(listed, tmp_path):
    rows = rows_of(listed(n=40))
    whole, first, second = Together(), Together(stop_after=250), Together()
    expected = coarse_to_fine(rows, Colours(), whole, store=EmbeddingStore(None), **FEW)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        with pytest.raises(KeyboardInterrupt):
            coarse_to_fine(rows, Colours(), first, store=store, **FEW)
        assert coarse_to_fine(rows, Colours(), second, store=store, **FEW) == expected
    assert first.scored > 0 and second.scored == whole.scored - first.scored


def test_the_nearest_images_become_counterparts_and_false_captions_stay(listed):
    rows = rows_of(listed(negative_captions=["no picture"]))
    mined = nearest_images(rows, Colours(), store=EmbeddingStore(None))
    near = by_hand(Colours().encode_images([rows.pixels(2 * k) for k in range(12)]), 3)
    expected = [tuple(2 * other + number % 2 for other in near[number // 2]) for number in range(24)]
    assert [row.counterparts for row in mined.rows] == expected
    assert {row.negatives for row in mined.rows} == {("no picture",)}


def test_no_counterpart_has_a_caption_of_the_image_itself(listed):
    path = listed(n=8)
    told = [json.loads(line) for line in path.read_text().splitlines()]
    # Image 0's caption in other signs: once beside another one, and of two images without any other.
    rows = rows_of(path)
    near = by_hand(Colours().encode_images([rows.pixels(2 * k) for k in range(8)]), 7)
    first, second, third, fourth = near[0][:4]
    told[0]["caption"], told[2 * first]["caption"] = "The same words.", "the same  words"
    for k in (2 * second, 2 * second + 1, 2 * third, 2 * third + 1):
        told[k]["caption"] = "the same words"
    write_file(path, told)
    mined = nearest_images(rows_of(path), Colours(), store=EmbeddingStore(None), count=2)
    assert mined.rows[0].counterparts == (2 * first + 1, 2 * fourth)
    assert mined.rows[1].counterparts == (2 * first + 1, 2 * fourth + 1)
    others = {mined.rows[each].caption.lower() for row in mined.rows[:2] for each in row.counterparts}
    assert not any("same" in caption for caption in others)
    with raises(DataError, "0", "'The same words.'", "5", "6"):
        nearest_images(rows_of(path), Colours(), store=EmbeddingStore(None), count=6)


def test_the_written_file_is_read_as_the_same_rows(listed, tmp_path):
    mined = coarse_to_fine(rows_of(listed()), Colours(), Together(), store=EmbeddingStore(None), **FEW)
    write_rows(tmp_path / "mined.jsonl", mined, tmp_path)
    assert rows_of(tmp_path / "mined.jsonl") == mined
    with raises(DataError, "0", "0.png", "row"):
        write_rows(tmp_path / "other.jsonl", mined, tmp_path / "elsewhere")


def test_captions_that_are_too_few_or_broken_are_said(listed):
    rows = rows_of(listed(n=4))
    for near, hard, facts in ((3, 2, ("0", "0", "0", "6")), (2, 5, ("0.png", "2", "4", "5", "negatives"))):
        few = {"near": near, "negatives": 9, "hard": hard}
        with raises(DataError, facts):
            coarse_to_fine(rows, Colours(), Together(), store=EmbeddingStore(None), **few)
    broken = TrainingRows(tuple(replace(row, caption=f"{row.caption} \ud800") for row in rows.rows))
    with raises(DataError, "0.png", "'texts[0]'"):
        nearest_images(broken, Colours(), store=EmbeddingStore(None))
    with raises(DataError, "0", "15", "negatives", "128"):
        coarse_to_fine(rows, Colours(), Together(), store=EmbeddingStore(None), hard=0)


def test_a_real_matching_head_mines_by_its_itm_reading(listed, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers, of the extra 'models', is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "models"))
    import tiny_models

    from tellapart.models.find import find_model
    from tellapart.models.options import ModelOptions

    rows, folder = rows_of(listed(n=5)), tiny_models.blip(tmp_path / "blip")
    unimodal, matching = (find_model(f"hf:{folder}", ModelOptions(reading=reading)) for reading in ("itc", "itm"))
    few = {"near": 2, "negatives": 5, "hard": 2}
    mined = coarse_to_fine(rows, unimodal, matching, store=EmbeddingStore(None), **few)
    for number, row in enumerate(mined.rows):
        assert len(row.negatives) == 5
        hard = matching.score_pairs([rows.pixels(number)] * 2, row.negatives[:2])
        assert hard[0] >= hard[1] - 1e-6


def test_the_command_writes_what_training_reads(listed, command, tmp_path):
    listed()
    models = ("-m", "demo-encoder", "--scorer", "demo-encoder")
    told = ("mine", "rows.jsonl", *models, "--nearest", 6, "--negatives", 5, "--hard", 3, "--out", "mined/rows.jsonl")
    assert "24 rows in mined/rows.jsonl; their image paths are relative to ." in command(*told, code=0).out
    mined = read_rows(["mined/rows.jsonl"], tmp_path, ".")
    assert {len(row.negatives) for row in mined.rows} == {len(row.counterparts) for row in mined.rows} == {5}
    first = (tmp_path / "mined" / "rows.jsonl").read_bytes()
    command(*told, code=0)
    assert (tmp_path / "mined" / "rows.jsonl").read_bytes() == first
    command("mine", "rows.jsonl", "-m", "demo-encoder", "--out", "near.jsonl", "--limit", 20, code=0)
    assert {len(row.counterparts) for row in read_rows(["near.jsonl"], tmp_path).rows} == {3}


def test_no_near_image_and_no_row_are_refused(listed, tmp_path):
    rows = str(listed())
    for asked, facts in (
        ({"nearest": 0}, ("0 nearest", "at least 1")),
        ({"nearest": 0, "scorer": "demo-encoder"}, ("nearest = 0", "nearest >= 1")),
        ({"limit": 0}, ("limit=0", "from 1 on")),
        ({"limit": -1}, ("limit=-1", "from 1 on")),
    ):
        with raises(DataError, *facts):
            ta.mine(rows, "demo-encoder", tmp_path / "mined.jsonl", cache=False, **asked)
    assert not (tmp_path / "mined.jsonl").exists()
