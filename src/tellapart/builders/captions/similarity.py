"""The similarity of sentences: the cosine of their vectors, the mean over the tokens of an encoder of transformers.

Source: Reimers and Gurevych, Sentence-BERT, EMNLP 2019 (mean pooling), as all-MiniLM-L6-v2 is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.models.text.text_model import ROWS, TextModel
from tellapart.models.torch.backend import Runtime, forward
from tellapart.models.vectors import normalise


def cosines(one: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosine of a vector of length one with each of others, float32 `(other,)`.

    >>> cosines(np.array([1, 0], np.float32), np.eye(2, dtype=np.float32)).tolist()
    [1.0, 0.0]
    """
    products: NDArray[np.float32] = (others * one).sum(axis=1, dtype=np.float32)
    return products


class MeanPooledEncoder:
    """An encoder of transformers whose token vectors are averaged, padding left out, and scaled to length one."""

    def __init__(self, text_model: TextModel) -> None:
        self._text_model, self.fingerprint = text_model, text_model.fingerprint()

    @classmethod
    def load(cls, source: str, runtime: Runtime, rows: int = ROWS) -> Self:
        """Load a folder or a hub id; every forward pass has so many rows."""
        return cls(TextModel.load("AutoModel", source, runtime, unused=("pooler",), rows=rows))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of length one for each text: float32 `(text, dimension)`."""
        rows = self._text_model.ids(texts)
        vectors = np.zeros((len(rows), int(self._text_model.model.config.hidden_size)), np.float32)
        for positions, inputs in self._text_model.batches(rows):
            vectors[positions] = self._pool_tokens(inputs)[: len(positions)]
        return normalise(vectors)

    def _pool_tokens(self, inputs: dict[str, Any]) -> NDArray[np.float32]:
        mask, model = inputs["attention_mask"], self._text_model.model
        with forward(self._text_model.source, model):
            states = model(**inputs).last_hidden_state.float()  # (row, token, dimension)
            means: NDArray[np.float32] = ((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).cpu().numpy()
        return means
