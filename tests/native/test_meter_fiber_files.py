"""Files of METER and FIBER of tiny size, as Lightning nests them: named, measured, read at another size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_files import TEXTS, save_tokenizer
from tiny_fusion_encoders import roberta
from tiny_meter_fiber import SETTINGS, fiber_state, meter_state

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, PairScorer
from tellapart.models.torch.backend import import_torch

torch = import_torch()

PICTURES = [np.random.default_rng(k).integers(0, 256, (70 + 9 * k, 80, 3)).astype(np.uint8) for k in range(3)]

FILES: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "meter": ("meter", meter_state),
    "meter-swin": ("meter", lambda: meter_state(swin_tower=True)),
    "fiber": ("fiber", fiber_state),
}


def write(folder: Path, family: str, state: dict[str, Any]) -> str:
    lightning = {"state_dict": state, "epoch": 3, "hyper_parameters": {"config": {"num_heads": 4}}}
    torch.save(lightning, folder / "model.ckpt")
    (folder / "config.json").write_text(json.dumps({"model_type": family, **SETTINGS}))
    save_tokenizer(folder, roberta())
    return f"{family}:{folder / 'model.ckpt'}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_every_reading_of_a_file(kind: str, tmp_path: Path) -> None:
    family, make = FILES[kind]
    name = write(tmp_path, family, make())
    models = {reading: find_model(name, ModelOptions(reading=reading)) for reading in (None, "itm_logit", "rank")}
    assert len({model.fingerprint for model in models.values()}) == 3
    scores = {}
    for reading, model in models.items():
        assert isinstance(model, PairScorer)
        scores[reading] = model.score_pairs(PICTURES, TEXTS)
        np.testing.assert_array_equal(model.score_pairs(PICTURES[1:2], TEXTS[1:2]), scores[reading][1:2])
    np.testing.assert_allclose(scores[None], 1 / (1 + np.exp(-scores["itm_logit"])), atol=1e-6)
    assert [models[reading].kind for reading in (None, "itm_logit", "rank")] == ["probability", "logit", "logit"]
    larger = find_model(name, ModelOptions(image_size=96))
    assert isinstance(larger, PairScorer)
    assert not np.allclose(larger.score_pairs(PICTURES, TEXTS), scores[None])


def test_vectors_of_fiber(tmp_path: Path) -> None:
    model = find_model(write(tmp_path, "fiber", fiber_state(itm=False)))  # as fine-tuned for contrast: no matching head
    assert isinstance(model, DualEncoder)
    vectors = model.encode_images(PICTURES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.encode_images(PICTURES[2:]), vectors[2:])
    with raises(ModelError, "FIBER", "'itm'", "itc"):
        find_model(f"fiber:{tmp_path / 'model.ckpt'}", ModelOptions(reading="itm"))


@pytest.mark.parametrize("family", ["meter", "fiber"])
def test_their_authors_clean_no_captions(family: str, tmp_path: Path) -> None:
    name = write(tmp_path, family, FILES[family][1]())
    with raises(ModelError, "texts=", "captions"):
        find_model(name, ModelOptions(texts="cleaned"))


def test_a_length_that_is_none(tmp_path: Path) -> None:
    name = write(tmp_path, "meter", meter_state())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "meter", **SETTINGS, "max_text_len": 600}))
    with raises(ModelError, "max_text_len", "600", "3", "62"):
        find_model(name)
