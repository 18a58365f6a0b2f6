"""A weighted sum of losses is the sum of their references, and its gradient that of its parts."""

from dataclasses import replace

import numpy as np
import pytest
import reference_losses as reference
import torch
from made_batches import batch, matches

from facts import raises
from scripts import run_python
from tellapart.catalog import LOSSES, load, names
from tellapart.errors import DataError, ModelError, UnknownNameError
from tellapart.training.losses import contrast
from tellapart.training.losses.eqsim import drawn_negatives, eqsim_itm
from tellapart.training.losses.loss import find_loss, gather_pairs, read_terms, sum_terms

RELEASED = {"alpha": 0.001, "beta": 0.5, "k": 4, "as_released": True}


def test_matching_with_contrast_and_released_eqsim_is_the_sum_of_the_three():
    terms = read_terms({"name": "itm", "also": {"eqsim": {**RELEASED, "factor": 0.25}}})
    made, crossed = batch(ids=list(range(8)), step=3), matches()
    parts, drawn = sum_terms(terms, (crossed, made)), drawn_negatives(gather_pairs(made), 4, 3).tolist()
    eqsim = reference.eqsim_released((made.scale * made.images @ made.texts.T).numpy(), drawn, 0.5, 0.001)
    sides = (crossed.true, crossed.wrong_texts, crossed.wrong_images, crossed.has_wrong_text, crossed.has_wrong_image)
    itm = reference.itm(*(side.numpy() for side in sides))
    expected = {name: value for name, value in itm.items() if name != "total"}
    expected |= {f"eqsim.{name}": 0.25 * value for name, value in eqsim.items() if name != "total"}
    expected["total"] = itm["total"] + 0.25 * eqsim["total"]
    assert list(parts) == list(expected) and eqsim["v2"] > 0 < eqsim["v1"]
    for name, value in expected.items():
        np.testing.assert_allclose(parts[name].item(), value, rtol=1e-11, err_msg=name)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "itc", "also": {"itm": {}}}, ("[loss]", "also.itm", "'itc'")),
        ({"name": "itc", "also": {"itc": {}}}, ("also.itc", "[loss]", "loss")),
        ({"name": "itc", "also": {"siglip": {"factor": -1}}}, ("also.siglip", "-1")),
        ({"name": "itm", "also": {"itc": {"reading": "rank"}}}, ("also.itc", "'rank'")),
        ({"name": "itm", "also": {"negclip": {}}}, ("also.negclip", "captions")),
        ({"name": "itm", "also": {"siglip": {}}}, ("also.siglip", "bias")),
        ({"name": "itm", "also": {"eqsim": {"margin": 1}}}, ("[loss]", "'eqsim'", "'margin'")),
        ({"name": "itm", "also": ["itc"]}, ("'also'", "loss", "[loss.also.itc]")),
    ],
)
def test_losses_that_cannot_be_added_are_named(table, said):
    with raises(DataError, said):
        read_terms(table)
    with raises(UnknownNameError, "[loss]", "'eqsimm'"):
        read_terms({"name": "itm", "also": {"eqsimm": {}}})


FULL = batch(ids=[0, 1, 2])
LACKS = {"negative_texts": None, "has_negative": None}
NEED_FALSE = (contrast.negclip, contrast.ce_clip, contrast.fsc_global, contrast.negbench, contrast.clic)


@pytest.mark.parametrize("made", [batch(ids=[0, 1, 2], alike=True), matches()], ids=["batch", "matches"])
def test_a_tensor_of_another_shape_is_refused_by_its_name(made):
    checked = {name: getattr(made, name) for name in made.__slots__ if name not in {"bias", "facts"}}
    for name, tensor in checked.items():
        if isinstance(tensor, torch.Tensor):
            longer = [torch.cat([tensor, tensor])] if tensor.ndim and name not in {"images", "true"} else []
            for other in (tensor[None], *longer):
                with raises(ModelError, f"{name}=", tuple(other.shape)):
                    replace(made, **{name: other})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"images": torch.zeros(3)}, ("images=", "(3,)", "(pairs, dimensions)")),
        ({"images": torch.zeros(0, 5)}, ("images=", "(0, 5)")),
        ({"units": torch.zeros(3, 5)}, ("units=", "(3, 5)", "(3, 1, 2, 5)")),
        ({"mates": batch(ids=[7])}, ("mates.images=", "(1, 5)", "(3, 5)")),
        ({"chunk": 0}, ("chunk=0", "row")),
    ],
)
def test_a_batch_of_wrong_shapes_is_refused(change, says):
    with raises(ModelError, says):
        replace(FULL, **change)


