"""The script trains, exports and records; the committed model is the one that its record describes."""

# ruff: noqa: E402 - what follows needs torch

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'tellapart[train]'")

from tokenizers import Tokenizer
from training.batches import normalise
from training.captions import tokenizer_json
from training.drawings import draw_quadruples
from training.encoder import DualEncoder, Shape, frozen_for_export
from training.folder import FILES, demo_scores, write_model
from training.loop import Recipe, Task, pair_scores, strict_scores, train
from training.quadruples import Quadruples
from training.scenes import read_scenes

from tellapart.benchmarks.demo import DEMO_FOLDER
from tellapart.builders.rendered.grammar import noun
from tellapart.builders.rendered.quadruple import Key, draw
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart.models.onnx.dual_encoder import OnnxDualEncoder, preprocess

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "src" / "tellapart" / "models" / "demo_encoder"
MEGABYTE = 1_000_000


def _task(count: int, size: int = 48) -> Task:
    data = draw_quadruples(count, seed=1, size=size)
    tokenizer = Tokenizer.from_str(tokenizer_json(data.sentences(), 32))
    shape = Shape(vocabulary=tokenizer.get_vocab_size(), image_size=size, channels=(8, 16, 24, 32))
    return Task(data, draw_quadruples(60, seed=2, size=size), tokenizer, shape)


@pytest.mark.slow
def test_training_learns_to_tell_drawn_attributes_apart() -> None:
    task = _task(240)
    trained = train(task, Recipe(steps=60, batch=24, average=0.9), lambda **_: None)
    scores = strict_scores(pair_scores(trained.model, task.validation, task.tokenizer), task.validation.aspects)
    assert scores["attribute"]["group_score"] > 0.5  # of 20 unseen drawings; chance is 1/6
    assert trained.curve[-1]["local"] < trained.curve[0]["local"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_another_seed_does_not() -> None:
    task = _task(12)
    silent = lambda **_: None  # noqa: E731
    models = [train(task, Recipe(steps=3, batch=6, seed=seed), silent).model for seed in (0, 0, 1)]
    first, again, other = (model.state_dict()["image.attend.weight"] for model in models)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_ties_are_never_right_and_a_perfect_model_always_is() -> None:
    perfect, constant = np.eye(2, dtype=np.float32)[None], np.zeros((1, 2, 2), np.float32)
    assert strict_scores(perfect, ("location",))["location"]["group_score"] == 1.0
    assert set(strict_scores(constant, ("location",))["location"].values()) == {0.0, 1.0}  # 1 is its n


def test_the_exported_model_gives_the_scores_of_the_trained_one(tmp_path: Path) -> None:
    task = _task(12)
    model = DualEncoder(task.shape)
    model.train()
    with torch.no_grad():  # running statistics that are not the initial ones
        model.image(normalise(task.data.images[:, 0]))
    frozen = frozen_for_export(model)
    write_model(frozen, task.shape, tokenizer_json(task.data.sentences(), 32), tmp_path)
    loaded = OnnxDualEncoder.load(tmp_path)
    expected = pair_scores(frozen, task.data, task.tokenizer)
    for index, scores in enumerate(expected):
        vectors = loaded.encode_images(list(task.data.images[index]))
        similarities = loaded.similarity(vectors, loaded.encode_texts(task.data.texts[index]))
        np.testing.assert_allclose(similarities, scores, atol=1e-4)


def test_folding_the_batch_norms_changes_nothing_but_rounding() -> None:
    model = DualEncoder(Shape(vocabulary=9, image_size=32)).eval()
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    difference = (model.image(pixels) - frozen_for_export(model).image(pixels)).abs().max()
    assert 0 < difference < 5e-3


def test_training_and_the_loader_see_the_same_tensor() -> None:
    config = OnnxDualEncoder.load(COMMITTED).config
    pixels = np.random.default_rng(0).integers(0, 256, (config.image_size, config.image_size, 3), np.uint8)
    np.testing.assert_allclose(preprocess(pixels, config), normalise(pixels[None])[0].numpy(), atol=1e-6)


@pytest.mark.slow
def test_the_smoke_run_writes_a_model_that_loads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "training.demo_dual_encoder", "--smoke", "--threads", "1", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    model = OnnxDualEncoder.load(tmp_path)
    assert model.encode_texts(["The red hat is behind the blue plate."]).shape == (1, model.config.dimensions)
    record = json.loads((tmp_path / "training_record.json").read_text(encoding="utf-8"))
    assert record["data"]["quadruples"] == 48
    assert record["curve"][-1]["step"] == record["recipe"]["steps"]


def test_the_committed_model_is_the_one_in_its_record_and_small() -> None:
    record = json.loads((COMMITTED / "training_record.json").read_text(encoding="utf-8"))
    assert set(record["files"]) == set(FILES)
    for name, entry in record["files"].items():
        data = (COMMITTED / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}, name
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) <= 8 * MEGABYTE


