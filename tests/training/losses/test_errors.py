"""What is refused, and the catalogue of losses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from made_batches import batch, matches

from facts import raises
from tellapart.catalog import LOSSES, load, names
from tellapart.errors import DataError, ModelError, UnknownNameError
from tellapart.training.losses.batch import Batch
from tellapart.training.losses.captions import ce_clip, clic, cs_clip, fsc_clip, fsc_global, negbench, negclip
from tellapart.training.losses.contrast import siglip, tripletclip, trohn_img
from tellapart.training.losses.eqsim import eqsim_itm
from tellapart.training.losses.loss import find_loss

FULL = batch(ids=[0, 1, 2])
LACKS = {"negative_texts": None, "has_negative": None}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"images": torch.zeros(3)}, ("images=", "(3,)", "(pairs, dimensions)")),
        ({"images": torch.zeros(0, 5)}, ("images=", "(0, 5)")),
        ({"texts": torch.zeros(3, 4)}, ("texts=", "(3, 4)", "(3, 5)")),
        ({"scale": torch.zeros(1)}, ("scale=", "(1,)")),
        ({"image_ids": torch.zeros(2)}, ("image_ids=", "(2,)", "(3,)")),
        ({"negative_texts": torch.zeros(3, 5)}, ("negative_texts=", "(3, 5)", "(3, 1, 5)")),
        ({"has_negative": torch.zeros(3, 1)}, ("has_negative=", "(3, 1)", "(3, 2)")),
        ({"positive_texts": torch.zeros(3, 5)}, ("positive_texts=", "(3, 5)", "(3, 1, 5)")),
        ({"units": torch.zeros(3, 5)}, ("units=", "(3, 5)", "(3, 1, 2, 5)")),
        ({"patches": torch.zeros(3, 5)}, ("patches=", "(3, 5)", "(3, 1, 5)")),
        ({"words": torch.zeros(3, 2, 5)}, ("words=", "(3, 2, 5)", "(3, 1, 1, 5)")),
        ({"real_words": torch.zeros(3, 3)}, ("real_words=", "(3, 3)", "(3, 3, 3)")),
        ({"mates": batch(ids=[7])}, ("mates.images=", "(1, 5)", "(3, 5)")),
        ({"chunk": 0}, ("chunk=0", "row")),
    ],
)
def test_a_batch_of_wrong_shapes_is_refused(change: dict[str, Any], says: str | tuple[str, ...]) -> None:
    with raises(ModelError, says):
        replace(FULL, **change)


@pytest.mark.parametrize(
    ("loss", "change", "says"),
    [
        (
            negclip,
            {"negative_texts": None, "has_negative": None},
            ("negclip", "Batch(negative_texts", "(pairs, negatives, dimensions)"),
        ),
        (
            ce_clip,
            {"negative_texts": None, "has_negative": None},
            ("ce-clip", "Batch(negative_texts", "(pairs, negatives, dimensions)"),
        ),
        (
            fsc_global,
            {"negative_texts": None, "has_negative": None},
            ("fsc-global", "Batch(negative_texts", "(pairs, negatives, dimensions)"),
        ),
        (fsc_clip, {"patches": None}, ("fsc-clip", "Batch(patches", "(pairs, patches, dimensions)")),
        (
            negbench,
            {"negative_texts": None, "has_negative": None},
            ("negbench", "Batch(negative_texts", "(pairs, negatives, dimensions)"),
        ),
        (
            clic,
            {"negative_texts": None, "has_negative": None},
            ("clic", "Batch(negative_texts", "(pairs, negatives, dimensions)"),
        ),
        (cs_clip, {"units": None}, ("cs-clip", "units")),
        (tripletclip, {"mates": None}, ("tripletclip", "Batch(mates")),
        (siglip, {"bias": None}, ("siglip", "Batch(bias")),
        (trohn_img, {"mates": None}, ("trohn-img", "Batch(mates")),
        (trohn_img, {"mates": batch(ids=[5, 1, 2])}, ("[1, 2]", "image_ids")),
    ],
)
def test_a_loss_says_what_its_batch_lacks(
    loss: Callable[[Batch], Any], change: dict[str, Any], says: str | tuple[str, ...]
) -> None:
    with raises(ModelError, says):
        loss(replace(FULL, **change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"true": torch.zeros(8, 1)}, ("true=", "(8, 1)", "(pairs)")),
        ({"wrong_texts": torch.zeros(8)}, ("wrong_texts=", "(8,)", "(pairs, negatives)")),
        ({"wrong_images": torch.zeros(8, 3)}, ("wrong_images=", "(8, 3)", "(8, 4)")),
        ({"counterparts": torch.zeros(4, 8)}, ("counterparts=", "(4, 8)")),
        ({"image_ids": torch.zeros(4)}, ("image_ids=", "(4,)", "(8,)")),
        ({"close": torch.zeros(8, 1)}, ("close=", "(8, 1)")),
    ],
)
def test_matches_of_wrong_shapes_are_refused(change: dict[str, Any], says: str | tuple[str, ...]) -> None:
    with raises(ModelError, says):
        replace(matches(), **change)


def test_eqsim_of_a_fusion_encoder_needs_the_fourth_similarity() -> None:
    with raises(ModelError, "EqSim", "Matches(counterparts"):
        eqsim_itm(replace(matches(), counterparts=None))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("eqsim", {"alpha": float("nan")}, ("'alpha'", "nan", "finite")),
        ("eqsim", {"beta": -1}, ("'beta'", "-1", "0")),
        ("eqsim", {"beta": float("inf")}, ("'beta'", "inf", "finite")),
        ("eqsim-itm", {"k": 0}, ("'k'", "0")),
        ("hardneg", {"k": 2.5}, ("'k'", "2.5", "integer")),
        ("eqsim", {"variant": "v2-al"}, ("'variant'", "'v2-al'", "'v2-all'")),
        ("eqsim", {"normalise": "rows"}, ("'normalise'", "'batch', 'block' or 'none'", "'rows'")),
        ("eqsim", {"as_released": True, "variant": "v1-all"}, ("'v1-all'", "defaults")),
        ("eqsim-ranking", {"as_released": True, "normalise": "none"}, ("'none'", "defaults")),
        ("eqsim", {"as_released": True, "k": 3}, ("3", "even")),
        ("fsc-clip", {"local": -1}, ("'local'", "-1", "0")),
        ("hardneg", {"k": 0}, ("'k'", "0")),
        ("hardneg", {"weight": -1}, ("'weight'", "-1", "0")),
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
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any], says: tuple[str, ...]) -> None:
    with raises(DataError, "[loss]", *says):
        find_loss(name).read_options(options, "[loss]")


def test_every_loss_of_the_catalogue_declares_its_function_and_options() -> None:
    assert names("loss")[: len(LOSSES)] == list(LOSSES)
    for name in LOSSES:
        function = load("loss", name)
        assert (function.__name__, find_loss(name).function) == (name.replace("-", "_"), function)
        # Each option has a default, which lies in its range.
        defaults = find_loss(name).read_options({}, name)
        assert find_loss(name).read_options(defaults, name) == defaults == (function.__kwdefaults__ or {})
    with raises(UnknownNameError, "loss", "'eqsin'", "'eqsim'"):
        load("loss", "eqsin")


def test_no_loss_imports_torch_before_it_is_called() -> None:
    code = (
        "import sys\nfrom tellapart.catalog import LOSSES, load\n"
        "[load('loss', name) for name in LOSSES]\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
