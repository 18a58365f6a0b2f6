"""BLIP-2 (Li et al. 2023): the vision tower is run once an image; the Q-Former reads queries, text and image together."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.torch_encoder import Tensors
from tellapart.models.huggingface.files import load_weights
from tellapart.models.torch_backend import Runtime, import_torch

__all__ = ["Blip2", "load"]


class Blip2:
    """BLIP-2's halves: the vision tower's output, token ids; then the Q-Former for every pair.

    In the Q-Former's matching mode queries and text attend to each other from the first layer on, so nothing of the
    text is separable. The head reads every query, and its logits are averaged (BLIP-2, section 3.1). Class 1 is the
    match (`Blip2ForImageTextRetrieval`: "probs[0][1] that image 0 is"; LAVIS: `softmax(itm_output, dim=1)[:, 1]`).

    >>> from types import SimpleNamespace as Of
    >>> halves = Blip2(Of(config=Of(qformer_config=Of(max_position_embeddings=512))))
    >>> halves.match, halves.context
    (1, 512)
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.match = 1
        self.context: int = module.config.qformer_config.max_position_embeddings

    def images(self, pixel_values: Any) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        return (self.module.vision_model(pixel_values=pixel_values).last_hidden_state,)

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Pass the tokens on: the first layer that reads them reads the queries, too."""
        return ids, mask

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Run the Q-Former on queries, text and image, and the head: `(batch, 2)`."""
        (image,), (ids, mask) = images, texts
        queries = self.module.query_tokens.expand(len(image), -1, -1)
        count = queries.shape[1]
        seen = import_torch().cat([mask.new_ones((len(image), count)), mask], dim=1)
        hidden = self.module.qformer(
            query_embeds=self.module.embeddings(input_ids=ids, query_embeds=queries),
            query_length=count,
            attention_mask=seen.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state
        head = self.module.itm_head
        return head(hidden[:, :count].to(head.weight.dtype)).mean(dim=1)


def load(source: str, runtime: Runtime) -> Blip2:
    """Load BLIP-2 for image-text retrieval.

    Raises:
        ModelError: the checkpoint has no matching head, or does not fit.

    >>> load(str(getfixture("tmp_path")), Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... cannot be loaded as Blip2ForImageTextRetrieval (...
    """
    return Blip2(
        load_weights("Blip2ForImageTextRetrieval", source, runtime, unused=("vision_projection", "text_projection"))
    )
