"""Videos in an image's place: frames evenly spread, averaged by models of images, asked together of a server."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import tellapart as ta
from facts import raises
from pictures import film
from tellapart.api.evaluate import evaluate as run
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.data.video import sample_frames
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import evaluate, prepare
from tellapart.evaluation.timing import time_model
from tellapart.models.find import find_model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.training.data.duplicates import find_leaks
from tellapart.training.data.rows import TrainingRow, TrainingRows

av = pytest.importorskip("av", reason="needs the video extra: av")

SIDE = 32


def write_greys(path: Path, greys: list[int]) -> None:
    """Write a video whose frames are of one grey each."""
    film(path, [np.full((SIDE, SIDE, 3), grey, np.uint8) for grey in greys], "libx264", rate=25, qp="0", bf="2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two items of two videos of 11 frames: one becomes brighter, one darker."""
    folder = tmp_path_factory.mktemp("videos")
    rows = []
    for k in range(2):
        greys = [40 + 10 * k + 15 * frame for frame in range(11)]
        write_greys(folder / f"{k}up.mp4", greys)
        write_greys(folder / f"{k}down.mp4", greys[::-1])
        rows.append({"id": str(k), "images": [f"{k}up.mp4", f"{k}down.mp4"], "texts": ["brighter", "darker now"]})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("data", "count", "says"), [(b"no video", 8, ("bad.mp4", "decoded")), (b"", 8, "bad.mp4"), (b"x", 0, ("1", "0"))]
)
def test_what_is_no_video_is_named(data, count, says):
    with raises(DataError, says):
        sample_frames(data, "bad.mp4", count)


def test_a_dual_encoder_averages_frames_and_the_store_knows_how_many(folder, histogram, tmp_path):
    pairs, model = read_pair_set(folder), histogram()
    encode = model.encode_images
    model.encode_images = lambda images: (encode(images) * [[image.mean()] for image in images]).astype(np.float32)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        scored = score(model, pairs, store=store, batch_size=1)
        assert sum(model.image_batches) == 4 * 8
        frames = model.encode_images([*pairs.pixels("0up.mp4")]).astype(float)
        mean = frames.mean(axis=0)
        mean *= np.linalg.norm(frames, axis=1).mean() / np.linalg.norm(mean)
        assert scored.scores.values[0, 0, 0] == pytest.approx(mean @ model.encode_texts(["brighter"])[0], rel=1e-6)
        model.image_batches.clear()
        again = score(model, pairs, store=store, batch_size=3)
        np.testing.assert_array_equal(again.scores.values, scored.scores.values)
        assert model.image_batches == []
        fewer = PairSet(pairs.name, pairs.items, pairs.root, frames=2)
        assert fewer.fingerprint() != pairs.fingerprint()
        score(model, fewer, store=store)
        assert sum(model.image_batches) == 4 * 2


def test_a_pair_scorer_is_asked_frame_by_frame(folder):
    """By the square of the grey, so that a mean over frames is not the score of a mean."""

    def score_pairs(images, texts):
        squares = [(image.mean() / 255) ** 2 for image in images]
        return np.array([square * len(text) for square, text in zip(squares, texts, strict=True)], np.float32)

    pairs, model = read_pair_set(folder), SimpleNamespace(name="by-pair", fingerprint="1", kind="similarity")
    model.score_pairs = score_pairs
    values = score(model, pairs, store=EmbeddingStore(None)).scores.values
    frames = pairs.pixels("1down.mp4")
    assert values[1, 1, 0] == pytest.approx(score_pairs(frames, ["brighter"] * len(frames)).mean(), rel=1e-5)


def test_a_set_of_videos_is_measured_and_shown_but_not_timed(folder, tmp_path):
    measured = run("demo-encoder", f"folder:{folder}", out=tmp_path / "run", frames=3)
    (record,) = measured.result().benchmarks.values()
    assert "each video is read as 3 frames, evenly spread" in record.notes
    with raises(DataError, "folder:", "0up.mp4", "pictures"):
        time_model("demo-encoder", f"folder:{folder}", batch_size=2)


def test_a_card_says_how_many_frames(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "set")
    (copy / "card.json").write_text('{"frames": 5}')
    assert read_pair_set(copy).pixels("0up.mp4").shape == (5, SIDE, SIDE, 3)
    (copy / "card.json").write_text('{"frames": 0}')
    with raises(DataError, "card.json", "'frames'", "0"):
        read_pair_set(copy)


class ByWords:
    """A model that answers in words: whether a film becomes brighter, from its frames."""

    name, fingerprint, kind = "by-words", "by-words-1", "probability"

    def answer(self, images, prompts, *, max_new_tokens: int = 32) -> list[str]:
        self.seen = images[0][0].shape
        return ["Yes" if film[-1].mean() > film[0].mean() else "No" for (film,) in images]

    def task_prompt(self, task: str):
        raise NotImplementedError


def test_a_question_about_a_film_is_asked_of_its_frames(folder, tmp_path):
    rows = [{"film": f"{k}{way}.mp4", "pair": k, "up": way == "up"} for k in range(2) for way in ("up", "down")]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row | {"up": str(row["up"])}) + "\n" for row in rows))
    (tmp_path / "films.toml").write_text(
        f"""name = "films"\ntitle = "films"\nsource = "made here"\nfiles = ["asked.jsonl"]\nfolders = ["{folder}"]
        question = [{{ id = "{{film}}", images = "{{film}}", group = "{{pair}}", answer = "{{up}}",
                       question = "Does it become brighter? Answer yes or no." }}]""".replace(",\n", ", ")
    )
    model, store = ByWords(), EmbeddingStore(None)
    three, four = (prepare(find_benchmark(str(tmp_path / "films.toml")), store=store, frames=n) for n in (3, 4))
    result = evaluate(model, three).result
    assert model.seen == (3, SIDE, SIDE, 3)
    assert result.metrics["g_acc"].value == 1
    assert "each video is read as 3 frames, evenly spread" in result.notes
    assert three.fingerprint != four.fingerprint


def test_two_doors_are_compared_on_frames_and_a_probe_measures_as_a_run_does(folder):
    pytest.importorskip("torch", reason="a probe needs torch, of the extra 'models'")
    doors = ta.parity("demo-encoder", "demo-encoder", f"folder:{folder}")
    assert {step.step: (step.compared, step.differ) for step in doors.steps}["pixels"] == (4 * 8, 0)
    model = find_model("demo-encoder")
    measured = run(model, f"folder:{folder}")
    scores = [f"{side}_score" for side in ("text", "image", "group", "match")]
    assert ta.PairProbe(f"folder:{folder}").record(model, 0) == {f"pairs/{s}": measured.value(s) for s in scores}


def test_a_training_picture_that_is_a_frame_of_a_benchmarks_film_is_named(folder, tmp_path):
    for name, pixels in (("frame", read_pair_set(folder).pixels("1down.mp4")[3]), ("other", np.eye(64) * 255)):
        Image.fromarray(pixels.astype(np.uint8)).convert("RGB").save(tmp_path / f"{name}.png")
    rows = TrainingRows(tuple(TrainingRow(tmp_path / f"{name}.png", "a caption") for name in ("other", "frame")))
    (leak,) = find_leaks(rows, [f"folder:{folder}"])
    assert (leak.same, leak.images) == (("frame.png",), 4)
