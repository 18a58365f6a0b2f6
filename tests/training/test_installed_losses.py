"""Losses of other packages: a declaration or a plain function trains; anything else is refused with what to write."""

from pathlib import Path

import pytest
from tiny_fusion import blip
from training_sets import config, logged

from facts import raises
from scripts import install
from tellapart.api.listing import ls
from tellapart.catalog import LOSSES
from tellapart.errors import DataError
from tellapart.training.losses.loss import DualLoss, FusionLoss, find_loss, read_terms
from tellapart.training.training_run import run_training

SOURCE = """
from pydantic import NonNegativeFloat
from tellapart.training.losses.contrast import itc
from tellapart.training.losses.eqsim import itm
from tellapart.training.losses.loss import DualLoss, loss
from tellapart.training.losses.contrast import negclip

def weighted(batch, *, weight: NonNegativeFloat = 1.0):
    "Return itc times a weight."
    return {name: part * weight for name, part in itc(batch).items()}

def matched(matches):
    "Return itm."
    return itm(matches)

def odd(pairs):
    "Take something else."

def positional(batch, weight=1.0):
    "Take an option that no configuration can name."

@loss(negative_captions=2)
def declared(batch):
    "Return negclip."
    return negclip(batch)

OTHER = DualLoss(negclip, negative_captions=2)
"""
FUNCTIONS = ("weighted", "matched", "declared", "positional", "odd")
NAMES = {"other": "OTHER", "number": "SOURCE"} | dict(zip(FUNCTIONS, FUNCTIONS, strict=True))
POINTS = "".join(f"\n{name} = installed_losses:{member}" for name, member in NAMES.items())


@pytest.fixture
def installed(tmp_path, monkeypatch):
    install(tmp_path / "site", "installed_losses", f"[tellapart.losses]{POINTS}", f"{SOURCE}\nSOURCE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def totals(folder: Path, out: str, **changes) -> list[float]:
    run_training(config(folder, **changes), folder, folder / out)
    return [line["total"] for line in logged(folder / out) if "total" in line]


@pytest.mark.slow
def test_a_plain_function_is_declared_by_its_parameters(installed, tmp_path):
    weighted, matched = find_loss("weighted"), find_loss("matched")
    assert (type(weighted), [*weighted.options.model_fields]) == (DualLoss, ["weight"])
    assert isinstance(matched, FusionLoss) and matched.counterparts and matched.negatives == 1
    assert read_terms({"name": "weighted", "weight": 2.0})[0].options == {"weight": 2.0}
    with raises(DataError, "'weighted'", "'wieght'", "'weight'"):
        read_terms({"name": "weighted", "wieght": 2.0})
    with raises(DataError, "'weighted'", "'weight'", "-1", "0"):
        read_terms({"name": "weighted", "weight": -1})
    assert totals(tmp_path, "own", loss={"name": "weighted"}) == totals(tmp_path, "itc", loss={"name": "itc"})
    model = {"model": blip(tmp_path / "blip"), "optimiser": {"steps": 1}, "matching": {"contrast": False}}
    assert len(totals(tmp_path, "matched", loss={"name": "matched"}, **model)) == 1


@pytest.mark.slow
def test_a_declaration_says_which_negatives_are_drawn(installed, tmp_path):
    two = totals(tmp_path, "two", loss={"name": "declared"})
    assert find_loss("declared") != find_loss("other") and find_loss("other").negative_captions == 2
    settings = {"negative_captions": 2, "negative_images": "none"}
    assert two == totals(tmp_path, "negclip", loss={"name": "negclip"}, data=settings)


@pytest.mark.parametrize("name", ["odd", "number", "positional"])
def test_anything_else_is_refused(installed, name):
    with raises(DataError, "loss", f"'{name}'", "loss", "(batch)", "(matches)", "*, weight"):
        find_loss(name)


def test_the_listing_has_the_first_line_of_every_loss(installed):
    rows = {row["name"]: row["about"] for row in ls("losses")}
    assert list(rows)[: len(LOSSES)] == list(LOSSES)
    assert rows["eqsim"].startswith("Return `itc` and EqSim's regularisation")
    assert rows["weighted"] == "Return itc times a weight." and rows["odd"].startswith("cannot be loaded: loss 'odd'")
