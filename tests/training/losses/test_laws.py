"""What must hold of the losses whatever the numbers: gradients, symmetries, zeros, and what is never a negative."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_batches import batch, matches, of_the_catalogue, reordered
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tellapart.catalog import LOSSES
from tellapart.training.losses.contrast import clic, fsc_clip, fsc_global, itc
from tellapart.training.losses.eqsim import VARIANTS, eqsim, eqsim_itm
from tellapart.training.losses.loss import (
    Batch,
    DualLoss,
    FusionLoss,
    LossParts,
    draw,
    find_loss,
    gather,
    hard_negatives,
)

#: A fixed threshold has the derivative; that of the batch is held.
DUAL = of_the_catalogue(DualLoss, **{"ce-clip": {"threshold": 1.0}}) | {
    "eqsim-released": partial(eqsim, alpha=0.001, k=4, as_released=True),
    **{
        f"{variant}-{normalise}": partial(eqsim, alpha=0.01, k=2, variant=variant, normalise=normalise)
        for variant, normalise in product(VARIANTS, ("batch", "block", "none"))
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
FUSION = of_the_catalogue(FusionLoss) | {"eqsim-itm-released": partial(eqsim_itm, alpha=0.01, as_released=True)}


def check_gradient(loss: Callable[..., LossParts], made: Any, names: tuple[str, ...], part="total", **how) -> None:
    """The gradient of a part of a loss is its derivative by these tensors of a batch."""
    learned = [getattr(made, name).clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(
        lambda *tensors: loss(replace(made, **dict(zip(names, tensors, strict=True))))[part], learned, **how
    )


@pytest.mark.slow
@pytest.mark.parametrize(("chunk", "alike"), [(None, False), (3, True)])
@pytest.mark.parametrize("name", DUAL)
def test_the_gradient_is_the_derivative(name, chunk, alike):
    made = batch(5, [0, 1, 2, 0, 3], scale=6.0, chunk=chunk, alike=alike)
    check_gradient(DUAL[name], made, ("images", "texts", "scale", "bias", "negative_texts"), fast_mode=True)


@pytest.mark.parametrize("name", FUSION)
def test_the_gradient_of_a_fusion_loss_is_the_derivative(name):
    check_gradient(FUSION[name], matches(), ("true", "wrong_texts", "wrong_images", "counterparts"))


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("name", DUAL)
def test_the_parts_sum_to_the_total_and_are_finite_and_not_negative(name, alike):
    parts = DUAL[name](batch(alike=alike))
    assert all(part.ndim == 0 and math.isfinite(part) and part >= -1e-12 for part in parts.values())
    total = parts.pop("total")
    assert len(parts) >= 2
    torch.testing.assert_close(sum(parts.values()), total)


@settings(max_examples=20)
@given(st.permutations(range(8)), st.sampled_from(sorted(set(DUAL) - DRAWING)), st.integers(0, 5), st.booleans())
def test_the_order_of_the_pairs_changes_nothing(order, name, seed, alike):
    made = batch(seed, alike=alike)
    parts, again = DUAL[name](made), DUAL[name](reordered(made, torch.tensor(order)))
    for part, value in parts.items():
        torch.testing.assert_close(again[part], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", DUAL)
def test_new_numbers_for_the_images_change_nothing(name):
    made = batch()
    renamed = replace(made, image_ids=(made.image_ids * 7919 + 13) % 104729 + 10**12)
    for part, value in DUAL[name](made).items():
        assert DUAL[name](renamed)[part] == value


@pytest.mark.parametrize("name", DUAL)
def test_numbers_of_texts_that_are_all_different_change_nothing(name):
    made = batch()
    numbers = torch.randperm(8 * 9 + 8, generator=torch.Generator().manual_seed(1)) * 10**12
    named = replace(
        made, text_ids=numbers[:8], negative_text_ids=numbers[8:24].reshape(8, 2),
        positive_text_ids=numbers[24:40].reshape(8, 2), unit_ids=numbers[40:72].reshape(8, 2, 2),
        mates=replace(made.mates, text_ids=numbers[72:]),
    )  # fmt: skip
    for part, value in DUAL[name](made).items():
        assert DUAL[name](named)[part] == value


@pytest.mark.parametrize("name", sorted(set(DUAL) - NEGATIVES_OF_THEIR_OWN))
def test_captions_of_one_image_alone_leave_nothing_to_tell_apart(name):
    made = replace(batch(ids=[3, 3, 3, 3]), mates=None)
    made = replace(made, images=made.images.clone().requires_grad_())
    parts = DUAL[name](made)
    rest = parts["total"] - parts.pop("matched", torch.tensor(0.0))
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

    mates, others = made.mates, ("negative_texts", "positive_texts", "units", "patches", "words")
    changed = {name: wider(getattr(made, name)) for name in others}
    changed |= {"images": wider(made.images, 0, 1.0), "texts": wider(made.texts, 3, value)}
    mates = Batch(wider(mates.images), wider(mates.texts), mates.scale, mates.image_ids)
    return replace(made, mates=mates, **changed)


def similar(matrix: Tensor, scale: float = 8.0) -> Batch:
    """A batch whose cosines are a given matrix."""
    n, tensor = len(matrix), torch.tensor(scale, dtype=torch.float64)
    return Batch(torch.eye(n, dtype=torch.float64), matrix.T.contiguous(), tensor, torch.arange(n))


def equivariant(n: int, seed: int) -> Tensor:
    """A symmetric matrix with one value on its diagonal: Eq. 6 holds for all pairs."""
    made = torch.rand(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    made = (made + made.T) / 2
    return made.fill_diagonal_(0.9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_regularisation_is_zero_on_an_equivariant_block(variant, seed):
    for normalise in ("block", "none"):
        parts = eqsim(similar(equivariant(7, seed)), alpha=0.0, k=2, variant=variant, normalise=normalise)
        assert parts["v1"] + parts["v2"] < 1e-28
    # A softmax over the batch keeps Eq. 6 where every row has the same values: for two pairs, and on a circle of them.
    ring = equivariant(7, seed)[0]
    ring = torch.stack([ring[min(k, 7 - k)] for k in range(7)])
    for matrix in (equivariant(2, seed), torch.stack([ring.roll(k) for k in range(7)])):
        parts = eqsim(similar(matrix), alpha=0.0, k=2, variant=variant)
        assert parts["v1"] + parts["v2"] < 1e-28


def test_half_precision_is_compared_in_float32_under_autocast_too():
    made = replace(batch(), mates=None)
    names = ("images", "texts", "scale", "bias", "negative_texts", "positive_texts", "units", "patches", "words")
    half = {name: getattr(made, name).to(torch.bfloat16) for name in names}
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


def test_the_fourth_similarity_of_shared_negatives_is_another_pairs_true_logit():
    result = hard_negatives(batch(), 2, shared=True)
    assert torch.equal(result.texts, result.images)
    true = torch.arange(8, dtype=torch.float64, requires_grad=True)
    fourth = gather(true)[result.texts.clamp(min=0)]
    assert torch.equal(fourth, result.texts.to(torch.float64))
    (gradient,) = torch.autograd.grad(fourth.sum(), true)
    assert gradient.tolist() == [(result.texts == j).sum().item() for j in range(8)]


def test_separate_negatives_are_drawn_by_each_side_and_the_hardest_are_the_most_similar():
    made = batch()
    hidden = (made.images @ made.texts.T).masked_fill(made.image_ids[:, None] == made.image_ids[None, :], -9.0)
    result = hard_negatives(made, hardest=True)
    assert torch.equal(result.texts[:, 0], hidden.argmax(1))
    assert torch.equal(result.images[:, 0], hidden.argmax(0))
    both = torch.maximum(hidden, hidden.T)
    assert torch.equal(hard_negatives(made, hardest=True, shared=True).texts[:, 0], both.argmax(1))
    drawn = {tuple(hard_negatives(replace(made, step=step)).texts[:, 0].tolist()) for step in range(20)}
    assert len(drawn) > 10
    assert hard_negatives(batch(ids=[1, 1, 2]), 3).texts.tolist()[2][2] == -1


def test_clic_of_plain_pictures_is_plain_contrast():
    alone = replace(batch(), positive_texts=None, negative_texts=None, has_negative=None)
    assert clic(alone)["total"] == itc(alone)["total"]


@pytest.mark.parametrize(("gamma", "scale"), [(1.5, 8.0), (2.0, 100.0)])
def test_a_missing_caption_leaves_the_gradient_finite_if_all_others_are_far_from_the_image(gamma, scale):
    made = batch(scale=scale)
    images = made.images.float().requires_grad_()
    texts, false = -made.images.float(), -made.images.float()[:, None].expand(-1, 2, -1)
    far = Batch(images, texts, made.scale, made.image_ids, negative_texts=false, has_negative=made.has_negative)
    (gradient,) = torch.autograd.grad(fsc_global(far, gamma=gamma)["total"], images)
    assert gradient.isfinite().all()


@pytest.mark.slow
def test_the_gradient_by_words_and_patches_is_the_derivative_with_the_shares_held():
    made = batch(5, [0, 1, 2], scale=6.0)
    flat = torch.zeros_like(made.patches) + made.patches[:, :1]  # equal shares, whatever the words are
    check_gradient(fsc_clip, replace(made, patches=flat), ("words", "scale"), "local")


def test_pairs_of_draws_have_the_probabilities_of_drawing_without_replacement():
    logits, times = torch.tensor([0.0, 1.0, -0.5, -torch.inf, 2.0]), 40000
    drawn = draw(logits.expand(times, 5), 2, 11, torch.arange(times))
    p, seen = logits.softmax(0).tolist(), 0
    for first, second in permutations((0, 1, 2, 4), 2):
        expected = p[first] * p[second] / (1 - p[first])
        count = ((drawn[:, 0] == first) & (drawn[:, 1] == second)).sum().item()
        assert count / times == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / times))
        seen += count
    assert seen == times


pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("ranks_program.py")


def run(out: Path, ranks: int) -> list[dict[str, Any]]:
    started, base = [], {**os.environ, "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    for rank in range(ranks):
        how = {"env": base | {"RANK": str(rank)}, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, str(PROGRAM), str(out)], **how))
    errors = [process.communicate(timeout=600)[1] for process in started]
    assert [process.returncode for process in started] == [0] * ranks, "\n".join(errors)
    return [torch.load(f"{out}.{rank}", weights_only=True) for rank in range(ranks)]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return run(folder / "one", 1)[0], run(folder / "two", 2)


def test_two_ranks_compute_what_one_computes(result):
    one, two = result
    assert len(one) > 30
    for name, expected in one.items():
        assert expected["gradient 0"].abs().max() > 1e-4, name
        assert torch.equal(two[0][name]["total"], two[1][name]["total"]), name
        for rank in two:
            assert list(rank[name]) == list(expected)
            for part, value in expected.items():
                torch.testing.assert_close(
                    rank[name][part], value, rtol=1e-9, atol=1e-12, msg=lambda text, w=f"{name}, {part}": f"{w}: {text}"
                )
    for name in ("eqsim None", "released None", "eqsim-itm"):
        assert one[name]["v1"] + one[name]["v2"] > 1e-6, name
    assert all(rank["refused"]["itc"].item() for rank in two)  # of unequal numbers of pairs


class Largest(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.untyped_storage().nbytes() // leaf.element_size())
        return made


N, CHUNK = 96, 4


def used(loss: Callable[[Batch], LossParts], chunk: int | None, alike: bool) -> tuple[int, int]:
    """Elements of the largest tensor, and of all that is saved between the forward and the backward pass."""
    made = batch(ids=list(range(N)), chunk=chunk, alike=alike)
    for tensor in [made.images, made.texts, made.negative_texts, made.mates.images, made.mates.texts]:
        tensor.requires_grad_()
    saved = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with Largest() as largest:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            total = loss(made)["total"]
        total.backward()
    assert made.images.grad is not None
    return largest.elements, sum(saved.values())


@pytest.mark.few(2)
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("name", [*sorted({*LOSSES} & {*DUAL} - {"fsc-clip", "clic"}), "eqsim-block", "eqsim-released"])
def test_no_tensor_is_larger_than_a_chunk_of_rows(name, alike):
    # Columns: the pairs; with false captions two more each; with mates twice the pairs and as many rows.
    columns = dict.fromkeys(("negclip", "ce-clip", "cs-clip"), 2 * N + 1)
    columns = (columns | dict.fromkeys(("trohn-img", "tripletclip"), 2 * N)).get(name, N + 1)
    kept = 8 * N * 20  # a few values a row: inputs of 5 dimensions, normalisers, neighbours
    largest, saved = used(DUAL[name], CHUNK, alike)
    # Or the two units of each pair and their foils, or the ids of each image with its true texts, of both sides.
    assert largest <= max(CHUNK * columns, 4 * N * 5, 2 * 11 * N * alike)
    assert saved <= kept
    whole_largest, whole_saved = used(DUAL[name], None, alike)
    assert whole_largest >= N * N
    assert whole_saved >= 2 * N * N > 2 * largest


def test_hard_negatives_are_found_in_chunks_too():
    made = batch(ids=list(range(N)), chunk=CHUNK)
    with Largest() as largest:
        hard_negatives(made, 2)
    assert largest.elements <= max(CHUNK * N, 2 * N * 5)


SURE = 100.0
#: Losses that a perfect model brings to 0: label smoothing keeps the others above it, and `clic` reads more captions.
TO_ZERO = ("itc", "negclip", "trohn-img", "tripletclip", "ce-clip", "negbench", "hardneg", "cyclip", "eqsim")


def perfect(captions: list[int], images: list[int]) -> Batch:
    """Pairs of a model that gives each of eight meanings an axis; the false caption of a pair is another pair's."""
    axes = torch.eye(8, dtype=torch.float64)
    ids, shown = torch.tensor(captions), torch.tensor(images)
    foils = torch.where(ids == ids[0], ids[-1], ids[0])
    mates = Batch(axes[foils], axes[foils], torch.tensor(SURE), shown + 100, text_ids=foils)
    scale, bias = (torch.tensor(value, dtype=torch.float64) for value in (SURE, -50.0))
    false = {"negative_texts": axes[foils][:, None], "negative_text_ids": foils[:, None]}
    return Batch(axes[ids], axes[ids], scale, shown, text_ids=ids, bias=bias, mates=mates, **false)


