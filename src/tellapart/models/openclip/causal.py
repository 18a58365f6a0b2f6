"""The parts of open_clip's causal text towers, CLIP's and CoCa's, for a forward pass with shared beginnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tellapart.models.openclip.tokens import TextTower
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.packs import HIDDEN
from tellapart.models.torch.shared_beginnings import CausalTower, are_untouched, encode_packs

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from tellapart.models.torch.network import Network

_MODELS = frozenset({"open_clip.model.CLIP", "open_clip.model.CustomTextCLIP", "open_clip.coca_model.CoCa"})
_PARTS = frozenset(
    f"open_clip.transformer.{name}"
    for name in (
        "LayerNorm",
        "LayerNormFp32",
        "LayerScale",
        "QuickGELU",
        "ResidualAttentionBlock",
        "TextTransformer",
        "Transformer",
    )
)


class SharedTexts:
    """The text tower of a model of `open_clip.create_model`, on a CPU, with shared beginnings."""

    def __init__(self, model: Network, tower: TextTower) -> None:
        self._model, self._tower = model, tower
        self._text = getattr(model, "text", model)
        #: The token that CoCa appends to every text, and reads its answer off.
        self._last = getattr(self._text, "cls_emb", None)

    @property
    def works(self) -> bool:
        """Whether the tower is one of those known here: causal, read at one token, and of untouched modules."""
        kind, text = type(self._model), self._text
        if f"{kind.__module__}.{kind.__qualname__}" not in _MODELS or "encode_text" in vars(self._model):
            return False
        names = ("token_embedding", "transformer", "ln_final")  # of CLIP, which is its own text tower
        parts = [text] if text is not self._model else [getattr(text, name) for name in names]
        causal = self._tower.shortens or (self._last is not None and getattr(text, "attn_mask", None) is not None)
        return causal and are_untouched(parts, _PARTS)

    def encode(self, ids: Tensor, size: int) -> Tensor:
        """Return the features, `(n, dimensions)`, of ids `(n, length)`."""
        return self._encode_ended(ids, size) if self._last is None else self._encode_appended(ids, size)

    def _encode_ended(self, ids: Tensor, size: int) -> Tensor:
        torch, length = import_torch(), ids.shape[1]
        ends = self._tower.pooling_positions(ids)
        tokens = torch.where(torch.arange(length) <= ends[:, None], ids, HIDDEN)
        mask = self._text.attn_mask[:length, :length].to(self._dtype)

        def embed(tokens: Tensor, depths: Tensor) -> Tensor:
            return self._embed_places(self._text.token_embedding(tokens), depths)

        def read(states: Tensor) -> Tensor:
            return self._tower.project(self._tower.last_norm(states))

        tower = CausalTower(embed, self._layers, read, lambda _: mask)
        return encode_packs(tower, tokens.numpy(), ends.numpy(), size)

    def _encode_appended(self, ids: Tensor, size: int) -> Tensor:
        """Encode as CoCa: an appended token sees the tokens that its mask shows, and is read."""
        torch, (count, length) = import_torch(), ids.shape
        shown = ids != self._text.pad_id
        appended = shown.new_ones(count, 1)
        # In CoCa's released weights the mask is one place off, which open_clip keeps for them.
        parts = [shown, appended] if self._text.correct_cls_mask else [appended, shown]
        shown = torch.cat(parts, dim=1)  # (n, length + 1), as keys
        marker = self._text.token_embedding.num_embeddings
        tokens = torch.where(shown[:, :-1], ids, HIDDEN)
        tokens = torch.cat([tokens, tokens.new_full((count, 1), marker)], dim=1)
        causal = self._text.attn_mask[: length + 1, : length + 1].to(self._dtype)

        def embed(tokens: Tensor, depths: Tensor) -> Tensor:
            words = self._text.token_embedding(tokens.clamp(max=marker - 1))
            return self._embed_places(torch.where((tokens == marker)[:, None], self._last, words), depths)

        def mask(texts: Sequence[int]) -> Tensor:
            return causal.masked_fill(~shown[texts][:, None, None], float("-inf"))  # (size, 1, length + 1, length + 1)

        def read(states: Tensor) -> Tensor:
            return torch.nn.functional.normalize(self._tower.project(self._tower.last_norm(states)), dim=-1)

        ends = torch.full((count,), length)
        return encode_packs(CausalTower(embed, self._layers, read, mask), tokens.numpy(), ends.numpy(), size)

    @property
    def _dtype(self) -> torch.dtype:
        dtype: torch.dtype = self._text.transformer.get_cast_dtype()
        return dtype

    @property
    def _layers(self) -> list[_Layer]:
        return [_Layer(block) for block in self._text.transformer.resblocks]

    def _embed_places(self, words: Tensor, depths: Tensor) -> Tensor:
        return words.to(self._dtype) + self._text.positional_embedding[depths].to(self._dtype)


class _Layer:
    """A residual attention block of open_clip."""

    def __init__(self, block: Network) -> None:
        names = ("attn", "ln_1", "ln_2", "ls_1", "ls_2", "mlp")
        self._attention, self._norm, self._last_norm, self._scale, self._last_scale, self._mlp = (
            getattr(block, name) for name in names
        )
        self.heads: int = self._attention.num_heads

    def project(self, states: Tensor) -> Tensor:
        # Product, then bias, as torch's attention computes it: one fused step may round otherwise.
        product = self._norm(states) @ self._attention.in_proj_weight.T
        bias = self._attention.in_proj_bias
        return product if bias is None else product + bias

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        states = states + self._scale(self._attention.out_proj(mixed))
        return states + self._last_scale(self._mlp(self._last_norm(states)))
