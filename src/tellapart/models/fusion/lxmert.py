"""LXMERT (Tan and Bansal 2019): an object encoder, a language encoder, and a cross-modality encoder over both."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.torch_encoder import Tensors
from tellapart.models.huggingface.files import load_weights
from tellapart.models.torch_backend import Runtime, import_torch

__all__ = ["Lxmert", "load"]


class Lxmert:
    """LXMERT's halves: its object-relationship and its language layers; then the cross-modality layers.

    Class 1 of `cross_relationship_score` is the match (`LxmertConfig.task_matched`: "if the sentence correctly describes
    the image the label will be 1").

    >>> from types import SimpleNamespace as Of
    >>> halves = Lxmert(Of(config=Of(max_position_embeddings=512, visual_feat_dim=2048)))
    >>> halves.match, halves.context
    (1, 512)
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.match = 1
        self.context: int = module.config.max_position_embeddings
        self.dimensions: int = module.config.visual_feat_dim

    def images(self, features: Any, boxes: Any, seen: Any) -> Tensors:
        """Run the object layers on `(batch, regions, dimensions)`: `(batch, regions, hidden)`, and the mask."""
        encoder = self.module.lxmert.encoder
        hidden = encoder.visn_fc(features, boxes)
        for layer in encoder.r_layers:
            hidden = layer(hidden, _hidden_keys(hidden, seen))[0]
        return hidden, seen

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Run the language layers: `(batch, tokens, hidden)`, and the mask."""
        hidden = self.module.lxmert.embeddings(ids, import_torch().zeros_like(ids))
        for layer in self.module.lxmert.encoder.layer:
            hidden = layer(hidden, _hidden_keys(hidden, mask))[0]
        return hidden, mask

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Run the cross-modality layers and the head: `(batch, 2)`."""
        (image, seen), (text, mask) = images, texts
        image_keys, text_keys = _hidden_keys(image, seen), _hidden_keys(text, mask)
        for layer in self.module.lxmert.encoder.x_layers:
            text, image = layer(text, text_keys, image, image_keys)[:2]
        return self.module.cls.seq_relationship(self.module.lxmert.pooler(text))


def _hidden_keys(hidden: Any, mask: Any) -> Any:
    """Return what is added to attention scores, `(batch, 1, 1, keys)`: 0 where the mask is True, else the lowest."""
    lowest = import_torch().finfo(hidden.dtype).min
    return (~mask)[:, None, None, :].to(hidden.dtype) * lowest


def load(source: str, runtime: Runtime) -> Lxmert:
    """Load LXMERT with its pre-training heads.

    Raises:
        ModelError: the checkpoint has no matching head, or does not fit.

    >>> load(str(getfixture("tmp_path")), Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... cannot be loaded as LxmertForPreTraining (...
    """
    unused = ("cls.predictions", "obj_predict_head", "answer_head")
    return Lxmert(load_weights("LxmertForPreTraining", source, runtime, unused=unused))
