"""X-VLM against the authors' code: tokens of Swin and of BERT, and the published sizes."""

from __future__ import annotations

from typing import Any

import pytest
from golden import build_published, distance, every_published, inputs, open_golden

#: Without tables of biases, which follow the window, and without the head of boxes: the same in every file.
PARAMETERS = 213_760_642


@pytest.mark.parametrize("name", ["xvlm", "xvlm_pretrain"])
def test_tokens_equal_the_authors(name: str) -> None:
    golden, family, module = open_golden(name)
    (images,), ids, there = inputs(golden)
    halves = family.readings["itm"].halves(module)
    assert distance(halves.images(**images)[0], golden.output["image_tokens"]) < 3e-5
    assert distance(halves.texts(ids, there)[0][there], golden.output["text_tokens"][there]) < 3e-5


@every_published("xvlm")
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("xvlm", variant["keys"])
    assert module.config.image_size == int(name.rpartition("_")[2])
    assert module.config.to_dict()["num_attention_heads"] == 12
    assert [stage.blocks[0].attn.heads for stage in module.vision_encoder.layers] == [4, 8, 16, 32]
    head = sum(p.numel() for p in module.bbox_head.parameters()) if hasattr(module, "bbox_head") else 0
    tables = sum(p.numel() for n, p in module.named_parameters() if n.endswith("bias_table"))
    assert sum(parameter.numel() for parameter in module.parameters()) - head - tables == PARAMETERS
