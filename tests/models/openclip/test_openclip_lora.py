"""LoRA checkpoints of open_clip: their models have the vectors of the merged weights."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import edit
from tiny_openclip import TEXTS, library_vectors, pictures

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.openclip.weights import merge_updates

RANK, ALPHA = 4, 6
CONFIG = {"r": RANK, "lora_alpha": ALPHA}


def with_matrices(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A state dict as loralib's layers save it, matrices beside every weight that they can change; and it merged."""
    torch.manual_seed(3)
    matrices, merged = {}, dict(state)

    def put(stem: str, name: str, rows: int, columns: int, rank: int = RANK) -> None:
        a, b = torch.randn(rank, columns) * 0.1, torch.randn(rows, rank) * 0.1
        matrices.update({f"{stem}A": a, f"{stem}B": b})
        product = (a.T @ b.T) if name == "token_embedding.weight" else (b @ a).view(state[name].shape)
        merged[name] = state[name] + ALPHA / RANK * product

    for name, weight in state.items():
        stem = name.removesuffix("weight") + "lora_"
        if name.endswith("attn.in_proj_weight"):
            put(f"{name}_lora_", name, *weight.shape)
        elif name.endswith(("c_fc.weight", "c_proj.weight", "out_proj.weight")):
            put(stem, name, *weight.shape)
        elif name == "visual.conv1.weight":
            side = weight.shape[-1]
            put(stem, name, weight.shape[0] * side, weight.shape[1] * side, RANK * side)
        elif name == "token_embedding.weight":  # looks up columns of A
            put(stem, name, *weight.shape[::-1])
    return {**state, **matrices}, merged


def written(folder: Path, tensors: Mapping[str, Any], config: object = None) -> Path:
    folder.mkdir()
    torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in tensors.items()}}, folder / "lora.pt")
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder / "lora.pt"


@pytest.mark.slow
def test_a_file_of_matrices_has_the_vectors_of_its_merged_weights(open_clip, checkpoints, tmp_path):
    bare = checkpoints("tiny")
    tensors, merged = with_matrices(torch.load(bare, weights_only=True))
    torch.save(merged, tmp_path / "merged.pt")
    files = [written(tmp_path / str(alpha), tensors, CONFIG | {"lora_alpha": alpha}) for alpha in (ALPHA, ALPHA + 1)]
    ours, other, plain = (find_model(f"open_clip:tiny-gelu@{path}") for path in (*files, bare))
    images, texts = library_vectors(open_clip, "tiny", tmp_path / "merged.pt")
    np.testing.assert_allclose(ours.encode_images(pictures()), images, atol=2e-6)
    np.testing.assert_allclose(ours.encode_texts(TEXTS), texts, atol=2e-6)
    # Scale, updates and weights are all in the fingerprint.
    assert len({ours.fingerprint, other.fingerprint, plain.fingerprint}) == 3


WEIGHTS = {
    "fc.weight": torch.eye(2), "fc.lora_A": torch.tensor([[1.0, 2.0]]), "fc.lora_B": torch.tensor([[3.0], [4.0]]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"r": 2, "lora_alpha": 1}, 0.5),
        ({"r": 2, "lora_alpha": 4, "use_dora": False, "rank_pattern": {}}, 2.0),
        ({"r": 2, "lora_alpha": 1, "use_rslora": True}, math.sqrt(0.5)),
    ],
)
def test_the_update_is_alpha_over_rank_times_b_a_and_half_weights_keep_small_ones(config, scale, tmp_path):
    a, b = torch.randn(2, 3), torch.randn(3, 2) / 1e5
    tensors = {"fc.weight": torch.ones(3, 3).half(), "fc.lora_A": a, "fc.lora_B": b}
    merged = merge_updates("m", tensors, written(tmp_path / "f", tensors, config))
    assert set(merged) == {"fc.weight"}
    expected = 1 + scale * (b.double() @ a.double())
    np.testing.assert_allclose(merged["fc.weight"].double(), expected, rtol=0, atol=6e-8)


def dropped(name: str) -> dict[str, Any]:
    return {key: tensor for key, tensor in WEIGHTS.items() if key != name}


@pytest.mark.parametrize(
    ("tensors", "config", "message"),
    [
        (WEIGHTS, None, ("m", "lora.pt", "2", "LoRA", "fc.lora_A", "adapter_config.json", '"r"', "4")),
        (WEIGHTS, {"r": 1}, ("adapter_config.json", "'r'", "1", "None")),
        (WEIGHTS, {"r": True, "lora_alpha": 1}, ("'r'", "True", "1")),
        (WEIGHTS, {"r": 0, "lora_alpha": 1}, ("'r'", "1", "0", "1")),
        (WEIGHTS, [4], ("'r'", "None", "None")),
        (WEIGHTS, {"r": 1, "lora_alpha": 1, "use_dora": True}, ("'use_dora'", "dict")),
        (WEIGHTS, {"r": 2, "lora_alpha": 1}, ("fc.weight", "(1, 2)", "(2, 1)", "2", "(2, 2)")),
        (dropped("fc.lora_B"), {"r": 1, "lora_alpha": 1}, ("fc.lora_A", "lora_A")),
        (dropped("fc.weight"), {"r": 1, "lora_alpha": 1}, ("fc.lora_A", "fc.weight")),
    ],
)
def test_what_cannot_be_merged_is_an_error(tensors, config, message, tmp_path):
    with raises(ModelError, message):
        merge_updates("m", tensors, written(tmp_path / "f", tensors, config))


@pytest.mark.slow
def test_an_adapter_s_folder_is_merged_as_peft_merges_it(open_clip, checkpoints, tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed (the train extra)")
    torch.manual_seed(4)
    file, adapter, merged = checkpoints("tiny"), tmp_path / "a", tmp_path / "merged.pt"
    targets = ["attn", "c_fc", "c_proj", "conv1", "token_embedding"]
    settings = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, init_lora_weights=False)
    wrapped = peft.get_peft_model(open_clip.create_model("tiny", str(file)).eval(), settings)
    wrapped.save_pretrained(adapter)
    torch.save(wrapped.merge_and_unload().state_dict(), merged)
    with raises(ModelError, "model", "open_clip:ARCH/TAG@FOLDER"):
        find_model(f"open_clip:tiny-gelu@{adapter}")
    edit(adapter / "adapter_config.json", base_model_name_or_path=str(file))
    models = [find_model(f"open_clip:tiny-gelu@{path}") for path in (adapter, merged, file)]
    vectors = [(model.encode_images(pictures()), model.encode_texts(TEXTS)) for model in models]
    for one, other, bare in zip(*vectors, strict=True):
        # The products are summed in another order, and random updates make weights large: 4e-6 on some processors.
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)
        assert np.abs(one - bare).max() > 0.05
    edit(adapter / "adapter_config.json", base_model_name_or_path="an/id")
    with raises(ModelError, "'an/id'", "open_clip:tiny-gelu/TAG@"):
        find_model(f"open_clip:tiny-gelu@{adapter}")
