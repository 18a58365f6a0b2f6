"""The released forms of FSC-CLIP's and CS-CLIP's losses on cases small enough for a sheet of paper, in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tellapart.training.losses.batch import Batch
from tellapart.training.losses.captions import cs_clip, fsc_clip, local_logits


def vectors(*rows: object) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def one_image() -> Batch:
    """An image of two patches, one twice as long as the other; a caption of one word, and a false one."""
    unit = vectors([1.0, 0.0])
    return Batch(
        unit,
        unit,
        torch.tensor(3.0, dtype=torch.float64),
        torch.tensor([0]),
        negative_texts=unit[:, None],
        patches=vectors([[2.0, 0.0], [0.0, 1.0]]),
        words=vectors([[[0.6, 0.8]], [[1.0, 0.0]]]),
        real_words=torch.ones(1, 2, 1, dtype=torch.bool),
    )


def test_a_word_looks_at_the_patch_with_the_greatest_product_and_not_with_the_greatest_cosine() -> None:
    made = one_image()
    # The word (0.6, 0.8) has products 1.2 and 0.8 with the patches, so it sees (1, 0): a cosine of 0.6; the false
    # caption's (1, 0) sees the same: 1. Of unit patches it has 0.6 and 0.8, and sees (0, 1): a cosine of 0.8.
    assert local_logits(made).tolist() == [pytest.approx([3 * 0.6, 3 * 1.0], rel=1e-14)]
    assert local_logits(made, unit_patches=True).tolist() == [pytest.approx([3 * 0.8, 3 * 1.0], rel=1e-14)]
    plain = {"local": 1.0, "gamma": 0.0, "smoothing": 0.0}
    assert fsc_clip(made, **plain)["local"].item() == pytest.approx(math.log1p(math.exp(1.2)), rel=1e-14)
    unit = fsc_clip(made, unit_patches=True, **plain)
    assert unit["local"].item() == pytest.approx(math.log1p(math.exp(0.6)), rel=1e-14)


def test_the_mean_patch_weighs_patches_by_their_lengths() -> None:
    # Products of (1, 0): 2, 0 and 1, so shares 2/3, 0 and 1/3 of (2, 0), (0, 1) and (1, 1): the mean is (5, 1) / 3.
    made = replace(one_image(), patches=vectors([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    assert local_logits(made)[0, 1].item() == pytest.approx(3 * 5 / math.sqrt(26), rel=1e-14)
    # Of unit patches: products 1, 0 and r = 1/sqrt 2 of (1, 0), (0, 1) and (r, r): the mean is
    # (1 + r r, r r) / (1 + r).
    r = math.sqrt(0.5)
    expected = 3 * (1 + r * r) / math.hypot(1 + r * r, r * r)
    assert local_logits(made, unit_patches=True)[0, 1].item() == pytest.approx(expected, rel=1e-14)


def two_images() -> Batch:
    """Images, captions and units are the axes; the first units' foils lie on the images, the second ones' nowhere."""
    axes = torch.eye(2, dtype=torch.float64)
    zero = torch.zeros(2, 2, dtype=torch.float64)
    units = torch.stack([torch.stack([axes, axes], 1), torch.stack([axes, zero], 1)], 1)
    return Batch(
        axes, axes, torch.tensor(2.0, dtype=torch.float64), torch.arange(2), negative_texts=zero[:, None], units=units
    )


def test_an_image_tells_its_unit_from_its_own_foil_alone_and_units_count_a_half_each() -> None:
    made, e = two_images(), math.exp(2.0)
    text = math.log((e + 1) / e)  # a unit's image against the other one
    own = [math.log((2 * e + 1) / e), math.log((e + 2) / e)]  # its unit, the other image's, its own foil
    everyone = [math.log((2 * e + 2) / e), math.log((e + 3) / e)]  # the other image's foil, too
    for foils, images in (("own", own), ("all", everyone)):
        expected = sum((image + text) / 2 for image in images) / 2
        parts = cs_clip(made, weight=0.5, foils=foils)
        assert parts["units"].item() == pytest.approx(0.5 * expected, rel=1e-14)
    first = cs_clip(replace(made, units=made.units[:, :1]), weight=1.0)["units"]
    assert first.item() == pytest.approx((own[0] + text) / 2, rel=1e-14)


def test_another_images_foil_has_no_gradient_where_foils_are_own() -> None:
    made = two_images()
    for foils, touched in (("own", False), ("all", True)):
        units = made.units.clone().requires_grad_()
        image = torch.zeros_like(made.images)
        image[0] = made.images[0]  # the second image has no direction, so that its own foil has no gradient
        parts = cs_clip(replace(made, images=image, units=units), foils=foils)
        (gradient,) = torch.autograd.grad(parts["units"], units)
        assert bool(gradient[1, :, 1].abs().max() > 0) == touched
