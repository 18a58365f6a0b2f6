"""State dicts of tiny size under the names of UNITER, ViLBERT and VL-T5, and files of them with regions beside."""

import json
from pathlib import Path

import numpy as np
from tiny_files import PICTURES, Shapes, bert_embeddings, bert_layer, draw, linear, norm, save_tokenizer

from tellapart.data.images import pixel_hash
from tellapart.models.torch.backend import import_torch

torch = import_torch()

#: What no shape tells of them.
SETTINGS = {"num_attention_heads": 4, "v_num_attention_heads": 4, "bi_num_attention_heads": 4}
SETTINGS |= {"relative_attention_max_distance": 20, "true_token_id": 17, "false_token_id": 23}

FEATURES, WIDTH, SEEN, BOTH = 24, 32, 48, 40


def uniter() -> Shapes:
    image = "uniter.img_embeddings"
    shapes = bert_embeddings("uniter.embeddings", WIDTH) | linear("uniter.pooler.dense", WIDTH, WIDTH)
    for k in range(2):
        shapes |= bert_layer(f"uniter.encoder.layer.{k}", WIDTH, 64)
    shapes |= linear(f"{image}.img_linear", WIDTH, FEATURES) | linear(f"{image}.pos_linear", WIDTH, 7)
    for one in ("img_layer_norm", "pos_layer_norm", "LayerNorm"):
        shapes |= norm(f"{image}.{one}", WIDTH)
    shapes |= {f"{image}.mask_embedding.weight": (2, FEATURES)}
    return shapes | linear("itm_output", 2, WIDTH) | linear("rank_output", 1, WIDTH)


def vilbert() -> Shapes:
    shapes = bert_embeddings("bert.embeddings", WIDTH)
    image = "bert.v_embeddings"
    shapes |= linear(f"{image}.image_embeddings", SEEN, FEATURES) | norm(f"{image}.LayerNorm", SEEN)
    shapes |= linear(f"{image}.image_location_embeddings", SEEN, 5)
    for k in range(4):
        shapes |= bert_layer(f"bert.encoder.layer.{k}", WIDTH, 64)
    for k in range(2):
        shapes |= bert_layer(f"bert.encoder.v_layer.{k}", SEEN, SEEN)
        layer = f"bert.encoder.c_layer.{k}"
        for side, width, inner, tower in ((1, SEEN, SEEN, "v"), (2, WIDTH, 64, "t")):
            for part in ("query", "key", "value"):
                shapes |= linear(f"{layer}.biattention.{part}{side}", BOTH, width)
            shapes |= linear(f"{layer}.biOutput.dense{side}", width, BOTH)
            shapes |= linear(f"{layer}.biOutput.q_dense{side}", width, BOTH)
            shapes |= norm(f"{layer}.biOutput.LayerNorm{side}", width)
            shapes |= linear(f"{layer}.{tower}_intermediate.dense", inner, width)
            shapes |= linear(f"{layer}.{tower}_output.dense", width, inner)
            shapes |= norm(f"{layer}.{tower}_output.LayerNorm", width)
    shapes |= linear("bert.t_pooler.dense", BOTH, WIDTH) | linear("bert.v_pooler.dense", BOTH, SEEN)
    return shapes | linear("cls.bi_seq_relationship", 2, BOTH) | {"cls.predictions.bias": (100,)}


def vlt5() -> Shapes:
    shapes = {f"{name}.weight": (60, WIDTH) for name in ("shared", "lm_head", "encoder.embed_tokens")}
    for tower, parts in (("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])):
        for block in (f"{tower}.block.{k}" for k in range(2)):
            for k, part in enumerate(parts):
                shapes |= {f"{block}.layer.{k}.{part}.{one}.weight": (WIDTH, WIDTH) for one in "qkvo"}
            last = f"{block}.layer.{len(parts)}.DenseReluDense"
            shapes |= {f"{last}.wi.weight": (64, WIDTH), f"{last}.wo.weight": (WIDTH, 64)}
            shapes |= {f"{block}.layer.{k}.layer_norm.weight": (WIDTH,) for k in range(len(parts) + 1)}
        shapes[f"{tower}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (8, 4)
        shapes[f"{tower}.final_layer_norm.weight"] = (WIDTH,)
    image = "encoder.visual_embedding"
    for part, width in (("feat_embedding", FEATURES), ("absolute_vis_pos_embedding", 5)):
        shapes |= linear(f"{image}.{part}.0", WIDTH, width) | {f"{image}.{part}.1.weight": (WIDTH,)}
    return shapes | {f"{image}.img_order_embedding.weight": (2, WIDTH)}


REGION_STATES = {"uniter": uniter, "vilbert": vilbert, "vlt5": vlt5}


def save_regions(path: Path) -> None:
    """Write features and boxes of four regions for each picture."""
    rng = np.random.default_rng(6)
    arrays = {}
    for picture in PICTURES:
        key = pixel_hash(picture)
        arrays[f"{key}/features"] = rng.normal(size=(4, FEATURES)).astype(np.float32)
        arrays[f"{key}/boxes"] = np.sort(rng.random((4, 2, 2)), axis=1).reshape(4, 4).astype(np.float32)
    np.savez(path, **arrays)


def save_region_model(folder: Path, family: str) -> str:
    """Write a family's file with tokenizer, settings and regions beside it, and return the model's name."""
    folder.mkdir()
    torch.save(draw(REGION_STATES[family]()), folder / "model.bin")
    (folder / "config.json").write_text(json.dumps({"model_type": family, **SETTINGS}))
    save_tokenizer(folder)
    save_regions(folder / "regions.npz")
    return f"{family}:{folder / 'model.bin'}"
