"""Of two doors to one tiny model, the planted difference is found at the step where it enters, and named."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from PIL import Image
from tiny_models import changed, edit
from tiny_openclip import MEAN, STD

import tellapart as ta
from facts import raises
from tellapart.api.checks import parity
from tellapart.data.folder import read_pair_set
from tellapart.diagnosis.parity import compare_doors
from tellapart.errors import ModelError, RunError
from tellapart.models.find import find_model
from tellapart.models.torch.dual_encoder import TorchDual

LONG = "a red bowl and a blue cup and a red cup and a"
TEXTS = [("A Red cup", "A Blue cup"), ("red, blue", "blue, red"), (f"{LONG} blue bowl", f"{LONG} red bowl")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    place = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    rows = []
    for k, texts in enumerate(TEXTS):
        for side in "ab":
            Image.fromarray(rng.integers(0, 256, (90, 70, 3), dtype=np.uint8)).save(place / f"{k}{side}.png")
        rows.append({"id": str(k), "images": [f"{k}a.png", f"{k}b.png"], "texts": texts})
    (place / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return place


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "other")


def counts(found) -> list[tuple[str, int]]:
    return [(step.step, step.compared) for step in found.steps]


def keep_capitals(folder: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        inner = content["normalizer"]["normalizers"]
        content["normalizer"]["normalizers"] = [one for one in inner if one["type"] != "Lowercase"]

    edit(folder / "tokenizer.json", change)
    edit(folder / "tokenizer_config.json", lambda content: content.update(tokenizer_class="PreTrainedTokenizerFast"))


def change_activation(folder: Path) -> None:
    for side in ("text_config", "vision_config"):
        edit(folder / "config.json", lambda content, side=side: content[side].update(hidden_act="gelu"))


def resample(number: int) -> Callable[[Path], None]:
    path = "processor_config.json"
    return lambda folder: edit(folder / path, lambda content: content["image_processor"].update(resample=number))


QUICK = "QuickGELU in A, GELU in B"


@pytest.mark.parametrize(
    ("change", "options", "step", "differ", "cause"),
    [
        (keep_capitals, {}, "tokens", 2, "case: A leaves it out, B keeps it"),
        (change_activation, {}, "vectors", 12, f"activation: {QUICK}; image activation: {QUICK}"),
        (id, {"dtype_b": "bfloat16"}, "vectors", None, "dtype: float32 in A, bfloat16 in B"),
        *(
            (resample(number), {}, "pixels", 6, f"antialias, cropped, B to {words} antialias, cropped")
            for number, words in [
                (0, "nearest without"), (1, "lanczos with"), (2, "bilinear with"), (4, "box with"), (5, "hamming with")
            ]
        ),
    ],
)  # fmt: skip
def test_a_planted_difference_is_found_where_it_enters(change, options, step, differ, cause, folder, copied, pairs):
    change(copied)
    first = parity(f"hf:{folder}", f"hf:{copied}", f"folder:{pairs}", **options).first
    assert first.step == step and differ in (None, first.differ)
    assert cause == first.cause or (step == "pixels" and f"A is nearest to bicubic with {cause}" in first.cause)
    if step == "tokens":
        text, of_a, of_b = first.examples[0]
        assert text == "A Red cup" and of_a != of_b


class Aliased:
    """The same encoder, whose images are resized without antialias."""

    kind, name = "similarity", "aliased"

    def __init__(self, inner: TorchDual) -> None:
        self.inner, self.traits, self.fingerprint = inner, inner.traits, inner.fingerprint + "-aliased"
        self.encode_texts, self.similarity, self.token_ids = inner.encode_texts, inner.similarity, inner.token_ids

    def input_pixels(self, pixels):
        size = self.inner.input_pixels(pixels).shape[-1]
        tensor = torch.from_numpy(np.array(pixels)).permute(2, 0, 1)[None].float()
        shape = [round(side * size / min(pixels.shape[:2])) for side in pixels.shape[:2]]
        resized = torch.nn.functional.interpolate(tensor, size=shape, mode="bicubic", antialias=False)
        top, left = ((side - size) // 2 for side in shape)
        unit = resized.clamp(0, 255).round()[0, :, top : top + size, left : left + size].numpy() / 255
        mean, deviation = (np.reshape(statistic, (3, 1, 1)) for statistic in (MEAN, STD))
        return ((unit - mean) / deviation).astype(np.float32)

    def encode_images(self, images: Sequence[Any]):
        return self.inner.encode_images([{"pixel_values": torch.from_numpy(self.input_pixels(one))} for one in images])


def test_one_weight_that_changes_scores_is_seen_in_the_vectors(folder, copied, pairs):
    t = tiny_models.transformers()
    model = t.CLIPModel.from_pretrained(folder)
    with torch.no_grad():
        model.text_projection.weight[0, 0] += 1e-3
    model.save_pretrained(copied)
    found = parity(f"hf:{folder}", f"hf:{copied}", f"folder:{pairs}")
    vectors, scores = found.steps[2:]
    assert scores.differ > 0 and found.first == vectors
    # The texts' vectors alone: an angle in radians, below the square root of what a cosine shows.
    assert 0 < vectors.differ <= 6 and vectors.largest is not None and 5e-6 < vectors.largest < 1e-3


def test_one_model_through_two_doors_parts_nowhere(folder, pairs):
    t = tiny_models.transformers()
    held = ta.model(t.CLIPModel.from_pretrained(folder), t.AutoProcessor.from_pretrained(folder))
    for door in (held, f"hf:{folder}"):
        same = parity(door, f"hf:{folder}", f"folder:{pairs}")
        assert same.first is None and same.flipped == 0 and not any(step.differ for step in same.steps)
        assert counts(same) == [("tokens", 6), ("pixels", 6), ("vectors", 12), ("scores", 12)]
    with raises(ModelError, "'bfloat16'", "float32"):
        parity(f"hf:{folder}", held, f"folder:{pairs}", dtype_b="bfloat16")


def test_a_matching_head_is_compared_by_its_reading(pairs, tmp_path):
    one = tiny_models.blip(tmp_path / "blip")
    other = changed(one, tmp_path / "other", "tokenizer_config.json", model_max_length=16)
    found = parity(f"hf:{one}", f"hf:{other}", f"folder:{pairs}", reading="itm")
    assert found.first.cause.startswith("context: B reads 16 tokens")
    assert counts(found) == [("tokens", 6), ("pixels", 6), ("vectors", 0), ("scores", 12)]
    assert found.steps[3].cause == "context: 24 tokens in A, 16 tokens in B"
    assert parity(f"hf:{one}", f"hf:{one}", f"folder:{pairs}", reading="itc").steps[2].compared == 12
    with raises(RunError, "logit", "probability"):
        parity(f"hf:{one}", f"hf:{one}", f"folder:{pairs}", reading="itm_logit", reading_b="itm")


def test_a_resize_without_antialias_is_found_and_the_image_that_differs_the_most_is_drawn(folder, pairs, tmp_path):
    inner, picture = find_model(f"hf:{folder}"), tmp_path / "apart.png"
    found = compare_doors(inner, Aliased(inner), read_pair_set(pairs), picture=picture)
    assert (found.first.step, found.first.differ) == ("pixels", 6)
    assert "antialias: A is nearest to bicubic with antialias, cropped, B to bicubic without" in found.first.cause
    drawn = np.asarray(Image.open(picture))
    size = inner.input_pixels(np.zeros((9, 9, 3), np.uint8)).shape[1]
    assert drawn.shape == (size, 3 * size, 3)
    one, other, apart = (drawn[:, k * size : (k + 1) * size].astype(int) for k in range(3))
    assert found.steps[1].largest is not None and apart.max() == 255
    assert np.corrcoef(np.abs(one - other).ravel(), apart.ravel())[0, 1] > 0.95
    with raises(RunError, "picture=", "blind"):
        parity("blind", "bag-of-words", f"folder:{pairs}", picture=picture)


def test_the_command_exits_with_1_if_outcomes_differ_and_refuses_other_kinds(folder, pairs, command):
    assert command("parity", f"hf:{folder}", f"hf:{folder}", "-b", f"folder:{pairs}").code == 0
    parted = command("parity", f"hf:{folder}", "bag-of-words", "-b", f"folder:{pairs}", "--json", "--most", "0")
    content = json.loads(parted.out)
    assert content["first"] == "scores" and parted.code == int(content["flipped"] > 0)
    with raises(RunError, "similarity", "probability"):
        parity(f"hf:{folder}", "constant", f"folder:{pairs}")
    with raises(RunError, "'vlue-nlvr2'", "nlvr2"):
        parity("constant", "blind", "vlue-nlvr2")
