"""ViLT (Kim et al. 2021) from its authors' file: words and patches go through one ViT; only embeddings are unimodal."""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Tensors, pad_tokens
from tellapart.models.torch.backend import bucket
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.matching import RankOutput, combine_halves
from tellapart_native.layers.bert import BertEmbeddings, Pooler
from tellapart_native.layers.vit import build_vit
from tellapart_native.module import NativeConfig, add_linear, nn
from tellapart_native.preprocessing import HALF_COLOURS, shorter_side_inputs

#: An image's patches are padded to the next multiple of this.
_PATCH_BUCKET = 16


class ViltOriginal(NativeHalves):
    """Patches with positions, and words; all layers join them, and `itm_score`'s class 1 is the match.

    An image keeps its shape, so its patches differ in number; they are padded, masked, to the next multiple of 16.
    """

    head = "itm_score.fc"

    def images(self, pixel_values: Tensor) -> Tensors:
        """Embed float `(batch, 3, h, w)`: `(batch, 1 + patches, width)`, padded, and the mask."""
        vit = self.module.transformer
        patches = vit.patch_embed.proj(pixel_values)  # (batch, width, rows, columns)
        side = round((vit.pos_embed.shape[1] - 1) ** 0.5)
        grid = vit.pos_embed[:, 1:].transpose(1, 2).unflatten(-1, (side, side))
        grid = nn.functional.interpolate(grid, size=patches.shape[2:], mode="bilinear", align_corners=True)
        first = (vit.cls_token + vit.pos_embed[:, :1]).expand(len(patches), -1, -1)
        tokens = torch.cat([first, (patches + grid).flatten(2).transpose(1, 2)], dim=1)
        mask = tokens.new_ones(tokens.shape[:2], dtype=torch.bool)
        length = 1 + bucket(tokens.shape[1] - 1, step=_PATCH_BUCKET)
        return pad_tokens(tokens + self.module.token_type_embeddings.weight[1], length), pad_tokens(mask, length)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Embed `(batch, tokens)`: `(batch, tokens, width)`, and the mask."""
        return self.module.text_embeddings(ids) + self.module.token_type_embeddings.weight[0], mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run all layers over words and patches, and pool the first word: `(batch, width)`."""
        states, mask = (torch.cat(parts, dim=1) for parts in zip(texts, images, strict=True))
        for block in self.module.transformer.blocks:
            states = block(states, attn_mask=mask[:, None, None, :])
        return self.module.pooler(self.module.transformer.norm(states))


def _build_vilt(layout: Layout) -> Network:
    module = nn.Module()
    module.transformer = build_vit(layout, "transformer")
    module.text_embeddings = BertEmbeddings(layout, "text_embeddings")
    width = module.transformer.embed_dim
    types = layout.shape_of("token_type_embeddings.weight")[0]  # two images have a third, which is not read
    module.token_type_embeddings = nn.Embedding(max(types, 2), width)
    module.pooler, module.itm_score = Pooler(width), nn.Module()
    add_linear(module, layout, width, "itm_score.fc", "rank_output")
    # Positions are fitted to each picture, so their grid need not be that of the size it was trained at.
    size = layout.settings.get("image_size", module.transformer.patch_embed.img_size[0])
    if not isinstance(size, int) or size < 1:
        raise ModelError(f"{layout.source}: its image_size is {size!r}; expected a picture's shorter side in pixels")
    module.config = NativeConfig(
        "vilt_original",
        vocab_size=module.text_embeddings.word_embeddings.num_embeddings,
        context=module.text_embeddings.position_embeddings.num_embeddings,
        image_size=size,
        layout=layout,
    )
    return module


FAMILY = NativeFamily(
    name="vilt_original",
    title="ViLT",
    build=_build_vilt,
    readings={
        "rank": Reading(combine_halves("ViltRank", RankOutput, ViltOriginal), "itm", "rank_output.weight"),
        "itm": Reading(ViltOriginal, "itm", "itm_score.fc.weight"),
        "itm_logit": Reading(ViltOriginal, "itm_logit", "itm_score.fc.weight"),
    },
    images=lambda module: shorter_side_inputs(module.config.image_size, HALF_COLOURS),
    vocabulary="bert-base-uncased",
    resize=lambda tensors, _size: tensors,
)
