"""Every family against its authors' code, on state dicts of tiny width: pixels, scores, positions at another size.

One mistake at a time (the head, the order of layers, the interpolation, a special token) must move the scores away
from the authors' by far more than the tolerance; of a family of which nothing of the authors' is there, away from its
scores without the mistake. UNITER, ViLBERT and VL-T5 read regions, and so interpolate nothing; a wrong place of a
region stands there.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden as authors
import numpy as np
import pytest
import torch
from tiny_captioners import OFA_SETTINGS, bart, ofa_state
from tiny_files import cappa_shapes, draw

from facts import raises
from tellapart.errors import ModelError
from tellapart_native.family import NativeFamily
from tellapart_native.layers.swin import SwinBlock
from tellapart_native.prefix import find_family
from tellapart_native.preprocessing import HALF_COLOURS, shorter_side_inputs
from tellapart_native.vlt5 import Vlt5

RECORD = Path(__file__).parents[2] / "bench" / "records" / "native_golden.json"

#: Of scores, relative to the largest one of a file if that is above 1; every family keeps it. The files themselves
#: were computed in float32: they are up to 5e-6 from the same graph in float64, and another processor is as far on the
#: other side.
TOLERANCE = 1e-5


def tolerance(scores) -> float:
    return TOLERANCE * max(1.0, float(scores.abs().max()))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", authors.CASES)
def test_scores_equal_the_authors_code(name):
    golden, family, module = authors.open_golden(name)
    if family.images is not None:
        authors.check_pixels(family, module, golden)
    for reading, output in authors.CASES[name].scores.items():
        ours = authors.score(family.readings[reading], module, golden)
        match = family.readings[reading].halves(module).match
        assert authors.distance(ours, golden.output[output]) < tolerance(golden.output[output]), reading
        if reading == "itm" and "itm_probability" in golden.output:  # ViLBERT's match is class 0
            assert authors.distance(ours.softmax(-1)[..., match], golden.output["itm_probability"]) < TOLERANCE
        if reading == "itm" and "official_score_i2t" in golden.output and family.name != "blip_original":
            assert authors.distance(ours[..., match], golden.output["official_score_i2t"]) < TOLERANCE
    if "match_logit" in family.readings:
        logits = golden.output["itm_logits_enc" if name == "blip" else "itm_logits"]
        ours = authors.score(family.readings["match_logit"], module, golden)
        assert authors.distance(ours, logits[..., 1]) < tolerance(logits)
    if "rank" in family.readings and "rank" not in authors.CASES[name].scores:
        assert family.readings["rank"].needs not in module.state_dict()


@authors.needs_golden
def test_no_golden_file_is_left_out():
    files = {path.name.removesuffix("_tiny.safetensors") for path in authors.GOLDEN.glob("*_tiny.safetensors")}
    folders = {"clip_flant5"}  # tests/models/generative/test_clip_flan_t5.py
    assert files - set(authors.CASES) == folders


def test_the_recorded_differences_are_of_every_reading_and_within_the_tolerance():
    record = json.loads(RECORD.read_text())
    readings = {name: list(case.scores) for name, case in authors.CASES.items()} | {"lxmert_full": ["itm"]}
    assert {name: list(found) for name, found in record.items()} == readings
    assert all(0 <= number < TOLERANCE for found in record.values() for number in found.values())


TABLE = "relative_position_bias_table"
RESIZED = [(name, 96, "visual_encoder.pos_embed", "pos_embed_at_96") for name in ("albef", "albef_pretrain", "blip")]
RESIZED += [("meter", 96, "vit_model.visual.positional_embedding", "positional_embedding_at_96")]
RESIZED += [
    (name, size, f"vit_model.layers.2.blocks.{block}.attn.{TABLE}", f"bias_table_at_{size}")
    for name, block, sizes in (("meter_swin", 1, (96,)), ("fiber", 15, (96, 128)), ("fiber_eqsim", 15, (96, 128)))
    for size in sizes
]


@pytest.mark.parametrize(("name", "size", "tensor", "output"), RESIZED)
def test_positions_at_another_size_are_the_authors_and_not_the_librarys(name, size, tensor, output):
    golden, family, _ = authors.open_golden(name)
    tensors, expected = family.keep_tensors(golden.state), golden.output[output]
    assert authors.distance(family.resize(tensors, size)[tensor], expected) < 1e-6
    assert authors.distance(resize_like_timm(tensors[tensor], expected), expected) > 1e-2


@pytest.mark.parametrize(("old", "new"), [(3, 4), (7, 12), (12, 15)])
def test_x_vlms_tables_of_biases_are_the_authors_and_not_the_librarys(old, new):
    golden, family, _ = authors.open_golden("xvlm_pretrain")
    table, expected = (part[f"bias_table_window_{old}_to_{new}"] for part in (golden.input, golden.output))
    assert authors.distance(family.resize({TABLE: table}, 32 * new)[TABLE], expected) < TOLERANCE
    assert authors.distance(resize_like_timm(table, expected), expected) > 1e-2


def resize_like_timm(positions, wanted):
    """Resize with the library's function: a Swin's table of biases, or positions on a grid behind the class token."""
    from timm.layers import resample_abs_pos_embed, resize_rel_pos_bias_table

    if round(len(positions) ** 0.5) ** 2 == len(positions) > 1:
        window = round(len(wanted) ** 0.5) // 2 + 1
        with warnings.catch_warnings(action="ignore"):  # of how it indexes
            return resize_rel_pos_bias_table(positions, (window, window), wanted.shape)
    side = round((wanted.shape[-2] - 1) ** 0.5)
    return resample_abs_pos_embed(positions.reshape(1, *positions.shape[-2:]), [side, side]).reshape(wanted.shape)


#: Makes a mistake in a module, its input or, for the length of a test, in the code.
Mistake = Callable[[Any, authors.Golden, pytest.MonkeyPatch], None]


def swap(first: str, second: str) -> Mistake:
    """Two layers, norms or heads in each other's place."""
    return lambda module, golden, patch: authors.shift_one(module, first, second)


