from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import (
    Golden,
    build,
    build_published,
    check_pixels,
    distance,
    join_all,
    needs_golden,
    published,
    read_golden,
    shift_one,
)

from tellapart.models.native.bert import Pooler
from tellapart.models.native.images import IMAGENET_COLOURS, crop

HEADS = {"num_attention_heads": 4, "num_heads": 4, "vision_heads": 2}


def inputs(golden: Golden) -> tuple[Any, Any, Any]:
    return {"pixel_values": golden.input["pixel_values"]}, golden.input["input_ids"], golden.input["attention_mask"]


@pytest.mark.parametrize("name", ["meter", "meter_swin"])
def test_equals_the_authors_code(name: str) -> None:
    golden = read_golden(name)
    family, module = build("meter", golden.state, HEADS)
    check_pixels(family, module, golden)
    images, ids, mask = inputs(golden)
    assert distance(module.vit_model(**images), golden.output["image_tokens"]) < 3e-5
    real = mask.bool()
    assert distance(module.text_transformer(ids, real)[real], golden.output["text_tokens"][real]) < 3e-5
    logits = join_all(family.readings["itm"].halves(module), images, ids, mask)
    assert distance(logits, golden.output["itm_logits"]) < 1e-5
    if name == "meter":
        rank = join_all(family.readings["rank"].halves(module), images, ids, mask)
        assert distance(rank[..., 0], golden.output["rank_output"]) < 1e-5
    else:
        assert family.readings["rank"].needs not in module.state_dict()


@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("meter", "vit_model.visual.positional_embedding", "positional_embedding_at_96"),
        ("meter_swin", "vit_model.layers.2.blocks.1.attn.relative_position_bias_table", "bias_table_at_96"),
    ],
)
def test_positions_at_another_size_are_the_authors(name: str, tensor: str, expected: str) -> None:
    golden = read_golden(name)
    family, _ = build("meter", golden.state, HEADS)
    assert family.resize is not None
    assert distance(family.resize(family.keep(golden.state), 96)[tensor], golden.output[expected]) < 1e-6


def test_pictures_are_resized_with_their_transparency() -> None:
    golden = read_golden("meter")
    family, module = build("meter", golden.state, HEADS)
    prepared = family.images(module)(golden.preprocess["image_rgba"].numpy())["pixel_values"]
    np.testing.assert_array_equal(prepared, golden.preprocess["pixel_values_rgba"].numpy())
    picture = golden.preprocess["image_0"].numpy()
    opaque = np.concatenate([picture, np.full_like(picture[..., :1], 255)], axis=-1)
    np.testing.assert_array_equal(
        family.images(module)(opaque)["pixel_values"], family.images(module)(picture)["pixel_values"]
    )
    np.testing.assert_array_equal(
        crop(48, IMAGENET_COLOURS)(picture)["pixel_values"], golden.preprocess["pixel_values_imagenet"].numpy()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("meter", "vit_model.visual.transformer.resblocks.0", "vit_model.visual.transformer.resblocks.1"),
        ("meter", "text_transformer.encoder.layer.0", "text_transformer.encoder.layer.2"),
        ("meter", "cross_modal_text_layers.0", "cross_modal_text_layers.1"),
        ("meter", "cross_modal_image_layers.0", "cross_modal_image_layers.1"),
        ("meter", "cross_modal_image_layers.1.attention", "cross_modal_image_layers.1.crossattention"),
        ("meter", "cross_modal_text_pooler", "cross_modal_image_pooler"),
        ("meter", "vit_model.visual.ln_pre", "vit_model.visual.ln_post"),
        ("meter_swin", "vit_model.layers.2.blocks.0", "vit_model.layers.2.blocks.1"),
        ("meter_swin", "vit_model.layers.0.blocks.0.norm1", "vit_model.layers.0.blocks.0.norm2"),
    ],
)
def test_layers_out_of_order_are_noticed(name: str, first: str, second: str) -> None:
    golden = read_golden(name)
    family, module = build("meter", golden.state, HEADS)
    shift_one(module, first, second)
    logits = join_all(family.readings["itm"].halves(module), *inputs(golden))
    assert distance(logits, golden.output["itm_logits"]) > 1e-3


@pytest.mark.parametrize("mistake", ["token", "type", "head", "pooled", "scores"])
def test_other_mistakes_are_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = read_golden("meter_swin" if mistake == "pooled" else "meter")
    family, module = build("meter", golden.state, HEADS)
    halves = family.readings["itm"].halves(module)
    match mistake:
        case "token":
            monkeypatch.setattr(Pooler, "forward", lambda self, states: self.dense(states[:, 1]).tanh())
        case "type":
            module.token_type_embeddings.weight.data = module.token_type_embeddings.weight.flip(0)
        case "head":
            module.itm_score.fc.weight.data = module.itm_score.fc.weight.flip(0)
        case "pooled":  # the first token of Swin in place of the mean
            monkeypatch.setattr("tellapart.models.native.meter.ClipTower", type(module.vit_model))
        case "scores":  # heads of attention
            module.cross_modal_text_layers[0].attention.self.heads = 2
    assert distance(join_all(halves, *inputs(golden)), golden.output["itm_logits"]) > 1e-3


#: Parameters of a scorer. With the unused pooler and `rank_output`, the first has the 319 M of the paper: 319,245,315.
PARAMETERS = {
    "clip16_288_pretrain": 318_653_186,
    "clip16_224_pretrain": 318_554_882,
    "clip16_384_irtr": 318_848_259,
    "clip16_576_vqa": 326_569_785,
    "clip16_288_nlvr2": 323_377_154,
    "clip16_384_snli": 318_843_648,
    "swinbase_384_pretrain": 326_918_522,
}


@needs_golden
@pytest.mark.parametrize(
    ("name", "variant"), published("meter"), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("meter", variant["keys"])
    assert (module.config.image_size, module.config.context) == (
        variant["config"]["image_size"],
        variant["config"]["max_text_len"],
    )
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[name]
    heads = {key for key in variant["needed"] if key.startswith(("itm_score", "rank_output"))}
    assert heads <= set(module.state_dict())
