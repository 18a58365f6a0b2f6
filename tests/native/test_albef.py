from __future__ import annotations

from typing import Any

import pytest
from golden import CASES, build, build_published, distance, every_published, inputs, open_golden, read_golden

from facts import raises
from tellapart.errors import ModelError


@pytest.mark.parametrize("name", ["albef", "albef_pretrain"])
def test_tokens_equal_the_authors(name: str) -> None:
    golden, family, module = open_golden(name)
    (images,), ids, there = inputs(golden)
    halves = family.readings["itm"].halves(module)
    assert distance(halves.images(**images)[0], golden.output["image_tokens"]) < 3e-5
    assert distance(halves.texts(ids, there)[0][there], golden.output["text_tokens"][there]) < 3e-5


@every_published("albef")
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
    with raises(ModelError, "1", "itm_head.bias", "1", "vision_head.weight"):
        build("albef", golden.state, CASES["albef"].settings)


def test_heads_are_never_guessed() -> None:
    golden = read_golden("albef")
    with raises(ModelError, "32", "num_heads", "config.json"):
        build("albef", golden.state, {})