@pytest.mark.slow
def test_the_committed_model_scores_on_demo_what_its_record_says_and_beats_chance() -> None:
    recorded = json.loads((COMMITTED / "training_record.json").read_text(encoding="utf-8"))["demo"]
    pairs = read_pair_set(DEMO_FOLDER, "demo")
    assert recorded["pairs"] == pairs.fingerprint(), "the demo pairs changed; run python -m training.measure_demo"
    scores = demo_scores(COMMITTED, pairs)
    for aspect, metrics in scores["by"]["aspect"].items():
        for name, value in metrics.items():
            # Another processor may sum in another order, and a near tie may fall the other way: one item of 100.
            assert value["value"] == pytest.approx(recorded["by"]["aspect"][aspect][name]["value"], abs=0.011)
        assert metrics["group_score"]["low"] > 1 / 6


def test_the_committed_model_was_trained_without_any_held_out_object() -> None:
    record = json.loads((COMMITTED / "training_record.json").read_text(encoding="utf-8"))
    objects = record["data"]["source"]["objects"]
    assert len(objects) > 30
    assert [phrase for phrase in objects if noun(phrase).held_out] == []


def test_shards_are_read_row_by_row_with_captions_and_foils(tmp_path: Path) -> None:
    drawn = draw_quadruples(3, seed=0, size=32)
    foils = [{"text": "no", "kind": "count"}, {"text": "x", "kind": "pair"}]
    sides = [{"captions": [text, "also"], "foils": foils, "objects": ["red hat"]} for text in "ab"]
    line = {"aspect": "counting", "sides": sides, "key": asdict(Key("test", 7, "counting", 0))}
    lines = [{"id": f"q{row}", "row": row, **line} for row in (2, 0, 1)]
    (tmp_path / "shard-00000.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    np.save(tmp_path / "shard-00000.npy", drawn.images)
    read = read_scenes(tmp_path, 32)
    assert (read.ids, read.texts[0]) == (("q2", "q0", "q1"), ("a", "b"))
    assert (read.paraphrases[0], read.foils[0]) == ((("also",), ("also",)), ((("no",),), (("no",),)))
    np.testing.assert_array_equal(read.images, drawn.images[[2, 0, 1]])
    counts = [fact.count for fact in draw(Key("test", 7, "counting", 0)).facts]
    assert (read.places[0, :, :, 0] >= 0).sum(axis=1).tolist() == counts
    assert read.source["objects"] == ["red hat"]
    assert read_scenes(tmp_path, 16).images.shape == (3, 2, 16, 16, 3)


def test_scenes_that_are_not_scenes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"holds no shard-00000.jsonl; run python -m tellapart.builders.rendered.training_scenes"
    ):
        read_scenes(tmp_path, 32)
    (tmp_path / "shard-00000.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    np.save(tmp_path / "shard-00000.npy", np.zeros((1, 2, 8, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"shard-00000.jsonl:1: not a quadruple: 'sides'; render the folder again"):
        read_scenes(tmp_path, 32)


def test_quadruples_of_unequal_parts_are_refused() -> None:
    images, places, nothing = np.zeros((2, 2, 8, 8, 3), np.uint8), np.zeros((2, 2, 5, 3), np.float32), (((), ()),)
    with pytest.raises(DataError, match="different lengths"):
        Quadruples(("a",), images, (("x", "y"),) * 2, nothing * 2, nothing * 2, ("location",) * 2, places)
    with pytest.raises(DataError, match="expected uint8 images"):
        Quadruples(("a",), images[:1, :1], (("x", "y"),), nothing, nothing, ("location",), places[:1])
