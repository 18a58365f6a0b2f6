"""ViLT's own files against the authors' code: pictures of their own shape, words, and the published sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import CASES, build, build_published, distance, every_published, inputs, open_golden, read_golden

from facts import raises
from tellapart.errors import ModelError
from tellapart_native.preprocessing.images import HALF_COLOURS, shorter_side

#: Without heads and without the types of text and image, which are three in files of NLVR2.
PARAMETERS = 111_593_472


def test_tokens_equal_the_authors() -> None:
    golden, family, module = open_golden("vilt")
    halves, types = family.readings["itm"].halves(module), module.token_type_embeddings.weight
    pictures, ids, mask = inputs(golden)
    for k, picture in enumerate(pictures):
        tokens, there = halves.images(**picture)
        assert distance(tokens[there] - types[1], golden.output[f"image_tokens_{k}"]) < 3e-5
    assert distance(halves.texts(ids, None)[0][mask], golden.output["text_tokens"][mask]) < 3e-5


def test_pixels_equal_the_authors_to_the_bit() -> None:
    golden, family, module = open_golden("vilt")
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


def test_a_size_that_is_none_is_refused() -> None:
    golden = read_golden("vilt")
    with raises(ModelError, "image_size", "'384'"):
        build("vilt_original", golden.state, {**CASES["vilt"].settings, "image_size": "384"})


@every_published("vilt")
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("vilt_original", variant["keys"])
    assert (module.config.image_size, module.config.context) == (384, 40)
    heads = {"pretrain": ["itm_score.fc"], "irtr": ["itm_score.fc", "rank_output"]}.get(name, [])
    held = module.state_dict()
    assert [head for head in ("itm_score.fc", "rank_output") if f"{head}.weight" in held] == heads
    extra = sum(held[f"{head}.{part}"].numel() for head in heads for part in ("weight", "bias"))
    extra += held["token_type_embeddings.weight"].numel()
    assert sum(parameter.numel() for parameter in module.parameters()) - extra == PARAMETERS
