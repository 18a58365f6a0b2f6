"""METER and FIBER are trained from their authors' files and saved as a folder that is read without pickle."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_sets import check_resumed, config, far, logged, squares, weights

from facts import raises
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.training.encoders import open_fusion, resolve_name
from tellapart.training.training_run import run_training

pytest.importorskip("transformers", reason="fusion encoders need the extra 'models'")

from tiny_native import MAKE, native

pytestmark = pytest.mark.slow
FAMILIES = pytest.mark.parametrize("family", ["meter", "fiber"])


def run(folder: Path, family: str, out: str = "run", **changes) -> tuple[Any, dict[str, Any]]:
    path = folder / family / "model.ckpt"
    name = f"{family}:{path}" if path.is_file() else native(folder / family, family)
    settings = config(folder, model=name, **{"loss": {"name": "itm"}, "optimiser": {"steps": 3}} | changes)
    return run_training(settings, folder, folder / out), weights(folder / out)


@pytest.mark.parametrize(("family", "contrast"), [("meter", False), ("fiber", False), ("fiber", True)])
def test_the_loss_falls_and_the_folder_measures_what_was_trained(tmp_path, family, contrast):
    squares(tmp_path / "few", 2, seed=3)
    small = {"data": {"train": ["folder:few"]}, "batch": {"size": 4}, "matching": {"contrast": contrast}}
    optimiser = {"steps": 60, "epsilon": 1e-8}
    finished, trained = run(tmp_path, family, optimiser=optimiser, validation={"every": 60}, **small)
    lines = [one for one in logged(tmp_path / "run") if "total" in one]
    if contrast:
        assert lines[-1]["itc"] < 0.8 * lines[0]["itc"]
    else:
        constant = -(np.log(1 / 3) + 2 * np.log(2 / 3)) / 3  # one match of three, and no pair is told from another
        assert np.mean([one["total"] for one in lines[-8:]]) < 0.97 * constant < lines[0]["total"]
    assert finished.name == f"{family}:{tmp_path / 'run' / 'model'}"
    assert {file.suffix for file in (tmp_path / "run" / "model").iterdir()} <= {".safetensors", ".json", ".txt", ".md"}
    again = open_fusion(finished.name, "cpu")
    assert far(trained, again.module.model.state_dict()) == 0
    assert find_model(finished.name).fingerprint == again.model().fingerprint


@FAMILIES
def test_what_no_gradient_comes_to_is_frozen(tmp_path, family):
    name = native(tmp_path / family, family)
    with_contrast, without, rank = (
        {key for key, one in open_fusion(name, "cpu", **changes).module.named_parameters() if not one.requires_grad}
        for changes in ({}, {"contrast": False}, {"reading": "rank"})
    )
    assert {key for key in with_contrast if "rank_output" not in key} == set()
    assert {"model.itm_score.fc.weight"} <= rank and "model.rank_output.weight" not in rank
    alone = {key.removeprefix("model.") for key in without - with_contrast}
    if family == "meter":
        assert alone == set()
    else:
        assert "logit_scale" in alone and "vit_model.norm.weight" in alone
        assert all("_itc" in key or "norm" in key.lower() or key == "logit_scale" for key in alone)


@FAMILIES
def test_every_weight_that_is_not_frozen_learns(tmp_path, family):
    run(tmp_path, family, optimiser={"steps": 2, "epsilon": 1e-12, "weight_decay": 0.0})
    before = open_fusion(f"{family}:{tmp_path / family / 'model.ckpt'}", "cpu").module
    trained = weights(tmp_path / "run")
    still = {
        name
        for name, one in before.named_parameters()
        if one.requires_grad and torch.equal(one.detach(), trained[name.removeprefix("model.")])
    }
    # Padding, words and positions that no text has, are rows of a tensor that moves; keys' biases move no softmax.
    assert {name for name in still if "key.bias" not in name} == set()
    assert all("log" not in line or line["scale"] > 0 for line in logged(tmp_path / "run"))
    assert ("scale" in logged(tmp_path / "run")[0]) == (family == "fiber")


@pytest.mark.parametrize("loss", ["eqsim-itm", "ranking"])
@FAMILIES
def test_a_run_that_stops_goes_on_to_the_same_bytes(tmp_path, family, loss):
    settings = {"loss": {"name": loss}, "validation": {"every": 1}, "matching": {"negatives": 2}}
    settings["reading"] = "rank" if loss == "ranking" else "itm"
    settings["image_size"] = 32 if family == "meter" else 96
    name = native(tmp_path / family, family)
    check_resumed(config(tmp_path, model=name, **{"optimiser": {"steps": 3}} | settings), tmp_path)
    assert (tmp_path / "whole/model/config.json").read_bytes() == (tmp_path / "stopped/model/config.json").read_bytes()


def test_a_head_of_retrieval_begins_as_the_matching_heads_match(tmp_path):
    name, state = native(tmp_path / "meter", "meter"), torch.load(tmp_path / "meter" / "model.ckpt")
    state["state_dict"] = {key: one for key, one in state["state_dict"].items() if "rank_output" not in key}
    torch.save(state, tmp_path / "meter" / "model.ckpt")
    with raises(ModelError, "'rank'"):
        find_model(name, ModelOptions(reading="rank"))
    module = open_fusion(name, "cpu", "rank").module.model
    torch.testing.assert_close(module.rank_output.weight, module.itm_score.fc.weight[1:])
    assert not hasattr(open_fusion(name, "cpu").module.model, "rank_output")
    # A scale of cosines is no head: a file without it is the start as it is.
    assert "logit_scale" not in MAKE["fiber"]() and not open_fusion(native(tmp_path / "fiber", "fiber"), "cpu").begun
    # The start is measured with that head, which its file lacks.
    report = {"benchmarks": [f"folder:{squares(tmp_path / 'test', 4, seed=5)}"]}
    changes = {"loss": {"name": "ranking"}, "matching": {"negatives": 2}, "batch": {"size": 4}, "report": report}
    settings = config(tmp_path, model=name, reading="rank", image_size=32, optimiser={"steps": 1}, **changes)
    record = run_training(settings, tmp_path, tmp_path / "run").record
    begun = find_model(f"meter:{tmp_path / 'run/start'}", ModelOptions(reading="rank", image_size=32))
    assert begun.fingerprint == record.start and record.comparison.a == begun.name


def test_groups_of_weights_learn_at_rates_of_their_own(tmp_path):
    still = {"learning_rate": 1e-3, "steps": 1, "weight_decay": 0.0, "warm_up": 0, "epsilon": 1e-12}
    rates = {"groups": {"*cross_modal*": 5.0, "*itm_score*": 0.0}}
    _, plain = run(tmp_path, "meter", "plain", optimiser=still)
    _, grouped = run(tmp_path, "meter", "grouped", optimiser=still | rates)
    begun = open_fusion(f"meter:{tmp_path / 'meter' / 'model.ckpt'}", "cpu").module.model.state_dict()
    for name, factor in {
        "cross_modal_text_layers.0.output.dense.weight": 5.0,
        "vit_model.visual.ln_pre.weight": 1.0,
        "itm_score.fc.weight": 0.0,
    }.items():
        torch.testing.assert_close(grouped[name] - begun[name], factor * (plain[name] - begun[name]), atol=2e-6, rtol=0)
    with raises(DataError, "optimiser.groups", "'*t2i*'", "model"):
        run(tmp_path, "meter", "wrong", optimiser={"groups": {"*t2i*": 5.0}})


def test_a_path_is_relative_to_the_configuration(tmp_path):
    native(tmp_path / "meter", "meter")
    assert resolve_name("meter:meter/model.ckpt", tmp_path) == f"meter:{tmp_path / 'meter' / 'model.ckpt'}"


def test_what_cannot_be_opened_is_said(tmp_path):
    fiber = native(tmp_path / "fiber", "fiber")
    with raises(ModelError, "loss", "'itc'"):
        open_fusion(fiber, "cpu", "itc")
    with raises(ModelError, "demo", "image_size", "authors' files"):
        open_fusion("demo", "cpu", image_size=32)
    with raises(ModelError, "model.ckpt", "contrastive", "itm", "ranking"):
        run(tmp_path, "fiber", loss={"name": "itc"})
    with raises(ModelError, "model.ckpt", "ALBEF", "METER", "FIBER"):
        open_fusion(native(tmp_path / "albef", "albef"), "cpu")
    with raises(DataError, "image_size", "32"):
        run(tmp_path, "fiber", loss={"name": "itc"}, image_size=32)
