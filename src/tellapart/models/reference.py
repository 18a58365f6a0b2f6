"""Models that come with tellapart: a small trained one, and five whose results are known beforehand.

A measurement is wrong if a reference model gets anything else.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.fields import split_words
from tellapart.data.images import pixel_hash
from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind
from tellapart.models.onnx.dual_encoder import OnnxDualEncoder
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model, Pixels


class Random:
    """Draws a number for each image and text: chance, within its error, on every metric.

    A score is a pure function of the seed, the pixels and the text, uniform on [0, 1) in steps of 2**-24 that float32
    holds exactly. It counts as a probability, so metrics that need one run, too.
    """

    name = "random"
    kind: ScoreKind = "probability"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.fingerprint = f"tellapart:random:1:{seed}"

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Draw a number for each image and text, float32 `(n,)` in [0, 1)."""
        distinct = {id(image): image for image in images}  # an array that is paired with several texts is hashed once
        hashes = {key: pixel_hash(image) for key, image in distinct.items()}
        pairs = (f"{self.seed}\n{hashes[id(i)]}\n{text}" for i, text in zip(images, texts, strict=True))
        digests = [hashlib.sha256(pair.encode("utf-8", "surrogatepass")).digest() for pair in pairs]
        return np.array([int.from_bytes(digest[:3], "big") / 2**24 for digest in digests], np.float32)


class Constant:
    """Scores every pair 0.5, so that all comparisons tie: metrics are 0 if a tie is never right, else exactly chance.

    A tool that gives this model more than 0 on a strict metric has counted ties as right answers.
    """

    name = "constant"
    fingerprint = "tellapart:constant:1"
    kind: ScoreKind = "probability"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return 0.5 for each text, float32 `(n,)`."""
        return np.full(len(texts), 0.5, np.float32)


class Oracle:
    """Scores true pairs 1 and others 0: 100 % on every metric that has a right answer.

    >>> Oracle().score_item(Item(id="a", images=("0.png",), texts=("true", "false")))
    array([[1., 0.]], dtype=float32)
    """

    name = "oracle"
    fingerprint = "tellapart:oracle:1"
    kind: ScoreKind = "probability"

    def score_item(self, item: Item) -> NDArray[np.float32]:
        """Return 1 for true pairs and 0 for others, float32 `(images, texts)`."""
        if 1 not in item.shape:  # several of both: image k belongs to text k
            return np.eye(*item.shape, dtype=np.float32)
        true = np.zeros(item.shape, np.float32)
        true.ravel()[[*item.truths]] = 1
        return true


class Blind:
    """Reads the text alone and prefers the shorter one: by words, then by characters.

    Every image of an item gets the same scores: image, text and group score are strictly 0. With one image an item, it
    is right if the true caption is the shorter one; on a fair set that is chance.

    >>> Blind().score_texts(["a cat", "a cat on a mat"])
    array([ -8197., -20494.], dtype=float32)
    """

    name = "blind"
    fingerprint = "tellapart:blind:1"
    kind: ScoreKind = "similarity"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return minus the length, float32 `(n,)`: integers below 2**24, so that float32 holds them exactly."""
        longest = 4095  # longer texts count as this long; characters decide only between equal numbers of words
        sizes = [min(len(text.split()), longest) * (longest + 1) + min(len(text), longest) for text in texts]
        return -np.array(sizes, np.float32)


class BagOfWords:
    """Knows the words of the true captions, but not their order: the best that an order-blind model could do.

    An image's score with a text is the number of words that its true caption and the text share, divided by the number
    of words in either; repeated words count repeatedly. It is 1 only if both have the same words, so the model is right
    unless captions differ only in the order of their words: then it ties. (A cosine would tie "a b" and "a b a b",
    too.) In an item of one text and several images the true image gets 1, the others 0.

    >>> BagOfWords().score_item(Item(id="a", images=("0.png", "1.png"), texts=("A dog, a cat", "a cat a dog")))
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """

    name = "bag-of-words"
    fingerprint = "tellapart:bag-of-words:1"
    kind: ScoreKind = "similarity"

    def score_item(self, item: Item) -> NDArray[np.float32]:
        """Return the share of common words of each image's true caption and each text, float32 `(images, texts)`."""
        bags = [_count_words(text) for text in item.texts]
        images, texts = item.shape
        shares = np.zeros((images, texts), np.float32)
        if images == 1:  # of several true captions, the one that shares most counts
            shares[0] = [max(_shared_part(bags[true], bag) for true in item.truths) for bag in bags]
        elif texts == 1:
            shares[item.truths[0]] = 1
        else:
            for image in range(min(images, texts)):
                shares[image] = [_shared_part(bags[image], bag) for bag in bags]
        return shares


def _count_words(text: str) -> Counter[str]:
    """Count a text's words in lower case, with the apostrophes inside them."""
    if text.isascii():  # without combining marks and curly apostrophes, an expression is enough
        return Counter(re.findall(r"\w+(?:'\w+)*", text.lower()))
    return Counter(bare for word in split_words(text, "'’") if (bare := word.strip("'’")))


def _shared_part(first: Counter[str], second: Counter[str]) -> float:
    """Return the number of words in both, divided by the number of words in either; 1 if both are empty."""
    # Integers over integers: equal bags give exactly 1, and the order of the arguments cannot matter.
    union = (first | second).total()
    return (first & second).total() / union if union else 1.0


DEMO_ENCODER_FOLDER = Path(__file__).parent / "demo_encoder"


def demo_encoder(options: ModelOptions) -> OnnxDualEncoder:
    """Load the small dual encoder that was trained on rendered scenes (see its `MODEL_CARD.md`)."""
    return OnnxDualEncoder(DEMO_ENCODER_FOLDER, device=options.device)


def random(options: ModelOptions) -> Random:
    """Make the model that draws its scores from the option `seed`."""
    return Random(options.seed)


def _ignore_options(model_class: Callable[[], Model]) -> Callable[[ModelOptions], Model]:
    return lambda _options: model_class()


#: Names of the catalogue, which calls each of them with options.
constant, blind = _ignore_options(Constant), _ignore_options(Blind)
bag_of_words, oracle = _ignore_options(BagOfWords), _ignore_options(Oracle)
