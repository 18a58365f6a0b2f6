"""Adapters of peft: merged as peft merges them, for transformers and open_clip; other methods are refused."""

import json
import math
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import clip, edit, pictures
from torch import nn

from facts import raises
from tellapart.errors import ModelError, UnknownNameError
from tellapart.models.find import find_model, find_prefix
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.torch.peft_adapter import PeftAdapter, find_adapter, merge_adapter

TEXTS = ["a red cup", "two dogs on a mat", ""]


def written(folder: Path, tensors: dict[str, Any], **settings) -> Path:
    """A folder as peft saves it."""
    from safetensors.torch import save_file

    folder.mkdir()
    named = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
    save_file(named, folder / "adapter_model.safetensors")
    stated = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "bias": "none", "target_modules": ["fc"]}
    (folder / "adapter_config.json").write_text(json.dumps(stated | settings))
    return folder


def matrices(name: str, rows: int, columns: int, rank: int = 2, *, embedding: bool = False) -> dict[str, Any]:
    a, b = torch.randn(rank, columns), torch.randn(rows, rank)
    halves = ("embedding_A", "embedding_B") if embedding else ("A.weight", "B.weight")
    return {f"{name}.lora_{half}": tensor for half, tensor in zip(halves, (a, b), strict=True)}


class Layers(nn.Module):
    """One of each kind of layer that a LoRA changes."""

    def __init__(self) -> None:
        super().__init__()
        from transformers.pytorch_utils import Conv1D

        # peft takes a Conv1D's turned weight for the rule of all layers behind it.
        self.attn, self.fc, self.words = nn.MultiheadAttention(6, 2), nn.Linear(6, 4), nn.Embedding(5, 6)
        self.conv, self.turned = nn.Conv2d(3, 4, 2), Conv1D(6, 6)


def test_an_update_is_the_scale_times_b_a_whichever_way_the_weight_lies(tmp_path):
    pytest.importorskip("peft", reason="peft is not installed (the train extra)")
    torch.manual_seed(0)
    model = Layers()
    before = {name: tensor.double().numpy().copy() for name, tensor in model.state_dict().items()}
    conv = {"conv.lora_A.weight": torch.randn(2, 3, 2, 2), "conv.lora_B.weight": torch.randn(4, 2, 1, 1)}
    tensors = matrices("fc", 4, 6) | matrices("turned", 6, 6, 3) | matrices("words", 6, 5, embedding=True) | conv
    tensors |= matrices("attn", 18, 6) | matrices("attn.base_layer.out_proj", 6, 6)
    patterns = {"rank_pattern": {"turned": 3}, "alpha_pattern": {"^attn": 5, "f.": 7}}
    targets = ["fc", "turned", "words", "attn", "conv"]
    folder = written(tmp_path / "a", tensors, use_rslora=True, target_modules=targets, **patterns)
    adapter = find_adapter(folder)
    assert adapter is not None
    merge_adapter("m", model, adapter)
    halved = {"fc": 7, "words": 3, "conv": 3, "attn": 5, "attn.base_layer.out_proj": 10}  # twice its attention's alpha
    scales = {name: alpha / math.sqrt(2) for name, alpha in halved.items()} | {"turned": 3 / math.sqrt(3)}
    after = model.state_dict()
    for module, scale in scales.items():
        half = "embedding_{}" if module == "words" else "{}.weight"
        a, b = (tensors[f"{module}.lora_{half.format(one)}"].double().flatten(1).numpy() for one in "AB")
        product = (b @ a).T if module in {"turned", "words"} else b @ a
        name = "attn.in_proj_weight" if module == "attn" else f"{module.replace('.base_layer', '')}.weight"
        expected = before[name] + scale * product.reshape(before[name].shape)
        np.testing.assert_allclose(after[name].numpy(), expected, rtol=1e-6, atol=1e-6, err_msg=name)
    unchanged = [name for name in before if name.endswith("bias")]
    assert len(unchanged) == 5 and all((after[name].numpy() == before[name]).all() for name in unchanged)


