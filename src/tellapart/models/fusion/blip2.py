"""BLIP-2 (Li et al. 2023): the vision tower runs once an image; the Q-Former reads queries, text and image together."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.blip import Blip
from tellapart.models.fusion.family import FusionFamily, Tensors, from_transformers
from tellapart.models.torch_backend import import_torch

__all__ = ["BLIP_2", "Blip2"]


class Blip2(Blip):
    """The vision tower's output, and token ids; the Q-Former joins them.

    In the Q-Former's matching mode queries and text attend to each other from the first layer on, so nothing of the
    text is separable. The head reads every query, and its logits are averaged (BLIP-2, section 3.1). Class 1 is the
    match (`Blip2ForImageTextRetrieval`: "probs[0][1] that image 0 is"; LAVIS: `softmax(itm_output, dim=1)[:, 1]`).
    """

    architecture = "Blip2"

    def join(self, images: Tensors, texts: Tensors) -> Any:
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


BLIP_2 = FusionFamily(
    from_transformers(Blip2, "Blip2ForImageTextRetrieval", "vision_projection", "text_projection"),
)
