"""Protocols of models: scores and vectors, heads of other tasks, and optional ones that make a model faster.

A model is any object with the attributes and methods of a protocol; nothing needs to be inherited. A model that is
named (a prefix, an entry point or a table `MODELS` makes it) is given images as arrays, `Pixels`. An object that a
caller hands to `tellapart.evaluate`, or names in a file, is given PIL images, RGB, in their place, unless it has a true
attribute `reads_arrays`; an image that it prepared comes back as it is.

Scores of images and texts come from `DualEncoder`, `PairScorer`, `TextScorer`, `Generator`, `KeyReader` and
`MatrixScorer`; answers, judgements and boxes from `AnswerChooser`, `TwoImageClassifier` and `BoxFinder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind

__all__ = [
    "AnswerChooser", "Bounded", "BoxFinder", "DualEncoder", "Generator", "ImagePreparer", "KeyReader", "MatrixScorer",
    "Model", "NoteTaker", "PairScorer", "Pixels", "Sides", "Sized", "StackedSimilarity", "TextScorer",
    "TwoImageClassifier", "Vectors", "Weighed",
]  # fmt: skip

Pixels = NDArray[np.uint8]  # (height, width, 3), RGB
Vectors = NDArray[np.float32]  # (n, dimensions)
Sides = tuple[float, float, float, float]  # x, y, width, height of a box, in pixels


@runtime_checkable
class Model(Protocol):
    """The identity of every model. Plain attributes will do."""

    @property
    def name(self) -> str:
        """As given on the command line."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the weights or the preprocessing change, never with where files lie; the store's key."""

    @property
    def kind(self) -> ScoreKind:
        """Of its scores. A metric that needs a probability refuses a similarity."""


@runtime_checkable
class DualEncoder(Model, Protocol):
    """Images and texts are encoded apart, so each distinct one is encoded once (CLIP, SigLIP, ITC heads).

    A vector may depend on its image or text only: never on the rest of the batch.
    """

    def encode_images(self, images: Sequence[Pixels]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)` each, to float32 `(n, dimensions)`."""

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`."""

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score every image vector against every text vector: float32 `(images, texts)`.

        Each number may depend on its two vectors only: `tellapart.models.vectors.dot_products` does that, a plain
        `images @ texts.T` does not promise it.
        """


@runtime_checkable
class PairScorer(Model, Protocol):
    """Image and text are read together (ITM heads of fusion encoders): one number for a pair.

    Pairs come image by image, and an image that occurs several times in a batch is one object (`is`) there: what
    depends on the image alone can be computed once.
    """

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`."""


@runtime_checkable
class TextScorer(Model, Protocol):
    """Reads the text alone, so no image is decoded for it (a language model's plausibility, a grammar score).

    The text gets the same number with every image: such a model can choose a caption, never an image.
    """

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score each text: float32 `(n,)`."""


@runtime_checkable
class Generator(Model, Protocol):
    """Writes text about an image: scored by the likelihood it gives a text."""

    def log_likelihoods(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return log P(text `k` | image `k`), in nats: float32 `(n,)`."""


@runtime_checkable
class KeyReader(Model, Protocol):
    """Reads the item itself, answer key included: the oracle and other bounds that no real model may be."""

    def score_item(self, item: Item) -> NDArray[np.float32]:
        """Score every image of the item against every text: float32 `(images, texts)`."""


@runtime_checkable
class MatrixScorer(Model, Protocol):
    """Reads an item's images and texts together: a score may depend on the others of the item. For minimal pairs alone.

    It is asked item by item, and none of its scores is kept: the same pair may get another score in another item.
    """

    def score_matrix(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score every image of one item against every text of it: float32 `(images, texts)`."""


@runtime_checkable
class AnswerChooser(Model, Protocol):
    """Answers a question from a list that it was loaded with: a classifier over answers, or a decoder that ranks."""

    def choose_answers(self, images: Sequence[Pixels], questions: Sequence[str]) -> list[str]:
        """Answer question `k` about image `k`; no answer depends on its neighbours."""


@runtime_checkable
class TwoImageClassifier(Model, Protocol):
    """Judges whether a sentence is true of two images, a left one and a right one (NLVR2)."""

    def judge(self, left: Sequence[Pixels], right: Sequence[Pixels], sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return P(sentence `k` is true of the images `k`): float32 `(n,)`."""


@runtime_checkable
class BoxFinder(Model, Protocol):
    """Finds the object of a phrase, without words: a head of box coordinates, or a map of where the model looks."""

    def find_boxes(
        self, images: Sequence[Pixels], phrases: Sequence[str], candidates: Sequence[Sequence[Sides]]
    ) -> list[Sides]:
        """Return the box of phrase `k` in image `k`: one of its candidates, if it has some and the model needs them."""


@runtime_checkable
class ImagePreparer(Model, Protocol):
    """Optional: a model that prepares (resizes, crops, scales) one image apart from its forward pass.

    The reader's threads do that ahead of the model, whose methods then get the values of `prepare_image`; they must
    take plain pixels, too, with the same results.
    """

    def prepare_image(self, pixels: Pixels) -> object:
        """Prepare one image, uint8 `(height, width, 3)`: an array or a tensor, or a mapping of them.

        Called in several threads at once. It should start none: several read at once already.
        """


@runtime_checkable
class KeptPreparer(ImagePreparer, Protocol):
    """Optional: a model whose prepared images are kept, so that another one of the same preprocessing decodes none.

    `preparation` names all that a prepared image depends on except its pixels, versions of libraries included.
    """

    preparation: str

    def pack_image(self, prepared: Any) -> Pixels:
        """Return a prepared image as an array, uint8 `(height, width, 3)`."""

    def unpack_image(self, packed: Pixels) -> object:
        """Return the prepared image of an array that `pack_image` returned."""


@runtime_checkable
class StackedSimilarity(DualEncoder, Protocol):
    """Optional: a dual encoder that scores many items in one call, with the same bits as item by item.

    If `similarity` consists of `tellapart.models.vectors.dot_products` and of steps that treat each number alone,
    `similarities = similarity` in the class is all it takes.
    """

    def similarities(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score `(items, images, d)` against `(items, texts, d)`: float32 `(items, images, texts)`."""


@runtime_checkable
class Bounded(Protocol):
    """Optional: a model, or its tokenizer, that shows the tokens it reads of a text and whether it cuts the text."""

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text within the context, padding included."""

    def find_cut(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is longer than the context, so that its end is lost."""


@runtime_checkable
class Transparent(Model, Protocol):
    """A model that shows the inputs of its towers, so that it can be compared with another, step by step.

    `traits` are facts that change a score and are in no input: `activation` (of the text tower), `image activation`,
    `context`, `dtype`, `texts`; empty if unknown.
    """

    traits: Mapping[str, str]

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, as its tower is given them, padding included."""

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return one image as its tower is given it, float32 `(3, height, width)`, normalised."""


@runtime_checkable
class Sized(Model, Protocol):
    """Optional: a model whose forward pass takes a fixed number of samples, to which it fills every batch up."""

    @property
    def batch_size(self) -> int:
        """Samples in one forward pass: the size of a batch, unless the user sets another."""


@runtime_checkable
class Weighed(Model, Protocol):
    """Optional: a model that knows how many parameters it has; `tellapart time` reports them."""

    @property
    def parameters(self) -> int:
        """Numbers that were learned; those that several parts share count once."""


@runtime_checkable
class NoteTaker(Model, Protocol):
    """Optional: a model with remarks on its numbers, which results show."""

    def take_notes(self) -> tuple[str, ...]:
        """Return remarks on the numbers computed since the last call, a sentence each."""
