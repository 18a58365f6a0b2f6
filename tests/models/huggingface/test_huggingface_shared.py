"""CLIP's text tower in transformers shares beginnings, bit for bit; changed towers and others do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.models.huggingface import dual_encoder
from tellapart.models.huggingface.load import load
from tellapart.models.options import ModelOptions
from tellapart.models.torch.dual_encoder import TorchDual

pytest.importorskip("transformers", reason="transformers is not installed (the models extra)")

from tiny_models import TEXTS, clip, clip_legacy, siglip

pytestmark = pytest.mark.usefixtures("one_thread")

CAPTIONS = [
    *TEXTS,
    *(f"a {colour} cup {place}" for colour in ("red", "blue") for place in ("", "left", "left of", "right")),
    "a",
    "a red cup",
    "a red cup <|endoftext|> left",
    "a red cup left of a blue bowl and of another",
]


def loaded(folder: Path, **options: Any) -> TorchDual:
    model = load(str(folder), ModelOptions(reading="itc", **options))
    assert isinstance(model, TorchDual)
    return model


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("make", [clip, clip_legacy])
def test_captions_have_the_bytes_of_the_plain_pass_in_any_company(
    make: Any, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(make(tmp_path / "model"), dtype=dtype)
    assert model.shares_beginnings
    shared = model.encode_texts(CAPTIONS)
    rng = np.random.default_rng(0)
    for some in (rng.permutation(len(CAPTIONS))[:count] for count in (1, 5, len(CAPTIONS))):
        assert np.array_equal(model.encode_texts([CAPTIONS[k] for k in some]), shared[some])
    monkeypatch.setattr(dual_encoder.SharedTexts, "works", False)
    assert np.array_equal(model.encode_texts(CAPTIONS), shared) and np.ptp(shared) > 0.1


def hook_layer(model: Any) -> None:
    model.text_model.encoder.layers[0].mlp.register_forward_hook(lambda _module, _inputs, output: output * 2)


def attend_eagerly(model: Any) -> None:
    model.set_attn_implementation("eager")


def add_adapter(model: Any) -> None:
    peft = pytest.importorskip("peft")
    options = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.inject_adapter_in_model(options, model)
    model.eval()


@pytest.mark.parametrize(("change", "moves"), [(hook_layer, True), (attend_eagerly, False), (add_adapter, True)])
def test_a_tower_that_was_changed_is_computed_plainly_with_its_change(change: Any, moves: bool, tmp_path: Path) -> None:
    model = loaded(clip(tmp_path / "model"))
    before = model.encode_texts(CAPTIONS)
    change(model.towers.module)
    assert not model.shares_beginnings
    assert np.allclose(model.encode_texts(CAPTIONS), before, atol=1e-6) is not moves


def test_a_tower_that_reads_both_ways_does_not_share(tmp_path: Path) -> None:
    assert not loaded(siglip(tmp_path)).shares_beginnings
