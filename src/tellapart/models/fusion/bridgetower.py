"""BridgeTower (Xu et al. 2022): two unimodal towers, whose upper layers feed a stack of cross-modal layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tellapart.models.fusion.family import FusionFamily, Halves, Tensors, from_transformers
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network


class BridgeTower(Halves):
    """The outputs of the top layers of both towers, one for each bridge; the cross-modal layers join them.

    Both towers are unimodal to their top (figure 2 of the paper), though the library runs them inside the loop over
    pairs. Class 1 of `itm_score` is the match (`BridgeTowerForImageAndTextRetrieval`: "0 means the pairs don't match
    and 1 means they match").
    """

    architecture = "BridgeTower"

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        # Positions are counted from the padding's id on, as in RoBERTa.
        self.context -= module.config.text_config.pad_token_id + 1
        self._depth: int = module.config.num_hidden_layers
        self._lower = len(module.bridgetower.text_model.encoder.layer) - self._depth + 1

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, cross layers, 1 + patches, hidden)`."""
        tower = self.module.bridgetower
        vision = tower.vision_model.visual
        hidden = vision.forward_pre(pixel_values)  # tokens first
        modality = tower.token_type_embeddings.weight[1]
        layers: list[Any] = []
        for depth, block in enumerate(vision.transformer.resblocks[: self._lower + self._depth - 1], 1):
            hidden = block(hidden)
            if depth >= self._lower:
                layers.append(tower._apply_image_transform(vision.forward_post(hidden), len(layers)) + modality)
        layers[0] = tower.cross_modal_image_layernorm(layers[0])
        return (import_torch().stack(layers, dim=1),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the text tower: `(batch, cross layers, tokens, hidden)`, and the mask."""
        tower = self.module.bridgetower
        hidden = tower.text_model.embeddings(input_ids=ids)
        visible = self._extend_mask(hidden, mask)
        modality = tower.token_type_embeddings.weight[0]
        layers: list[Any] = []
        for depth, layer in enumerate(tower.text_model.encoder.layer, 1):
            hidden = layer(hidden, visible)
            if depth >= self._lower:
                layers.append(tower._apply_text_transform(hidden, len(layers)) + modality)
        layers[0] = tower.cross_modal_text_layernorm(layers[0])
        return import_torch().stack(layers, dim=1), mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the cross-modal layers with their bridges, and the head: `(batch, 2)`."""
        tower = self.module.bridgetower
        (image_layers,), (text_layers, mask) = images, texts
        image, text = image_layers[:, 0], text_layers[:, 0]
        visible = self._extend_mask(text, mask)
        for depth in range(self._depth):
            if depth:
                text = tower.cross_modal_text_link_tower[depth - 1](text_layers[:, depth], text, visible)
                image = tower.cross_modal_image_link_tower[depth - 1](image_layers[:, depth], image, None)
            text, image = (
                tower.cross_modal_text_layers[depth](text, image, attention_mask=visible)[0],
                tower.cross_modal_image_layers[depth](image, text, encoder_attention_mask=visible)[0],
            )
        return self.module.itm_score(tower.get_cls_features(text, image))

    def _extend_mask(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the library's mask for keys that are text, one row for all queries."""
        masking = import_transformers().masking_utils
        return masking.create_bidirectional_mask(
            config=self.module.config, inputs_embeds=hidden[:, 0:1], attention_mask=mask.long()
        )


BRIDGETOWER = FusionFamily(from_transformers(BridgeTower, "BridgeTowerForImageAndTextRetrieval"))
