"""FLAVA (Singh et al. 2022): an image encoder, a text encoder, and a multimodal encoder over both outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.models.fusion.family import FusionFamily, Halves, Tensors, from_transformers
from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from torch import Tensor

#: Parts of the pre-training model that the matching head does not read.
_UNUSED = (
    *("image_codebook", "mim_head", "mlm_head", "mmm_image_head", "mmm_text_head"),
    *("flava.image_projection", "flava.text_projection"),
)


class Flava(Halves):
    """Each encoder's last layer (before its final norm), projected; the multimodal encoder joins them.

    The matching head was trained on pairs with masked words and patches and is read on complete ones here, as
    `FlavaForPreTraining` reads it without masks. Class 1 is the match ("0 means the pairs don't match and 1 means they
    match", `itm_labels`).
    """

    architecture = "Flava"

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the image encoder on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        layers = self.module.flava.image_model(pixel_values=pixel_values, output_hidden_states=True).hidden_states
        return (self.module.flava.image_to_mm_projection(layers[-1]),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the text encoder: `(batch, tokens, hidden)`, and the mask."""
        layers = self.module.flava.text_model(
            input_ids=ids, attention_mask=mask.long(), output_hidden_states=True
        ).hidden_states
        return self.module.flava.text_to_mm_projection(layers[-1]), mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the multimodal encoder and the head: `(batch, 2)`."""
        torch = import_torch()
        (image,), (text, mask) = images, texts
        multimodal = self.module.flava.multimodal_model
        length = image.shape[1] + int(multimodal.use_cls_token)
        attended = torch.cat([mask.new_ones((len(image), length)), mask], dim=1)
        hidden = multimodal(torch.cat([image, text], dim=1), attention_mask=attended.long()).last_hidden_state
        return self.module.itm_head(hidden)


FLAVA = FusionFamily(from_transformers(Flava, "FlavaForPreTraining", *_UNUSED))
