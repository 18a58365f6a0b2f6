"""A tiny model that sees, in llama.cpp's own files: a language model of one layer, and a picture encoder of one layer.

Random weights; every word of an answer is one of the few tokens below, so `Yes` and `No` are single tokens.
"""

from functools import partial
from pathlib import Path

import gguf
import numpy as np

_WIDTH, _HEADS, _INNER, _SIDE, _PATCH = 32, 2, 64, 16, 8
_WORDS = ("Yes", "No", "\N{LOWER ONE EIGHTH BLOCK}Yes", "\N{LOWER ONE EIGHTH BLOCK}No", "a", "dog", "cat", "1;2", "2;1")


def write_language_model(path: Path, seed: int = 0) -> None:
    """Write a llama of one layer, whose tokenizer falls back to bytes."""
    draw = np.random.default_rng(seed)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *_WORDS]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(_WORDS)
    writer = gguf.GGUFWriter(path, "llama")
    facts = {
        "name": "tiny", "context_length": 2048, "embedding_length": _WIDTH, "block_count": 1,
        "feed_forward_length": _INNER, "head_count": _HEADS, "head_count_kv": _HEADS, "layer_norm_rms_eps": 1e-5,
        "rope_dimension_count": _WIDTH // _HEADS, "vocab_size": len(tokens), "tokenizer_model": "llama",
        "token_list": tokens, "token_scores": [0.0] * 259 + [-float(k + 1) for k in range(len(_WORDS))],
        "token_types": kinds, "bos_token_id": 1, "eos_token_id": 2,
        "chat_template": "{% for message in messages %}{{ message.content }}\n{% endfor %}",
    }  # fmt: skip
    for name, value in facts.items():
        getattr(writer, f"add_{name}")(value)
    add = partial(_add, writer, draw)
    add("token_embd.weight", len(tokens), _WIDTH)
    output = draw.standard_normal((len(tokens), _WIDTH))
    output[: -len(_WORDS)] = 0.0  # no byte is likelier than the likeliest word
    writer.add_tensor("output.weight", output.astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        add(f"blk.0.{name}.weight", _WIDTH, _WIDTH)
    for name, *shape in (("gate", _INNER, _WIDTH), ("up", _INNER, _WIDTH), ("down", _WIDTH, _INNER)):
        add(f"blk.0.ffn_{name}.weight", *shape)
    _finish(writer)


def write_picture_encoder(path: Path, seed: int = 1) -> None:
    """Write a vision transformer of one layer with LLaVA's projector (two linear layers)."""
    draw = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_string("general.type", "mmproj")
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.use_gelu", True)
    writer.add_file_type(0)
    for name, number in {
        "image_size": _SIDE, "patch_size": _PATCH, "embedding_length": _WIDTH, "feed_forward_length": _INNER,
        "projection_dim": _WIDTH, "block_count": 1, "attention.head_count": _HEADS,
    }.items():  # fmt: skip
        writer.add_uint32(f"clip.vision.{name}", number)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    for name in ("mean", "std"):
        writer.add_array(f"clip.vision.image_{name}", [0.5, 0.5, 0.5])
    add = partial(_add, writer, draw)

    def linear(name: str, out: int, inner: int) -> None:
        add(f"{name}.weight", out, inner)
        writer.add_tensor(f"{name}.bias", np.zeros(out, np.float32))

    for name in ("v.pre_ln", "v.blk.0.ln1", "v.blk.0.ln2"):
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(_WIDTH, np.float32))
    add("v.patch_embd.weight", _WIDTH, 3, _PATCH, _PATCH)
    add("v.class_embd", _WIDTH)
    add("v.position_embd.weight", (_SIDE // _PATCH) ** 2 + 1, _WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        linear(f"v.blk.0.{name}", _WIDTH, _WIDTH)
    linear("v.blk.0.ffn_up", _INNER, _WIDTH)
    linear("v.blk.0.ffn_down", _WIDTH, _INNER)
    # The projector reads the last layer but one, so a second layer would change nothing.
    linear("mm.0", _WIDTH, _WIDTH)
    linear("mm.2", _WIDTH, _WIDTH)
    _finish(writer)


def _add(writer: gguf.GGUFWriter, draw: np.random.Generator, name: str, *shape: int) -> None:
    writer.add_tensor(name, (draw.standard_normal(shape) * 0.3).astype(np.float32))


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
