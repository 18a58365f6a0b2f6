"""The loss wants true pairs close and false ones apart, and never sets a true caption against its image."""

# ruff: noqa: E402 - what follows needs torch

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'tellapart[train]'")

from dataclasses import replace

from training.objective import Batch, pair_losses, whereabouts_loss

SCALE = torch.tensor(20.0)


def _unit(seed: int, *shape: int) -> torch.Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


def _batch() -> Batch:
    texts = _unit(0, 4, 16)
    return Batch(texts.clone(), texts, _unit(1, 4, 2, 16), torch.ones(4, 2, dtype=torch.bool), torch.arange(4))


def test_swapped_mates_cost_more_than_matched_ones() -> None:
    batch = _batch()
    swapped = replace(batch, images=batch.images[[1, 0, 3, 2]])
    for worse, better in zip(pair_losses(swapped, SCALE), pair_losses(batch, SCALE), strict=True):
        assert worse > better + 1.0


def test_a_constant_model_pays_the_logarithm_of_the_choices() -> None:
    same = torch.ones(4, 16) / 4.0
    batch = Batch(same, same, same[:, None].repeat(1, 2, 1), torch.ones(4, 2, dtype=torch.bool), torch.arange(4))
    contrastive, local = pair_losses(batch, SCALE)
    # Rows choose among 4 texts and 2 foils, columns among 4 images; locally among 4 texts, and among 2 images.
    log = {n: torch.log(torch.tensor(float(n))) for n in (2, 4, 6)}
    torch.testing.assert_close(contrastive, (log[6] + log[4]) / 2)
    torch.testing.assert_close(local, (log[4] + log[2]) / 2)


def test_absent_foils_cost_nothing() -> None:
    batch = _batch()
    absent = replace(batch, has_foil=torch.zeros(4, 2, dtype=torch.bool))
    other = replace(absent, foils=batch.images[:, None].repeat(1, 2, 1))
    torch.testing.assert_close(pair_losses(absent, SCALE), pair_losses(other, SCALE))


def test_a_caption_that_says_the_same_is_no_negative() -> None:
    batch = _batch()
    twin = replace(batch, images=batch.images[[0, 1, 0, 3]], texts=batch.texts[[0, 1, 0, 3]])
    masked = replace(twin, meanings=torch.tensor([0, 1, 0, 3]))
    assert pair_losses(masked, SCALE)[0] < pair_losses(twin, SCALE)[0] - 0.1


def test_the_loss_falls_where_its_gradient_points() -> None:
    batch = _batch()
    images = _unit(5, 4, 16).requires_grad_()
    before = sum(pair_losses(replace(batch, images=images), SCALE))
    (gradient,) = torch.autograd.grad(before, images)
    after = sum(pair_losses(replace(batch, images=images - 1e-3 * gradient), SCALE))
    assert after < before


def test_whereabouts_want_the_object_in_its_own_cell_and_leave_out_what_is_outside() -> None:
    inside = torch.tensor([[[2.0, 0.5, -0.5], [-1.0, -1.0, -1.0]]])  # object 2, right and up: cell 1 of 2x2
    outside = torch.tensor([[[2.0, 1.5, -0.5], [-1.0, -1.0, -1.0]]])
    right, nothing = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)
    right[0, :, 3], right[0, 1, 3], right[0, 1, 2] = 9.0, 0.0, 9.0
    nothing[..., 3] = 9.0
    assert whereabouts_loss(right, inside) < 0.01 < 1.0 < whereabouts_loss(nothing, inside)
    assert whereabouts_loss(nothing, outside) < 0.01 < 1.0 < whereabouts_loss(right, outside)
