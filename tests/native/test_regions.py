"""UNITER, ViLBERT and 12-in-1, and VL-T5 on a detector's regions, against the authors' code."""

from __future__ import annotations

from typing import Any

import pytest
from golden import build_published, distance, every_published, inputs, open_golden, score

from tellapart.models.torch.backend import import_torch
from tellapart_native.prefix import find_family


@pytest.mark.parametrize("name", ["uniter", "uniter_pretrain", "vilbert", "vlt5"])
def test_tokens_equal_the_authors(name: str) -> None:
    golden, family, module = open_golden(name)
    (regions,), _, _ = inputs(golden)
    tokens, there = family.readings["itm"].halves(module).images(**regions)
    assert distance(tokens[there], golden.output["image_tokens"][there]) < 3e-5


def test_another_task_of_12_in_1_is_another_score() -> None:
    golden, family, module = open_golden("vilbert_multitask")
    one, other = (score(family.readings[name], module, golden) for name in ("rank", "rank_f30k"))
    assert distance(one, other) > 1e-2


@every_published("uniter", "vilbert", "vlt5")
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published(variant["family"], variant["keys"])
    assert module.config.region_width == 2048
    assert {find_family(variant["family"]).rename(key) for key in variant["needed"]} <= set(module.state_dict())


def test_vl_t5_writes_and_reads_two_pictures_as_the_authors_code() -> None:
    golden, family, module = open_golden("vlt5")
    halves = family.readings["itm"].halves(module)
    (regions,), ids, there = inputs(golden)
    torch = import_torch()
    with torch.inference_mode():
        pictures = [halves.images(**{k: v[n : n + 1] for k, v in regions.items()}, picture=n) for n in (0, 1)]
        both = tuple(
            torch.cat([a, b], dim=1).expand(len(ids), *[-1] * (a.ndim - 1)) for a, b in zip(*pictures, strict=True)
        )
        # The second picture's regions are numbered anew, from the last word.
        logits = halves.decode(ids.new_zeros((len(ids), 1)), *halves.encode_pair(both, (ids, there)))[:, 0]
        assert distance(logits, golden.output["two_pictures_first_logits"]) < 1e-5
        target = golden.input["target_ids"]
        start = torch.cat([target.new_zeros(1), target[:-1]]).expand(len(ids), -1)
        for k in range(len(regions["features"])):
            image = tuple(t[k : k + 1].expand(len(ids), *[-1] * (t.ndim - 1)) for t in halves.images(**regions))
            chances = halves.decode(start, *halves.encode_pair(image, (ids, there))).log_softmax(-1)
            ours = chances.gather(2, target.expand(len(ids), -1)[..., None])[..., 0]
            assert distance(ours, golden.output["target_log_probabilities"][k]) < 1e-5
