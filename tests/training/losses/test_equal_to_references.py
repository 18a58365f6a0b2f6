"""Every loss equals its own reference in float64 numpy, part by part."""

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
import reference_losses as reference
import torch
from made_batches import IDS, batch, matches
from torch import Tensor

from tellapart.training.losses.contrast import (
    ce_clip,
    clic,
    cs_clip,
    cyclip,
    fsc_clip,
    fsc_global,
    hardneg,
    itc,
    negbench,
    negclip,
    siglip,
    tripletclip,
    trohn_img,
)
from tellapart.training.losses.eqsim import (
    VARIANTS,
    Normalisation,
    drawn_negatives,
    eqsim,
    eqsim_itm,
    eqsim_ranking,
    itm,
    ranking,
)
from tellapart.training.losses.loss import Batch, LossParts, gather_pairs

CHUNKS = [None, 1, 3, 8, 99]
IDS_OF_EACH = [IDS, list(range(7)), [0, 0, 0, 1]]


def assert_equal(parts: LossParts, expected: dict[str, float]) -> None:
    assert list(parts) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(parts[name].item(), value, rtol=1e-11, atol=1e-13, err_msg=name)


def foils_of(made: Batch) -> np.ndarray:
    """Which false captions of all images are candidates of each."""
    count = made.negative_texts[..., 0].numel()
    there = np.ones(count, bool) if made.has_negative is None else made.has_negative.flatten().numpy()
    texts = made.negative_text_ids
    return there & ~true_of(made, torch.zeros(count) if texts is None else texts)


def logits(made: Batch) -> np.ndarray:
    return (made.scale * made.images @ made.texts.T).numpy()


def same(made: Batch) -> np.ndarray:
    return true_of(made, made.text_ids)


def true_of(made: Batch, texts: Tensor | None, images: Tensor | None = None, facts: set[Any] | None = None):
    """Which texts are true of each image: those that some pair joins with it, one by one."""
    images = made.image_ids if images is None else images
    if made.text_ids is None:  # no two texts are the same: one is true of its pair's image, a foil of none
        each = made.image_ids.tolist() if texts is None else [None] * len(texts)
        return np.array([[one == image for one in each] for image in images.tolist()])
    facts = facts_of(made) if facts is None else facts
    return np.array([[(image, text) in facts for text in texts.flatten().tolist()] for image in images.tolist()])


def facts_of(made: Batch) -> set[tuple[int, int]]:
    facts = set()
    for pairs in (made, made.mates):
        for row, image in enumerate(pairs.image_ids.tolist()):
            facts.add((image, pairs.text_ids[row].item()))
            facts |= {(image, text) for text in made.positive_text_ids[row].tolist() if pairs is made}
            facts |= {(image, text) for text in made.unit_ids[row, :, 0].tolist() if pairs is made}
    return facts


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("ids", IDS_OF_EACH, ids=str)
@pytest.mark.parametrize("seed", [0, 10])
def test_the_losses_of_dual_encoders(seed, ids, chunk, alike):
    made = batch(seed, ids, chunk=chunk, alike=alike)
    L, alike = logits(made), same(made)
    # Of two texts and images, one cell alone may be true.
    assert (alike != alike.T).any() == (made.text_ids is not None)
    images, texts, scale = made.images.numpy(), made.texts.numpy(), made.scale.item()
    assert_equal(itc(made), reference.itc(L, alike))
    assert_equal(siglip(made), reference.siglip(L - 3.0, alike))
    N = scale * images @ made.negative_texts.flatten(0, 1).numpy().T
    assert_equal(negclip(made), reference.negclip(L, N, foils_of(made), alike))
    for k, weight in ((1, 1.0), (3, 0.5), (50, 2.0)):
        assert_equal(hardneg(made, k=k, weight=weight), reference.hardneg(L, alike, k, weight))
    for cross, within in ((0.25, 0.25), (0.5, 0.0)):
        expected = reference.cyclip(images, texts, scale, alike, cross, within)
        assert_equal(cyclip(made, cross=cross, within=within), expected)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("ids", IDS_OF_EACH, ids=str)
