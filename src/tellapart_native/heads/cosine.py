"""The contrastive heads of a fusion encoder, as a dual encoder: one vector of an image, one of a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder, TorchState
from tellapart.models.huggingface.images import Prepared
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.vectors import dot_products, normalise

__all__ = ["CosineScorer"]


class CosineScorer:
    """A dual encoder whose vectors are the halves of a fusion encoder; a score is their cosine.

    Args:
        encoder: its halves are one vector each.

    Attributes:
        batch_size: samples that are best given at once.
        truncated: how many of the texts encoded so far were longer than the context and lost their end.
    """

    kind: ScoreKind = "similarity"
    ranks_by_cosine = True
    provenance = ""

    def __init__(self, encoder: TorchFusionEncoder) -> None:
        self.name, self.fingerprint, self.parameters = encoder.name, encoder.fingerprint, encoder.parameters
        self.batch_size = 4 * encoder.batch_size
        self.truncated = 0
        self._encoder = encoder

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the model, a sentence each."""
        return self._encoder.notes

    def prepare_image(self, pixels: Pixels) -> Prepared:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `encode_images`."""
        return self._encoder.prepare_image(pixels)

    def encode_images(self, images: Sequence[Pixels | Prepared]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)`."""
        return self._stack_vectors(self._encoder.encode_images(images))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`; count the cut ones in `truncated`."""
        states = self._encoder.encode_texts(texts)
        self.truncated += sum(state.truncated for state in states)
        return self._stack_vectors(states)

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score every image vector against every text vector: float32 `(images, texts)`, cosines."""
        return dot_products(images, texts)

    similarities = similarity

    def _stack_vectors(self, states: Sequence[TorchState]) -> Vectors:
        if not states:
            return np.zeros((0, 0), np.float32)
        return normalise(np.stack([state.tensors[0].float().cpu().numpy() for state in states]), self.name)
