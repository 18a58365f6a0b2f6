from __future__ import annotations

from typing import Any

import pytest
from golden import (
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

from tellapart.errors import ModelError

HEADS = {"num_attention_heads": 4, "num_heads": 2}


@pytest.mark.parametrize("name", ["albef", "albef_pretrain"])
def test_equals_the_authors_code(name: str) -> None:
    golden = read_golden(name)
    family, module = build("albef", golden.state, HEADS)
    check_pixels(family, module, golden)
    inputs = ({"pixel_values": golden.input["pixel_values"]}, golden.input["input_ids"], golden.input["attention_mask"])
    halves = family.readings["itm"].halves(module)
    assert distance(halves.images(**inputs[0])[0], golden.output["image_tokens"]) < 3e-5
    assert distance(join_all(halves, *inputs), golden.output["itm_logits"]) < 1e-5
    cosine = family.readings["itc"].halves(module)
    mask = inputs[2].bool()
    ours = cosine.images(**inputs[0])[0] @ cosine.texts(inputs[1], mask)[0].T
    assert distance(ours, golden.output["itc_similarity"]) < 1e-5


def test_positions_at_another_size_are_the_authors() -> None:
    golden = read_golden("albef")
    family, _ = build("albef", golden.state, HEADS)
    assert family.resize is not None
    resized = family.resize(family.keep(golden.state), 96)["visual_encoder.pos_embed"]
    assert distance(resized, golden.output["pos_embed_at_96"]) < 1e-6


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("text_encoder.encoder.layer.0", "text_encoder.encoder.layer.1"),
        ("text_encoder.encoder.layer.2", "text_encoder.encoder.layer.3"),
        ("text_encoder.encoder.layer.2.attention", "text_encoder.encoder.layer.2.crossattention"),
        ("visual_encoder.blocks.0", "visual_encoder.blocks.1"),
    ],
)
def test_layers_out_of_order_are_noticed(first: str, second: str) -> None:
    golden = read_golden("albef")
    family, module = build("albef", golden.state, HEADS)
    shift_one(module, first, second)
    inputs = ({"pixel_values": golden.input["pixel_values"]}, golden.input["input_ids"], golden.input["attention_mask"])
    assert distance(join_all(family.readings["itm"].halves(module), *inputs), golden.output["itm_logits"]) > 1e-2


@needs_golden
@pytest.mark.parametrize(
    ("name", "variant"), published("albef"), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("albef", variant["keys"])
    size = int(name.rpartition("_")[2])
    assert module.config.image_size == size
    # With `temp`, the 210 M of VLUE's table at 384 pixels; positions are fewer at 256.
    fewer = 577 - (1 + (size // 16) ** 2)
    assert sum(parameter.numel() for parameter in module.parameters()) == 209_560_834 - 768 * fewer


def test_a_lost_tensor_and_a_strange_one_are_named() -> None:
    golden = read_golden("albef")
    del golden.state["itm_head.bias"]
    golden.state["vision_head.weight"] = golden.state["itm_head.weight"]
    with pytest.raises(ModelError, match=r"1 missing \(itm_head.bias\); 1 unknown \(vision_head.weight\)"):
        build("albef", golden.state, HEADS)


def test_heads_are_never_guessed() -> None:
    golden = read_golden("albef")
    with pytest.raises(ModelError, match=r"width 32, and nothing names its num_heads; put a config.json"):
        build("albef", golden.state, {})
