"""Each family on a file of tiny size, drawn here: named, measured alone and in a batch, at another size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_files import PICTURES, TEXTS, save_family, score

from facts import raises
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, PairScorer
from tellapart.models.torch.backend import import_torch

torch = import_torch()

#: The readings of each family; the first is the default.
READINGS: dict[str, dict[str, ScoreKind]] = {
    "albef": {"itm": "probability", "itm_logit": "logit", "match_logit": "logit", "itc": "similarity"},
    "blip": {
        "itm_enc": "probability",
        "itm_enc_logit": "logit",
        "match_logit": "logit",
        "retrieval": "logit",
        "itm": "probability",
        "itm_logit": "logit",
        "itc": "similarity",
    },
    "vilt": {"rank": "logit", "itm": "probability", "itm_logit": "logit"},
    "xvlm": {"itm": "probability", "itm_logit": "logit", "match_logit": "logit", "itc": "similarity"},
}


@pytest.mark.slow
@pytest.mark.parametrize("family", READINGS)
def test_readings(tmp_path: Path, family: str) -> None:
    name = save_family(tmp_path / "x", family)
    models = {reading: find_model(name, ModelOptions(reading=reading)) for reading in READINGS[family]}
    assert {reading: model.kind for reading, model in models.items()} == READINGS[family]
    assert len({model.fingerprint for model in models.values()}) == len(models)
    assert find_model(name).fingerprint == next(iter(models.values())).fingerprint
    for reading, model in models.items():
        if isinstance(model, PairScorer):
            scores = model.score_pairs(PICTURES, TEXTS)
            assert len(set(scores.tolist())) == 3
            fresh = find_model(name, ModelOptions(reading=reading))
            assert isinstance(fresh, PairScorer)
            for k in range(3):  # alone, to the bit
                np.testing.assert_array_equal(fresh.score_pairs(PICTURES[k : k + 1], TEXTS[k : k + 1]), scores[k])
        else:
            assert isinstance(model, DualEncoder)
            vectors = model.encode_images(PICTURES)
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
            np.testing.assert_array_equal(model.encode_images(PICTURES[2:]), vectors[2:])
    with raises(ModelError, "'vqa'", f"{', '.join(READINGS[family])}"):
        find_model(name, ModelOptions(reading="vqa"))


@pytest.mark.slow
@pytest.mark.parametrize("family", READINGS)
def test_another_image_size(tmp_path: Path, family: str) -> None:
    name = save_family(tmp_path / "x", family)
    larger = score(name, image_size=128)
    assert np.isfinite(larger).all()
    assert (larger != score(name)).all()
    if family == "vilt":  # any size will do: its pictures are cut to patches
        return
    with raises(ModelError, "100", "96", "image_size=", "96"):
        find_model(name, ModelOptions(image_size=100))


def test_a_blip_without_marks_behind_its_words_is_refused(tmp_path: Path) -> None:
    name = save_family(tmp_path / "x", "blip")
    path = tmp_path / "x" / "model.pth"
    held = torch.load(path)
    rows = held["model"]["text_encoder.embeddings.word_embeddings.weight"]
    tokenizer = json.loads((tmp_path / "x" / "tokenizer.json").read_text())
    words = len(tokenizer["model"]["vocab"])  # without two more, `[ENC]` would be one of them
    held["model"]["text_encoder.embeddings.word_embeddings.weight"] = rows[:words].clone()
    torch.save(held, path)
    with raises(ModelError, words, f"{words - 2}", "tokenizer"):
        find_model(name)
