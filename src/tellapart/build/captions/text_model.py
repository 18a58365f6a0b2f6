"""A text model of transformers as the stages use it: its weights, its tokenizer, and inputs whose shape a text alone decides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from tellapart.errors import ModelError
from tellapart.models.huggingface_files import config_facts, load_tokenizer, load_weights
from tellapart.models.torch_backend import Runtime, import_torch, weights_fingerprint

__all__ = ["ROWS", "TextModel"]

#: Texts that a model reads together, if a recipe does not say otherwise: about the nouns of a caption.
ROWS = 4

#: Their positions begin behind the padding token's number, so that two of the table are no text's.
_SHIFTED = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl")


@dataclass(frozen=True, slots=True, eq=False)
class TextModel:
    """Weights and tokenizer of one folder or hub id.

    Attributes:
        source: the folder or hub id.
        model: of transformers, in evaluation mode.
        tokenizer: of transformers.
        device: where it computes.
        fingerprint: of weights, configuration, vocabulary, dtype and rows; the same wherever the files lie.
        rows: texts that are read together, filled up by copies. The last bits of a number depend on it and on the text alone.

    >>> TextModel.load("AutoModel", "nowhere/at/all", Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: nowhere/at/all has no tokenizer that can be read (...
    """

    source: str
    model: Any
    tokenizer: Any
    device: str
    fingerprint: str
    rows: int

    @classmethod
    def load(
        cls, architecture: str, source: str, runtime: Runtime, *, unused: Sequence[str] = (), rows: int = ROWS
    ) -> Self:
        """Load a model; no weight of it is guessed.

        Args:
            architecture: a class of transformers.
            source: a folder or a hub id.
            runtime: device and dtype.
            unused: parts that the checkpoint may hold or lack.
            rows: of every forward pass.

        Raises:
            ModelError: it is not to be had, or its weights do not fit.
            MissingDependencyError: torch or transformers is not installed.
        """
        tokenizer = load_tokenizer(source)
        model = load_weights(architecture, source, runtime, unused=unused)
        vocabulary = json.dumps(tokenizer.get_vocab(), sort_keys=True)
        digest = weights_fingerprint(model, config_facts(model.config), vocabulary, runtime.dtype, str(rows))
        return cls(source, model, tokenizer, runtime.device, f"{type(model).__name__}:{digest[:16]}", rows)

    @property
    def limit(self) -> int:
        """The longest text that the model reads, in tokens with the special ones."""
        longest = int(self.model.config.max_position_embeddings)
        return longest - 2 if self.model.config.model_type in _SHIFTED else longest

    def ids(self, texts: Sequence[str], *, least: int = 1) -> list[list[int]]:
        """Return the tokens of each text, special ones included.

        Raises:
            ModelError: a text has fewer than `least`, or more than the model reads.
        """
        if not texts:
            return []
        found: list[list[int]] = self.tokenizer(list(texts), padding=False, truncation=False, verbose=False)[
            "input_ids"
        ]
        for text, row in zip(texts, found, strict=True):
            if not least <= len(row) <= self.limit:
                raise ModelError(
                    f"{self.source} reads {least} to {self.limit} tokens; {text[:60]!a} has {len(row)}: leave the caption out"
                )
        return found

    def padded(self, rows: Sequence[list[int]], length: int) -> dict[str, Any]:
        """Return tensors `(row, length)`: `input_ids`, and `attention_mask` with 1 on tokens and 0 on padding."""
        tensor, pad = import_torch().tensor, self.tokenizer.pad_token_id or 0
        gaps = [length - len(row) for row in rows]
        return {
            "input_ids": tensor([row + [pad] * gap for row, gap in zip(rows, gaps, strict=True)], device=self.device),
            "attention_mask": tensor([[1] * (length - gap) + [0] * gap for gap in gaps], device=self.device),
        }
