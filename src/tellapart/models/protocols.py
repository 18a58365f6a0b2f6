"""What a model must offer to be measured: one of five small protocols.

A model is any object with the attributes and methods of one of them; nothing needs to be inherited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind

__all__ = ["DualEncoder", "Generator", "KeyReader", "Model", "PairScorer", "Pixels", "TextScorer", "Vectors"]

Pixels = NDArray[np.uint8]  # (height, width, 3), RGB
Vectors = NDArray[np.float32]  # (n, dimensions)


@runtime_checkable
class Model(Protocol):
    """What every model has: a name for people, a fingerprint for the ledger, and the kind of its scores.

    Attributes:
        name: as given on the command line.
        fingerprint: changes whenever the weights or the preprocessing change, never with where files lie.
        kind: what its scores are. A metric that needs a probability refuses a similarity.

    >>> from tellapart.models.reference import Constant
    >>> isinstance(Constant(), Model)
    True
    """

    @property
    def name(self) -> str:
        """As given on the command line."""
        ...

    @property
    def fingerprint(self) -> str:
        """What the store files this model's numbers under."""
        ...

    @property
    def kind(self) -> ScoreKind:
        """Similarity, logit or probability."""
        ...


@runtime_checkable
class DualEncoder(Model, Protocol):
    """Images and texts are encoded apart, so each distinct one is encoded once (CLIP, SigLIP, ITC heads).

    A vector may depend on its own image or text only: never on what else is in the batch.

    >>> from tellapart.models.reference import Constant
    >>> isinstance(Constant(), DualEncoder)
    False
    """

    def encode_images(self, images: Sequence[Pixels]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)` each, to float32 `(n, dimensions)`."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`."""
        ...

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score every image vector against every text vector: float32 `(images, texts)`.

        Each number may depend on its own two vectors only: `tellapart.models.vectors.dot_products` does that, a
        plain `images @ texts.T` does not promise it.
        """
        ...


@runtime_checkable
class PairScorer(Model, Protocol):
    """Image and text are read together (ITM heads of fusion encoders): one number for a pair.

    >>> from tellapart.models.reference import Random
    >>> isinstance(Random(seed=0), PairScorer)
    True
    """

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`."""
        ...


@runtime_checkable
class TextScorer(Model, Protocol):
    """Reads the text alone, so no image is decoded for it (a language model's plausibility, a grammar score).

    The text gets the same number beside every image: such a model can choose a caption, never an image.

    >>> from tellapart.models.reference import Blind
    >>> isinstance(Blind(), TextScorer)
    True
    """

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score each text: float32 `(n,)`."""
        ...


@runtime_checkable
class Generator(Model, Protocol):
    """Writes text about an image: scored by the likelihood it gives a text.

    >>> from tellapart.models.reference import Random
    >>> isinstance(Random(seed=0), Generator)
    False
    """

    def log_likelihoods(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return log P(text `k` | image `k`), in nats: float32 `(n,)`."""
        ...


@runtime_checkable
class KeyReader(Model, Protocol):
    """Reads the item itself, answer key included: the oracle and other bounds that no real model may be.

    >>> from tellapart.models.reference import Oracle
    >>> isinstance(Oracle(), KeyReader)
    True
    """

    def score_item(self, item: Item) -> NDArray[np.float32]:
        """Score every image of the item against every text: float32 `(images, texts)`."""
        ...
