"""State dicts and files of captioners: OFA's of any size, X-VLM's and FIBER's of tiny size; numbers are random."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiny_files import SETTINGS, Shapes, bert_embeddings, bert_layer, draw, linear, norm, save_tokenizer, xvlm_state
from tiny_fusion_encoders import WORDS, bert, roberta
from tiny_heads import without
from tiny_meter_fiber import SETTINGS as FIBER_SETTINGS
from tiny_meter_fiber import WIDTH, fiber_state

from tellapart.errors import require
from tellapart.models.torch.backend import import_torch

torch = import_torch()


def bart():
    """Return a tokenizer of single letters, to which "yes" and "no" are one token each, as to BART's."""
    merges = [("Ġ", "y"), ("Ġy", "e"), ("Ġye", "s"), ("Ġ", "n"), ("Ġn", "o")]
    letters = sorted(set("".join(WORDS) + "!,yes"))
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *letters, *("".join(merge) for merge in merges)]
    vocabulary = {piece: k for k, piece in enumerate(pieces)}
    transformers = require("transformers", extra="models")
    return transformers.RobertaTokenizer(vocab=vocabulary, merges=merges, model_max_length=96)


@dataclass(frozen=True)
class OfaSize:
    """Sizes of an OFA; `codes` are among the words."""

    width: int = 16
    heads: int = 2
    depth: int = 2
    stem: int = 8
    planes: tuple[int, int, int] = (4, 4, 4)
    blocks: tuple[int, int, int] = (1, 2, 1)
    words: int = len(bart()) + 5
    positions: int = 100
    side: int = 6
    half: int = 8


TINY = OfaSize()
PUBLISHED = {
    "base": OfaSize(768, 12, 6, 64, (64, 128, 256), (3, 4, 23), 59457, 1026, 42, 256),
    "large": OfaSize(1024, 16, 12, 64, (64, 128, 256), (3, 8, 36), 59457, 1026, 42, 256),
}

OFA_SETTINGS = {"code_dict_size": 3, "num_bins": 2, "patch_image_size": 32, "imagenet_default_mean_and_std": True}


def _batch_norm(name: str, width: int) -> Shapes:
    parts = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{part}": (width,) for part in parts} | {f"{name}.num_batches_tracked": ()}


def _resnet(name: str, size: OfaSize) -> Shapes:
    shapes = {f"{name}.conv1.weight": (size.stem, 3, 7, 7)} | _batch_norm(f"{name}.bn1", size.stem)
    into = size.stem
    for stage, (planes, depth) in enumerate(zip(size.planes, size.blocks, strict=True), start=1):
        for k in range(depth):
            block = f"{name}.layer{stage}.{k}"
            shapes |= {f"{block}.conv1.weight": (planes, into, 1, 1), f"{block}.conv2.weight": (planes, planes, 3, 3)}
            shapes |= {f"{block}.conv3.weight": (4 * planes, planes, 1, 1)}
            shapes |= _batch_norm(f"{block}.bn1", planes) | _batch_norm(f"{block}.bn2", planes)
            shapes |= _batch_norm(f"{block}.bn3", 4 * planes)
            if k == 0:
                shapes |= {f"{block}.downsample.0.weight": (4 * planes, into, 1, 1)}
                shapes |= _batch_norm(f"{block}.downsample.1", 4 * planes)
            into = 4 * planes
    return shapes


def _ofa_layer(name: str, size: OfaSize, decodes: bool) -> Shapes:
    width, shapes = size.width, {}
    for attention in ("self_attn", "encoder_attn") if decodes else ("self_attn",):
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes |= linear(f"{name}.{attention}.{part}", width, width)
        shapes |= {f"{name}.{attention}.c_attn": (size.heads,)} | norm(f"{name}.{attention}_layer_norm", width)
    for one in ("self_attn_ln", "cross_attn_ln") if decodes else ("attn_ln",):
        shapes |= norm(f"{name}.{one}", width)
    shapes |= norm(f"{name}.final_layer_norm", width) | norm(f"{name}.ffn_layernorm", 4 * width)
    return shapes | linear(f"{name}.fc1", 4 * width, width) | linear(f"{name}.fc2", width, 4 * width)


