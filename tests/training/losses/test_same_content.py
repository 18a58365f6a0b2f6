"""Texts that are the same, and foils that are captions, are no negatives: by content, in every loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_batches import batch, units
from test_laws import DUAL, with_entry
from torch import Tensor

from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.captions import cs_clip, fsc_clip, negclip
from tellapart.training.losses.contrast import itc
from tellapart.training.losses.matching import hard_negatives

SURE = 100.0

#: Losses that a perfect model brings to 0: label smoothing keeps the others above it, and `clic` reads more captions.
TO_ZERO = ("itc", "negclip", "trohn-img", "tripletclip", "ce-clip", "negbench", "hardneg", "cyclip", "eqsim")


def perfect(captions: list[int], images: list[int]) -> Batch:
    """Pairs of a model that gives each of eight meanings an axis; the false caption of a pair is another pair's."""
    axes = torch.eye(8, dtype=torch.float64)
    ids, shown = torch.tensor(captions), torch.tensor(images)
    foils = torch.where(ids == ids[0], ids[-1], ids[0])
    mates = Batch(axes[foils], axes[foils], torch.tensor(SURE), shown + 100, text_ids=foils)
    return Batch(
        axes[ids],
        axes[ids],
        torch.tensor(SURE, dtype=torch.float64),
        shown,
        text_ids=ids,
        negative_texts=axes[foils][:, None],
        negative_text_ids=foils[:, None],
        bias=torch.tensor(-50.0, dtype=torch.float64),
        mates=mates,
    )


@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("name", TO_ZERO)
@pytest.mark.parametrize("captions", [[0, 1], [0, 0, 1, 1], [3, 0, 3, 5, 0, 3]], ids=str)
def test_a_perfect_model_has_no_loss(name: str, captions: list[int], chunk: int | None) -> None:
    # The first case is both halves of a 2x2 item, whose captions are each other's false ones.
    made = replace(perfect(captions, list(range(len(captions)))), chunk=chunk)
    assert DUAL[name](made)["total"] < 1e-12
    by_file = replace(made, text_ids=None, negative_text_ids=None, mates=replace(made.mates, text_ids=None))
    distinct = name in {"itc", "negbench", "hardneg", "eqsim", "cyclip"} and captions == [0, 1]
    assert (DUAL[name](by_file)["total"] > 0.1) == (not distinct)


def test_one_caption_of_four_images_leaves_nothing_to_tell_apart() -> None:
    made = Batch(torch.eye(4), torch.ones(4, 4) / 2, torch.tensor(10.0), torch.arange(4), text_ids=torch.ones(4).long())
    assert itc(made)["total"] == 0
    assert itc(replace(made, text_ids=None))["total"].item() == pytest.approx(np.log(4))


def test_a_perfect_model_has_no_loss_by_the_sigmoid_or_by_patches_and_words() -> None:
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
def test_a_text_that_is_true_of_an_image_is_no_negative(name: str, case: str, chunk: int | None) -> None:
    ids, texts = {
        "same text": ([0, 1, 2, 3, 4], [5, 6, 7, 5, 8]),
        # Row 4 shows image 0, with the text of row 3.
        "same text as another caption of the image": ([0, 1, 2, 3, 0], [5, 6, 7, 8, 8]),
        "distinct": ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9]),
    }[case]
    numbers = {
        "text_ids": torch.tensor(texts),
        "negative_text_ids": torch.arange(10).reshape(5, 2) + 100,
        "positive_text_ids": torch.arange(10).reshape(5, 2) + 200,
        "unit_ids": torch.arange(20).reshape(5, 2, 2) + 300,
    }
    low, high = (
        replace(with_entry(batch(ids=ids, chunk=chunk), value), **numbers, mates=None)
        if name not in {"trohn-img", "tripletclip"}
        else with_mate_ids(replace(with_entry(batch(ids=ids, chunk=chunk), value), **numbers))
        for value in (-5.0, 5.0)
    )
    assert (low.images @ low.texts.T != high.images @ high.texts.T).nonzero().tolist() == [[0, 3]]
    if case == "distinct":
        assert abs(DUAL[name](low)["total"] - DUAL[name](high)["total"]) > 1e-3
    else:
        assert DUAL[name](low)["total"] == DUAL[name](high)["total"]


