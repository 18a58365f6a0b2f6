"""BLIP (Li et al. 2022): the vision tower runs once an image; the text encoder reads its output at every layer."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.family import Contrast, FusionFamily, Halves, Tensors, from_transformers

__all__ = ["BLIP", "Blip"]

_PROJECTIONS = ("vision_proj", "text_proj")


class Blip(Halves):
    """The vision tower's last hidden state, and token ids; the text encoder joins them.

    Class 1 of `itm_head` is the match (BLIP's demo: `softmax(itm_output, dim=1)[:, 1]` is "the probability that image
    and text match").
    """

    architecture = "Blip"

    def images(self, pixel_values: Any) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        return (self.module.vision_model(pixel_values=pixel_values).last_hidden_state,)

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


def _vectors(model: Any, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
    (patches,), (ids, mask) = images, texts
    words = model.text_encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return model.vision_proj(patches[:, 0]), model.text_proj(words[:, 0])


BLIP = FusionFamily(
    load=from_transformers(Blip, "BlipForImageTextRetrieval", *_PROJECTIONS),
    load_trainable=from_transformers(Blip, "BlipForImageTextRetrieval"),
    contrast=Contrast(_PROJECTIONS, _vectors),
)
