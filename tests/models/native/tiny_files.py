"""State dicts of tiny size under the authors' names, and tokenizers; numbers are random, layouts are as published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "fusion"))

from tiny_fusion_encoders import bert

from tellapart.models.torch_backend import import_torch

torch = import_torch()

#: What no shape tells of them.
SETTINGS = {"num_attention_heads": 4, "num_heads": 2}


def draw(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Any]:
    """Draw numbers that keep every layer alive: wide weights, norms around 1."""
    generator = torch.Generator().manual_seed(seed)

    def numbers(name: str, shape: tuple[int, ...]) -> Any:
        noise = torch.randn(shape, generator=generator)
        if len(shape) > 1:
            return noise * 1.5 / shape[-1] ** 0.5
        return 0.3 * noise + (
            1.0 if name.endswith(("norm.weight", "norm1.weight", "norm2.weight", "Norm.weight")) else 0.0
        )

    return {name: numbers(name, shape) for name, shape in shapes.items()}


def linear(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def bert_layer(name: str, width: int, inner: int, source: int | None = None) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for attention, into in (("attention", width), ("crossattention", source)):
        if into is None:
            continue
        shapes |= linear(f"{name}.{attention}.self.query", width, width)
        shapes |= linear(f"{name}.{attention}.self.key", width, into) | linear(
            f"{name}.{attention}.self.value", width, into
        )
        shapes |= linear(f"{name}.{attention}.output.dense", width, width)
        shapes |= norm(f"{name}.{attention}.output.LayerNorm", width)
    shapes |= linear(f"{name}.intermediate.dense", inner, width) | linear(f"{name}.output.dense", width, inner)
    return shapes | norm(f"{name}.output.LayerNorm", width)


def bert_embeddings(name: str, width: int, words: int = 100, positions: int = 64) -> dict[str, tuple[int, ...]]:
    rows = {"word_embeddings": words, "position_embeddings": positions, "token_type_embeddings": 2}
    return {f"{name}.{part}.weight": (count, width) for part, count in rows.items()} | norm(f"{name}.LayerNorm", width)


def vit(name: str, width: int, depth: int = 2, side: int = 2, patch: int = 16) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        f"{name}.cls_token": (1, 1, width),
        f"{name}.pos_embed": (1, 1 + side * side, width),
        f"{name}.patch_embed.proj.weight": (width, 3, patch, patch),
        f"{name}.patch_embed.proj.bias": (width,),
    }
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


def save_tokenizer(folder: Path, tokenizer: Any = None) -> None:
    (tokenizer or bert()).save_pretrained(folder)


def cappa_shapes(
    width: int = 32, depths: tuple[int, int] = (2, 2), inner: int = 48, each: int = 8, words: int = 40
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an Open CapPa, of tiny size if nothing else is said."""
    tables = {"rows": 32, "columns": 32, "registers": 8}
    shapes: dict[str, tuple[int, ...]] = {f"vision.{name}": (count, width) for name, count in tables.items()}
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
