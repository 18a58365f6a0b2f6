"""A weighted sum of losses is the sum of their references, and its gradient that of its parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference_losses as reference
import torch
from made_batches import batch, matches

from facts import raises
from tellapart.errors import DataError, UnknownNameError
from tellapart.training.losses.eqsim import drawn_negatives
from tellapart.training.losses.loss import read_terms, sum_terms
from tellapart.training.losses.matrix_rows import gather_pairs

RELEASED = {"alpha": 0.001, "beta": 0.5, "k": 4, "as_released": True}


def test_matching_with_contrast_and_released_eqsim_is_the_sum_of_the_three() -> None:
    terms = read_terms({"name": "itm", "also": {"eqsim": {**RELEASED, "factor": 0.25}}})
    made, crossed = batch(ids=list(range(8)), step=3), matches()
    parts = sum_terms(terms, [term.loss(own, **term.options) for term, own in zip(terms, (crossed, made), strict=True)])
    drawn = drawn_negatives(gather_pairs(made), 4, 3).tolist()
    eqsim = reference.eqsim_released((made.scale * made.images @ made.texts.T).numpy(), drawn, 0.5, 0.001)
    sides = (crossed.true, crossed.wrong_texts, crossed.wrong_images, crossed.has_wrong_text, crossed.has_wrong_image)
    itm = reference.itm(*(side.numpy() for side in sides))
    expected = {name: value for name, value in itm.items() if name != "total"}
    expected |= {f"eqsim.{name}": 0.25 * value for name, value in eqsim.items() if name != "total"}
    expected["total"] = itm["total"] + 0.25 * eqsim["total"]
    assert list(parts) == list(expected) and eqsim["v2"] > 0 < eqsim["v1"]
    for name, value in expected.items():
        np.testing.assert_allclose(parts[name].item(), value, rtol=1e-11, err_msg=name)


def test_the_gradient_of_a_sum_of_contrastive_losses_is_linear() -> None:
    terms = read_terms({"name": "siglip", "also": {"hardneg": {"k": 2, "weight": 0.5, "factor": 3.0}, "cyclip": {}}})
    images = batch().images.requires_grad_()
    made = replace(batch(), images=images)
    each = [term.loss(made, **term.options) for term in terms]
    (whole,) = torch.autograd.grad(sum_terms(terms, each)["total"], images, retain_graph=True)
    apart = [torch.autograd.grad(parts["total"], images, retain_graph=True)[0] for parts in each]
    torch.testing.assert_close(whole, apart[0] + 3 * apart[1] + apart[2], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "itc", "also": {"itm": {}}}, ("[loss]", "also.itm", "'itc'")),
        ({"name": "itc", "also": {"itc": {}}}, ("also.itc", "[loss]", "loss")),
        ({"name": "itc", "also": {"siglip": {"factor": -1}}}, ("also.siglip", "-1")),
        (
            {"name": "itm", "also": {"itc": {"reading": "rank"}}},
            ("also.itc", "'rank'"),
        ),
        (
            {"name": "itm", "also": {"negclip": {}}},
            ("also.negclip", "captions"),
        ),
        ({"name": "itm", "also": {"eqsim": {"margin": 1}}}, ("[loss]", "'eqsim'", "'margin'")),
        ({"name": "itm", "also": ["itc"]}, ("'also'", "loss", "[loss.also.itc]")),
    ],
)
def test_losses_that_cannot_be_added_are_named(table: dict[str, object], said: str | tuple[str, ...]) -> None:
    with raises(DataError, said):
        read_terms(table)
    with raises(UnknownNameError, "[loss]", "'eqsimm'"):
        read_terms({"name": "itm", "also": {"eqsimm": {}}})
