"""LoRA checkpoints of open_clip: the merged model scores as the one that adds the updates at each layer."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import edit
from tiny_openclip import TEXTS, pictures

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.openclip.weights import merge_updates

linear = torch.nn.functional.linear

RANK, ALPHA = 4, 6
CONFIG = {"r": RANK, "lora_alpha": ALPHA}


def with_matrices(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict as loralib's layers save it: matrices beside every weight that they can change."""
    torch.manual_seed(3)
    found = dict(state)

    def put(stem: str, rows: int, columns: int, rank: int = RANK) -> None:
        found[stem + "A"] = torch.randn(rank, columns) * 0.1
        found[stem + "B"] = torch.randn(rows, rank) * 0.1

    for name, weight in state.items():
        if name.endswith("attn.in_proj_weight"):
            put(f"{name}_lora_", *weight.shape)
        elif name.endswith(("c_fc.weight", "c_proj.weight", "out_proj.weight")):
            put(name.removesuffix("weight") + "lora_", *weight.shape)
        elif name == "visual.conv1.weight":
            side = weight.shape[-1]
            put("visual.conv1.lora_", weight.shape[0] * side, weight.shape[1] * side, RANK * side)
        elif name == "token_embedding.weight":
            put("token_embedding.lora_", weight.shape[1], weight.shape[0])
    return found


def written(folder: Path, tensors: Mapping[str, Any], config: object = None) -> Path:
    folder.mkdir()
    torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in tensors.items()}}, folder / "lora.pt")
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder / "lora.pt"


def add_at_each_layer(model, tensors: Mapping[str, Any], scale: float) -> None:
    """Change a model's forward pass, not its weights: W x + scale * B (A x), as the authors' layers compute."""

    def attend(attention, name: str) -> Callable[..., Any]:
        a, b = (tensors[f"{name}.in_proj_weight_lora_{half}"] for half in "AB")
        out_a, out_b = (tensors[f"{name}.out_proj.lora_{half}"] for half in "AB")

        def forward(x, *_, attn_mask=None, **__) -> tuple[Any, None]:
            packed = linear(x, attention.in_proj_weight, attention.in_proj_bias) + scale * linear(linear(x, a), b)
            heads = [part.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for part in packed.chunk(3, dim=-1)]
            y = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=attn_mask)
            y = y.transpose(1, 2).flatten(2)
            out = attention.out_proj
            return linear(y, out.weight, out.bias) + scale * linear(linear(y, out_a), out_b), None

        return forward

    def added(layer, update: Callable[[Any], Any]) -> Callable[..., Any]:
        plain = layer.forward
        return lambda x: plain(x) + scale * update(x)

    for name, layer in model.named_modules():
        a, b = tensors.get(f"{name}.lora_A"), tensors.get(f"{name}.lora_B")
        if isinstance(layer, torch.nn.MultiheadAttention):
            assert layer.batch_first
            layer.forward = attend(layer, name)
        elif isinstance(layer, torch.nn.Conv2d):
            kernel = (b @ a).view(layer.weight.shape)
            layer.forward = added(layer, lambda x, k=kernel, s=layer.stride: torch.nn.functional.conv2d(x, k, stride=s))
        elif isinstance(layer, torch.nn.Embedding) and a is not None:
            layer.forward = added(layer, lambda x, a=a, b=b: a.T[x] @ b.T)
        elif name.endswith(("c_fc", "c_proj")):
            layer.forward = added(layer, lambda x, a=a, b=b: linear(linear(x, a), b))


@pytest.mark.slow
def test_a_merged_file_scores_as_updates_added_at_each_layer(open_clip, checkpoints, tmp_path):
    from PIL import Image

    state = torch.load(checkpoints("tiny"), weights_only=True)
    tensors = with_matrices(state)
    file = written(tmp_path / "one", tensors, CONFIG)
    model = find_model(f"open_clip:tiny-gelu@{file}")
    plain, _, transform = open_clip.create_model_and_transforms("tiny", str(checkpoints("tiny")))
    add_at_each_layer(plain.eval(), tensors, ALPHA / RANK)
    tokenizer = open_clip.get_tokenizer("tiny")
    with torch.inference_mode():
        images = plain.encode_image(torch.stack([transform(Image.fromarray(picture)) for picture in pictures()]))
        texts = plain.encode_text(tokenizer(TEXTS))
    unit = torch.nn.functional.normalize
    np.testing.assert_allclose(model.encode_images(pictures()), unit(images, dim=-1).numpy(), atol=2e-6)
    np.testing.assert_allclose(model.encode_texts(TEXTS), unit(texts, dim=-1).numpy(), atol=2e-6)
    # Scale, updates and weights are all in the fingerprint.
    other = written(tmp_path / "two", tensors, CONFIG | {"lora_alpha": ALPHA + 1})
    bare = checkpoints("tiny")
    prints = {find_model(f"open_clip:tiny-gelu@{path}").fingerprint for path in (file, other, bare)}
    assert len(prints) == 3


HALVES = {"fc.lora_A": torch.tensor([[1.0, 2.0]]), "fc.lora_B": torch.tensor([[3.0], [4.0]])}
WEIGHTS = {"fc.weight": torch.eye(2), **HALVES}


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
    file = checkpoints("tiny")
    model = open_clip.create_model("tiny", str(file)).eval()
    targets = ["attn", "c_fc", "c_proj", "conv1", "token_embedding"]
    settings = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, init_lora_weights=False)
    wrapped = peft.get_peft_model(model, settings)
    wrapped.save_pretrained(tmp_path / "a")
    torch.save(wrapped.merge_and_unload().state_dict(), tmp_path / "merged.pt")
    with raises(ModelError, "model", "open_clip:ARCH/TAG@FOLDER"):
        find_model(f"open_clip:tiny-gelu@{tmp_path / 'a'}")
    config = tmp_path / "a" / "adapter_config.json"
    edit(config, lambda content: content.update(base_model_name_or_path=str(file)))
    ours, theirs, plain = (
        find_model(f"open_clip:tiny-gelu@{path}") for path in (tmp_path / "a", tmp_path / "merged.pt", file)
    )
    vectors = [(model.encode_images(pictures()), model.encode_texts(TEXTS)) for model in (ours, theirs, plain)]
    for one, other, bare in zip(*vectors, strict=True):
        # The products are summed in another order, and random updates make weights large: 4e-6 on some processors.
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)
        assert np.abs(one - bare).max() > 0.05
    edit(config, lambda content: content.update(base_model_name_or_path="an/id"))
    with raises(ModelError, "'an/id'", "open_clip:tiny-gelu/TAG@"):
        find_model(f"open_clip:tiny-gelu@{tmp_path / 'a'}")
