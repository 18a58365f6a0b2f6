"""How many layers the published files of each family have, so that a file that lost its last one is refused.

Counted over the layouts of the official classes at every published size; of files for answers and for two images by
their authors' configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["DEPTHS", "DEPTH_SETTINGS", "Depths"]

Depths = Mapping[str, Mapping[int, tuple[int, ...]]]
"""Pattern of layers -> their width -> how many of them published files have."""


def _swin_blocks(prefix: str) -> dict[str, dict[int, tuple[int, ...]]]:
    """Swin-B: 2, 2, 18 and 2 blocks."""
    stages = enumerate(((128, 2), (256, 2), (512, 18), (1024, 2)))
    return {f"{prefix}.layers.{stage}.blocks.{{}}.": {width: (blocks,)} for stage, (width, blocks) in stages}


_BERT: dict[int, tuple[int, ...]] = {768: (12,), 1024: (24,)}
_FUSED = {"text_encoder.encoder.layer.{}.": {768: (12, 18)}, "text_decoder.bert.encoder.layer.{}.": {768: (6, 12)}}

DEPTHS: Mapping[str, Depths] = MappingProxyType(
    {
        "albef": {"visual_encoder.blocks.{}.": _BERT, **_FUSED},
        "xvlm": {**_swin_blocks("vision_encoder"), **_FUSED},
        "blip_original": {"visual_encoder.blocks.{}.": _BERT, "text_encoder.encoder.layer.{}.": {768: (12,)}},
        "vilt_original": {"transformer.blocks.{}.": {768: (12,)}},
        "meter": {
            **_swin_blocks("vit_model"),
            "vit_model.visual.transformer.resblocks.{}.": {768: (11,)},  # the file's twelfth is never read
            "text_transformer.encoder.layer.{}.": {768: (12,)},
            "cross_modal_image_layers.{}.": {768: (6,)},
            "cross_modal_text_layers.{}.": {768: (6,)},
        },
        "fiber": {**_swin_blocks("vit_model"), "text_transformer.encoder.layer.{}.": {768: (12,)}},
        "uniter": {"uniter.encoder.layer.{}.": _BERT},
        "vilbert": {
            "bert.encoder.layer.{}.": {768: (12,)},
            "bert.encoder.v_layer.{}.": {1024: (6,)},
            "bert.encoder.c_layer.{}.": {768: (6,), 1024: (6,)},
        },
        "vlt5": {"encoder.stack.block.{}.": {768: (12,)}, "decoder.block.{}.": {768: (12,)}},
        "ofa": {
            "encoder.layers.{}.": {256: (4,), 512: (4,), 768: (6,), 1024: (12,), 1280: (24,)},
            "decoder.layers.{}.": {256: (4,), 512: (4,), 768: (6,), 1024: (12,), 1280: (12,)},
        },
    }
)
"""Family, as `NativeFamily.name` -> its published depths."""

DEPTH_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "encoder.layers.{}.": "encoder_layers",
        "decoder.layers.{}.": "decoder_layers",
        "cross_modal_image_layers.{}.": "num_top_layer",
        "cross_modal_text_layers.{}.": "num_top_layer",
    }
)
"""Pattern -> the authors' setting with the depth; used first if the file holds the settings."""
