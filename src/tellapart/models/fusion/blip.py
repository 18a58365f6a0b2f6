"""BLIP (Li et al. 2022): the vision tower is run once an image; the text encoder reads its output at every layer."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.torch_encoder import Tensors
from tellapart.models.huggingface.files import load_weights
from tellapart.models.torch_backend import Runtime

__all__ = ["Blip", "load"]


class Blip:
    """BLIP's halves: the vision tower's last hidden state, token ids; then the text encoder for every pair.

    Class 1 of `itm_head` is the match (BLIP's demo: `softmax(itm_output, dim=1)[:, 1]` is "the probability that image
    and text match").

    >>> from types import SimpleNamespace as Of
    >>> halves = Blip(Of(config=Of(text_config=Of(max_position_embeddings=512))))
    >>> halves.match, halves.context
    (1, 512)
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.match = 1
        self.context: int = module.config.text_config.max_position_embeddings

    def images(self, pixel_values: Any) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        return (self.module.vision_model(pixel_values=pixel_values).last_hidden_state,)

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Pass the tokens on: the first layer that reads them reads the image, too."""
        return ids, mask

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Run the text encoder with cross-attention, and the head: `(batch, 2)`."""
        (image,), (ids, mask) = images, texts
        hidden = self.module.text_encoder(
            input_ids=ids,
            attention_mask=mask.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state
        return self.module.itm_head(hidden[:, 0])


def load(source: str, runtime: Runtime) -> Blip:
    """Load BLIP for image-text retrieval.

    Raises:
        ModelError: the checkpoint has no matching head, or does not fit.

    >>> load(str(getfixture("tmp_path")), Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... cannot be loaded as BlipForImageTextRetrieval (...
    """
    return Blip(load_weights("BlipForImageTextRetrieval", source, runtime, unused=("vision_proj", "text_proj")))