def with_mate_ids(made: Batch) -> Batch:
    return replace(made, mates=replace(made.mates, text_ids=torch.arange(len(made.images)) + 400))


@pytest.mark.parametrize("shared", [False, True])
def test_no_text_that_is_true_of_an_image_is_a_hard_negative(shared: bool) -> None:
    for seed in range(20):
        made = replace(
            batch(seed, alike=True, step=seed), facts=None, positive_text_ids=None, unit_ids=None, mates=None
        )
        true = set(zip(made.image_ids.tolist(), made.text_ids.tolist(), strict=True))
        chosen = hard_negatives(made, 7, shared=shared)
        pairs = [(row, other) for row, others in enumerate(chosen.texts.tolist()) for other in others if other >= 0]
        assert len(pairs) > 8
        assert not {(made.image_ids[row].item(), made.text_ids[other].item()) for row, other in pairs} & true
        pairs = [(row, other) for row, others in enumerate(chosen.images.tolist()) for other in others if other >= 0]
        assert not {(made.image_ids[other].item(), made.text_ids[row].item()) for row, other in pairs} & true


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=7), st.integers(0, 9))
def test_rows_of_the_same_pair_change_the_loss_as_the_formula_says(rows: list[tuple[int, int]], seed: int) -> None:
    images, texts = units(5, 4, seed=seed), units(5, 4, seed=seed + 1)
    shown, said = (torch.tensor(side) for side in zip(*rows, strict=True))
    made = Batch(images[shown], texts[said], torch.tensor(3.0, dtype=torch.float64), shown, text_ids=said)

    def nats(row: tuple[int, int]) -> float:
        """A pair's loss: it among the rows whose text is false of its image, and whose image its text is false of."""
        image, text = row
        cells = 3.0 * images @ texts.T
        sides = [
            [cells[image, other] for _, other in rows if (image, other) not in rows],
            [cells[other, text] for other, _ in rows if (other, text) not in rows],
        ]
        true = cells[image, text]
        return float(sum(torch.stack([true, *side]).logsumexp(0) - true for side in sides)) / 2

    expected = float(np.mean([nats(row) for row in rows]))
    assert itc(made)["total"].item() == pytest.approx(expected, abs=1e-12)
    # Other numbers for the same texts, or for the same images, change nothing.
    again = replace(made, text_ids=said * 7919 - 10**15, image_ids=shown * 104729 + 3)
    assert itc(again)["total"] == itc(made)["total"]


LOSSES: dict[str, Callable[[Batch], LossParts]] = {
    "negclip": negclip,
    "ce-clip": DUAL["ce-clip"],
    "cs-clip own": lambda made: cs_clip(made, foils="own"),
    "cs-clip all": lambda made: cs_clip(made, foils="all"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_foil_that_is_a_caption_of_an_image_has_no_part_in_its_row(name: str) -> None:
    made = batch(alike=True)

    def moved(kind: str, row: int, place: int, image: int) -> Tensor:
        """How the image's gradient changes if its foil is another vector."""
        gradients = []
        for scale in (1.0, -1.0):
            foils = getattr(made, kind).clone()
            foils[(row, place) if kind == "negative_texts" else (row, place, 1)] *= scale
            images = made.images.clone().requires_grad_()
            total = LOSSES[name](replace(made, **{kind: foils}, images=images))["total"]
            gradients.append(torch.autograd.grad(total, images)[0][image])
        return (gradients[0] - gradients[1]).abs().max()

    kind = "units" if name.startswith("cs") else "negative_texts"
    ids = made.unit_ids[..., 1] if kind == "units" else made.negative_text_ids
    true = {tuple(pair) for pair in made.true_pairs().tolist()}
    seen = set()
    for row, place in np.ndindex(8, 2):
        if kind == "negative_texts" and not made.has_negative[row, place]:
            continue
        is_true = (made.image_ids[row].item(), ids[row, place].item()) in true
        seen.add(is_true)
        # CE-CLIP's threshold is fixed here, so that no row reads another's false captions but by `negclip` and `intra`.
        assert (moved(kind, row, place, row) < 1e-15) == is_true
    assert seen == {True, False}
