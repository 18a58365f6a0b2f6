"""A text tower of CLIP's kind reads a text at its tokenizer's end of it, whatever tokens were added behind that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import check_facts, raises

pytest.importorskip("torch", reason="transformers' models need the extra 'models'")
pytest.importorskip("transformers", reason="transformers' models need the extra 'models'")

from tiny_models import (
    clip,
    clip_tokenizer,
    groupvit,
    loaded,
    metaclip_2,
    pictures,
    tower,
    transformers,
    vision,
    with_concept,
)

import tellapart as ta
from tellapart.errors import ModelError
from tellapart.evaluation.verified import read_result
from tellapart.models.torch.backend import import_torch
from tellapart.training.encoders.load_start import open_dual

torch = import_torch()

pytestmark = pytest.mark.usefixtures("one_thread")

ADDED = ["a <concept1> red cup", "a <concept1> blue cat"]
PLAIN = ["a red cup left of a blue bowl", "two bowls"]


@pytest.mark.parametrize("make", [clip, groupvit])
def test_added_words_are_read_in_their_sentence(make: Any, tmp_path: Path) -> None:
    legacy, stated = (loaded(with_concept(make, tmp_path / str(end), end)) for end in (2, None))
    one, other = legacy.encode_texts(ADDED)
    assert np.abs(one - other).max() > 1e-3  # by transformers' rule both are read at <concept1>, and are equal
    np.testing.assert_array_equal(legacy.encode_texts(ADDED + PLAIN), stated.encode_texts(ADDED + PLAIN))
    check_facts(legacy.provenance, "2", str(legacy.token_ids(["a"])[0][2]))
    assert not stated.provenance


def test_without_added_words_nothing_changes(tmp_path: Path) -> None:
    legacy, stated = clip(tmp_path / "a", eos_token_id=2), clip(tmp_path / "b")
    assert not loaded(legacy).provenance
    np.testing.assert_array_equal(loaded(legacy).encode_texts(PLAIN), loaded(stated).encode_texts(PLAIN))
    assert json.loads((legacy / "config.json").read_text())["text_config"]["eos_token_id"] == 2


def test_the_record_says_so(tmp_path: Path) -> None:
    folder = with_concept(clip, tmp_path / "model", 2)
    ta.run(f"hf:{folder}", "demo", limit=4, out=tmp_path / "run", cache=tmp_path / "store.sqlite")
    measured = read_result(tmp_path / "run")
    assert measured.model.provenance in measured.benchmarks["demo"].notes
    check_facts(str(measured.model.provenance), "eos_token_id 2")


def test_training_reads_them_there_too_and_saves_the_rule(tmp_path: Path) -> None:
    folder = with_concept(clip, tmp_path / "model", 2)
    started = open_dual(str(folder), "cpu")
    np.testing.assert_array_equal(started.model().encode_texts(ADDED), loaded(folder).encode_texts(ADDED))
    saved = started.save(tmp_path / "saved").removeprefix("hf:")
    assert json.loads((Path(saved) / "config.json").read_text())["text_config"]["eos_token_id"] != 2
    np.testing.assert_array_equal(loaded(Path(saved)).encode_texts(ADDED), loaded(folder).encode_texts(ADDED))


def test_a_callers_model_is_refused_and_not_changed(tmp_path: Path) -> None:
    folder = with_concept(clip, tmp_path / "model", 2)
    t = transformers()
    model, processor = t.CLIPModel.from_pretrained(folder).eval(), t.AutoProcessor.from_pretrained(folder)
    with raises(ModelError, processor.tokenizer.eos_token_id, "eos_token_id"):
        ta.model(model, processor=processor)
    assert model.config.text_config.eos_token_id == 2


def test_a_tower_without_a_rule_to_set_is_refused(tmp_path: Path) -> None:
    t, tokenizer = transformers(), clip_tokenizer()
    text = tower(vocab_size=len(tokenizer) + 1, max_position_embeddings=24, eos_token_id=tokenizer.eos_token_id)
    config = t.OwlViTConfig(text_config=text, vision_config=vision(), projection_dim=24)
    tokenizer.add_tokens(["<concept1>"])
    t.OwlViTModel(config).save_pretrained(tmp_path)
    images = t.OwlViTImageProcessor(size={"height": 32, "width": 32})
    t.OwlViTProcessor(images, tokenizer).save_pretrained(tmp_path)
    with raises(ModelError, str(tokenizer.eos_token_id), str(len(tokenizer) - 1)):
        loaded(tmp_path)


def test_two_is_no_rule_of_other_families(tmp_path: Path) -> None:
    """MetaCLIP 2 looks for the very token: of another tokenizer's texts it would read the first one."""
    folder = metaclip_2(tmp_path)
    assert len(loaded(folder).encode_images(pictures(2))) == 2
    tokenizer = transformers().AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = tokenizer.mask_token
    tokenizer.save_pretrained(folder)
    with raises(ModelError, "2", str(tokenizer.eos_token_id)):
        loaded(folder)
