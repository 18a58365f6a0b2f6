"""The parts of CLIP's text tower in transformers, for a forward pass with shared beginnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.models.huggingface.towers import LEGACY_END
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.packs import HIDDEN
from tellapart.models.torch.shared_beginnings import CausalTower, are_untouched, encode_packs

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network

_CLIP = "transformers.models.clip.modeling_clip."
_PARTS = frozenset(
    {
        *(_CLIP + name for name in ("CLIPAttention", "CLIPEncoder", "CLIPEncoderLayer", "CLIPMLP")),
        *(_CLIP + name for name in ("CLIPTextEmbeddings", "CLIPTextModel", "CLIPTextTransformer")),
        *(f"transformers.activations.{name}" for name in ("GELUActivation", "QuickGELUActivation")),
    }
)


def reads_causally(model: Network) -> bool:
    """Return whether a model's text tower is CLIP's, of untouched modules, with torch's fused attention."""
    kind = type(model)
    return (
        f"{kind.__module__}.{kind.__qualname__}" == _CLIP + "CLIPModel"
        and "get_text_features" not in vars(model)
        and model.config.text_config._attn_implementation == "sdpa"
        and are_untouched([model.text_model, model.text_projection], _PARTS)
    )


def share_beginnings(model: Network, ids: Tensor, shown: Tensor, size: int) -> Tensor | None:
    """Return the features of texts of one padded length, `(n, dimensions)`; None if padding is read in one of them."""
    torch, text = import_torch(), model.text_model
    ends = (ids if text.eos_token_id == LEGACY_END else (ids == text.eos_token_id).int()).argmax(dim=-1)
    read = torch.arange(ids.shape[1]) <= ends[:, None]
    if not shown[read].all():
        return None
    embeddings = text.embeddings
    length, dtype = ids.shape[1], embeddings.token_embedding.weight.dtype
    mask = torch.full((length, length), float("-inf"), dtype=dtype).triu(1)
    tower = CausalTower(
        lambda tokens, depths: embeddings.token_embedding(tokens) + embeddings.position_embedding(depths),
        [_Layer(layer) for layer in text.encoder.layers],
        lambda states: model.text_projection(text.final_layer_norm(states)),
        lambda _: mask,
    )
    return encode_packs(tower, torch.where(read, ids, HIDDEN).numpy(), ends.numpy(), size)


class _Layer:
    """A layer of CLIP's encoder."""

    def __init__(self, layer: Network) -> None:
        self._layer, self._attention = layer, layer.self_attn
        self.heads: int = layer.self_attn.num_heads

    def project(self, states: Tensor) -> Tensor:
        states, attention = self._layer.layer_norm1(states), self._attention
        parts = [project(states) for project in (attention.q_proj, attention.k_proj, attention.v_proj)]
        return import_torch().cat(parts, dim=1)

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        states = states + self._attention.out_proj(mixed)
        return states + self._layer.mlp(self._layer.layer_norm2(states))
