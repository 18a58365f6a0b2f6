"""What must hold of the losses whatever the numbers: gradients, symmetries, zeros, and what is never a negative."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_batches import batch, matches, reordered
from torch import Tensor

from tellapart.catalog import LOSSES
from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.captions import clic, fsc_clip
from tellapart.training.losses.contrast import itc
from tellapart.training.losses.eqsim import VARIANTS, eqsim, eqsim_itm
from tellapart.training.losses.loss import DualLoss, FusionLoss, Loss, find_loss
from tellapart.training.losses.matching import counterparts, hard_negatives

#: Losses of the catalogue, and the options of those that would show little by their defaults.
OPTIONS: dict[str, Any] = {
    "ce-clip": {"threshold": 1.0},
    "negbench": {"contrast": 0.5, "choice": 0.5},
    "hardneg": {"k": 2},
    "eqsim": {"alpha": 0.01, "k": 2},
    "eqsim-itm": {"alpha": 0.01, "k": 2},
    "eqsim-ranking": {"alpha": 0.01, "k": 2, "variant": "v2-all"},
}


def of_the_catalogue(kind: type[Loss]) -> dict[str, Callable[..., LossParts]]:
    """Every loss of a kind, so that a new one has these laws at once."""
    declared = {name: find_loss(name) for name in LOSSES}
    return {name: partial(loss, **OPTIONS.get(name, {})) for name, loss in declared.items() if isinstance(loss, kind)}


DUAL = of_the_catalogue(DualLoss) | {
    "eqsim-released": lambda made: eqsim(made, alpha=0.001, k=4, as_released=True),
    **{
        f"{variant}-{normalise}": lambda made, v=variant, n=normalise: eqsim(
            made, alpha=0.01, k=2, variant=v, normalise=n
        )
        for variant in VARIANTS
        for normalise in ("batch", "block", "none")
    },
}
#: Their draws belong to row numbers.
DRAWING = {"eqsim-released"}
#: They read false captions or mates, which no batch makes needless.
NEGATIVES_OF_THEIR_OWN = {
    name
    for name in LOSSES
    if isinstance(loss := find_loss(name), DualLoss)
    and (loss.negative_captions or loss.negative_images == "mate" or loss.units)
}

FUSION = of_the_catalogue(FusionLoss) | {
    "eqsim-itm-released": lambda made: eqsim_itm(made, alpha=0.01, as_released=True),
}


def with_learned(made: Batch, images: Tensor, texts: Tensor, scale: Tensor, bias: Tensor, false: Tensor) -> Batch:
    return replace(made, images=images, texts=texts, scale=scale, bias=bias, negative_texts=false)


@pytest.mark.slow
@pytest.mark.parametrize(("chunk", "alike"), [(None, False), (3, False), (3, True)])
@pytest.mark.parametrize("name", DUAL)
def test_the_gradient_is_the_derivative(name: str, chunk: int | None, alike: bool) -> None:
    made = batch(5, [0, 1, 2, 0, 3], scale=6.0, chunk=chunk, alike=alike)
    learned = [
        tensor.clone().requires_grad_()
        for tensor in (made.images, made.texts, made.scale, made.bias, made.negative_texts)
    ]
    assert torch.autograd.gradcheck(lambda *parts: DUAL[name](with_learned(made, *parts))["total"], learned)


@pytest.mark.parametrize("name", FUSION)
def test_the_gradient_of_a_fusion_loss_is_the_derivative(name: str) -> None:
    made = matches()
    names = ("true", "wrong_texts", "wrong_images", "counterparts")
    learned = [getattr(made, part).clone().requires_grad_() for part in names]
    assert torch.autograd.gradcheck(
        lambda *parts: FUSION[name](replace(made, **dict(zip(names, parts, strict=True))))["total"], learned
    )


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("name", DUAL)
def test_the_parts_sum_to_the_total_and_are_finite_and_not_negative(name: str, alike: bool) -> None:
    parts = DUAL[name](batch(alike=alike))
    assert all(part.ndim == 0 and math.isfinite(part) and part >= -1e-12 for part in parts.values())
    total = parts.pop("total")
    assert len(parts) >= 2
    torch.testing.assert_close(sum(parts.values()), total)


@settings(max_examples=20)
@given(st.permutations(range(8)), st.sampled_from(sorted(set(DUAL) - DRAWING)), st.integers(0, 5), st.booleans())
def test_the_order_of_the_pairs_changes_nothing(order: list[int], name: str, seed: int, alike: bool) -> None:
    made = batch(seed, alike=alike)
    parts, again = DUAL[name](made), DUAL[name](reordered(made, torch.tensor(order)))
    for part, value in parts.items():
        torch.testing.assert_close(again[part], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", DUAL)
def test_new_numbers_for_the_images_change_nothing(name: str) -> None:
    made = batch()
    renamed = replace(made, image_ids=(made.image_ids * 7919 + 13) % 104729 + 10**12)
    for part, value in DUAL[name](made).items():
        assert DUAL[name](renamed)[part] == value


@pytest.mark.parametrize("name", DUAL)
def test_numbers_of_texts_that_are_all_different_change_nothing(name: str) -> None:
    made = batch()
    numbers = torch.randperm(8 * 9 + 8, generator=torch.Generator().manual_seed(1)) * 10**12
    named = replace(
        made,
        text_ids=numbers[:8],
        negative_text_ids=numbers[8:24].reshape(8, 2),
        positive_text_ids=numbers[24:40].reshape(8, 2),
        unit_ids=numbers[40:72].reshape(8, 2, 2),
        mates=replace(made.mates, text_ids=numbers[72:]),
    )
    for part, value in DUAL[name](made).items():
        assert DUAL[name](named)[part] == value


@pytest.mark.parametrize("name", sorted(set(DUAL) - NEGATIVES_OF_THEIR_OWN))
def test_captions_of_one_image_alone_leave_nothing_to_tell_apart(name: str) -> None:
    made = replace(batch(ids=[3, 3, 3, 3]), mates=None)
    made = replace(made, images=made.images.clone().requires_grad_())
    parts = DUAL[name](made)
    matched = parts.pop("matched", torch.tensor(0.0))
    rest = parts["total"] - matched
    assert abs(rest) < 1e-12
    (gradient,) = torch.autograd.grad(rest, made.images)
    assert gradient.abs().max() < 1e-12


def with_entry(made: Batch, value: float) -> Batch:
    """The batch with another cosine of image 0 with text 3, and every other cosine across modalities as it was."""

    def wider(tensor: Tensor, row: int | None = None, entry: float = 0.0) -> Tensor:
        column = torch.zeros(*tensor.shape[:-1], 1, dtype=tensor.dtype)
        if row is not None:
            column[row] = entry
        return torch.cat([tensor, column], dim=-1)

    mates = made.mates
    assert mates is not None
    assert made.negative_texts is not None
    return replace(
        made,
        images=wider(made.images, 0, 1.0),
        texts=wider(made.texts, 3, value),
        negative_texts=wider(made.negative_texts),
        positive_texts=wider(made.positive_texts),
        units=wider(made.units),
        patches=wider(made.patches),
        words=wider(made.words),
        mates=Batch(wider(mates.images), wider(mates.texts), mates.scale, mates.image_ids),
    )


@pytest.mark.parametrize("name", DUAL)
def test_a_caption_of_the_same_image_is_no_negative(name: str) -> None:
    ids = torch.tensor([0, 1, 2, 0, 3])
    for image_ids, matters in ((ids, False), (torch.arange(5), True)):
        low, high = (with_entry(replace(batch(ids=ids.tolist()), image_ids=image_ids), value) for value in (-5.0, 5.0))
        assert (low.images @ low.texts.T != high.images @ high.texts.T).nonzero().tolist() == [[0, 3]]
        assert (abs(DUAL[name](low)["total"] - DUAL[name](high)["total"]) > 1e-3) == matters
        if not matters:
            assert DUAL[name](low)["total"] == DUAL[name](high)["total"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_caption_of_the_same_image_is_no_hard_negative(shared: bool) -> None:
    low, high = (with_entry(batch(ids=[0, 1, 2, 0, 3]), value) for value in (-5.0, 5.0))
    assert torch.equal(hard_negatives(low, 3, shared=shared).texts, hard_negatives(high, 3, shared=shared).texts)
    apart = replace(high, image_ids=torch.arange(5))
    assert hard_negatives(apart, 1, shared=shared).texts[0].item() == 3


def similar(matrix: Tensor, scale: float = 8.0) -> Batch:
    """A batch whose cosines are a given matrix."""
    n = len(matrix)
    return Batch(
        torch.eye(n, dtype=torch.float64),
        matrix.T.contiguous(),
        torch.tensor(scale, dtype=torch.float64),
        torch.arange(n),
    )


def equivariant(n: int, seed: int) -> Tensor:
    """A symmetric matrix with one value on its diagonal: Eq. 6 holds for all pairs."""
    made = torch.rand(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    made = (made + made.T) / 2
    return made.fill_diagonal_(0.9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_regularisation_is_zero_on_an_equivariant_block(variant: str, seed: int) -> None:
    for normalise in ("block", "none"):
        parts = eqsim(similar(equivariant(7, seed)), alpha=0.0, k=2, variant=variant, normalise=normalise)
        assert parts["v1"] + parts["v2"] < 1e-28
    # A softmax over the batch keeps Eq. 6 where every row has the same values: for two pairs, and on a circle of them.
    ring = equivariant(7, seed)[0]
    ring = torch.stack([ring[min(k, 7 - k)] for k in range(7)])
    circle = torch.stack([ring.roll(k) for k in range(7)])
    for matrix in (equivariant(2, seed), circle):
        parts = eqsim(similar(matrix), alpha=0.0, k=2, variant=variant)
        assert parts["v1"] + parts["v2"] < 1e-28


@pytest.mark.parametrize("normalise", ["batch", "block", "none"])
def test_v1_sees_crossed_similarities_alone_and_v2_true_ones_too(normalise: str) -> None:
    def parts(matrix: list[list[float]], variant: str) -> Tensor:
        result = eqsim(
            similar(torch.tensor(matrix, dtype=torch.float64), scale=3.0),
            alpha=0.0,
            beta=1.0,
            variant=variant,
            normalise=normalise,
        )
        return result["v1"] + result["v2"]

    crossed, true = [[0.9, 0.5], [0.1, 0.9]], [[0.9, 0.3], [0.3, 0.5]]
    assert parts(crossed, "v1-all") > 1e-3
    assert parts(crossed, "v2-all") > 1e-3
    assert parts(true, "v2-all") > 1e-3
    if normalise != "batch":
        assert parts(true, "v1-all") < 1e-28


def test_on_cosines_the_hinge_lets_a_pair_through_at_its_own_deviation() -> None:
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[0, 1] = 0.5  # deviation 0.5 in one of the six pairs, seen from both of its rows
    for alpha, expected in ((0.0, 0.25), (0.2, 0.05), (0.25, 0.0)):
        options = {"alpha": alpha, "beta": 1.0, "variant": "v1-all", "normalise": "none"}
        assert eqsim(similar(matrix), **options)["v1"].item() == pytest.approx(expected / 6)


def test_half_precision_is_compared_in_float32_under_autocast_too() -> None:
    made = replace(batch(), mates=None)
    half = {
        name: getattr(made, name).to(torch.bfloat16)
        for name in (
            *("images", "texts", "scale", "bias", "negative_texts", "positive_texts", "units", "patches", "words"),
        )
    }
    single = {name: tensor.float() for name, tensor in half.items()}
    for name, loss in DUAL.items():
        if name in {"trohn-img", "tripletclip"}:
            continue
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = loss(replace(made, **half))
        high = loss(replace(made, **single))
        assert {part.dtype for part in low.values()} == {torch.float32}
        for part, value in high.items():
            torch.testing.assert_close(low[part], value, rtol=1e-5, atol=1e-6)


def test_the_fourth_similarity_of_shared_negatives_is_another_pairs_true_logit() -> None:
    made = batch()
    result = hard_negatives(made, 2, shared=True)
    assert torch.equal(result.texts, result.images)
    true = torch.arange(8, dtype=torch.float64, requires_grad=True)
    fourth = counterparts(true, result.texts)
    assert torch.equal(fourth, result.texts.to(torch.float64))
    (gradient,) = torch.autograd.grad(fourth.sum(), true)
    assert gradient.tolist() == [(result.texts == j).sum().item() for j in range(8)]


def test_separate_negatives_are_drawn_by_each_side_and_the_hardest_are_the_most_similar() -> None:
    made = batch()
    cosines = made.images @ made.texts.T
    hidden = cosines.masked_fill(made.image_ids[:, None] == made.image_ids[None, :], -9.0)
    result = hard_negatives(made, hardest=True)
    assert torch.equal(result.texts[:, 0], hidden.argmax(1))
    assert torch.equal(result.images[:, 0], hidden.argmax(0))
    both = torch.maximum(hidden, hidden.T)
    assert torch.equal(hard_negatives(made, hardest=True, shared=True).texts[:, 0], both.argmax(1))
    drawn = {tuple(hard_negatives(replace(made, step=step)).texts[:, 0].tolist()) for step in range(20)}
    assert len(drawn) > 10
    assert hard_negatives(batch(ids=[1, 1, 2]), 3).texts.tolist()[2][2] == -1


@settings(max_examples=20)
@given(st.integers(0, 5), st.permutations(range(3)))
def test_clic_does_not_mind_which_caption_is_which_but_for_the_two_of_one_meaning(seed: int, order: list[int]) -> None:
    made = batch(seed)
    assert made.positive_texts is not None
    true = torch.cat([made.texts[:, None], made.positive_texts], dim=1)[:, order]
    parts, again = clic(made), clic(replace(made, texts=true[:, 0], positive_texts=true[:, 1:]))
    for name in ("itc", "choice"):
        torch.testing.assert_close(parts[name], again[name], rtol=1e-10, atol=1e-12)
    same = clic(replace(made, texts=true[:, 0], positive_texts=true[:, :1]))
    assert same["paraphrase"] == 0
    alone = replace(made, positive_texts=None, negative_texts=None, has_negative=None)
    assert clic(alone)["total"] == itc(alone)["total"]


@pytest.mark.slow
def test_the_gradient_by_words_and_patches_is_the_derivative_with_the_shares_held() -> None:
    made = batch(5, [0, 1, 2], scale=6.0)
    flat = torch.zeros_like(made.patches) + made.patches[:, :1]  # equal shares, whatever the words are
    learned = [made.words.clone().requires_grad_(), made.scale.clone().requires_grad_()]
    loss = lambda words, scale: fsc_clip(replace(made, patches=flat, words=words, scale=scale))["local"]  # noqa: E731
    assert torch.autograd.gradcheck(loss, learned)


@settings(max_examples=20)
@given(st.integers(0, 5), st.permutations(range(4)), st.permutations(range(3)))
def test_patches_and_words_are_sets_and_what_is_no_word_says_nothing(
    seed: int, patches: list[int], words: list[int]
) -> None:
    made = batch(seed)
    local = fsc_clip(made)["local"]
    mixed = replace(
        made,
        patches=made.patches[:, patches],
        words=made.words[:, :, words],
        real_words=made.real_words[:, :, words],
    )
    torch.testing.assert_close(fsc_clip(mixed)["local"], local, rtol=1e-10, atol=1e-12)
    noise = torch.where(made.real_words[..., None], made.words, made.words.flip(0))
    assert fsc_clip(replace(made, words=noise))["local"] == local
