"""X-VLM against the authors' code: Swin, BERT, matching head, boxes, and tables of biases for another window."""

from __future__ import annotations

from typing import Any

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

from tellapart.models.native.positions import resize_window_biases
from tellapart.models.torch_backend import import_torch

torch = import_torch()

HEADS = {"num_attention_heads": 4}

#: Without tables of biases, which follow the window, and without the head of boxes: the same in every file.
PARAMETERS = 213_760_642


def inputs(golden: Golden) -> tuple[dict[str, Any], Any, Any]:
    return {"pixel_values": golden.input["pixel_values"]}, golden.input["input_ids"], golden.input["attention_mask"]


@pytest.mark.parametrize("name", ["xvlm", "xvlm_pretrain"])
def test_equals_the_authors_code(name: str) -> None:
    golden = read_golden(name)
    family, module = build("xvlm", golden.state, HEADS)
    check_pixels(family, module, golden)
    images, ids, mask = inputs(golden)
    halves = family.readings["itm"].halves(module)
    assert distance(halves.images(**images)[0], golden.output["image_tokens"]) < 3e-5
    there = mask.bool()
    assert distance(halves.texts(ids, there)[0][there], golden.output["text_tokens"][there]) < 3e-5
    logits = join_all(halves, images, ids, mask)
    assert distance(logits, golden.output["itm_logits"]) < 1e-5
    cosine = family.readings["itc"].halves(module)
    ours = cosine.images(**images)[0] @ cosine.texts(ids, there)[0].T
    assert distance(ours, golden.output["itc_similarity"]) < 1e-5
    if name == "xvlm":
        assert distance(logits[..., halves.match], golden.output["official_score_i2t"]) < 1e-5


def test_boxes_equal_the_authors() -> None:
    golden = read_golden("xvlm_pretrain")
    family, module = build("xvlm", golden.state, HEADS)
    halves = family.readings["itm"].halves(module)
    halves.join = halves.boxes
    assert distance(join_all(halves, *inputs(golden)), golden.output["boxes"]) < 1e-5


@pytest.mark.parametrize(("old", "new"), [(3, 4), (7, 12), (12, 15)])
def test_tables_of_biases_are_resized_as_the_authors_do(old: int, new: int) -> None:
    golden = read_golden("xvlm_pretrain")
    name = "x.relative_position_bias_table"
    table = golden.input[f"bias_table_window_{old}_to_{new}"]
    resized = resize_window_biases({name: table}, new)[name]
    assert distance(resized, golden.output[f"bias_table_window_{old}_to_{new}"]) < 1e-5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("text_encoder.encoder.layer.0", "text_encoder.encoder.layer.1"),
        ("text_encoder.encoder.layer.2", "text_encoder.encoder.layer.3"),
        ("vision_encoder.layers.2.blocks.1", "vision_encoder.layers.2.blocks.2"),
        ("vision_encoder.layers.2.blocks.2.norm1", "vision_encoder.layers.2.blocks.2.norm2"),
        ("itm_head.0", "bbox_head.0"),
    ],
)
def test_layers_out_of_order_are_noticed(first: str, second: str) -> None:
    golden = read_golden("xvlm_pretrain")
    family, module = build("xvlm", golden.state, HEADS)
    shift_one(module, first, second)
    logits = join_all(family.readings["itm"].halves(module), *inputs(golden))
    assert distance(logits, golden.output["itm_logits"]) > 1e-2


@needs_golden
@pytest.mark.parametrize(
    ("name", "variant"), published("xvlm"), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("xvlm", variant["keys"])
    assert module.config.image_size == int(name.rpartition("_")[2])
    assert module.config.to_dict()["num_attention_heads"] == 12
    assert [stage.blocks[0].attn.heads for stage in module.vision_encoder.layers] == [4, 8, 16, 32]
    head = sum(p.numel() for p in module.bbox_head.parameters()) if hasattr(module, "bbox_head") else 0
    tables = sum(p.numel() for n, p in module.named_parameters() if n.endswith("bias_table"))
    assert sum(parameter.numel() for parameter in module.parameters()) - head - tables == PARAMETERS
