"""BLIP's own file and transformers' BLIP on the same weights: two implementations, one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_files import PICTURES, TEXTS, blip_state, save_family
from tiny_fusion_encoders import bert

from tellapart.errors import require
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import PairScorer
from tellapart.models.torch.backend import import_torch

pytestmark = pytest.mark.slow

torch = import_torch()

#: From the authors' names to the library's, in this order.
RENAMED = (
    ("visual_encoder.cls_token", "vision_model.embeddings.class_embedding"),
    ("visual_encoder.pos_embed", "vision_model.embeddings.position_embedding"),
    ("visual_encoder.patch_embed.proj", "vision_model.embeddings.patch_embedding"),
    ("visual_encoder.blocks", "vision_model.encoder.layers"),
    ("visual_encoder.norm.", "vision_model.post_layernorm."),
    (".attn.qkv", ".self_attn.qkv"),
    (".attn.proj", ".self_attn.projection"),
    (".norm1", ".layer_norm1"),
    (".norm2", ".layer_norm2"),
)


def save_for_transformers(folder: Path) -> None:
    """Write the authors' weights as the library's model, with its processor."""
    transformers = require("transformers", extra="models")
    tower = {"hidden_size": 32, "num_hidden_layers": 2}
    text = {"num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 64}
    vision = {"num_attention_heads": 2, "intermediate_size": 128, "image_size": 32, "patch_size": 16}
    config = transformers.BlipConfig(
        text_config=tower | text | {"encoder_hidden_size": 32, "layer_norm_eps": 1e-12},
        vision_config=tower | vision | {"layer_norm_eps": 1e-6},
        projection_dim=16,
        image_text_hidden_size=16,
    )
    model = transformers.BlipForImageTextRetrieval(config)
    state: dict[str, Any] = {}
    for name, tensor in blip_state().items():
        renamed = name
        for ours, theirs in RENAMED:
            renamed = renamed.replace(ours, theirs)
        state[renamed] = tensor
    missing, unknown = model.load_state_dict(state, strict=False)
    assert set(unknown) == {
        "temp",
        "ptr_queue",
        "text_decoder.cls.predictions.bias",
        *(name for name in state if "token_type" in name),
    }
    assert {name for name in missing if "position_ids" not in name} == set()
    model.save_pretrained(folder)
    images = transformers.BlipImageProcessorPil(size={"height": 32, "width": 32})
    transformers.BlipProcessor(images, bert()).save_pretrained(folder)


@pytest.mark.parametrize("reading", ["itm", "itm_logit", "itc"])
def test_both_give_the_same_scores(tmp_path: Path, reading: str) -> None:
    """The largest differences seen were 7.5e-8 (`itm`), 4.8e-7 (`itm_logit`) and 2.6e-7 (`itc`)."""
    save_for_transformers(tmp_path / "library")
    options = ModelOptions(reading=reading)
    ours, theirs = (
        find_model(name, options) for name in (save_family(tmp_path / "x", "blip"), f"hf:{tmp_path / 'library'}")
    )
    scores = []
    for model in (ours, theirs):
        if isinstance(model, PairScorer):
            scores.append(model.score_pairs(PICTURES, TEXTS))
        else:
            vectors: Any = model
            scores.append(vectors.similarity(vectors.encode_images(PICTURES), vectors.encode_texts(TEXTS)))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5, rtol=0)
    assert np.ptp(scores[0]) > 1e-3
    if reading == "itm":  # the authors' own reading has another first token
        enc = find_model(f"blip:{tmp_path / 'x' / 'model.pth'}")
        assert isinstance(enc, PairScorer)
        assert np.abs(enc.score_pairs(PICTURES, TEXTS) - scores[0]).max() > 1e-3
