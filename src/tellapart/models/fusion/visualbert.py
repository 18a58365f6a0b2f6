"""VisualBERT (Li et al. 2019): words and regions go through one BERT, so nothing but the features is unimodal."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.torch_encoder import Tensors
from tellapart.models.huggingface.files import load_weights
from tellapart.models.torch_backend import Runtime

__all__ = ["VisualBert", "load"]


class VisualBert:
    """VisualBERT's halves: region features, token ids; then all layers for every pair. Boxes are not read.

    Class 0 of `seq_relationship` is the match (`sentence_image_labels`: "0 indicates sequence B is a matching pair of
    sequence A for the given image, 1 indicates sequence B is a random sequence"): the other way round than in the other
    families. It was trained on two captions and is read on one here.

    >>> from types import SimpleNamespace as Of
    >>> halves = VisualBert(Of(config=Of(max_position_embeddings=512, visual_embedding_dim=2048)))
    >>> halves.match, halves.context
    (0, 512)
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.match = 0
        self.context: int = module.config.max_position_embeddings
        self.dimensions: int = module.config.visual_embedding_dim

    def images(self, features: Any, boxes: Any, seen: Any) -> Tensors:
        """Pass the features on: the layers that read them read the text, too."""
        del boxes  # no part of this architecture
        return features, seen

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Pass the tokens on."""
        return ids, mask

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Run BERT on words and regions, and the head: `(batch, 2)`."""
        (features, seen), (ids, mask) = images, texts
        pooled = self.module.visual_bert(
            input_ids=ids, attention_mask=mask.long(), visual_embeds=features, visual_attention_mask=seen.long()
        ).pooler_output
        return self.module.cls.seq_relationship(pooled)


def load(source: str, runtime: Runtime) -> VisualBert:
    """Load VisualBERT with its pre-training heads.

    Raises:
        ModelError: the checkpoint has no matching head, or does not fit.

    >>> load(str(getfixture("tmp_path")), Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... cannot be loaded as VisualBertForPreTraining (...
    """
    return VisualBert(load_weights("VisualBertForPreTraining", source, runtime, unused=("cls.predictions",)))
