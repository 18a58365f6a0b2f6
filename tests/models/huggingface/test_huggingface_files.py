"""Folders of transformers' dual encoders: a fingerprint is of all that moves a number, and no code of a file is run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises

pytest.importorskip("torch", reason="transformers' models need the extra 'models'")
pytest.importorskip("transformers", reason="transformers' models need the extra 'models'")

import tiny_models
from tiny_models import FAMILIES, TEXTS, loaded, pictures

from tellapart.errors import ModelError
from tellapart.models.torch.backend import import_torch

torch = import_torch()

pytestmark = pytest.mark.usefixtures("one_thread")


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "elsewhere"))


def edit(path: Path, change: Any) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.few(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fingerprint_stays_where_only_the_place_changes(
    family: str, saved: Any, encoders: Any, tmp_path: Path
) -> None:
    elsewhere = copied(saved(family), tmp_path)
    edit(elsewhere / "config.json", lambda config: config.update(transformers_version="4.0.0", _name_or_path="/there"))
    assert loaded(elsewhere).fingerprint == encoders(family).fingerprint


CHANGES: dict[str, Callable[[Path], object]] = {
    "preprocessing": lambda folder: edit(
        folder / "processor_config.json", lambda c: c["image_processor"].update(image_mean=[0.5, 0.5, 0.5])
    ),
    "configuration": lambda folder: edit(
        folder / "config.json", lambda c: c["vision_config"].update(hidden_act="gelu")
    ),
    "tokenizer": lambda folder: edit(folder / "tokenizer.json", lambda c: c["model"]["merges"].pop()),
    "context": lambda folder: edit(folder / "tokenizer_config.json", lambda c: c.update(model_max_length=20)),
    "weights": lambda folder: rewrite(folder, lambda tensors: tensors["logit_scale"].add_(1)),
}


def rewrite(folder: Path, change: Any) -> None:
    """Change the tensors of a saved model."""
    from safetensors.torch import load_file, save_file

    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("change", CHANGES)
def test_a_fingerprint_moves_with_all_that_moves_a_number(
    change: str, saved: Any, encoders: Any, tmp_path: Path
) -> None:
    elsewhere = copied(saved("clip"), tmp_path)
    CHANGES[change](elsewhere)
    assert loaded(elsewhere).fingerprint != encoders("clip").fingerprint


def test_a_checkpoint_of_torch_loads_like_one_of_safetensors(saved: Any, encoders: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    elsewhere = copied(saved("clip"), tmp_path)
    torch.save(load_file(elsewhere / "model.safetensors"), elsewhere / "pytorch_model.bin")
    (elsewhere / "model.safetensors").unlink()
    assert loaded(elsewhere).fingerprint == encoders("clip").fingerprint


@pytest.mark.parametrize("indexed", [False, True])
def test_a_checkpoint_of_torch_is_not_opened_by_an_older_torch(
    saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    from safetensors.torch import load_file

    elsewhere, ran = copied(saved("clip"), tmp_path), tmp_path / "ran"
    names = list(load_file(elsewhere / "model.safetensors"))
    torch.save({"logit_scale": _Payload(ran)}, elsewhere / "pytorch_model.bin")
    (elsewhere / "model.safetensors").unlink()
    if indexed:  # an index of safetensors may name any file
        index = {"metadata": {}, "weight_map": dict.fromkeys(names, "pytorch_model.bin")}
        (elsewhere / "model.safetensors.index.json").write_text(json.dumps(index))
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with raises(ModelError, "2.9.1+cpu", "weights", "run"):
        loaded(elsewhere)
    assert not ran.exists()


def test_files_laid_out_as_openai_s_are_on_the_hub_give_the_same_numbers(
    saved: Any, encoders: Any, tmp_path: Path
) -> None:
    elsewhere = copied(saved("clip"), tmp_path)
    images = json.loads((elsewhere / "processor_config.json").read_text())["image_processor"]
    tokens = json.loads((elsewhere / "tokenizer.json").read_text())["model"]
    for name in ("processor_config.json", "tokenizer.json", "tokenizer_config.json"):
        (elsewhere / name).unlink()
    old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 32, "resample": 3}
    old |= dict.fromkeys(("do_center_crop", "do_normalize", "do_resize"), True)
    old |= {name: images[name] for name in ("image_mean", "image_std")}
    (elsewhere / "preprocessor_config.json").write_text(json.dumps(old))
    (elsewhere / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 24, "do_lower_case": True}))
    (elsewhere / "vocab.json").write_text(json.dumps(tokens["vocab"]))
    (elsewhere / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, tokens["merges"])]) + "\n")
    model = loaded(elsewhere)
    np.testing.assert_array_equal(model.encode_images(pictures()), encoders("clip").encode_images(pictures()))
    np.testing.assert_array_equal(model.encode_texts(TEXTS), encoders("clip").encode_texts(TEXTS))
    (elsewhere / "merges.txt").unlink()
    with raises(ModelError, "processor", "vocab"):
        loaded(elsewhere)


class _Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def test_no_code_of_a_model_is_run(saved: Any, encoders: Any, tmp_path: Path) -> None:
    elsewhere, ran = copied(saved("clip"), tmp_path), tmp_path / "ran"
    (elsewhere / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nclass Evil: pass\n")
    classes = {"AutoModel": "evil.Evil", "AutoProcessor": "evil.Evil", "AutoConfig": "evil.Evil"}
    for name in ("config.json", "processor_config.json", "tokenizer_config.json"):
        edit(elsewhere / name, lambda content: content.update(auto_map=classes))
    assert loaded(elsewhere).fingerprint == encoders("clip").fingerprint
    (elsewhere / "model.safetensors").unlink()
    torch.save({"logit_scale": _Payload(ran)}, elsewhere / "pytorch_model.bin")
    with raises(ModelError, "CLIPModel", "weights"):
        loaded(elsewhere)
    assert not ran.exists()


def test_a_single_file_beside_other_shards_is_refused(saved: Any, tmp_path: Path) -> None:
    folder = copied(saved("clip"), tmp_path)
    model = tiny_models.transformers().CLIPModel.from_pretrained(folder)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    for file in (tmp_path / "shards").glob("model*"):
        shutil.copy(file, folder)
    vectors = loaded(saved("clip")).encode_texts(TEXTS)
    np.testing.assert_array_equal(loaded(folder).encode_texts(TEXTS), vectors)  # equal numbers, whichever is read
    rewrite(folder, lambda tensors: tensors["logit_scale"].add_(1))
    with raises(ModelError, folder, "model.safetensors", "model.safetensors.index.json", "logit_scale"):
        loaded(folder)
    next(folder.glob("model-00001-of-*")).unlink()  # what is left of the shards is no model
    loaded(folder)
    (folder / "model.safetensors").unlink()
    with raises(ModelError, folder):
        loaded(folder)