@pytest.mark.parametrize(
    ("loss", "change", "says"),
    [
        *((loss, LACKS, ("Batch(negative_texts", "(pairs, negatives, dimensions)")) for loss in NEED_FALSE),
        (contrast.fsc_clip, {"patches": None}, ("Batch(patches", "(pairs, patches, dimensions)")),
        (contrast.cs_clip, {"units": None}, ("units",)),
        (contrast.tripletclip, {"mates": None}, ("Batch(mates")),
        (contrast.siglip, {"bias": None}, ("Batch(bias")),
        (contrast.trohn_img, {"mates": None}, ("Batch(mates")),
        (contrast.trohn_img, {"mates": batch(ids=[5, 1, 2])}, ("[1, 2]", "image_ids")),
    ],
)
def test_a_loss_says_what_its_batch_lacks(loss, change, says):
    name = () if "image_ids" in says else (loss.__name__.replace("_", "-"),)
    with raises(ModelError, *name, says):
        loss(replace(FULL, **change))
    with raises(ModelError, "EqSim", "Matches(counterparts"):
        eqsim_itm(replace(matches(), counterparts=None))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("eqsim", {"alpha": float("nan")}, ("'alpha'", "nan", "finite")),
        ("eqsim", {"beta": -1}, ("'beta'", "-1", "0")), ("eqsim", {"beta": float("inf")}, ("'beta'", "inf", "finite")),
        ("eqsim-itm", {"k": 0}, ("'k'", "0")), ("hardneg", {"k": 2.5}, ("'k'", "2.5", "integer")),
        ("eqsim", {"variant": "v2-al"}, ("'variant'", "'v2-al'", "'v2-all'")),
        ("eqsim", {"normalise": "rows"}, ("'normalise'", "'batch', 'block' or 'none'", "'rows'")),
        ("eqsim", {"as_released": True, "variant": "v1-all"}, ("'v1-all'", "defaults")),
        ("eqsim-ranking", {"as_released": True, "normalise": "none"}, ("'none'", "defaults")),
        ("eqsim", {"as_released": True, "k": 3}, ("3", "even")), ("fsc-clip", {"local": -1}, ("'local'", "-1", "0")),
        ("hardneg", {"k": 0}, ("'k'", "0")), ("hardneg", {"weight": -1}, ("'weight'", "-1", "0")),
        ("ce-clip", {"threshold": -1.0}, ("'threshold'", "-1.0", "0")),
        ("ce-clip", {"intra": -1.0}, ("'intra'", "-1.0", "0")),
        ("fsc-global", {"gamma": 0.5}, ("'gamma'", "0 or at least 1", "0.5")),
        ("fsc-global", {"smoothing": 1.0}, ("'smoothing'", "1", "1.0")),
        ("negbench", {"choice": -1.0}, ("'choice'", "-1.0", "0")),
        ("clic", {"paraphrase": -1.0}, ("'paraphrase'", "-1.0", "0")),
        ("cs-clip", {"weight": True}, ("'weight'", "True", "number")),
        ("cs-clip", {"foils": "owm"}, ("'foils'", "'own' or 'all'", "'owm'")),
        ("cyclip", {"within": -0.1}, ("'within'", "-0.1", "0")),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(name, options, says):
    with raises(DataError, "[loss]", *says):
        find_loss(name).read_options(options, "[loss]")


def test_every_loss_of_the_catalogue_declares_its_function_and_options():
    assert names("loss")[: len(LOSSES)] == list(LOSSES)
    for name in LOSSES:
        function = load("loss", name)
        assert (function.__name__, find_loss(name).function) == (name.replace("-", "_"), function)
        # Each option has a default, which lies in its range.
        defaults = find_loss(name).read_options({}, name)
        assert find_loss(name).read_options(defaults, name) == defaults == (function.__kwdefaults__ or {})
    with raises(UnknownNameError, "loss", "'eqsin'", "'eqsim'"):
        load("loss", "eqsin")


def test_no_loss_imports_torch_before_it_is_called():
    code = "import sys; from tellapart.catalog import LOSSES, load; [load('loss', name) for name in LOSSES]"
    assert run_python("-c", f"{code}; print('torch' in sys.modules)").stdout.strip() == "False"
