"""Fusion encoders of transformers on a detector's regions: LXMERT and VisualBERT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tellapart.models.fusion.family import FromTransformers, FusionFamily, Halves, Preparation, Tensors, read_tokens
from tellapart.models.huggingface.files import load_tokenizer, processor_facts
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.network import Network, Tensor
from tellapart_native.region_file import LEFT_OUT, RegionFile, find_regions

torch = import_torch()


class VisualBert(Halves):
    """Region features, and token ids; all layers join them. Boxes are not read.

    Class 0 of `seq_relationship` is the match (`sentence_image_labels`: "0 indicates sequence B is a matching pair of
    sequence A for the given image"), not 1 as elsewhere. It was trained on two captions and is read on one here.
    """

    match = 0

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        self.dimensions: int = module.config.visual_embedding_dim

    def images(self, features: Tensor, mask: Tensor, **_: Tensor) -> Tensors:
        """Pass the features on: the layers that read them read the text, too."""
        return features, mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run BERT on words and regions, and the head: `(batch, 2)`."""
        (features, region_mask), (ids, mask) = images, texts
        pooled = self.module.visual_bert(
            input_ids=ids, attention_mask=mask.long(), visual_embeds=features, visual_attention_mask=region_mask.long()
        ).pooler_output
        return self.module.cls.seq_relationship(pooled)


class Lxmert(Halves):
    """The object-relationship layers, and the language layers; the cross-modality layers join them.

    Class 1 of `cross_relationship_score` is the match (`LxmertConfig.task_matched`: "if the sentence correctly
    describes the image the label will be 1").
    """

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        self.dimensions: int = module.config.visual_feat_dim

    def images(self, features: Tensor, boxes: Tensor, mask: Tensor) -> Tensors:
        """Run the object layers on `(batch, regions, dimensions)`: `(batch, regions, hidden)`, and the mask."""
        encoder = self.module.lxmert.encoder
        hidden = encoder.visn_fc(features, boxes)
        for layer in encoder.r_layers:
            hidden = layer(hidden, _hidden_keys(hidden, mask))[0]
        return hidden, mask

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the language layers: `(batch, tokens, hidden)`, and the mask."""
        hidden = self.module.lxmert.embeddings(ids, torch.zeros_like(ids))
        for layer in self.module.lxmert.encoder.layer:
            hidden = layer(hidden, _hidden_keys(hidden, mask))[0]
        return hidden, mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the cross-modality layers and the head: `(batch, 2)`."""
        (image, image_mask), (text, text_mask) = images, texts
        image_keys, text_keys = _hidden_keys(image, image_mask), _hidden_keys(text, text_mask)
        for layer in self.module.lxmert.encoder.x_layers:
            text, image = layer(text, text_keys, image, image_keys)[:2]
        return self.module.cls.seq_relationship(self.module.lxmert.pooler(text))


def _hidden_keys(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the bias of attention scores, `(batch, 1, 1, keys)`: 0 if the mask is True, else the lowest number."""
    lowest = torch.finfo(hidden.dtype).min
    return (~mask)[:, None, None, :].to(hidden.dtype) * lowest


def _prepare_regions(source: str, options: ModelOptions) -> Callable[[Halves], Preparation]:
    """Return what prepares regions, of the file that the options name or in the model's folder, and texts."""
    path = find_regions(Path(source).expanduser(), options.regions)

    def prepare(halves: Any) -> Preparation:
        # LXMERT was trained on BERT's vocabulary, too, and VisualBERT's checkpoints on the hub come without one.
        tokenizer = load_tokenizer(source, original="bert-base-uncased")
        file = RegionFile(path, halves.dimensions)
        facts = processor_facts(SimpleNamespace(image_processor=file, tokenizer=tokenizer))
        return Preparation(file.inputs, read_tokens(source, halves, tokenizer), facts, LEFT_OUT)

    return prepare


LXMERT = FusionFamily(
    FromTransformers(Lxmert, "LxmertForPreTraining", ("cls.predictions", "obj_predict_head", "answer_head")),
    regions=_prepare_regions,
)
VISUAL_BERT = FusionFamily(
    FromTransformers(VisualBert, "VisualBertForPreTraining", ("cls.predictions",)), regions=_prepare_regions
)
