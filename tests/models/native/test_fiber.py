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

from tellapart.errors import ModelError
from tellapart.models.native.bert import Pooler
from tellapart.models.native.fiber import GatedLayer
from tellapart.models.native.swin import SwinBlock

HEADS = {"num_attention_heads": 4}
BOTH = pytest.mark.parametrize("name", ["fiber", "fiber_eqsim"])


def inputs(golden: Golden) -> tuple[Any, Any, Any]:
    return {"pixel_values": golden.input["pixel_values"]}, golden.input["input_ids"], golden.input["attention_mask"]


@BOTH
def test_the_joint_path_equals_the_authors_code(name: str) -> None:
    golden = read_golden(name)
    family, module = build("fiber", golden.state, HEADS)
    check_pixels(family, module, golden)
    images, ids, mask = inputs(golden)
    halves, real = family.readings["itm"].halves(module), mask.bool()
    assert distance(halves.images(**images)[0].flatten(1, 2), golden.output["image_tokens"]) < 1e-4
    assert distance(halves.texts(ids, real)[0][real], golden.output["text_tokens"][real]) < 1e-4
    assert distance(join_all(halves, images, ids, mask), golden.output["itm_logits"]) < 1e-5
    if name == "fiber":
        rank = join_all(family.readings["rank"].halves(module), images, ids, mask)
        assert distance(rank[..., 0], golden.output["rank_output"]) < 1e-5
    else:
        assert family.readings["rank"].needs not in module.state_dict()


@BOTH
def test_the_contrastive_path_equals_the_authors_code(name: str) -> None:
    golden = read_golden(name)
    family, module = build("fiber", golden.state, HEADS)
    halves = family.readings["itc"].halves(module)
    images, ids, mask = inputs(golden)
    (image,), (text,) = halves.images(**images), halves.texts(ids, mask.bool())
    assert distance(image, golden.output["image_features"]) < 1e-5
    assert distance(text, golden.output["text_features"]) < 1e-5
    assert distance(image @ text.T, golden.output["itc_similarity"]) < 1e-5
    assert distance(join_all(halves, images, ids, mask)[..., 0], golden.output["itc_similarity"]) < 1e-5


@BOTH
@pytest.mark.parametrize("size", [96, 128])
def test_bias_tables_at_another_size_are_the_authors(name: str, size: int) -> None:
    golden = read_golden(name)
    family, _ = build("fiber", golden.state, HEADS)
    assert family.resize is not None
    tensors = family.keep(golden.state)
    resized = family.resize(tensors, size)
    table = resized["vit_model.layers.2.blocks.15.attn.relative_position_bias_table"]
    assert distance(table, golden.output[f"bias_table_at_{size}"]) < 1e-6
    _, module = build("fiber", resized, HEADS)
    assert module.config.image_size == size
    with pytest.raises(ModelError, match="--image-size 100: a Swin tower reads multiples of 32 pixels"):
        family.resize(tensors, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("vit_model.layers.2.blocks.14", "vit_model.layers.2.blocks.15"),
        ("vit_model.layers.2.blocks.5", "vit_model.layers.2.blocks.6"),
        ("vit_model.layers.3.blocks.0", "vit_model.layers.3.blocks.1"),
        ("text_transformer.encoder.layer.6", "text_transformer.encoder.layer.7"),
        ("text_transformer.encoder.layer.10", "text_transformer.encoder.layer.11"),
        ("text_transformer.encoder.layer.0", "text_transformer.encoder.layer.1"),
        ("cross_modal_text_pooler", "cross_modal_text_pooler_itc"),
        ("cross_modal_text_transform", "cross_modal_text_transform_itc"),
        ("cross_modal_image_transform", "cross_modal_image_transform_itc"),
    ],
)
def test_layers_out_of_order_are_noticed(first: str, second: str) -> None:
    golden = read_golden("fiber")
    family, module = build("fiber", golden.state, HEADS)
    shift_one(module, first, second)
    logits = join_all(family.readings["itm"].halves(module), *inputs(golden))
    assert distance(logits, golden.output["itm_logits"]) > 1e-3


@pytest.mark.parametrize("mistake", ["token", "last norm", "shift", "gate", "head", "heads"])
def test_other_mistakes_are_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = read_golden("fiber")
    family, module = build("fiber", golden.state, HEADS)
    halves = family.readings["itm"].halves(module)
    match mistake:
        case "token":
            monkeypatch.setattr(Pooler, "forward", lambda self, states: self.dense(states[:, -1]).tanh())
        case "last norm":
            fuse = GatedLayer.fuse
            monkeypatch.setattr(GatedLayer, "fuse", lambda self, *states, last: fuse(self, *states, last=False))
        case "shift":
            for block in module.modules():
                if isinstance(block, SwinBlock):
                    block.shifted = not block.shifted
        case "gate":
            module.vit_model.layers[2].blocks[16].attn.alpha_i2t.data.zero_()
        case "head":
            module.itm_score.fc.weight.data = module.itm_score.fc.weight.flip(0)
        case "heads":  # of attention
            module.text_transformer.encoder.layer[8].crossattention_t2i.self.heads = 2
    assert distance(join_all(halves, *inputs(golden)), golden.output["itm_logits"]) > 1e-3


def test_the_final_norm_is_of_the_contrastive_path_alone() -> None:
    golden = read_golden("fiber")
    family, module = build("fiber", golden.state, HEADS)
    module.vit_model.norm.weight.data += 1
    logits = join_all(family.readings["itm"].halves(module), *inputs(golden))
    assert distance(logits, golden.output["itm_logits"]) < 1e-5
    (image,) = family.readings["itc"].halves(module).images(**inputs(golden)[0])
    assert distance(image, golden.output["image_features"]) > 1e-2


#: Parameters of a scorer. With parts that nothing reads (RoBERTa's pooler, six norms, six gates), the first has the
#: 242 M of the paper: 242,651,277.
PARAMETERS = {
    "pretrain_384": 242_051_463,
    "irtr_itm_384": 242_051_463,
    "irtr_itc_576": 242_308_548,
    "vqa_576": 249_481_725,
    "nlvr2_384": 246_773_126,
    "caption_576": 283_653_661,
    "eqsim_288": 241_959_687,  # with the contrastive scale
}


@needs_golden
@pytest.mark.parametrize(
    ("name", "variant"),
    [*published("fiber"), *published("fiber_eqsim")[:1]],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("fiber", variant["keys"])
    assert module.config.image_size == variant["config"]["image_size"]
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[name]
    assert set(module.state_dict()) >= {key for key in variant["needed"] if key.startswith(("itm_score", "rank_"))}
