"""State dicts of tiny size under METER's and FIBER's names; numbers are random, layouts are as published."""

import json
from pathlib import Path
from typing import Any

import tiny_files
from tiny_files import Shapes, bert_embeddings, bert_layer, linear, norm
from tiny_files import draw as draw_numbers
from tiny_fusion_encoders import roberta as roberta_tokenizer

from tellapart.models.torch.backend import import_torch

#: What no shape tells of them.
SETTINGS = {"num_attention_heads": 4, "num_heads": 4, "vision_heads": 2, "max_text_len": 20}

WIDTH = 16

_SEGMENT = ".embeddings.token_type_embeddings.weight"


def draw(shapes: Shapes) -> dict[str, Any]:
    """Draw numbers; norms that are called otherwise than BERT's are around 1, too."""
    # The segment of RoBERTa is 0: training starts where it did before these files had it.
    segments = {name: shape for name, shape in shapes.items() if name.endswith(_SEGMENT)}
    state = draw_numbers({name: shape for name, shape in shapes.items() if name not in segments})
    state |= {name: 0 * tensor for name, tensor in draw_numbers(segments).items()}
    around_one = (".ln_pre.weight", ".ln_post.weight", ".ln_1.weight", ".ln_2.weight", ".norm_i2t_i.weight")
    return {name: tensor + 1 if name.endswith(around_one) else tensor for name, tensor in state.items()}


def roberta(name: str, depth: int) -> Shapes:
    shapes = bert_embeddings(f"{name}.embeddings", WIDTH)
    shapes[f"{name}{_SEGMENT}"] = (1, WIDTH)
    for k in range(depth):
        shapes |= bert_layer(f"{name}.encoder.layer.{k}", WIDTH, 32)
    return shapes | linear(f"{name}.pooler.dense", WIDTH, WIDTH)


def swin(depths: tuple[int, ...], text_from: tuple[int, int] | None = None) -> Shapes:
    return tiny_files.swin("vit_model", 4, depths, window=2, inner=2, text_from=text_from, text=WIDTH)


def clip_vit(name: str, depth: int) -> Shapes:
    shapes = {f"{name}.conv1.weight": (WIDTH, 3, 16, 16), f"{name}.class_embedding": (WIDTH,)}
    shapes |= {f"{name}.positional_embedding": (1 + 4 * 4, WIDTH)}
    shapes |= norm(f"{name}.ln_pre", WIDTH) | norm(f"{name}.ln_post", WIDTH)
    for k in range(depth):
        block = f"{name}.transformer.resblocks.{k}"
        shapes |= norm(f"{block}.ln_1", WIDTH) | norm(f"{block}.ln_2", WIDTH)
        shapes |= {f"{block}.attn.in_proj_weight": (3 * WIDTH, WIDTH), f"{block}.attn.in_proj_bias": (3 * WIDTH,)}
        shapes |= linear(f"{block}.attn.out_proj", WIDTH, WIDTH)
        shapes |= linear(f"{block}.mlp.c_fc", 32, WIDTH) | linear(f"{block}.mlp.c_proj", WIDTH, 32)
    return shapes


def _heads(*paths: str, image: int) -> Shapes:
    shapes = linear("itm_score.fc", 2, 2 * WIDTH) | linear("rank_output", 1, 2 * WIDTH)
    for path in paths:
        shapes |= linear(f"cross_modal_text_transform{path}", WIDTH, WIDTH)
        shapes |= linear(f"cross_modal_image_transform{path}", WIDTH, image)
        for side in ("text", "image"):
            shapes |= linear(f"cross_modal_{side}_pooler{path}.dense", WIDTH, WIDTH)
    return shapes


def meter_state(*, swin_tower: bool = False) -> dict[str, Any]:
    shapes = roberta("text_transformer", 2) | {"token_type_embeddings.weight": (2, WIDTH)}
    if swin_tower:
        shapes |= swin((1, 2, 2, 1)) | _heads("", image=32)
        shapes["vit_model.layers.1.blocks.1.attn_mask"] = (4, 4, 4)
    else:
        shapes |= clip_vit("vit_model.visual", 2) | _heads("", image=WIDTH) | {"vit_model.ln_final.weight": (8,)}
    for side in ("image", "text"):
        for k in range(2):
            shapes |= bert_layer(f"cross_modal_{side}_layers.{k}", WIDTH, 32, WIDTH)
    return draw(shapes)


def fiber_state(*, itm: bool = True, sharp: float = 4.0) -> dict[str, Any]:
    """Seven of the blocks: two that read the text in stage 2, one in stage 3; nine layers of text.

    Attention of sharpness 4 tells a text's tokens apart, and gives gradients of norms up to 1,000; 2 is for training.
    """
    shapes = roberta("text_transformer", 9) | swin((1, 2, 3, 1), (2, 1)) | _heads("", "_itc", image=32)
    for k, source in ((6, 16), (7, 16), (8, 32)):
        layer = f"text_transformer.encoder.layer.{k}"
        shapes |= bert_layer(layer, WIDTH, 32, source)
        shapes |= {f"{layer}.alpha_t2i": (1,)}
    shapes = {name.replace("crossattention.", "crossattention_t2i."): shape for name, shape in shapes.items()}
    if not itm:
        shapes = {name: shape for name, shape in shapes.items() if not name.startswith(("itm_score", "rank_output"))}
    state = draw(shapes | {"text_transformer.encoder.layer.0.alpha_t2i": (1,), "temp": (), "image_queue": (8, 4)})
    # Else nine layers with norms behind them make one vector of all of a text's tokens.
    for name in state:
        if name.endswith(("query.weight", "key.weight")):
            state[name] *= sharp
        if name.startswith("text_transformer") and name.endswith("output.dense.weight"):
            state[name] *= 0.35
        if name.endswith(("t2i.self.key.weight", "t2i.self.value.weight")):
            state[name] *= 0.1
    return state


def save_lightning(folder: Path, family: str, state: dict[str, Any]) -> str:
    """Write a file as the authors' trainer nests it, with tokenizer and settings beside it; return the model's name."""
    folder.mkdir()
    lightning = {"state_dict": state, "epoch": 3, "hyper_parameters": {"config": {"num_heads": 4}}}
    import_torch().save(lightning, folder / "model.ckpt")
    (folder / "config.json").write_text(json.dumps({"model_type": family, **SETTINGS}))
    tiny_files.save_tokenizer(folder, roberta_tokenizer())
    return f"{family}:{folder / 'model.ckpt'}"
