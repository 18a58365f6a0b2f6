"""How usual a sentence is: its mean log-likelihood a token under a causal language model of transformers.

The perplexity is `exp` of minus that. Nothing stands before the first token, so it is not predicted, as in the authors' code
(Le et al., COCO-Counterfactuals, 2023, with GPT-2 large); `tinystories:PATH` predicts it after the begin of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.build.captions.text_model import TextModel
from tellapart.data.scores import ScoreKind
from tellapart.models.generative_text import read_batches
from tellapart.models.torch_backend import Runtime, import_torch
from tellapart.models.torch_forward import forward

__all__ = ["CausalLanguageModel"]


class CausalLanguageModel:
    """A text's mean log-likelihood in nats a token: a `TextScorer`. A text's number depends on no other text.

    >>> CausalLanguageModel.load("nowhere/at/all", Runtime("cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: nowhere/at/all has no tokenizer that can be read (...
    """

    kind: ClassVar[ScoreKind] = "similarity"

    def __init__(self, text_model: TextModel) -> None:
        self._text_model = text_model
        self.name, self.fingerprint = text_model.source, text_model.fingerprint

    @classmethod
    def load(cls, source: str, runtime: Runtime) -> Self:
        """Load a folder or a hub id.

        Raises:
            ModelError: it is not to be had, or its weights do not fit.
            MissingDependencyError: torch or transformers is not installed.
        """
        return cls(TextModel.load("AutoModelForCausalLM", source, runtime))

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's mean log-likelihood in nats a token, float32 `(n,)`.

        Raises:
            ModelError: a text has fewer than two tokens, or more than the model's context.
        """
        rows = self._text_model.ids(texts, least=2)
        read, expected = [row[:-1] for row in rows], [row[1:] for row in rows]
        found = read_batches(read, expected, self._text_model.limit, self._logits)
        return np.array([each.total / each.tokens for each in found], np.float32)

    def _logits(self, rows: list[list[int]]) -> Any:
        model = self._text_model.model
        with forward(self.name, model):
            return model(input_ids=import_torch().tensor(rows, device=self._text_model.device)).logits
