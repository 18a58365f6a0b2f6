"""A file that lacks a layer or a part is refused; the authors' retrieval score is the match's logit alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import distance, needs_golden, open_golden, score
from tiny_files import PICTURES, TEXTS, save_family

from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart_native.family import Layout


def test_the_files_own_setting_counts_before_the_published_size() -> None:
    keys = {f"encoder.layers.{k}.self_attn_layer_norm.weight": (768,) for k in range(3)}
    Layout("x", keys, {"encoder_layers": 3}).expect_published("ofa")
    for settings in ({}, {"encoder_layers": 4}):
        with pytest.raises(ModelError, match="3 of encoder"):
            Layout("x", keys, settings).expect_published("ofa")


@needs_golden
@pytest.mark.parametrize("name", ["albef", "albef_pretrain", "xvlm", "xvlm_pretrain", "blip"])
def test_match_logit_is_the_authors_score_of_retrieval(name: str) -> None:
    golden, family, module = open_golden(name)
    ours = score(family.readings["match_logit"], module, golden)[..., 0]
    logits = golden.output["itm_logits_enc" if name == "blip" else "itm_logits"]
    assert distance(ours, logits[..., 1]) < 1e-5
    if "official_score_i2t" in golden.output and name != "blip":
        assert distance(ours, golden.output["official_score_i2t"]) < 1e-5
    # The difference of both logits is another number, and may order captions otherwise.
    assert distance(ours, logits[..., 1] - logits[..., 0]) > 1e-2


def test_the_reading_gives_the_logit_and_not_a_probability_of_it(tmp_path: Path) -> None:
    name = save_family(tmp_path / "x", "xvlm")
    models: dict[str, Any] = {
        reading: find_model(name, ModelOptions(reading=reading)) for reading in ("match_logit", "itm_logit")
    }
    scores = {reading: model.score_pairs(PICTURES, TEXTS) for reading, model in models.items()}
    encoder = models["itm_logit"].encoder
    images, texts = encoder.encode_images(PICTURES), encoder.encode_texts(TEXTS)
    assert models["match_logit"].kind == "logit"
    module = encoder._halves
    joined = [
        module.join(
            tuple(part[None] for part in image.tensors), tuple(part[None] for part in text.tensors)
        )[0].detach().numpy()
        for image, text in zip(images, texts, strict=True)
    ]  # fmt: skip
    np.testing.assert_allclose(scores["match_logit"], [pair[1] for pair in joined], atol=1e-5)
    np.testing.assert_allclose(scores["itm_logit"], [pair[1] - pair[0] for pair in joined], atol=1e-5)
    # A tiny file has no published size: results show the depths that were counted.
    assert "text_encoder.encoder.layer" in " ".join(models["match_logit"].take_notes())
