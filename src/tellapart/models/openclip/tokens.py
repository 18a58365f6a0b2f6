"""The text side of an open_clip model: the tokens of its tokenizer, with no more padding than needed."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tellapart.models.captions import ControlTokens, refusal
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.torch.backend import bucket, import_torch
from tellapart.models.torch.dual_encoder import Inputs, TextReader
from tellapart.models.torch.network import Network, Tensor
from tellapart.models.torch.shared_beginnings import HIDDEN, CausalLayer, CausalTower, are_untouched, encode_packs

#: The options that an open_clip tokenizer's ids depend on.
_OPTIONS = ("context_length", "clean_fn", "strip_sep_token", "tokenizer_mode")

#: The marks of open_clip's tokenizer: their attributes there, and their texts.
_MARKS = {"sot_token_id": "<start_of_text>", "eot_token_id": "<end_of_text>"}


def copy_tokenizer(tokenizer: Any) -> Any:
    """Return a copy, so that reading changes nothing of a caller's tokenizer, nor of the one inside it."""
    copied = copy.copy(tokenizer)
    if hasattr(copied, "tokenizer"):
        copied.tokenizer = copy.copy(copied.tokenizer)
    return copied


class Tokens(TextReader):
    """Turns texts into token ids as a tokenizer of open_clip does; without a tower all are padded whole.

    `facts` are all that the ids depend on, the same wherever the tokenizer's files lie.
    """

    def __init__(self, tokenizer: Any, tower: TextTower | None = None) -> None:
        self._tokenizer, self._tower, self.length = tokenizer, tower, tokenizer.context_length
        self._inner = getattr(tokenizer, "tokenizer", None)  # of transformers; None: open_clip's
        captions = "no control tokens in texts"
        if self._inner is None:
            vocabulary = _hash_vocabulary(tuple(tokenizer.encoder.items()))
        else:
            self._control = ControlTokens(self._inner)
            vars(self._inner).update(self._control.split)
            captions, backend = self._control.facts, getattr(self._inner, "backend_tokenizer", None)
            entries = self._inner.get_vocab() if backend is None else json.loads(backend.to_str())
            if backend is not None:  # padding and truncation are as the last call left them
                entries = {key: entries[key] for key in entries if key not in {"padding", "truncation"}}
            vocabulary = _hash_json(entries)
        options = {key: getattr(tokenizer, key, None) for key in _OPTIONS}
        self.facts: dict[str, Any] = {
            "kind": type(tokenizer).__name__,
            **{key: getattr(value, "__name__", value) for key, value in options.items()},
            "vocabulary": vocabulary,
            "captions": captions,
        }
        if (side := getattr(self._inner, "padding_side", "right")) != "right":
            self.facts["side"] = side
        self._rows: dict[str, Tensor] = {}  # of the last texts: they are asked for again at once

    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Return each text's padded length, in tokens, and whether it exceeds the context and loses its end."""
        if not texts:
            return [], []
        ids = self._ids_of(texts)
        lengths = [self.length] * len(texts) if self._tower is None else self._tower.lengths(ids)
        return lengths, self._find_cut(texts, ids)

    def tokens(self, texts: Sequence[str], length: int) -> dict[str, Any]:
        """Tokenise texts: `input_ids`, int64 `(n, length)`."""
        return {"input_ids": self._ids_of(texts)[:, :length]}

    def _find_cut(self, texts: Sequence[str], ids: Tensor) -> list[bool]:
        if self._inner is None:
            encode = self._tokenizer.encode
            # Only a text whose last token is no padding may be longer; 2: start and end.
            last = ids[:, -1].tolist()
            return [bool(end) and len(encode(text)) + 2 > self.length for text, end in zip(texts, last, strict=True)]
        # open_clip's mode `clips` adds three tokens itself; else the tokenizer adds some.
        clips = self._tokenizer.tokenizer_mode == "clips"
        cleaned = [self._tokenizer.clean_fn(text) for text in ("", *texts)]
        uncut = self._inner(cleaned, add_special_tokens=not clips, verbose=False).input_ids
        self._control.refuse(type(self._inner).__name__, texts, uncut[1:], uncut[0])
        return [len(tokens) + 3 * clips > self.length for tokens in uncut[1:]]

    def _ids_of(self, texts: Sequence[str]) -> Tensor:
        """Return ids `(n, context)`; refuse a text in which open_clip's tokenizer finds its marks of start and end."""
        if any(text not in self._rows for text in texts):
            distinct = list(dict.fromkeys(texts))
            ids = self._tokenizer(distinct)
            for name, mark in _MARKS.items() if self._inner is None else ():
                marked = ((ids == getattr(self._tokenizer, name)).sum(dim=1) > 1).nonzero().flatten().tolist()
                if marked:
                    raise refusal("open_clip", distinct[marked[0]], mark)
            self._rows = dict(zip(distinct, ids, strict=True))
        return import_torch().stack([self._rows[text] for text in texts])


