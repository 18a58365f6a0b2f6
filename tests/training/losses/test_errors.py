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
from tellapart.errors import ModelError, UnknownNameError
from tellapart.training.losses.batch import Batch
from tellapart.training.losses.ce_clip import CeClip, ce_clip
from tellapart.training.losses.clic import Clic, clic
from tellapart.training.losses.cs_clip import CsClip, cs_clip
from tellapart.training.losses.cyclip import CyClip
from tellapart.training.losses.eqsim_itm import eqsim_itm
from tellapart.training.losses.equations import EqSim
from tellapart.training.losses.fsc_clip import FscClip, fsc_clip
from tellapart.training.losses.fsc_global import FscGlobal, fsc_global
from tellapart.training.losses.hardneg import HardNeg
from tellapart.training.losses.loss import declare
from tellapart.training.losses.negbench import NegBench, negbench
from tellapart.training.losses.negclip import negclip
from tellapart.training.losses.options import LossOptions
from tellapart.training.losses.siglip import siglip
from tellapart.training.losses.tripletclip import tripletclip
from tellapart.training.losses.trohn_img import trohn_img

FULL = batch(ids=[0, 1, 2])


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
        (negclip, {"negative_texts": None, "has_negative": None}, ("negclip", "captions")),
        (ce_clip, {"negative_texts": None, "has_negative": None}, ("ce-clip", "captions")),
        (fsc_global, {"negative_texts": None, "has_negative": None}, ("fsc-global", "captions")),
        (fsc_clip, {"patches": None}, ("fsc-clip", "words", "Batch(patches")),
        (negbench, {"negative_texts": None, "has_negative": None}, ("negbench", "captions")),
        (clic, {"negative_texts": None, "has_negative": None}, ("clic", "captions")),
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
        ({"true": torch.zeros(8, 1)}, ("true=", "wrong_texts=", "(8, 1)", "(8, 4)")),
        ({"wrong_texts": torch.zeros(8)}, ("(8,)", "(8,)")),
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
    ("make", "error", "says"),
    [
        (lambda: EqSim(alpha=float("nan")), ModelError, "EqSim(alpha=nan)"),
        (lambda: EqSim(beta=-1), ModelError, ("beta=-1", "0")),
        (lambda: EqSim(beta=float("inf")), ModelError, ("EqSim(beta=inf)", "finite")),
        (lambda: EqSim(k=0), ModelError, ("k=0", "1")),
        (lambda: HardNeg(k=2.5), ModelError, ("HardNeg(k=2.5)", "whole")),  # type: ignore[arg-type]
        (lambda: EqSim(variant="v2-al"), UnknownNameError, ("variant='v2-al'", "'v2-all'")),
        (lambda: EqSim(normalise="rows"), UnknownNameError, "batch, block, none"),
        (lambda: EqSim(as_released=True, variant="v1-all"), ModelError, "defaults"),
        (lambda: EqSim(as_released=True, normalise="none"), ModelError, "defaults"),
        (lambda: EqSim(as_released=True, k=3), ModelError, "even"),
        (lambda: FscClip(local=-1), ModelError, ("FscClip(local=-1)", "0")),
        (lambda: HardNeg(k=0), ModelError, ("k=0", "1")),
        (lambda: HardNeg(weight=-1), ModelError, ("weight=-1", "0")),
        (lambda: CeClip(threshold=-1.0), ModelError, ("threshold=-1.0", "0")),
        (lambda: CeClip(intra=-1.0), ModelError, "CeClip(intra=-1.0"),
        (lambda: FscGlobal(gamma=0.5), ModelError, ("gamma=0.5", "0", "1")),
        (lambda: FscGlobal(smoothing=1.0), ModelError, ("smoothing=1.0", "0", "1")),
        (lambda: NegBench(choice=-1.0), ModelError, ("choice=-1.0", "0")),
        (lambda: Clic(paraphrase=-1.0), ModelError, "Clic(paraphrase=-1.0)"),
        (lambda: CsClip(weight=-1.0), ModelError, "CsClip(weight=-1.0)"),
        (lambda: CsClip(foils="owm"), UnknownNameError, ("foils='owm'", "'own'", "own, all")),
        (lambda: CyClip(within=-0.1), ModelError, ("CyClip(within=-0.1)", "0")),
    ],
)
def test_options_out_of_range_are_refused(
    make: Callable[[], Any], error: type[Exception], says: str | tuple[str, ...]
) -> None:
    with raises(error, says):
        make()


def test_every_loss_of_the_catalogue_declares_its_function_and_options() -> None:
    assert names("loss")[: len(LOSSES)] == list(LOSSES)
    for name in LOSSES:
        loss = load("loss", name)
        assert loss.function.__name__ == name.replace("-", "_")
        # What the declaration of a plain function finds by its parameters is what the file declares.
        result = declare(name, loss.function)
        assert (type(result), result.options) == (type(loss), loss.options)
        assert result.options is None or issubclass(result.options, LossOptions)
    with raises(UnknownNameError, "loss", "'eqsin'", "'eqsim'"):
        load("loss", "eqsin")


def test_no_loss_imports_torch_before_it_is_called() -> None:
    code = (
        "import sys\nfrom tellapart.catalog import LOSSES, load\n"
        "[load('loss', name) for name in LOSSES]\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
