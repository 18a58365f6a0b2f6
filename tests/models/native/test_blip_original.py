"""BLIP's own files against the authors' code: both first tokens, the score of their retrieval code, and `hf:`."""

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

HEADS = {"num_attention_heads": 4, "num_heads": 2}

#: Without the positions of the image, of the base and the large size.
PARAMETERS = {False: 223_301_122, True: 445_537_794}


def inputs(golden: Golden) -> tuple[dict[str, Any], Any, Any]:
    return {"pixel_values": golden.input["pixel_values"]}, golden.input["input_ids"], golden.input["attention_mask"]


@pytest.mark.parametrize(("reading", "output"), [("itm", "itm_logits_cls"), ("itm_enc", "itm_logits_enc")])
def test_equals_the_authors_code(reading: str, output: str) -> None:
    golden = read_golden("blip")
    family, module = build("blip_original", golden.state, HEADS)
    check_pixels(family, module, golden)
    images, ids, mask = inputs(golden)
    halves = family.readings[reading].halves(module)
    assert distance(halves.images(**images)[0], golden.output["image_tokens"]) < 3e-5
    assert distance(join_all(halves, images, ids, mask), golden.output[output]) < 1e-5
    # The other first token is noticed.
    other = next(name for name in golden.output if name.startswith("itm_logits_") and name != output)
    assert distance(golden.output[output], golden.output[other]) > 1e-2


def test_the_score_of_the_authors_retrieval_code() -> None:
    golden = read_golden("blip")
    family, module = build("blip_original", golden.state, HEADS)
    halves = family.readings["retrieval"].halves(module)
    scores = join_all(halves, *inputs(golden))[..., 0]
    assert halves.match is None
    assert distance(scores, golden.output["official_score_i2t"]) < 1e-5
    assert distance(scores.T, golden.output["official_score_t2i"]) < 1e-5
    assert distance(scores, golden.output["itm_logits_enc"][..., 1]) > 1e-2  # without the cosine


def test_the_contrastive_heads_equal_the_authors() -> None:
    golden = read_golden("blip")
    family, module = build("blip_original", golden.state, HEADS)
    cosine = family.readings["itc"].halves(module)
    images, ids, mask = inputs(golden)
    one, other = cosine.images(**images)[0], cosine.texts(ids, mask.bool())[0]
    assert distance(one, golden.output["image_features"]) < 1e-5
    assert distance(other, golden.output["text_features"]) < 1e-5
    assert distance(one @ other.T, golden.output["itc_similarity"]) < 1e-5


def test_positions_at_another_size_are_the_authors() -> None:
    golden = read_golden("blip")
    family, _ = build("blip_original", golden.state, HEADS)
    assert family.resize is not None
    resized = family.resize(family.keep(golden.state), 96)["visual_encoder.pos_embed"]
    assert distance(resized, golden.output["pos_embed_at_96"]) < 1e-6


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("text_encoder.encoder.layer.0", "text_encoder.encoder.layer.1"),
        ("text_encoder.encoder.layer.2.attention", "text_encoder.encoder.layer.2.crossattention"),
        ("visual_encoder.blocks.0", "visual_encoder.blocks.1"),
    ],
)
def test_layers_out_of_order_are_noticed(first: str, second: str) -> None:
    golden = read_golden("blip")
    family, module = build("blip_original", golden.state, HEADS)
    shift_one(module, first, second)
    halves = family.readings["itm_enc"].halves(module)
    assert distance(join_all(halves, *inputs(golden)), golden.output["itm_logits_enc"]) > 1e-2


@needs_golden
@pytest.mark.parametrize(
    ("name", "variant"), published("blip"), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("blip_original", variant["keys"])
    assert module.config.image_size == int(name.rpartition("_")[2])
    large = name.startswith("large")
    assert module.visual_encoder.blocks[0].attn.num_heads == (16 if large else 12)
    assert module.config.vocab_size == 30522  # BERT's; [DEC] and [ENC] follow
    positions = module.visual_encoder.pos_embed.numel()
    assert sum(parameter.numel() for parameter in module.parameters()) - positions == PARAMETERS[large]
