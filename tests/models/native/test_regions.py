"""UNITER, ViLBERT and 12-in-1 on a detector's regions, against the authors' code."""

from __future__ import annotations

from typing import Any

import pytest
from golden import Golden, build, build_published, distance, join_all, needs_golden, published, read_golden, shift_one

from tellapart.models.native_prefixes import find_native
from tellapart.models.torch_backend import import_torch

SETTINGS = {"num_attention_heads": 4, "v_num_attention_heads": 4, "bi_num_attention_heads": 4}
SETTINGS |= {"relative_attention_max_distance": 20, "true_token_id": 17, "false_token_id": 23}


def inputs(golden: Golden) -> tuple[dict[str, Any], Any, Any]:
    """Regions as a file of regions gives them: features, boxes, and which are there."""
    features = golden.input.get("region_features", golden.input.get("region_features_raw"))
    assert features is not None
    counts = golden.input.get("region_count", features.new_full((len(features),), features.shape[1]))
    mask = counts.new_tensor(list(range(features.shape[1])))[None, :] < counts[:, None]
    regions = {"features": features, "boxes": golden.input["region_boxes"], "mask": mask}
    return regions, golden.input["input_ids"], golden.input["attention_mask"]


CASES = [
    ("uniter", "uniter", "itm", "itm_logits"),
    ("uniter", "uniter", "rank", "rank_output"),
    ("uniter_pretrain", "uniter", "itm", "itm_logits"),
    ("vilbert", "vilbert", "itm", "itm_logits"),
    ("vilbert_multitask", "vilbert", "rank", "vil_logit_task7"),
    ("vilbert_multitask", "vilbert", "rank_f30k", "vil_logit_task8"),
    ("vlt5", "vlt5", "itm", "true_false_logits"),
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
    ("vlt5", "vlt5", "itm", "true_false_logits", "decoder.block.0.layer.2", "decoder.block.1.layer.2"),
    ("vlt5", "vlt5", "itm", "true_false_logits", "encoder.stack.block.0.layer.1", "encoder.stack.block.1.layer.1"),
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
    [(family, *each) for family in ("uniter", "vilbert", "vlt5") for each in published(family)],
)
def test_the_published_layout_is_whole(family_name: str, name: str, variant: dict[str, Any]) -> None:
    module = build_published(family_name, variant["keys"])
    assert module.config.region_width == 2048
    assert {find_native(family_name).rename(key) for key in variant["needed"]} <= set(module.state_dict())


def test_vl_t5_writes_and_reads_two_pictures_as_the_authors_code() -> None:
    golden = read_golden("vlt5")
    family, module = build("vlt5", golden.state, SETTINGS)
    halves = family.readings["itm"].halves(module)
    regions, ids, mask = inputs(golden)
    torch = import_torch()
    with torch.inference_mode():
        pictures = [halves.images(**{k: v[n : n + 1] for k, v in regions.items()}, picture=n) for n in (0, 1)]
        both = tuple(
            torch.cat([a, b], dim=1).expand(len(ids), *[-1] * (a.ndim - 1)) for a, b in zip(*pictures, strict=True)
        )
        # The second picture's regions are numbered anew, from the last word.
        logits = halves.decode(ids.new_zeros((len(ids), 1)), *halves.encode(both, (ids, mask.bool())))[:, 0]
        assert distance(logits, golden.output["two_pictures_first_logits"]) < 1e-5
        target = golden.input["target_ids"]
        start = torch.cat([target.new_zeros(1), target[:-1]]).expand(len(ids), -1)
        for k in range(len(regions["features"])):
            image = tuple(t[k : k + 1].expand(len(ids), *[-1] * (t.ndim - 1)) for t in halves.images(**regions))
            chances = halves.decode(start, *halves.encode(image, (ids, mask.bool()))).log_softmax(-1)
            ours = chances.gather(2, target.expand(len(ids), -1)[..., None])[..., 0]
            assert distance(ours, golden.output["target_log_probabilities"][k]) < 1e-5
