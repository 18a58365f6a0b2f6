"""How many layers, stages and rows the published files of each family have, so that a file that lost one is refused.

Counted over the layouts of the official classes at every published size; of files for answers and for two images by
their authors' configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["DEPTHS", "DEPTH_SETTINGS", "Depths"]

Depths = Mapping[str, Mapping[int, tuple[int, ...]]]
"""Pattern of layers, or name of a table -> their width -> how many, or how many rows, published files have."""


def _swin(prefix: str) -> Depths:
    """Swin-B: four stages of 2, 2, 18 and 2 blocks."""
    stages = enumerate(((128, 2), (256, 2), (512, 18), (1024, 2)))
    blocks: Depths = {f"{prefix}.layers.{stage}.blocks.{{}}.": {width: (depth,)} for stage, (width, depth) in stages}
    return {f"{prefix}.layers.{{}}.": {128: (4,)}, **blocks}


def _text(prefix: str, words: int, positions: int = 512) -> Depths:
    """The rows of BERT's tables, base and large."""
    rows = {"word_embeddings": words, "position_embeddings": positions}
    return {f"{prefix}.{table}.weight": dict.fromkeys((768, 1024), (count,)) for table, count in rows.items()}


_BERT: dict[int, tuple[int, ...]] = {768: (12,), 1024: (24,)}
_DECODER = "text_decoder.bert.encoder.layer.{}."
_FUSED: Depths = {
    **_text("text_encoder.embeddings", 30522),
    **_text("text_decoder.bert.embeddings", 30522),
    "text_encoder.encoder.layer.{}.": {768: (12, 18)},
    "text_encoder.encoder.layer.{}.crossattention.": {768: (6, 12)},
    _DECODER: {768: (6, 12)},
    f"{_DECODER}crossattention.": {768: (6,)},
}
_ROBERTA: Depths = {
    **_text("text_transformer.embeddings", 50265, 514),
    "text_transformer.encoder.layer.{}.": {768: (12,)},
}
_OFA_WIDTHS = (256, 512, 768, 1024, 1280)

DEPTHS: Mapping[str, Depths] = MappingProxyType(
    {
        "albef": {"visual_encoder.blocks.{}.": _BERT, **_FUSED},
        "xvlm": {**_swin("vision_encoder"), **_FUSED},
        "blip_original": {
            "visual_encoder.blocks.{}.": _BERT,
            **_text("text_encoder.embeddings", 30524),  # the marks [DEC] and [ENC] are the last two
            "text_encoder.encoder.layer.{}.": {768: (12,)},
            "text_encoder.encoder.layer.{}.crossattention.": {768: (12,)},
        },
        "vilt_original": {"transformer.blocks.{}.": {768: (12,)}, **_text("text_embeddings", 30522, 40)},
        "meter": {
            **_swin("vit_model"),
            **_ROBERTA,
            "vit_model.visual.transformer.resblocks.{}.": {768: (11,)},  # the file's twelfth is never read
            "cross_modal_image_layers.{}.": {768: (6,)},
            "cross_modal_text_layers.{}.": {768: (6,)},
        },
        "fiber": {
            **_swin("vit_model"),
            **_ROBERTA,
            "vit_model.layers.2.blocks.{}.attn.qkv_i2t.": {512: (4,)},
            "vit_model.layers.3.blocks.{}.attn.qkv_i2t.": {1024: (2,)},
            "text_transformer.encoder.layer.{}.crossattention_t2i.": {768: (6,)},
        },
        "uniter": {"uniter.encoder.layer.{}.": _BERT, **_text("uniter.embeddings", 28996)},
        "vilbert": {
            **_text("bert.embeddings", 30522),
            "bert.encoder.layer.{}.": {768: (12,)},
            "bert.encoder.v_layer.{}.": {1024: (6,)},
            "bert.encoder.c_layer.{}.": {768: (6,), 1024: (6,)},
        },
        "vlt5": {
            "shared.weight": {768: (32200,)},
            **{
                f"{tower}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": {12: (32,)}
                for tower in ("encoder.stack", "decoder")
            },
            "encoder.stack.block.{}.": {768: (12,)},
            "decoder.block.{}.": {768: (12,)},
        },
        "ofa": {
            "encoder.embed_tokens.weight": dict.fromkeys(_OFA_WIDTHS, (59457,)),
            "encoder.embed_positions.weight": dict.fromkeys(_OFA_WIDTHS, (1026,)),
            "decoder.embed_positions.weight": dict.fromkeys(_OFA_WIDTHS, (1026,)),
            "encoder.layers.{}.": {256: (4,), 512: (4,), 768: (6,), 1024: (12,), 1280: (24,)},
            "decoder.layers.{}.": {256: (4,), 512: (4,), 768: (6,), 1024: (12,), 1280: (12,)},
            # ResNets of 50, 101 and 152 layers
            "encoder.embed_images.layer1.{}.": {64: (3,)},
            "encoder.embed_images.layer2.{}.": {128: (4, 8)},
            "encoder.embed_images.layer3.{}.": {256: (6, 23, 36)},
        },
        "cappa": {
            "text.embedding.weight": {1024: (65536,)},
            "vision.blocks.{}.": {1024: (24,)},
            "text.blocks.{}.": {1024: (12,)},
        },
    }
)
"""Family, as `NativeFamily.name` -> its published depths and rows."""

DEPTH_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "encoder.layers.{}.": "encoder_layers",
        "decoder.layers.{}.": "decoder_layers",
        "cross_modal_image_layers.{}.": "num_top_layer",
        "cross_modal_text_layers.{}.": "num_top_layer",
        "text_embeddings.position_embeddings.weight": "max_text_len",
    }
)
"""Pattern -> the authors' setting with the depth; used first if the file holds the settings."""
