"""BLIP's own files against the authors' code: both first tokens, the score of their retrieval code, and the vectors."""

from __future__ import annotations

from typing import Any

import pytest
from golden import build_published, distance, every_published, inputs, open_golden, score

#: Without the positions of the image, of the base and the large size.
PARAMETERS = {False: 223_301_122, True: 445_537_794}


def test_tokens_and_vectors_equal_the_authors() -> None:
    golden, family, module = open_golden("blip")
    (images,), ids, there = inputs(golden)
    halves = family.readings["itm"].halves(module)
    assert distance(halves.images(**images)[0], golden.output["image_tokens"]) < 3e-5
    cosine = family.readings["itc"].halves(module)
    assert distance(cosine.images(**images)[0], golden.output["image_features"]) < 1e-5
    assert distance(cosine.texts(ids, there)[0], golden.output["text_features"]) < 1e-5


def test_readings_differ() -> None:
    golden, family, module = open_golden("blip")
    retrieval, enc, cls = (score(family.readings[name], module, golden) for name in ("retrieval", "itm_enc", "itm"))
    assert family.readings["retrieval"].halves(module).match is None
    assert distance(retrieval[..., 0].T, golden.output["official_score_t2i"]) < 1e-5
    assert distance(retrieval[..., 0], enc[..., 1]) > 1e-2  # without the cosine
    assert distance(enc, cls) > 1e-2


@pytest.mark.few(2)
@every_published("blip")
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("blip_original", variant["keys"])
    assert module.config.image_size == int(name.rpartition("_")[2])
    large = name.startswith("large")
    assert module.visual_encoder.blocks[0].attn.num_heads == (16 if large else 12)
    assert module.config.vocab_size == 30522  # BERT's; [DEC] and [ENC] follow
    positions = module.visual_encoder.pos_embed.numel()
    assert sum(parameter.numel() for parameter in module.parameters()) - positions == PARAMETERS[large]