def clip_tokens(length: int) -> Tokens:
    """Return CLIP's tokenizer with a context of so many tokens, start and end included."""
    return Tokens(import_open_clip().get_tokenizer("ViT-B-32", context_length=length))


_MODELS = frozenset({"open_clip.model.CLIP", "open_clip.model.CustomTextCLIP", "open_clip.coca_model.CoCa"})
_KINDS = ("LayerNorm", "LayerNormFp32", "LayerScale", "QuickGELU", "ResidualAttentionBlock", "TextTransformer")
_PARTS = frozenset(f"open_clip.transformer.{name}" for name in (*_KINDS, "Transformer"))


class TextTower:
    """The text tower of an open_clip model; if it `shortens`, texts are padded to a bucket, else to the context.

    On a CPU texts may share their beginnings, if it is a tower of `open_clip.create_model`.
    """

    def __init__(self, model: Network) -> None:
        self._model = model
        self._text = text = getattr(model, "text", model)
        self._pool = getattr(text, "pool_type", getattr(text, "text_pool_type", None))
        self._eos = getattr(text, "eos_id", getattr(text, "text_eos_id", None))
        self.last_norm: Any = getattr(text, "ln_final", None)  # the module that gives a state for every token
        # CoCa's embedding of a token that is appended to every text, and at which the text is read.
        self._last = getattr(text, "cls_emb", None)
        self._causal = getattr(text, "attn_mask", None) is not None
        # The appended token attends to all positions; so do the tokens of a tower that is not causal.
        self.shortens = self._causal and self._last is None and self._pool in {"argmax", "eos"}

    def lengths(self, ids: Tensor) -> list[int]:
        """Return the padded length of each text, int64 `(n, context_length)`: a function of the text alone."""
        count, context = ids.shape
        if not self.shortens or not count:
            return [context] * count
        return [bucket(position + 1, context) for position in self.pooling_positions(ids).tolist()]

    def encode(self, ids: Tensor) -> Tensor:
        """Return the features, `(n, dimensions)`, of ids `(n, length)` on the model's device."""
        if not self.shortens:
            return self._model.encode_text(ids)
        # As open_clip's forward, which takes the full context only.
        text, length, dtype = self._text, ids.shape[1], self._text.transformer.get_cast_dtype()
        tokens = text.token_embedding(ids).to(dtype) + text.positional_embedding[:length].to(dtype)
        hidden = self.last_norm(text.transformer(tokens, attn_mask=text.attn_mask[:length, :length]))
        return self.project(hidden[import_torch().arange(len(ids), device=ids.device), self.pooling_positions(ids)])

    @property
    def shares(self) -> bool:
        """Whether the tower is one of those known here: causal, read at one token, and of untouched modules."""
        kind, text = type(self._model), self._text
        if f"{kind.__module__}.{kind.__qualname__}" not in _MODELS or "encode_text" in vars(self._model):
            return False
        names = ("token_embedding", "transformer", "ln_final")  # of CLIP, which is its own text tower
        parts = [text] if text is not self._model else [getattr(text, name) for name in names]
        return (self.shortens or (self._causal and self._last is not None)) and are_untouched(parts, _PARTS)

    def encode_shared(self, inputs: Inputs, size: int) -> Tensor:
        """Return the features, `(n, dimensions)`, of `input_ids`, `(n, length)`, with beginnings computed once."""
        torch, ids, text = import_torch(), inputs["input_ids"], self._text
        (count, length), dtype = ids.shape, text.transformer.get_cast_dtype()
        marker = text.token_embedding.num_embeddings  # the first unused id marks the token that CoCa appends
        if self._last is None:
            ends, keys = self.pooling_positions(ids), None
            tokens = torch.where(torch.arange(length) <= ends[:, None], ids, HIDDEN)
        else:
            ends, shown, appended = torch.full((count,), length), ids != text.pad_id, ids.new_ones(count, 1).bool()
            # In CoCa's released weights the mask is one place off, which open_clip keeps for them.
            keys = torch.cat([shown, appended] if text.correct_cls_mask else [appended, shown], dim=1)
            tokens = torch.cat([torch.where(keys[:, :-1], ids, HIDDEN), ids.new_full((count, 1), marker)], dim=1)
        causal = text.attn_mask[: tokens.shape[1], : tokens.shape[1]].to(dtype)

        def embed(tokens: Tensor, depths: Tensor) -> Tensor:
            words = text.token_embedding(tokens.clamp(max=marker - 1))
            if self._last is not None:
                words = torch.where((tokens == marker)[:, None], self._last, words)
            return words.to(dtype) + text.positional_embedding[depths].to(dtype)

        def read(states: Tensor) -> Tensor:
            features = self.project(self.last_norm(states))
            return features if self._last is None else torch.nn.functional.normalize(features, dim=-1)

        def mask(texts: Sequence[int]) -> Tensor:
            return causal if keys is None else causal.masked_fill(~keys[texts][:, None, None], float("-inf"))

        tower = CausalTower(embed, [_cut_layer(block) for block in text.transformer.resblocks], read, mask)
        return encode_packs(tower, tokens.numpy(), ends.numpy(), size)

    def project(self, states: Tensor) -> Tensor:
        """Take states, `(..., width)`, to the space of the features, `(..., dimensions)`."""
        projection = self._text.text_projection
        if projection is None:
            return states
        return states @ projection if isinstance(projection, import_torch().Tensor) else projection(states)

    def words(self, ids: Tensor) -> Tensor:
        """Return which tokens of ids `(n, length)` are words or the end, bool `(n, length)`; the first is neither."""
        positions = import_torch().arange(ids.shape[1], device=ids.device)
        return (positions > 0) & (positions <= self.pooling_positions(ids)[:, None])

    def pooling_positions(self, ids: Tensor) -> Tensor:
        """Return the position whose features represent each text: int64 `(n,)`."""
        return ids.argmax(dim=-1) if self._pool == "argmax" else import_torch().eq(ids, self._eos).int().argmax(dim=-1)


def _cut_layer(block: Network) -> CausalLayer:
    """Cut a residual attention block of open_clip at its attention."""
    attention = block.attn

    def project(states: Tensor) -> Tensor:
        # Product, then bias, as torch's attention computes it: one fused step may round otherwise.
        product = block.ln_1(states) @ attention.in_proj_weight.T
        return product if attention.in_proj_bias is None else product + attention.in_proj_bias

    return CausalLayer(
        attention.num_heads,
        project,
        lambda mixed: block.ls_1(attention.out_proj(mixed)),
        lambda states: block.ls_2(block.mlp(block.ln_2(states))),
    )


@lru_cache(maxsize=2)
def _hash_vocabulary(vocabulary: tuple[tuple[str, int], ...]) -> str:
    """Hash the vocabulary of open_clip's tokenizer: 49,408 words, the same for nearly all of its models."""
    return _hash_json(dict(vocabulary))


def _hash_json(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