@pytest.mark.slow
def test_a_model_of_transformers_is_the_one_that_peft_merges(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed (the train extra)")
    base, adapter = clip(tmp_path / "base"), tmp_path / "a"
    model = import_transformers().CLIPModel.from_pretrained(base)
    targets = ["q_proj", "v_proj", "fc1", "patch_embedding", "token_embedding", "visual_projection"]
    patterns = {"rank_pattern": {"fc1": 5}, "alpha_pattern": {r"text_model\..*\.q_proj": 3}}
    how = {"target_modules": targets, "r": 4, "lora_alpha": 6, "use_rslora": True, "init_lora_weights": False}
    torch.manual_seed(4)
    shutil.copytree(base, tmp_path / "merged")
    with quiet(), warnings.catch_warnings(action="ignore"):  # of a property that peft reads
        wrapped = peft.get_peft_model(model, peft.LoraConfig(**how, **patterns))
        wrapped.save_pretrained(adapter)
        wrapped.merge_and_unload().save_pretrained(tmp_path / "merged")
    ours, theirs, plain = (find_model(f"hf:{folder}") for folder in (adapter, tmp_path / "merged", base))
    vectors = [(model.encode_images(pictures()), model.encode_texts(TEXTS)) for model in (ours, theirs, plain)]
    for one, other, bare in zip(*vectors, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
        assert np.abs(one - bare).max() > 0.05
    assert ours.fingerprint != plain.fingerprint
    # A run that is stored depends on the base's files, too.
    files = find_prefix(f"hf:{adapter}").files(f"hf:{adapter}")
    assert {path.parent.name for path in files or ()} == {"a", "base"}
    with raises(UnknownNameError, "adapter", "peft"):
        find_model(str(adapter))
    edit(adapter / "adapter_config.json", **{BASE: None})
    with raises(ModelError, "model", "'base_model_name_or_path'"):
        find_model(f"hf:{adapter}")


BASE = "base_model_name_or_path"
REFUSED: list[tuple[dict[str, Any], dict[str, Any], Any]] = [
    ({"peft_type": "IA3"}, {}, ("'peft_type'", "'IA3'", "'LORA'")),
    ({"a_setting_of_tomorrow": 1}, {}, ("adapter_config.json", "'a_setting_of_tomorrow'", "peft")),
    ({"r": 4}, {}, ("adapter_model.safetensors", "2", "4")),
    ({"lora_alpha": None}, {}, ("adapter_model.safetensors", "peft")),
    ({"target_modules": ["fc", "conv"]}, {}, ("lacks", "conv.lora_A")),
    ({}, matrices("gone", 4, 6), ("Layers", "changes", "gone.lora_A")),
    ({}, matrices("fc", 6, 4), ("adapter_model.safetensors", "[2, 4]", "[2, 6]")),
    ({}, {"fc.lora_A.weight": torch.ones(2, 6)}, ("lacks", "fc.lora_B")),
    ({}, {"fc.lora_magnitude_vector": torch.ones(4)}, "fc.lora_magnitude_vector"),
]


@pytest.mark.parametrize(("settings", "tensors", "message"), REFUSED)
def test_what_does_not_fit_is_refused(settings, tensors, message, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed (the train extra)")
    folder = written(tmp_path / "a", tensors or matrices("fc", 4, 6), **settings)
    with raises(ModelError, message):
        merge_adapter("m", Layers(), find_adapter(folder) or PeftAdapter(folder, {}))


def test_weights_beside_the_matrices_and_adapters_of_adapters_are_refused(tmp_path):
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "config.json").write_text('{"model_type": "albef"}')
    bases = {"a": "x/y", "b": str(tmp_path / "a"), "c": str(tmp_path / "native")}
    folders = {name: written(tmp_path / name, matrices("fc", 4, 6), **{BASE: base}) for name, base in bases.items()}
    for name, facts in (("b", "adapter"), ("c", ("model", "file"))):
        with raises(ModelError, facts):
            find_model(f"hf:{folders[name]}")
    (folders["a"] / "non_lora_trainables.bin").touch()
    with raises(ModelError, "non_lora_trainables.bin", "weights"):
        find_adapter(folders["a"])
