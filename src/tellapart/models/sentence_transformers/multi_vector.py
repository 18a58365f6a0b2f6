"""A `MultiVectorEncoder` (late interaction, as ColPali): images and texts are encoded apart, to many vectors each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.fusion.torch_encoder import TorchState
from tellapart.models.protocols import Pixels
from tellapart.models.sentence_transformers.dual_encoder import roles
from tellapart.models.sentence_transformers.library import Features, Library, as_picture, as_text
from tellapart.models.torch.backend import parameter_count


class MultiVectors:
    """A `MultiVectorEncoder`: texts are queries, images documents, and the score is the model's similarity.

    MaxSim finds the nearest of the image's vectors for each vector of the text, and sums their dot products; MeanMaxSim
    takes the mean. Images differ in their number of vectors, so they cannot be rows of one array: `FusionScorer`
    keeps them, encodes each image and each text once, and asks for the pairs' numbers.
    """

    kind: ScoreKind = "similarity"

    def __init__(self, library: Library, reading: str = "retrieval") -> None:
        model = library.model
        if reading != "retrieval":
            raise ModelError(f"{library.source}: it has no reading {reading!r}; it has retrieval")
        if model.similarity_fn_name not in ("maxsim", "meanmaxsim"):
            raise ModelError(
                f"{library.source}: its similarity is {model.similarity_fn_name!r}; maxsim and meanmaxsim are read here"
            )
        self.name, self.fingerprint = library.source, library.fingerprint(reading)
        self.parameters = parameter_count(model)
        self._mean = model.similarity_fn_name == "meanmaxsim"
        self._library = library
        self._query, self._document = roles(model)

    def prepare_image(self, pixels: Pixels) -> Features:
        """Preprocess one RGB image, uint8 `(height, width, 3)`; may be called from many threads."""
        return self._library.prepare(as_picture(pixels), **self._document)

    def encode_images(self, images: Sequence[Pixels | Features]) -> list[TorchState]:
        """Encode RGB images, raw or prepared: one state each, `(vectors, dimensions)`."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return [
            TorchState((vectors,)) for vectors in self._library.run_samples(prepared, _kept_vectors, task="document")
        ]

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Encode texts: one state each, `(vectors, dimensions)`."""
        samples, cut = [], []
        for text in texts:
            before = self._library.truncated
            samples.append(self._library.prepare_text(as_text(text), **self._query))
            cut.append(self._library.truncated > before)
        rows = self._library.run_samples(samples, _kept_vectors, task="query")
        return [TorchState((vectors,), truncated) for vectors, truncated in zip(rows, cut, strict=True)]

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`, computed in float64, pair by pair."""
        return np.array([self._score_pair(*pair) for pair in zip(images, texts, strict=True)], np.float32)

    def _score_pair(self, image: TorchState, text: TorchState) -> float:
        document, query = (state.tensors[0].double().cpu().numpy() for state in (image, text))
        nearest = (query @ document.T).max(axis=1)
        return float(nearest.mean() if self._mean else nearest.sum())


def _kept_vectors(outputs: Mapping[str, Any]) -> list[Any]:
    """Return the vectors of each sample that its mask keeps."""
    masks = outputs["attention_mask"].bool()
    # A copy: a view would keep all of its batch in memory.
    return [vectors[mask].clone() for vectors, mask in zip(outputs["token_embeddings"], masks, strict=True)]