def roll(name: str) -> Mistake:
    """Each row of a tensor in the next one's place: another class, another token."""
    return lambda module, golden, patch: roll_rows(module.state_dict()[name])


def roll_rows(tensor) -> None:
    tensor.copy_(tensor.roll(1, 0))


def replace(target: str, other) -> Mistake:
    """Other code."""
    return lambda module, golden, patch: patch.setattr(target, other)


def another_first_token(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    """A text that begins with a word."""
    golden.input["input_ids"] = golden.input["input_ids"].clone()
    golden.input["input_ids"][:, 0] = 7


def places_transposed(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    """Boxes with y before x."""
    golden.input["region_boxes"] = golden.input["region_boxes"][..., [1, 0, 3, 2]]


def read_true_for_false(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    module.config.true, module.config.false = module.config.false, module.config.true


def begin_the_answer_with_a_word(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    predict = Vlt5.predict_first
    patch.setattr(Vlt5, "predict_first", lambda self, start, *source: predict(self, start + 7, *source))


def dec_for_enc(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    """BLIP's two marks behind the words."""
    roll_rows(module.text_encoder.embeddings.word_embeddings.weight[-2:])


def shift_the_other_windows(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    for block in (part for part in module.modules() if isinstance(part, SwinBlock)):
        block.shifted = not block.shifted


def close_a_gate(module, golden: authors.Golden, patch: pytest.MonkeyPatch) -> None:
    module.vit_model.layers[2].blocks[16].attn.alpha_i2t.zero_()


def bicubic(grid, size, mode: str = "", align_corners: bool = False):
    """What timm does with positions."""
    return torch.ops.aten._upsample_bicubic2d_aa(grid, list(size), False)


def not_averaged(table, size: int):
    """Linear interpolation of torch, where jax takes means."""
    return torch.nn.functional.interpolate(table.T[None], size=size, mode="linear")[0].T


_BERT, _ROBERTA, _MATCH = "text_encoder.encoder.layer", "text_transformer.encoder.layer", "itm_score.fc.weight"
_SWIN, _TOKEN = "vit_model.layers.2.blocks", {"token": another_first_token}
_PLACE = {"place": places_transposed, **_TOKEN}

#: Golden file, and the mistakes; what a mistake is about stands first.
MISTAKES: dict[str, dict[str, Mistake]] = {
    "albef": {
        "head": roll("itm_head.weight"), "order: joint": swap(f"{_BERT}.2", f"{_BERT}.3"), **_TOKEN,
        "order: attention": swap(f"{_BERT}.2.attention", f"{_BERT}.2.crossattention"),
        "order: image": swap("visual_encoder.blocks.0", "visual_encoder.blocks.1"),
    },
    "blip": {"head": roll("itm_head.weight"), "order: joint": swap(f"{_BERT}.0", f"{_BERT}.1"), "token": dec_for_enc},
    "fiber": {
        "head": roll(_MATCH), "head: pooler": swap("cross_modal_text_pooler", "cross_modal_text_pooler_itc"),
        "order: joint image": swap(f"{_SWIN}.14", f"{_SWIN}.15"), **_TOKEN,
        "order: text": swap(f"{_ROBERTA}.0", f"{_ROBERTA}.1"),
        "windows": shift_the_other_windows, "gate": close_a_gate,
    },
    "meter": {
        "head": roll(_MATCH), "order: joint text": swap("cross_modal_text_layers.0", "cross_modal_text_layers.1"),
        "order: norms": swap("vit_model.visual.ln_pre", "vit_model.visual.ln_post"),
        "token: types": roll("token_type_embeddings.weight"), **_TOKEN,
    },
    "meter_swin": {"order: image": swap(f"{_SWIN}.0", f"{_SWIN}.1")},
    "uniter": {
        "head": roll("itm_output.weight"), "order: joint": swap("uniter.encoder.layer.0", "uniter.encoder.layer.1"),
        **_PLACE,
    },
    "vilbert": {
        "head": roll("cls.bi_seq_relationship.weight"), **_PLACE,
        "order: joint": swap("bert.encoder.c_layer.0", "bert.encoder.c_layer.1"),
    },
    "vilbert_multitask": {"token: task": roll("bert.embeddings.task_embeddings.weight")},
    "vilt": {
        "head": roll(_MATCH), "order": swap("transformer.blocks.0", "transformer.blocks.1"), **_TOKEN,
        "interpolation": replace("torch.nn.functional.interpolate", bicubic),
    },
    "vlt5": {
        "head": read_true_for_false, "order: decoder": swap("decoder.block.0.layer.2", "decoder.block.1.layer.2"),
        "place": places_transposed, "token": begin_the_answer_with_a_word,
    },
    "xvlm_pretrain": {
        "head": roll("itm_head.3.weight"), "order: joint": swap(f"{_BERT}.2", f"{_BERT}.3"), **_TOKEN,
        "order: image": swap("vision_encoder.layers.2.blocks.1", "vision_encoder.layers.2.blocks.2"),
    },
    "ofa": {
        "head": roll("encoder.embed_tokens.weight"), "order: decoder": swap("decoder.layers.0", "decoder.layers.1"),
        "place": swap("encoder.token_rel_pos_table_list.0", "encoder.token_rel_pos_table_list.1"), **_TOKEN,
    },
    "cappa": {
        "head": roll("text.logits.weight"), "order: text": swap("text.blocks.0", "text.blocks.1"), **_TOKEN,
        "interpolation": replace("tellapart_native.cappa.resize_linearly", not_averaged),
    },
}  # fmt: skip


#: Families of which nothing of the authors' is there: their numbers are drawn here, with what no shape tells, and the
#: tokenizer that knows the ends of a caption.
DRAWN: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, Any], Callable[[], Any] | None]] = {
    "cappa": (lambda: draw(cappa_shapes()), {}, None),
    "ofa": (ofa_state, OFA_SETTINGS, bart),
}


def draw_golden(name: str) -> tuple[authors.Golden, NativeFamily, Any]:
    """Return a family's module, and what it makes of pictures and captions drawn here."""
    generator = torch.Generator().manual_seed(3)
    pixels, ids = torch.randn((2, 3, 48, 48), generator=generator), torch.randint(8, 20, (2, 9), generator=generator)
    held = {"pixel_values": pixels, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    make, settings, tokenizer = DRAWN[name]
    golden = authors.Golden(make(), held, {}, {}, {} if tokenizer is None else {"words": tokenizer()})
    family, module = authors.build(name, golden.state, settings)
    golden.output["likelihood"] = authors.score(family.readings["likelihood"], module, golden)
    return golden, family, module


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), [(name, what) for name, held in MISTAKES.items() for what in held])
def test_a_mistake_moves_the_scores(name, what, monkeypatch):
    golden, family, module = draw_golden(name) if name in DRAWN else authors.open_golden(name)
    scores = {"likelihood": "likelihood"} if name in DRAWN else authors.CASES[name].scores
    reading, output = next(iter(scores.items()))
    MISTAKES[name][what](module, golden, monkeypatch)
    assert authors.distance(authors.score(family.readings[reading], module, golden), golden.output[output]) > 1e-3


#: Of every published file the parameters of its scorer, and the side of its images; none of a model on regions.
#: With `temp`, ALBEF has the 210 M of VLUE's table; with parts that nothing reads, METER's and FIBER's first have the
#: 319 M and 242 M of their papers: 319,245,315 and 242,651,277.
PUBLISHED: dict[str, dict[str, tuple[int, int | None]]] = {
    "albef": {"retrieval_384": (209_560_834, 384), "pretrain_256": (209_315_074, 256)},
    "xvlm": {"retrieval_384": (213_959_546, 384), "pretrain_224": (215_014_590, 224)},
    "blip": {
        "base_retrieval_384": (223_744_258, 384), "large_retrieval_384": (446_128_642, 384),
        "base_pretrain_224": (223_452_418, 224), "large_pretrain_224": (445_739_522, 224),
    },
    "vilt": {
        "pretrain": (111_596_546, 384), "irtr": (111_597_315, 384),
        "vqa": (111_595_008, 384), "nlvr2": (111_595_776, 384),
    },
    "meter": {
        "clip16_288_pretrain": (318_653_186, 288), "clip16_224_pretrain": (318_554_882, 224),
        "clip16_384_irtr": (318_848_259, 384), "clip16_576_vqa": (326_569_785, 576),
        "clip16_288_nlvr2": (323_377_154, 288), "clip16_384_snli": (318_843_648, 384),
        "swinbase_384_pretrain": (326_918_522, 384),
    },
    "fiber": {
        "pretrain_384": (242_051_463, 384), "irtr_itm_384": (242_051_463, 384), "irtr_itc_576": (242_308_548, 576),
        "vqa_576": (249_481_725, 576), "nlvr2_384": (246_773_126, 384), "caption_576": (283_653_661, 576),
    },
    # With the contrastive scale; the copy of the pre-trained file has no head of retrieval.
    "fiber_eqsim": {"eqsim_288": (241_959_687, 288), "pretrain_384": (242_049_927, 384)},
    "uniter": {
        "base_pretrain": (109_896_194, None), "base_retrieval": (109_896_963, None),
        "large_pretrain": (335_693_826, None), "large_retrieval": (335_694_851, None),
    },
    "vilbert": {"pretrained": (235_707_906, None), "multi_task": (235_724_291, None)},
    "vlt5": {"base": (224_540_160, None)},
}  # fmt: skip


@authors.every_published(*PUBLISHED)
def test_a_published_layout_is_whole(name, variant):
    family = variant["family"]
    reader = authors.CASES[family].family
    module = authors.build_published(reader, variant["keys"])
    parameters, side = PUBLISHED[family][name]
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    if side is None:
        assert module.config.region_width == 2048
        assert {find_family(family).rename(key) for key in variant["needed"]} <= set(module.state_dict())
    else:
        assert module.config.image_size == side
    if family == "xvlm":
        assert [stage.blocks[0].attn.heads for stage in module.vision_encoder.layers] == [4, 8, 16, 32]
    if family == "blip":
        assert module.visual_encoder.blocks[0].attn.num_heads == (16 if name.startswith("large") else 12)
        assert module.config.vocab_size == 30522  # BERT's; [DEC] and [ENC] follow
    if family in ("vilt", "meter"):
        assert module.config.context == variant["config"].get("max_text_len", 40)


def test_lost_and_strange_tensors_unknown_heads_and_sizes_that_are_none_are_named():
    golden = authors.read_golden("albef")
    del golden.state["itm_head.bias"]
    golden.state["vision_head.weight"] = golden.state["itm_head.weight"]
    with raises(ModelError, "1", "itm_head.bias", "1", "vision_head.weight"):
        authors.build("albef", golden.state, authors.CASES["albef"].settings)
    with raises(ModelError, "32", "num_heads", "config.json"):
        authors.build("albef", authors.read_golden("albef").state, {})
    sizes = {**authors.CASES["vilt"].settings, "image_size": "384"}
    with raises(ModelError, "image_size", "'384'"):
        authors.build("vilt_original", authors.read_golden("vilt").state, sizes)


def test_sides_are_rounded_then_cut():
    """95.68 is rounded before it is cut; a strip keeps one row of patches."""
    sides = {(64, 200, 299): (64, 96), (384, 480, 640): (384, 512), (384, 3, 900): (32, 608)}
    prepared = {
        (size, *shape): shorter_side_inputs(size, HALF_COLOURS)(np.zeros((*shape, 3), np.uint8))["pixel_values"]
        for size, *shape in sides
    }
    assert {asked: np.shape(pixels)[1:] for asked, pixels in prepared.items()} == sides
