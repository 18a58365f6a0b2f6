"""Checkpoints as people bring them: compiled, wrapped, whole, averaged, of open_clip's trainer."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import ModelError, TellapartWarning, UnknownNameError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.training.encoders.load_start import open_dual

pytest.importorskip("torch", reason="torch is not installed (the models extra)")

from tiny_openclip import CLIP, saved_folder

torch = import_torch()

pytestmark = pytest.mark.usefixtures("open_clip", "one_thread")


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module._orig_mod.", "model.", "clip_model."])
def test_a_wrappers_prefix_is_left_out_and_said(checkpoints: Any, tmp_path: Path, prefix: str) -> None:
    state = torch.load(checkpoints("tiny"), weights_only=True)
    torch.save({prefix + name: tensor for name, tensor in state.items()}, tmp_path / "a.pt")
    wrapped, plain = (find_model(f"open_clip:tiny-gelu@{path}") for path in (tmp_path / "a.pt", checkpoints("tiny")))
    assert wrapped.fingerprint == plain.fingerprint
    assert repr(prefix) in wrapped.provenance and "a.pt" in wrapped.provenance
    assert plain.provenance == ""


def test_a_whole_model_is_not_run_and_the_line_that_saves_its_weights_works(
    open_clip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = open_clip.create_model("tiny")
    for content in (model, {"epoch": 3, "model": model}):
        torch.save(content, "whole.pt")
        with raises(ModelError, "whole.pt", "state_dict()") as caught:
            find_model("open_clip:tiny-gelu@whole.pt")
        line = str(caught.value).partition("trust the file: ")[2]
        exec(line, {"torch": torch})  # noqa: S102  (as a reader does who trusts the file)
        find_model("open_clip:tiny-gelu@weights.pt")
        Path("weights.pt").unlink()


def test_a_bias_of_siglips_loss_is_answered_with_the_folder_that_reads_it(checkpoints: Any, tmp_path: Path) -> None:
    state = torch.load(checkpoints("tiny"), weights_only=True) | {"logit_bias": torch.tensor(-9.0)}
    torch.save(state, tmp_path / "a.pt")
    with raises(ModelError, "logit_bias", "local-dir:FOLDER", '"init_logit_bias": -10'):
        find_model(f"open_clip:tiny-gelu@{tmp_path / 'a.pt'}")
    folder = saved_folder(tmp_path / "folder", tmp_path / "a.pt", model_cfg=CLIP | {"init_logit_bias": -10})
    assert find_model(f"local-dir:{folder}").fingerprint


def test_averages_alone_are_answered_with_the_ending_that_takes_them(checkpoints: Any, tmp_path: Path) -> None:
    state = torch.load(checkpoints("tiny"), weights_only=True)
    torch.save({"ema": state, "step": 5}, tmp_path / "a.pt")
    with raises(ModelError, "a.pt#ema"):
        find_model(f"open_clip:tiny-gelu@{tmp_path / 'a.pt'}")
    averaged, plain = (
        find_model(f"open_clip:tiny-gelu@{f}") for f in (f"{tmp_path / 'a.pt'}#ema", checkpoints("tiny"))
    )
    assert averaged.fingerprint == plain.fingerprint


def test_a_bare_file_of_one_architecture_is_opened_as_that_with_a_warning(
    checkpoints: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.pt").write_bytes(checkpoints("tiny-wide").read_bytes())
    for typed in ("base.pt", "open_clip:base.pt"):
        with pytest.warns(TellapartWarning, match="base.pt fits one architecture.*open_clip:tiny-wide@base.pt"):
            model = find_model(typed)
        assert model.name == "open_clip:tiny-wide@base.pt"
    with pytest.warns(TellapartWarning, match="tiny-wide"):
        open_dual("open_clip:base.pt", "cpu")
    torch.save(dict(list(torch.load("base.pt").items())[1:]), "less.pt")
    with raises(UnknownNameError, "1 of", "open_clip:tiny-wide@less.pt"):
        find_model("less.pt")


def test_a_file_of_open_clips_trainer_has_the_architectures_activation(checkpoints: Any, tmp_path: Path) -> None:
    state = {f"module.{name}": tensor for name, tensor in torch.load(checkpoints("tiny"), weights_only=True).items()}
    trained = {"epoch": 3, "name": "run", "state_dict": state, "optimizer": {"state": {}, "param_groups": []}}
    file = tmp_path / "run" / "checkpoints" / "epoch_3.pt"
    file.parent.mkdir(parents=True)
    torch.save(trained, file)
    with pytest.warns(TellapartWarning, match="trainer.*GELU.*open_clip:tiny-quickgelu@"):
        assert find_model(f"open_clip:tiny@{file}").activation == "GELU"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_model(f"open_clip:tiny-quickgelu@{file}").activation == "QuickGELU"
    (file.parents[1] / "params.txt").write_text("model: tiny\npretrained: openai\nforce_quick_gelu: False\n")
    with raises(ModelError, f"open_clip:tiny@{file}: write open_clip:tiny-quickgelu@{file}", "unknown"):
        find_model(f"open_clip:tiny@{file}")  # open_clip 2 trained it with QuickGELU, open_clip 3 with GELU
    del trained["optimizer"]
    torch.save(trained, tmp_path / "other.pt")
    with raises(ModelError, f"write open_clip:tiny-quickgelu@{tmp_path / 'other.pt'}"):
        find_model(f"open_clip:tiny@{tmp_path / 'other.pt'}")


def test_an_adapter_in_a_folder_of_a_folder_is_named(tmp_path: Path) -> None:
    adapter = tmp_path / "run" / "adapter"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "x/y"}))
    torch.save({}, adapter / "adapter_model.bin")
    with raises(UnknownNameError, f"hf:{adapter}", "peft"):
        find_model(str(tmp_path / "run"))
    with raises(ModelError, f"open_clip:ARCH/TAG@{adapter}"):
        find_model(f"local-dir:{adapter}")


def test_vectors_that_overflow_in_float16_are_answered_with_the_dtypes_that_hold_them(
    checkpoints: Any, tmp_path: Path
) -> None:
    state = torch.load(checkpoints("tiny"), weights_only=True)
    state["text_projection"] *= 1e6
    torch.save(state, tmp_path / "a.pt")
    model = find_model(f"open_clip:tiny-gelu@{tmp_path / 'a.pt'}", ModelOptions(dtype="float16"))
    with raises(ModelError, "not finite", "65,504", "dtype='bfloat16'", "'float32'"):
        model.encode_texts(["a cat"])
    exact = find_model(f"open_clip:tiny-gelu@{tmp_path / 'a.pt'}")
    assert np.isfinite(exact.encode_texts(["a cat"])).all()
