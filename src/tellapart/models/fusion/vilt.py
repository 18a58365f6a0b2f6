"""ViLT (Kim et al. 2021): patches and words go through one transformer, so only the embedding is unimodal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.fusion.family import FusionFamily, Halves, Tensors, pad_tokens
from tellapart.models.huggingface.files import import_transformers, load_weights, read_config
from tellapart.models.torch.backend import Runtime, bucket, import_torch

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig

    from tellapart.models.torch.network import Network

#: An image's patches are padded to the next multiple of this.
_PATCH_BUCKET = 16


class Vilt(Halves):
    """Patch embeddings with positions, and token ids; all twelve layers join them.

    An image keeps its shape, so its patches differ in number. The library pads a batch to its largest image and
    draws the order of the patches at random; here the patches stay in order, and are padded, masked, to the next
    multiple of 16, which follows from the image alone.

    Two heads exist: `rank_output`, one logit, of models fine-tuned for retrieval (its weights began as row 1, "match",
    of the pre-trained head: ViLT's objectives, `vilt_module.py`), and `itm_score`, two classes, of pre-trained ones,
    of which 1 is the match.
    """

    architecture = "Vilt"

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        config = module.config
        if config.max_image_length > 0:
            raise ModelError(
                f"config.json: field 'max_image_length' is {config.max_image_length}: the model then draws patches at "
                "random, and a pair has no one score; set it to -1 to use all patches"
            )
        self.match = 1 if hasattr(module, "itm_score") else None
        self._side = config.image_size // config.patch_size

    def images(self, pixel_values: Tensor) -> Tensors:
        """Embed float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`, padded, and the mask."""
        torch = import_torch()
        embeddings = self.module.vilt.embeddings
        positions = embeddings.position_embeddings
        patches = embeddings.patch_embeddings(pixel_values)  # (batch, hidden, rows, columns)
        grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, self._side, self._side)
        grid = torch.nn.functional.interpolate(grid, size=patches.shape[2:], mode="bilinear", align_corners=True)
        patches = (patches + grid).flatten(2).transpose(1, 2)
        first = (embeddings.cls_token + positions[:, :1]).expand(len(patches), -1, -1)
        tokens = torch.cat([first, patches], dim=1)
        mask = tokens.new_ones(tokens.shape[:2], dtype=torch.bool)
        length = 1 + bucket(patches.shape[1], step=_PATCH_BUCKET)
        return pad_tokens(tokens, length), pad_tokens(mask, length)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the transformer and the head: `(batch, 1 or 2)`."""
        (patches, patch_mask), (ids, mask) = images, texts
        pooled = self.module.vilt(
            input_ids=ids, attention_mask=mask.long(), image_embeds=patches, pixel_mask=patch_mask.long()
        ).pooler_output
        return self.module.rank_output(pooled) if self.match is None else self.module.itm_score(pooled)


def _load_vilt(source: str, runtime: Runtime) -> Vilt:
    """Load ViLT for retrieval, or pre-trained ViLT with its `itm_score` head."""
    retrieval = "ViltForImageAndTextRetrieval"
    if retrieval in (read_config(source).get("architectures") or []):
        return Vilt(load_weights(retrieval, source, runtime))
    return Vilt(load_weights(_pretrained_class(), source, runtime, unused=("mlm_score",)))


def _pretrained_class() -> type:
    """Make the class that the library lacks: ViLT with the matching head of its pre-training."""
    nn = import_torch().nn
    vilt = import_transformers().models.vilt.modeling_vilt

    class ViltForPreTraining(vilt.ViltPreTrainedModel):  # type: ignore[misc, name-defined]
        """ViLT with `itm_score.fc`, two classes, and a word head that is not read."""

        def __init__(self, config: PreTrainedConfig) -> None:
            super().__init__(config)
            self.vilt = vilt.ViltModel(config)
            self.itm_score = nn.Sequential()
            self.itm_score.add_module("fc", nn.Linear(config.hidden_size, 2))
            self.mlm_score = None
            self.post_init()

    return ViltForPreTraining


VILT = FusionFamily(_load_vilt, load_trainable=_load_vilt, takes_any_shape=True)