def ofa_shapes(size: OfaSize = TINY) -> Shapes:
    """Return every tensor of a file as fairseq writes it: tables and copies that nothing reads are among them."""
    width, shapes = size.width, {}
    for tower in ("encoder", "decoder"):
        shapes |= {f"{tower}.version": (1,), f"{tower}.embed_tokens.weight": (size.words, width)}
        shapes |= {f"{tower}.embed_positions.weight": (size.positions, width)}
        shapes |= {f"{tower}.embed_image_positions.weight": (size.side**2 + 1, width)}
        shapes |= {f"{tower}.token_rp_bucket": (8, 8), f"{tower}.image_rp_bucket": (8, 8)}
        for one in ("layernorm_embedding", "pos_ln", "image_pos_ln", "layer_norm"):
            shapes |= norm(f"{tower}.{one}", width)
        for k in range(size.depth):
            shapes |= _ofa_layer(f"{tower}.layers.{k}", size, tower == "decoder")
            shapes[f"{tower}.token_rel_pos_table_list.{k}.weight"] = (2 * size.half - 1, size.heads)
            shapes[f"{tower}.image_rel_pos_table_list.{k}.weight"] = ((2 * size.side - 1) ** 2 + 3, size.heads)
        for link in ("pos",) if tower == "encoder" else ("self_pos", "cross_pos"):
            shapes |= linear(f"{tower}.{link}_q_linear", width, width)
            shapes |= linear(f"{tower}.{link}_k_linear", width, width)
    shapes |= {"encoder.type_embedding.weight": (2, width), "decoder.output_projection.weight": (size.words, width)}
    shapes |= {"decoder.image_position_idx": (9,)} | norm("decoder.code_layernorm_embedding", width)
    shapes |= norm("encoder.patch_layernorm_embedding", width)
    shapes |= linear("encoder.image_proj", width, 4 * size.planes[-1])
    return shapes | _resnet("encoder.embed_images", size)


def ofa_state() -> dict[str, Any]:
    """Draw numbers that keep every part alive."""
    state = draw(ofa_shapes())
    for name, tensor in state.items():
        if name.endswith("running_var"):
            state[name] = tensor.abs() + 0.5
        elif name.endswith(("_ln.weight", "_embedding.weight", ".c_attn")) or (".bn" in name and "weight" in name):
            state[name] = tensor + 1 if tensor.ndim == 1 else tensor
    for copy in ("decoder.embed_tokens.weight", "decoder.output_projection.weight"):
        state[copy] = state["encoder.embed_tokens.weight"]
    return state


def xvlm_captioner() -> dict[str, Any]:
    """The lower layer reads words alone, the upper one the image, too."""
    shapes = bert_embeddings("text_decoder.bert.embeddings", 32)
    shapes |= bert_layer("text_decoder.bert.encoder.layer.0", 32, 64)
    shapes |= bert_layer("text_decoder.bert.encoder.layer.1", 32, 64, 64)
    head = "text_decoder.cls.predictions"
    shapes |= linear(f"{head}.transform.dense", 32, 32) | norm(f"{head}.transform.LayerNorm", 32)
    shapes |= {f"{head}.{one}": (len(bert()),) for one in ("bias", "decoder.bias")}
    shapes |= {f"{head}.decoder.weight": (len(bert()), 32)}
    return without(xvlm_state(), "text_", "itm_head", "bbox_head", "vision_proj", "temp") | draw(shapes, 1)


def fiber_captioner() -> dict[str, Any]:
    shapes = {}
    for k in range(8):  # of the nine layers; the lower ones are never read
        shapes |= linear(f"cross_modal_att_layers.{k}", 16, 32)
    shapes |= linear("mlm_score.transform.dense", WIDTH, WIDTH) | norm("mlm_score.transform.LayerNorm", WIDTH)
    shapes |= {"mlm_score.bias": (len(roberta()),), "mlm_score.decoder.weight": (len(roberta()), WIDTH)}
    return without(fiber_state(itm=False), "temp", "image_queue") | draw(shapes, 1)


def save_captioner(folder: Path, family: str) -> str:
    """Write a file as the authors nest it, and return the model's name."""
    folder.mkdir()
    if family == "ofa":
        content = {"model": ofa_state(), "args": argparse.Namespace(**OFA_SETTINGS, data="/home/x", beam=[5])}
        torch.save(content, folder / "model.pth")
    else:
        state, settings = {"xvlm": (xvlm_captioner, SETTINGS), "fiber": (fiber_captioner, FIBER_SETTINGS)}[family]
        torch.save({"model": state()}, folder / "model.pth")
        (folder / "config.json").write_text(json.dumps({"model_type": family, **settings}))
    save_tokenizer(folder, {"ofa": bart, "xvlm": bert, "fiber": roberta}[family]())
    return f"{family}:{folder / 'model.pth'}"
