"""State dicts of tiny size under the authors' names, and tokenizers; numbers are random, layouts are as published."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tiny_fusion_encoders import bert

from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, PairScorer
from tellapart.models.torch.backend import import_torch

torch = import_torch()

Shapes = dict[str, tuple[int, ...]]

#: What no shape tells of them.
SETTINGS = {"num_attention_heads": 4, "num_heads": 2}


def draw(shapes: Shapes, seed: int = 0) -> dict[str, Any]:
    """Draw numbers that keep every layer alive: wide weights, norms around 1."""
    generator = torch.Generator().manual_seed(seed)

    def numbers(name: str, shape: tuple[int, ...]):
        noise = torch.randn(shape, generator=generator)
        if len(shape) > 1:
            return noise * 1.5 / shape[-1] ** 0.5
        return 0.3 * noise + name.endswith(("norm.weight", "norm1.weight", "norm2.weight", "Norm.weight"))

    return {name: numbers(name, shape) for name, shape in shapes.items()}


def linear(name: str, out: int, into: int) -> Shapes:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def bert_layer(name: str, width: int, inner: int, source: int | None = None) -> Shapes:
    shapes = {}
    for attention, into in (("attention", width), ("crossattention", source)):
        if into is None:
            continue
        for part in ("query", "key", "value"):
            shapes |= linear(f"{name}.{attention}.self.{part}", width, width if part == "query" else into)
        shapes |= linear(f"{name}.{attention}.output.dense", width, width)
        shapes |= norm(f"{name}.{attention}.output.LayerNorm", width)
    shapes |= linear(f"{name}.intermediate.dense", inner, width) | linear(f"{name}.output.dense", width, inner)
    return shapes | norm(f"{name}.output.LayerNorm", width)


def bert_embeddings(name: str, width: int, words: int = 100, positions: int = 64) -> Shapes:
    rows = {"word_embeddings": words, "position_embeddings": positions, "token_type_embeddings": 2}
    return {f"{name}.{part}.weight": (count, width) for part, count in rows.items()} | norm(f"{name}.LayerNorm", width)


def vit(name: str, width: int, depth: int = 2, side: int = 2, patch: int = 16) -> Shapes:
    shapes = {f"{name}.cls_token": (1, 1, width), f"{name}.pos_embed": (1, 1 + side * side, width)}
    shapes |= {f"{name}.patch_embed.proj.weight": (width, 3, patch, patch), f"{name}.patch_embed.proj.bias": (width,)}
    for k in range(depth):
        block = f"{name}.blocks.{k}"
        shapes |= norm(f"{block}.norm1", width) | norm(f"{block}.norm2", width)
        shapes |= linear(f"{block}.attn.qkv", 3 * width, width) | linear(f"{block}.attn.proj", width, width)
        shapes |= linear(f"{block}.mlp.fc1", 4 * width, width) | linear(f"{block}.mlp.fc2", width, 4 * width)
    return shapes | norm(f"{name}.norm", width)


def albef_state() -> dict[str, Any]:
    width = 32
    shapes = vit("visual_encoder", width) | bert_embeddings("text_encoder.embeddings", width)
    for k in range(4):
        shapes |= bert_layer(f"text_encoder.encoder.layer.{k}", width, 64, width if k >= 2 else None)
    shapes |= linear("vision_proj", 16, width) | linear("text_proj", 16, width) | linear("itm_head", 2, width)
    return draw(shapes | {"temp": (), "image_queue": (16, 8), "text_encoder_m.embeddings.LayerNorm.weight": (width,)})


def blip_state() -> dict[str, Any]:
    width = 32
    embeddings = bert_embeddings("text_encoder.embeddings", width)
    del embeddings["text_encoder.embeddings.token_type_embeddings.weight"]
    shapes = vit("visual_encoder", width) | embeddings
    for k in range(2):
        shapes |= bert_layer(f"text_encoder.encoder.layer.{k}", width, 64, width)
    shapes |= linear("vision_proj", 16, width) | linear("text_proj", 16, width) | linear("itm_head", 2, width)
    return draw(shapes | {"temp": (), "ptr_queue": (1,), "text_decoder.cls.predictions.bias": (9,)})


def vilt_state() -> dict[str, Any]:
    width = 32
    shapes = vit("transformer", width) | bert_embeddings("text_embeddings", width, positions=40)
    shapes |= linear("pooler.dense", width, width) | {"token_type_embeddings.weight": (2, width)}
    shapes |= linear("itm_score.fc", 2, width) | linear("rank_output", 1, width)
    return draw(shapes | {"mlm_score.bias": (100,)})


def swin(
    name: str, width: int, depths: tuple[int, ...], *,
    window: int, inner: int, text_from: tuple[int, int] | None = None, text: int = 16,
) -> Shapes:  # fmt: skip
    """Return a Swin tower's shapes; from a stage's block on, its attention reads states of a text, too."""
    shapes = {f"{name}.patch_embed.proj.weight": (width, 3, 4, 4), f"{name}.patch_embed.proj.bias": (width,)}
    shapes |= norm(f"{name}.patch_embed.norm", width)
    for stage, depth in enumerate(depths):
        for k in range(depth):
            block = f"{name}.layers.{stage}.blocks.{k}"
            shapes |= norm(f"{block}.norm1", width) | norm(f"{block}.norm2", width)
            shapes[f"{block}.attn.relative_position_bias_table"] = ((2 * window - 1) ** 2, 2**stage)
            shapes |= linear(f"{block}.attn.qkv", 3 * width, width) | linear(f"{block}.attn.proj", width, width)
            shapes |= linear(f"{block}.mlp.fc1", inner * width, width)
            shapes |= linear(f"{block}.mlp.fc2", width, inner * width)
            if text_from is not None and (stage, k) >= text_from:
                shapes |= {f"{block}.attn.alpha_i2t": (1,)} | norm(f"{block}.attn.norm_i2t_i", width)
                shapes |= linear(f"{block}.attn.qkv_text_i2t", 2 * width, text)
                shapes |= linear(f"{block}.attn.qkv_i2t", width, width) | linear(f"{block}.attn.proj_i2t", width, width)
        if stage < len(depths) - 1:
            downsample = f"{name}.layers.{stage}.downsample"
            shapes |= norm(f"{downsample}.norm", 4 * width) | {f"{downsample}.reduction.weight": (2 * width, 4 * width)}
            width *= 2
    return shapes | norm(f"{name}.norm", width)


def xvlm_state() -> dict[str, Any]:
    width = 32
    shapes = swin("vision_encoder", 8, (2, 2, 2, 2), window=3, inner=4)
    shapes |= bert_embeddings("text_encoder.bert.embeddings", width)
    for k in range(4):
        shapes |= bert_layer(f"text_encoder.bert.encoder.layer.{k}", width, 64, 64 if k >= 2 else None)
    shapes |= linear("vision_proj", 16, 64) | linear("text_proj", 16, width)
    for head, numbers in (("itm_head", 2), ("bbox_head", 4)):
        shapes |= linear(f"{head}.0", 64, width) | norm(f"{head}.1", 64) | linear(f"{head}.3", numbers, 64)
    return draw(shapes | {"temp": (), "vision_encoder.layers.0.blocks.1.attn_mask": (64, 9, 9)})


def save_tokenizer(folder: Path, tokenizer=None) -> None:
    (tokenizer or bert()).save_pretrained(folder)


States = dict[str, Callable[[], dict[str, Any]]]
STATES: States = {"albef": albef_state, "blip": blip_state, "vilt": vilt_state, "xvlm": xvlm_state}

#: The files' own sizes of images.
SIZES = {"albef": 32, "blip": 32, "vilt": 64, "xvlm": 96}

PICTURES = [np.random.default_rng(k).integers(0, 256, (40 + 9 * k, 50, 3)).astype(np.uint8) for k in range(3)]
TEXTS = ["a red cup on the bowl", "A red bowl, on the cup!", "two dogs"]


def save_family(folder: Path, family: str) -> str:
    """Write a family's file with its tokenizer beside it, and heads of attention in the file's own configuration."""
    folder.mkdir()
    beside = {"hyper_parameters": {"config": {**SETTINGS, "image_size": SIZES["vilt"]}}} if family == "vilt" else {}
    nesting = "state_dict" if family == "vilt" else "model"
    torch.save({nesting: STATES[family](), "config": SETTINGS, **beside}, folder / "model.pth")
    save_tokenizer(folder)
    return f"{family}:{folder / 'model.pth'}"


def score(name: str, **options):
    model = find_model(name, ModelOptions(**options))
    if isinstance(model, PairScorer):
        return model.score_pairs(PICTURES, TEXTS)
    assert isinstance(model, DualEncoder)
    return model.similarity(model.encode_images(PICTURES), model.encode_texts(TEXTS))


def cappa_shapes(
    width: int = 32, depths: tuple[int, int] = (2, 2), inner: int = 48, each: int = 8, words: int = 40
) -> Shapes:
    """Return the shapes of an Open CapPa, of tiny size if nothing else is said."""
    tables = {"rows": 32, "columns": 32, "registers": 8}
    shapes = {f"vision.{name}": (count, width) for name, count in tables.items()}
    shapes |= {"vision.patch.weight": (width, 3, 16, 16), "text.embedding.weight": (words, width)}
    shapes |= linear("text.logits", words, width)
    for tower, depth in zip(("vision", "text"), depths, strict=True):
        for block in (f"{tower}.blocks.{k}" for k in range(depth)):
            for attention in ("attention", "cross_attention")[: 1 if tower == "vision" else 2]:
                parts = ("query", "key", "value", "out")
                shapes |= {f"{block}.{attention}.{part}.weight": (width, width) for part in parts}
                shapes |= {f"{block}.{attention}.norm_{part}.weight": (each,) for part in ("query", "key")}
            shapes |= {f"{block}.mlp.{part}.weight": (inner, width) for part in ("wi_0", "wi_1")}
            shapes[f"{block}.mlp.wo.weight"] = (width, inner)
    return shapes


def save_cappa(folder: Path) -> str:
    """Write a CapPa of tiny size with its tokenizer and settings, and return the model's name."""
    from safetensors.torch import save_file

    folder.mkdir()
    save_file(draw(cappa_shapes()), folder / "cappa.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "cappa", "image_size": 48}))
    save_tokenizer(folder)
    return f"cappa:{folder / 'cappa.safetensors'}"
