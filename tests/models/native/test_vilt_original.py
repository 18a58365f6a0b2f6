"""ViLT's own files against the authors' code: pictures of their own shape, both heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import Golden, build, build_published, distance, join_all, needs_golden, published, read_golden, shift_one

from tellapart.errors import ModelError
from tellapart.models.native.images import HALF_COLOURS, shorter_side
from tellapart.models.torch_backend import import_torch

torch = import_torch()

SETTINGS = {"num_heads": 2, "image_size": 64}

#: Without heads and without the types of text and image, which are three in files of NLVR2.
PARAMETERS = 111_593_472


def score(golden: Golden, module: Any, halves: Any) -> Any:
    """All pictures, each alone at its own size, with all texts: `(images, texts, classes)`."""
    rows = [
        join_all(
            halves,
            {"pixel_values": golden.input[f"pixel_values_{k}"][None]},
            golden.input["input_ids"],
            golden.input["attention_mask"],
        )
        for k in range(3)
    ]
    return torch.cat(rows)


@pytest.mark.parametrize(("reading", "output"), [("itm", "itm_logits"), ("rank", "rank_output")])
def test_equals_the_authors_code(reading: str, output: str) -> None:
    golden = read_golden("vilt")
    family, module = build("vilt_original", golden.state, SETTINGS)
    halves = family.readings[reading].halves(module)
    types = module.token_type_embeddings.weight
    for k in range(3):
        tokens, there = halves.images(golden.input[f"pixel_values_{k}"][None])
        assert distance(tokens[there] - types[1], golden.output[f"image_tokens_{k}"]) < 3e-5
    words, _ = halves.texts(golden.input["input_ids"], None)
    there = golden.input["attention_mask"].bool()
    assert distance(words[there], golden.output["text_tokens"][there]) < 3e-5
    ours = score(golden, module, halves)
    assert distance(ours, golden.output[output].reshape(ours.shape)) < 1e-5
    if reading == "itm":
        assert distance(ours.softmax(-1)[..., halves.match], golden.output["itm_probability"]) < 1e-5


def test_pixels_equal_the_authors_to_the_bit() -> None:
    golden = read_golden("vilt")
    family, module = build("vilt_original", golden.state, SETTINGS)
    assert family.images is not None
    prepare = family.images(module)
    pairs = [(f"image_{k}", golden.input[f"pixel_values_{k}"]) for k in range(3)]
    for name, expected in [*pairs, ("image_long", golden.preprocess["pixel_values_long"])]:
        prepared = prepare(golden.preprocess[name].numpy())["pixel_values"]
        np.testing.assert_array_equal(prepared, expected.numpy())


@pytest.mark.parametrize(
    ("size", "shape", "sides"),
    [
        (64, (200, 299), (64, 96)),  # 95.68, rounded before it is cut
        (384, (480, 640), (384, 512)),
        (384, (3, 900), (32, 608)),  # a strip keeps one row of patches
    ],
)
def test_sides_are_rounded_then_cut(size: int, shape: tuple[int, int], sides: tuple[int, int]) -> None:
    prepared = shorter_side(size, HALF_COLOURS)(np.zeros((*shape, 3), np.uint8))["pixel_values"]
    assert np.shape(prepared) == (3, *sides)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("transformer.blocks.0", "transformer.blocks.1"),
        ("transformer.blocks.0.norm1", "transformer.blocks.0.norm2"),
        ("transformer.norm", "text_embeddings.LayerNorm"),
    ],
)
def test_layers_out_of_order_are_noticed(first: str, second: str) -> None:
    golden = read_golden("vilt")
    family, module = build("vilt_original", golden.state, SETTINGS)
    shift_one(module, first, second)
    halves = family.readings["itm"].halves(module)
    assert distance(score(golden, module, halves), golden.output["itm_logits"]) > 1e-2


def test_types_taken_for_each_other_are_noticed() -> None:
    golden = read_golden("vilt")
    golden.state["token_type_embeddings.weight"] = golden.state["token_type_embeddings.weight"].flip(0)
    family, module = build("vilt_original", golden.state, SETTINGS)
    halves = family.readings["itm"].halves(module)
    assert distance(score(golden, module, halves), golden.output["itm_logits"]) > 1e-2


def test_a_size_that_is_none_is_refused() -> None:
    golden = read_golden("vilt")
    with pytest.raises(ModelError, match=r"its image_size is '384'; expected a picture's shorter side in pixels"):
        build("vilt_original", golden.state, {**SETTINGS, "image_size": "384"})


@needs_golden
@pytest.mark.parametrize(
    ("name", "variant"), published("vilt"), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("vilt_original", variant["keys"])
    assert (module.config.image_size, module.config.context) == (384, 40)
    heads = {"pretrain": ["itm_score.fc"], "irtr": ["itm_score.fc", "rank_output"]}.get(name, [])
    held = module.state_dict()
    assert [head for head in ("itm_score.fc", "rank_output") if f"{head}.weight" in held] == heads
    extra = sum(held[f"{head}.{part}"].numel() for head in heads for part in ("weight", "bias"))
    extra += held["token_type_embeddings.weight"].numel()
    assert sum(parameter.numel() for parameter in module.parameters()) - extra == PARAMETERS