@pytest.mark.parametrize("present", ["some", "none of the first", "all"])
def test_the_losses_of_an_images_own_captions(present, ids, chunk, alike):
    made = batch(3, ids, chunk=chunk, alike=alike)
    there = made.has_negative.numpy().copy()
    if present == "all":
        made, there = replace(made, has_negative=None), np.ones_like(there)
    elif present != "some":
        there[0] = False
        made = replace(made, has_negative=torch.tensor(there))
    L, true, scale = logits(made), same(made), made.scale.item()
    columns, n = foils_of(made), len(ids)
    there = np.stack([columns[i].reshape(there.shape)[i] for i in range(n)])
    false = scale * np.einsum("bd,bfd->bf", made.images.numpy(), made.negative_texts.numpy())
    foils = made.negative_texts.flatten(0, 1).numpy().T
    N, T = scale * made.images.numpy() @ foils, scale * made.texts.numpy() @ foils
    for contrast, choice in ((0.99, 0.01), (0.0, 1.0)):
        expected = reference.negbench(L, false, there, true, contrast, choice)
        assert_equal(negbench(made, contrast=contrast, choice=choice), expected)
    captions = np.concatenate([made.texts.numpy()[:, None], made.positive_texts.numpy()], axis=1).transpose(1, 2, 0)
    apart = np.linalg.norm(captions[0] - captions[1], axis=0)
    positives = [None] * 2 if made.positive_text_ids is None else made.positive_text_ids.unbind(1)
    sides = [true, *(true_of(made, texts) for texts in positives)]
    for weights in ((0.5, 0.5, 1.0), (1.0, 0.0, 0.0)):
        expected = reference.clic(scale * made.images.numpy() @ captions, false, there, sides, apart, *weights)
        settings = dict(zip(("contrast", "choice", "paraphrase"), weights, strict=True))
        assert_equal(clic(made, **settings), expected)
    U, F = ([scale * made.images.numpy() @ made.units[:, k, side].numpy().T for k in (0, 1)] for side in (0, 1))
    unnamed = [(None, torch.zeros(n))] * 2
    unit_ids = unnamed if made.unit_ids is None else [pair.unbind(1) for pair in made.unit_ids.unbind(1)]
    meant, untrue = [true_of(made, unit) for unit, _ in unit_ids], [~true_of(made, foil) for _, foil in unit_ids]
    for kind in ("own", "all"):
        expected = reference.cs_clip(L, N, columns, U, F, true, 0.7, kind, meant, untrue)
        assert_equal(cs_clip(made, weight=0.7, foils=kind), expected)
    for weight, gamma, smoothing in ((0.5, 2.0, 0.02), (1.0, 0.0, 0.0), (2.0, 1.0, 0.5)):
        settings = {"weight": weight, "gamma": gamma, "smoothing": smoothing}
        expected = reference.fsc_global(L, false, there, true, **settings)
        assert_equal(fsc_global(made, **settings), expected)
        patches, words = made.patches.numpy(), (made.words.numpy(), made.real_words.numpy())
        directions = patches / np.linalg.norm(patches, axis=-1, keepdims=True)
        for unit_patches, shown in ((False, patches), (True, directions)):
            expected = reference.fsc_clip(L, false, there, true, scale, shown, *words, local=0.3, **settings)
            assert_equal(fsc_clip(made, local=0.3, unit_patches=unit_patches, **settings), expected)
    for bound, threshold in ((5.0, None), (0.5, None), (5.0, 2.0)):
        settings = {"intra": 0.2, "rank": 0.4, "bound": bound, "threshold": threshold}
        expected = reference.ce_clip(L, N, T, false, there, columns, true, **settings)
        assert_equal(ce_clip(made, **settings), expected)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("chunk", [None, 3])
def test_tripletclip_is_negclip_of_both_sides(chunk, alike):
    made = batch(chunk=chunk, alike=alike)
    # A mate of one pair is another pair of the batch, as where the rows are 2x2 items: its caption is no false one.
    made.mates.image_ids[3] = 4
    ids, others = made.image_ids.numpy(), made.mates.image_ids.numpy()
    sides = [(made.images.numpy(), made.texts.numpy()), (made.mates.images.numpy(), made.mates.texts.numpy())]
    crossed, scale = ((0, 0), (1, 1), (0, 1), (1, 0)), made.scale.item()
    L, L2, LN, L2N = (scale * sides[image][0] @ sides[text][1].T for image, text in crossed)
    crosses = [others[:, None] == others[None, :], ids[:, None] == others[None, :], others[:, None] == ids[None, :]]
    if alike:
        mates, facts = made.mates, facts_of(made)
        sides = ((mates.image_ids, mates), (made.image_ids, mates), (mates.image_ids, made))
        crosses = [true_of(made, texts.text_ids, images, facts) for images, texts in sides]
    assert_equal(tripletclip(made), reference.tripletclip(L, L2, LN, L2N, same(made), *crosses))


@pytest.mark.parametrize("alike", [False, True])
def test_trohn_img_is_the_contrast_of_pairs_and_mates_side_by_side(alike):
    made = batch(alike=alike)
    images = torch.cat([made.images, made.mates.images]).numpy()
    texts = torch.cat([made.texts, made.mates.texts]).numpy()
    ids = np.array([*IDS, *made.mates.image_ids.tolist()])
    true = ids[:, None] == ids[None, :]
    if alike:
        true = true_of(made, torch.cat([made.text_ids, made.mates.text_ids]), torch.tensor(ids))
    assert_equal(trohn_img(made), reference.itc(made.scale.item() * images @ texts.T, true))


