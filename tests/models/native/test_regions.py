"""UNITER, ViLBERT and 12-in-1 on a detector's regions, against the authors' code."""

from __future__ import annotations

from typing import Any

import pytest
from golden import Golden, build, build_published, distance, join_all, needs_golden, published, read_golden, shift_one

SETTINGS = {"num_attention_heads": 4, "v_num_attention_heads": 4, "bi_num_attention_heads": 4}


def inputs(golden: Golden) -> tuple[dict[str, Any], Any, Any]:
    """Regions as a file of regions gives them: features, boxes, and which are there."""
    features = golden.input.get("region_features", golden.input.get("region_features_raw"))
    assert features is not None
    counts = golden.input["region_count"]
    mask = counts.new_tensor(range(features.shape[1]))[None, :] < counts[:, None]
    regions = {"features": features, "boxes": golden.input["region_boxes"], "mask": mask}
    return regions, golden.input["input_ids"], golden.input["attention_mask"]


CASES = [
    ("uniter", "uniter", "itm", "itm_logits"),
    ("uniter", "uniter", "rank", "rank_output"),
    ("uniter_pretrain", "uniter", "itm", "itm_logits"),
    ("vilbert", "vilbert", "itm", "itm_logits"),
    ("vilbert_multitask", "vilbert", "rank", "vil_logit_task7"),
    ("vilbert_multitask", "vilbert", "rank_f30k", "vil_logit_task8"),
]


@pytest.mark.parametrize(("name", "family_name", "reading", "output"), CASES)
def test_equals_the_authors_code(name: str, family_name: str, reading: str, output: str) -> None:
    golden = read_golden(name)
    family, module = build(family_name, golden.state, SETTINGS)
    halves = family.readings[reading].halves(module)
    regions, ids, mask = inputs(golden)
    if "image_tokens" in golden.output:
        tokens, there = halves.images(**regions)
        assert distance(tokens[there], golden.output["image_tokens"][there]) < 3e-5
    ours, theirs = join_all(halves, regions, ids, mask), golden.output[output]
    assert distance(ours, theirs.reshape(ours.shape)) < 1e-5


def test_the_match_of_vilbert_is_class_0() -> None:
    golden = read_golden("vilbert")
    family, module = build("vilbert", golden.state, SETTINGS)
    halves = family.readings["itm"].halves(module)
    assert halves.match == 0
    regions, ids, mask = inputs(golden)
    probabilities = join_all(halves, regions, ids, mask).softmax(-1)[..., halves.match]
    assert distance(probabilities, golden.output["itm_probability"]) < 1e-5


MISTAKES = [
    ("uniter", "uniter", "itm", "itm_logits", "uniter.encoder.layer.0", "uniter.encoder.layer.1"),
    (
        "uniter",
        "uniter",
        "itm",
        "itm_logits",
        "uniter.img_embeddings.img_layer_norm",
        "uniter.img_embeddings.pos_layer_norm",
    ),
    ("vilbert", "vilbert", "itm", "itm_logits", "bert.encoder.c_layer.0", "bert.encoder.c_layer.1"),
    ("vilbert", "vilbert", "itm", "itm_logits", "bert.encoder.v_layer.0", "bert.encoder.v_layer.1"),
    ("vilbert", "vilbert", "itm", "itm_logits", "bert.encoder.layer.2", "bert.encoder.layer.3"),
]


@pytest.mark.parametrize(("name", "family_name", "reading", "output", "first", "second"), MISTAKES)
def test_layers_out_of_order_are_noticed(
    name: str, family_name: str, reading: str, output: str, first: str, second: str
) -> None:
    golden = read_golden(name)
    family, module = build(family_name, golden.state, SETTINGS)
    shift_one(module, first, second)
    halves = family.readings[reading].halves(module)
    assert distance(join_all(halves, *inputs(golden)), golden.output[output]) > 1e-2


def test_another_task_of_12_in_1_is_another_score() -> None:
    golden = read_golden("vilbert_multitask")
    family, module = build("vilbert", golden.state, SETTINGS)
    one, other = (join_all(family.readings[name].halves(module), *inputs(golden)) for name in ("rank", "rank_f30k"))
    assert distance(one, other) > 1e-2


@needs_golden
@pytest.mark.parametrize(
    ("family_name", "name", "variant"),
    [(family, *each) for family in ("uniter", "vilbert") for each in published(family)],
)
def test_the_published_layout_is_whole(family_name: str, name: str, variant: dict[str, Any]) -> None:
    module = build_published(family_name, variant["keys"])
    assert module.config.region_width == 2048
    assert variant["needed"] <= set(module.state_dict())