@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("name", TO_ZERO)
@pytest.mark.parametrize("captions", [[0, 1], [0, 0, 1, 1], [3, 0, 3, 5, 0, 3]], ids=str)
def test_a_perfect_model_has_no_loss(name, captions, chunk):
    # The first case is both halves of a 2x2 item, whose captions are each other's false ones.
    made = replace(perfect(captions, list(range(len(captions)))), chunk=chunk)
    assert DUAL[name](made)["total"] < 1e-12
    by_file = replace(made, text_ids=None, negative_text_ids=None, mates=replace(made.mates, text_ids=None))
    distinct = name in {"itc", "negbench", "hardneg", "eqsim", "cyclip"} and captions == [0, 1]
    assert (DUAL[name](by_file)["total"] > 0.1) == (not distinct)


def test_a_perfect_model_has_no_loss_by_the_sigmoid_or_by_patches_and_words():
    made = perfect([0, 1, 0, 1], [0, 1, 2, 3])
    assert DUAL["siglip"](made)["total"] < 1e-12
    words = torch.stack([made.texts, made.negative_texts[:, 0]], dim=1)[:, :, None]
    local = replace(made, patches=made.images[:, None], words=words, real_words=torch.ones(4, 2, 1, dtype=torch.bool))
    # A false caption that is true of the image is none of its choices: of the first, here.
    true = replace(local, negative_text_ids=torch.tensor([[0], [0], [1], [0]]))
    assert fsc_clip(replace(true, negative_text_ids=true.text_ids[:, None]))["local"] == 0
    some = fsc_clip(true)
    without = fsc_clip(replace(true, has_negative=torch.tensor([[False], [True], [True], [True]])))
    assert some["local"] == without["local"] and some["choice"] == without["choice"]