@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.04])
@pytest.mark.parametrize("normalise", get_args(Normalisation))
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_eqsim_in_the_papers_form(variant, normalise, alpha, chunk):
    cases = ((0, 2, IDS, False), (10, 1, list(range(6)), False), (20, 8, IDS, False), (30, 1, [4, 4, 4], False))
    for seed, k, ids, alike in (*cases, (40, 2, IDS, True), (50, 1, list(range(6)), True)):
        made = batch(seed, ids, chunk=chunk, alike=alike)
        settings = {"alpha": alpha, "beta": 0.5, "k": k, "variant": variant, "normalise": normalise}
        expected = reference.eqsim(logits(made) / made.scale.item(), made.scale.item(), same(made), **settings)
        assert_equal(eqsim(made, **settings), expected)


@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("margin", [0.0, 0.05])
@pytest.mark.parametrize("scale", [8.0, 40.0])
def test_eqsim_as_released(scale, margin, chunk):
    seen = set()
    for seed in range(5):
        made = batch(seed, list(range(9)), scale=scale, step=seed, chunk=chunk)
        options = {"alpha": margin, "beta": 0.5, "k": 4, "as_released": True}
        drawn = drawn_negatives(gather_pairs(made), 4, made.step).tolist()
        expected = reference.eqsim_released(logits(made), drawn, weight=0.5, margin=margin)
        assert_equal(eqsim(made, **options), expected)
        seen.add(expected["v2"] > 0)
    assert True in seen


def test_pairs_of_one_image_are_never_drawn_as_released():
    made = batch(ids=[0, 0, 0, 1, 1, 2])
    for step in range(50):
        for row, chosen in enumerate(drawn_negatives(gather_pairs(made), 4, step).tolist()):
            assert not {made.image_ids[j].item() for j in chosen if j >= 0} & {made.image_ids[row].item()}
            for half in (chosen[:2], chosen[2:]):
                there = [j for j in half if j >= 0]
                assert len(set(there)) == len(there)


@pytest.mark.parametrize("seed", range(3))
def test_the_losses_of_fusion_encoders(seed):
    made = matches(seed)
    true, texts, images, own = (x.numpy() for x in (made.true, made.wrong_texts, made.wrong_images, made.counterparts))
    ids = np.array(IDS)[:, None]
    text_ids, image_ids = made.negative_text_ids.numpy(), made.negative_image_ids.numpy()
    has_text, has_image = (text_ids >= 0) & (text_ids != ids), (image_ids >= 0) & (image_ids != ids)
    counted = has_text & has_image & (text_ids == image_ids)
    assert (counted != has_text).any() and (~has_text).any()
    matching, ranked = reference.itm(true, texts, images, has_text, has_image), reference.ranking(true, texts, has_text)
    assert_equal(itm(made), matching)
    assert_equal(ranking(made), ranked)
    either = np.where(counted, np.maximum(texts, images), -np.inf)
    result = (-either).argsort(1).argsort(1) < 2
    mined = np.random.default_rng(seed).random(result.shape) < 0.5
    for close in (result, mined):
        given = made if close is result else replace(made, close=torch.tensor(close))
        for variant, alpha in product(VARIANTS, (0.0, 0.1)):
            options = {"alpha": alpha, "beta": 0.2, "variant": variant}
            parts = reference.eqsim_matching(true, texts, images, own, counted, close & counted, **options)
            for loss, name, base in ((eqsim_itm, "itm", matching), (eqsim_ranking, "rank", ranked)):
                whole = {name: base["total"], **parts}
                assert_equal(loss(given, k=2, **options), {**whole, "total": sum(whole.values())})


@pytest.mark.parametrize("margin", [0.0, 0.1, 5.0])
def test_the_released_form_for_fusion_encoders_hinges_the_mean(margin):
    made = matches(1, negatives=1)
    names = ("true", "wrong_texts", "wrong_images", "counterparts")
    true, texts, images, fourth = (1 / (1 + np.exp(-getattr(made, name).numpy())) for name in names)
    same_row = made.negative_text_ids == made.negative_image_ids
    counted, true = (made.has_wrong_text & made.has_wrong_image & same_row).numpy(), true[:, None]
    sides = [(true - texts) - (fourth - images), (true - images) - (fourth - texts)]
    expected = 0.5 * sum(max((side[counted] ** 2).mean() - margin, 0.0) for side in sides)
    parts = eqsim_itm(made, alpha=margin, as_released=True)
    np.testing.assert_allclose(parts["v2"].item(), expected, rtol=1e-12)
    assert parts["v1"] == 0
