"""VisualBERT (Li et al. 2019): words and regions go through one BERT, so nothing but the features is unimodal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.models.fusion.family import FusionFamily, Halves, Tensors, from_transformers

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network


class VisualBert(Halves):
    """Region features, and token ids; all layers join them. Boxes are not read.

    Class 0 of `seq_relationship` is the match (`sentence_image_labels`: "0 indicates sequence B is a matching pair of
    sequence A for the given image, 1 indicates sequence B is a random sequence"): the other way round than in the other
    families. It was trained on two captions and is read on one here.
    """

    architecture = "VisualBert"
    match = 0

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        self.dimensions: int = module.config.visual_embedding_dim

    def images(self, features: Tensor, boxes: Tensor, mask: Tensor) -> Tensors:
        """Pass the features on: the layers that read them read the text, too."""
        del boxes  # no part of this architecture
        return features, mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run BERT on words and regions, and the head: `(batch, 2)`."""
        (features, region_mask), (ids, mask) = images, texts
        pooled = self.module.visual_bert(
            input_ids=ids, attention_mask=mask.long(), visual_embeds=features, visual_attention_mask=region_mask.long()
        ).pooler_output
        return self.module.cls.seq_relationship(pooled)


VISUAL_BERT = FusionFamily(
    from_transformers(VisualBert, "VisualBertForPreTraining", "cls.predictions"), reads_regions=True
)
