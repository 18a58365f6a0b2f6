from __future__ import annotations

from typing import Any

import pytest
from golden import build, build_published, distance, every_published, inputs, open_golden, score

from facts import raises
from tellapart.errors import ModelError

BOTH = pytest.mark.parametrize("name", ["fiber", "fiber_eqsim"])


@pytest.mark.slow
@BOTH
def test_tokens_and_vectors_equal_the_authors(name: str) -> None:
    golden, family, module = open_golden(name)
    (images,), ids, there = inputs(golden)
    halves = family.readings["itm"].halves(module)
    assert distance(halves.images(**images)[0].flatten(1, 2), golden.output["image_tokens"]) < 1e-4
    assert distance(halves.texts(ids, there)[0][there], golden.output["text_tokens"][there]) < 1e-4
    cosine = family.readings["itc"].halves(module)
    one, other = cosine.images(**images), cosine.texts(ids, there)
    assert distance(one[0], golden.output["image_features"]) < 1e-5
    assert distance(other[0], golden.output["text_features"]) < 1e-5
    assert distance(cosine.join(one, other)[:, 0], golden.output["itc_similarity"].diagonal()) < 1e-5


def test_a_file_is_opened_at_another_size() -> None:
    size = 96
    golden, family, _ = open_golden("fiber")
    assert family.resize is not None
    tensors = family.keep_tensors(golden.state)
    _, module = build("fiber", family.resize(tensors, size), {"num_attention_heads": 4})
    assert module.config.image_size == size
    with raises(ModelError, "image_size=", "100", "Swin", "32"):
        family.resize(tensors, 100)


@pytest.mark.slow
def test_the_final_norm_is_of_the_contrastive_path_alone() -> None:
    golden, family, module = open_golden("fiber")
    module.vit_model.norm.weight.data += 1
    assert distance(score(family.readings["itm"], module, golden), golden.output["itm_logits"]) < 1e-5
    assert distance(score(family.readings["itc"], module, golden), golden.output["itc_similarity"]) > 1e-2


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


@every_published("fiber", "fiber_eqsim")
def test_the_published_layout_is_whole(name: str, variant: dict[str, Any]) -> None:
    module = build_published("fiber", variant["keys"])
    assert module.config.image_size == variant["config"]["image_size"]
    # EqSim's copy of the pre-trained file has the contrastive scale, and no head of retrieval.
    less = 1536 if (variant["family"], name) == ("fiber_eqsim", "pretrain_384") else 0
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[name] - less
    assert set(module.state_dict()) >= {key for key in variant["needed"] if key.startswith(("itm_score", "rank_"))}
