"""BLIP (Li et al. 2022) and BLIP-2 (Li et al. 2023): the vision tower runs once an image.

BLIP's text encoder reads its output at every layer; BLIP-2's Q-Former reads queries, text and image together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tellapart.models.fusion.family import Contrast, FusionFamily, Halves, Tensors, from_transformers
from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network

_PROJECTIONS = ("vision_proj", "text_proj")


class Blip(Halves):
    """The vision tower's last hidden state, and token ids; the text encoder joins them.

    Class 1 of `itm_head` is the match (BLIP's demo: `softmax(itm_output, dim=1)[:, 1]` is "the probability that image
    and text match").
    """

    architecture = "Blip"

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        return (self.module.vision_model(pixel_values=pixel_values).last_hidden_state,)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the text encoder with cross-attention, and the head: `(batch, 2)`."""
        (image,), (ids, mask) = images, texts
        hidden = self.module.text_encoder(
            input_ids=ids,
            attention_mask=mask.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state
        return self.module.itm_head(hidden[:, 0])


class Blip2(Blip):
    """The vision tower's output, and token ids; the Q-Former joins them.

    In the Q-Former's matching mode queries and text attend to each other from the first layer on, so nothing of the
    text is separable. The head reads every query, and its logits are averaged (BLIP-2, section 3.1). Class 1 is the
    match (`Blip2ForImageTextRetrieval`: "probs[0][1] that image 0 is"; LAVIS: `softmax(itm_output, dim=1)[:, 1]`).
    """

    architecture = "Blip2"

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the Q-Former on queries, text and image, and the head: `(batch, 2)`."""
        (image,), (ids, mask) = images, texts
        queries = self.module.query_tokens.expand(len(image), -1, -1)
        count = queries.shape[1]
        attended = import_torch().cat([mask.new_ones((len(image), count)), mask], dim=1)
        hidden = self.module.qformer(
            query_embeds=self.module.embeddings(input_ids=ids, query_embeds=queries),
            query_length=count,
            attention_mask=attended.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state
        head = self.module.itm_head
        return head(hidden[:, :count].to(head.weight.dtype)).mean(dim=1)


def _project_vectors(model: Network, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
    (patches,), (ids, mask) = images, texts
    words = model.text_encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return model.vision_proj(patches[:, 0]), model.text_proj(words[:, 0])


BLIP = FusionFamily(
    load=from_transformers(Blip, "BlipForImageTextRetrieval", *_PROJECTIONS),
    load_trainable=from_transformers(Blip, "BlipForImageTextRetrieval"),
    contrast=Contrast(_PROJECTIONS, _project_vectors),
)
BLIP_2 = FusionFamily(from_transformers(Blip2, "Blip2ForImageTextRetrieval", "vision_projection", "text_projection"))