@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("name", DUAL)
@pytest.mark.parametrize("case", ["same text", "same text as another caption of the image", "distinct"])
def test_a_text_that_is_true_of_an_image_is_no_negative(name, case, chunk):
    ids, texts = {
        "same text": ([0, 1, 2, 3, 4], [5, 6, 7, 5, 8]),
        # Row 4 shows image 0, with the text of row 3.
        "same text as another caption of the image": ([0, 1, 2, 3, 0], [5, 6, 7, 8, 8]),
        "distinct": ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9]),
    }[case]
    pairs, units = torch.arange(10).reshape(5, 2), torch.arange(20).reshape(5, 2, 2)
    numbers = {"text_ids": torch.tensor(texts), "negative_text_ids": pairs + 100, "positive_text_ids": pairs + 200}
    numbers |= {"unit_ids": units + 300}
    low, high = (replace(with_entry(batch(ids=ids, chunk=chunk), value), **numbers) for value in (-5.0, 5.0))
    mates = replace(low.mates, text_ids=torch.arange(5) + 400) if name in {"trohn-img", "tripletclip"} else None
    low, high = replace(low, mates=mates), replace(high, mates=mates)
    assert (low.images @ low.texts.T != high.images @ high.texts.T).nonzero().tolist() == [[0, 3]]
    if case == "distinct":
        assert abs(DUAL[name](low)["total"] - DUAL[name](high)["total"]) > 1e-3
    else:
        assert DUAL[name](low)["total"] == DUAL[name](high)["total"]


@pytest.mark.parametrize("shared", [False, True])
def test_no_text_that_is_true_of_an_image_is_a_hard_negative(shared):
    for seed in range(20):
        unnamed = dict.fromkeys(("facts", "positive_text_ids", "unit_ids", "mates"))
        made = replace(batch(seed, alike=True, step=seed), **unnamed)
        true = set(zip(made.image_ids.tolist(), made.text_ids.tolist(), strict=True))
        chosen = hard_negatives(made, 7, shared=shared)
        pairs = [(row, other) for row, others in enumerate(chosen.texts.tolist()) for other in others if other >= 0]
        assert len(pairs) > 8
        assert not {(made.image_ids[row].item(), made.text_ids[other].item()) for row, other in pairs} & true
        pairs = [(row, other) for row, others in enumerate(chosen.images.tolist()) for other in others if other >= 0]
        assert not {(made.image_ids[other].item(), made.text_ids[row].item()) for row, other in pairs} & true
