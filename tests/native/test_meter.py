from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import build_published, distance, every_published, inputs, open_golden

from tellapart_native.preprocessing.images import IMAGENET_COLOURS, crop_inputs


@pytest.mark.parametrize("name", ["meter", "meter_swin"])
def test_tokens_equal_the_authors(name: str) -> None:
    golden, _, module = open_golden(name)
    (images,), ids, there = inputs(golden)
    assert distance(module.vit_model(**images), golden.output["image_tokens"]) < 3e-5
    assert distance(module.text_transformer(ids, there)[there], golden.output["text_tokens"][there]) < 3e-5


def test_pictures_are_resized_with_their_transparency() -> None:
    golden, family, module = open_golden("meter")
    assert family.images is not None
    prepared = family.images(module)(golden.preprocess["image_rgba"].numpy())["pixel_values"]
    np.testing.assert_array_equal(prepared, golden.preprocess["pixel_values_rgba"].numpy())
    picture = golden.preprocess["image_0"].numpy()
    opaque = np.concatenate([picture, np.full_like(picture[..., :1], 255)], axis=-1)
    np.testing.assert_array_equal(
        family.images(module)(opaque)["pixel_values"], family.images(module)(picture)["pixel_values"]
    )
    np.testing.assert_array_equal(
        crop_inputs(48, IMAGENET_COLOURS)(picture)["pixel_values"], golden.preprocess["pixel_values_imagenet"].numpy()
    )


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


@every_published("meter")
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("meter", variant["keys"])
    assert (module.config.image_size, module.config.context) == (
        variant["config"]["image_size"],
        variant["config"]["max_text_len"],
    )
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[name]
    heads = {key for key in variant["needed"] if key.startswith(("itm_score", "rank_output"))}
    assert heads <= set(module.state_dict())
