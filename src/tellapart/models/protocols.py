"""What a model must offer to be measured, one of five small protocols, and what it may offer to be measured faster.

A model is any object with the attributes and methods of one of them; nothing needs to be inherited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind

__all__ = [
    "DualEncoder",
    "Generator",
    "ImagePreparer",
    "KeyReader",
    "Model",
    "PairScorer",
    "Pixels",
    "Sized",
    "StackedSimilarity",
    "TextScorer",
    "Vectors",
    "Weighed",
]

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

    Pairs come image by image, and an image that stands at several places of a batch is one object (`is`) there: what
    depends on the image alone can be computed once.

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


@runtime_checkable
class ImagePreparer(Model, Protocol):
    """Optional: a model that prepares (resizes, crops, scales) one image apart from its forward pass.

    The reader's threads then do that ahead of the model and keep the prepared image in place of the full one;
    `encode_images`, `score_pairs` or `log_likelihoods` are given what `prepare_image` returned. They must take plain
    pixels, too, and say the same of them.

    >>> from tellapart.models.reference import Constant
    >>> isinstance(Constant(), ImagePreparer)
    False
    """

    def prepare_image(self, pixels: Pixels) -> Any:
        """Prepare one image, uint8 `(height, width, 3)`: an array or a tensor, or a mapping of them.

        Called in several threads at once. It should start none of its own: there is one for each core already.
        """
        ...


@runtime_checkable
class StackedSimilarity(DualEncoder, Protocol):
    """Optional: a dual encoder that scores many items in one call, with the same bits as item by item.

    Where `similarity` is made of `tellapart.models.vectors.dot_products` and of steps that take each number by itself,
    `similarities = similarity` in the class is all it takes.

    >>> from tellapart.models.reference import Constant
    >>> isinstance(Constant(), StackedSimilarity)
    False
    """

    def similarities(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors `(items, images, dimensions)` against `(items, texts, dimensions)`: float32 `(items, images, texts)`."""
        ...


@runtime_checkable
class Sized(Model, Protocol):
    """Optional: a model whose forward pass takes a fixed number of samples, to which it fills every batch up.

    >>> from tellapart.models.reference import Constant
    >>> isinstance(Constant(), Sized)
    False
    """

    @property
    def batch_size(self) -> int:
        """Samples in one forward pass: what a batch should hold, unless the user says otherwise."""
        ...


@runtime_checkable
class Weighed(Model, Protocol):
    """Optional: a model that says how many parameters it has; `tellapart time` reports them.

    >>> from tellapart.models.reference import Constant
    >>> isinstance(Constant(), Weighed)
    False
    """

    @property
    def parameters(self) -> int:
        """Numbers that were learned; those that several parts share count once."""
        ...
