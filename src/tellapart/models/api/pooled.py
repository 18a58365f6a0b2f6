"""Models on a server that write nothing: dual encoders behind `/v1/embeddings`, and rerankers behind `/score`.

Source: vLLM's documentation, "Pooling models": an image is embedded as a conversation of one message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.api.server import Server, image_part
from tellapart.models.control_tokens import refuse_known_marks
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.vectors import dot_products, normalise


class _Pooled:
    """The identity of a model on a server. The store keeps its vectors and scores, batch by batch."""

    kind: ScoreKind = "similarity"

    def __init__(self, server: Server, reading: Literal["embeddings", "score"]) -> None:
        self.name, self._server = server.model, server
        self.fingerprint = hashlib.sha256(json.dumps([server.facts, reading], sort_keys=True).encode()).hexdigest()


class ServedEncoder(_Pooled):
    """A dual encoder: `/v1/embeddings` of a message with an image or a text alone, cosine similarity.

    The server puts its chat template around both; images and texts are asked for one a request, several at once.
    """

    ranks_by_cosine = True

    def __init__(self, server: Server) -> None:
        super().__init__(server, "embeddings")

    def encode_images(self, images: Sequence[Pixels]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)`, to vectors of length one, float32 `(n, dimensions)`."""
        return self._embed_parts([image_part(image) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to vectors of length one, float32 `(n, dimensions)`; errors as of `encode_images`."""
        refuse_known_marks(self.name, texts)
        return self._embed_parts([{"type": "text", "text": text} for text in texts])

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _embed_parts(self, parts: Sequence[dict[str, Any]]) -> Vectors:
        bodies = [{"messages": [{"role": "user", "content": [part]}], "encoding_format": "float"} for part in parts]
        rows = [
            _read_numbers(answer, "embedding", 1, self._server)[0] for answer in self._server.post("embeddings", bodies)
        ]
        if len({len(row) for row in rows}) > 1 or not all(len(row) for row in rows):
            raise ModelError(f"{self._server.base} answers vectors of {sorted({len(row) for row in rows})} dimensions")
        return normalise(np.array(rows, np.float32), self.name)


class ServedReranker(_Pooled):
    """A reranker: `/score` of a text, the query, with each of its images, the documents."""

    is_reranker = True

    def __init__(self, server: Server) -> None:
        super().__init__(server, "score")

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`. The images of one text go in one request."""
        refuse_known_marks(self.name, texts)
        rows_of: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            rows_of.setdefault(text, []).append(row)
        bodies = [
            {"text_1": text, "text_2": {"content": [image_part(images[row]) for row in rows]}}
            for text, rows in rows_of.items()
        ]
        scores = np.empty(len(texts), np.float32)
        for rows, answer in zip(rows_of.values(), self._server.post("/score", bodies), strict=True):
            scores[rows] = [float(number) for number in _read_numbers(answer, "score", len(rows), self._server)]
        return scores


def _read_numbers(answer: Any, field: str, count: int, server: Server) -> list[NDArray[np.float64]]:
    """Return a field of each of an answer's entries, in the order of their `index`: a number, or a vector."""
    try:
        entries = sorted(answer["data"], key=lambda entry: int(entry["index"]))
        found = [np.asarray(entry[field], np.float64) for entry in entries]
        dimensions = 1 if field == "embedding" else 0
        whole = [entry["index"] for entry in entries] == list(range(count))
        if whole and all(one.ndim == dimensions and np.isfinite(one).all() for one in found):
            return found
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise ModelError(
        f"{server.base} answers no {field} for each of {count}: {json.dumps(answer):.200}; "
        f"does {server.model!r} run with `--runner pooling`?"
    )
