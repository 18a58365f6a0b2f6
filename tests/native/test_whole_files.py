"""A file that lacks a layer or a part is refused; the authors' retrieval score is the match's logit alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import CASES, FAMILIES, distance, needs_golden, open_golden, read_golden, score
from tiny_files import PICTURES, TEXTS, save_family

from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart_native.family import Layout
from tellapart_native.prefix import find_family

PARTS = {f"encoder.layers.{k}.{part}": (8,) for k in range(4) for part in ("fc1.bias", "c_attn", "attn_ln.weight")}


@pytest.mark.parametrize("layer", range(4))
@pytest.mark.parametrize("part", ["c_attn", "attn_ln.weight"])
def test_a_layer_that_lacks_a_part_of_the_others_is_named(layer: int, part: str) -> None:
    lost = f"encoder.layers.{layer}.{part}"
    with pytest.raises(ModelError, match="incomplete") as caught:
        Layout("ofa.pt", {key: shape for key, shape in PARTS.items() if key != lost}).count_parts("encoder.layers.{}.")
    assert lost in str(caught.value)


def test_a_layer_in_the_middle_is_missed() -> None:
    without = {key: shape for key, shape in PARTS.items() if ".2." not in key}
    with pytest.raises(ModelError, match=r"encoder\.layers\.2\."):
        Layout("ofa.pt", without).count_parts("encoder.layers.{}.")


def test_upper_layers_may_read_the_image_and_none_below_the_last_of_them_may_not() -> None:
    keys = {f"layer.{k}.fc.weight": (8, 8) for k in range(4)} | {f"layer.{k}.crossattention.key": (8,) for k in (2, 3)}
    assert Layout("x", keys).count_parts("layer.{}.") == 4
    with pytest.raises(ModelError, match="incomplete"):
        Layout("x", {key: shape for key, shape in keys.items() if "3.cross" not in key}).count_parts("layer.{}.")


def test_the_files_own_setting_counts_before_the_published_size() -> None:
    keys = {f"encoder.layers.{k}.self_attn_layer_norm.weight": (768,) for k in range(3)}
    Layout("x", keys, {"encoder_layers": 3}).expect_published("ofa")
    for settings in ({}, {"encoder_layers": 4}):
        with pytest.raises(ModelError, match="3 of encoder"):
            Layout("x", keys, settings).expect_published("ofa")


@needs_golden
def test_a_table_of_biases_that_lost_a_row_is_refused() -> None:
    golden = read_golden("xvlm")
    family = find_family(FAMILIES[CASES["xvlm"].family])
    keys = {name: tuple(tensor.shape) for name, tensor in family.keep_tensors(golden.state).items()}
    table = next(key for key in keys if key.endswith("relative_position_bias_table"))
    keys[table] = (keys[table][0] - 1, keys[table][1])
    with pytest.raises(ModelError, match=str(keys[table][0])) as caught:
        family.build_module(Layout("file.pth", keys, CASES["xvlm"].settings))
    assert table in str(caught.value)


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
