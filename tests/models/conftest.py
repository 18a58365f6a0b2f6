"""Pair sets on disk, and small models that are honest."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import import_torch
from tellapart.models.vectors import dot_products, normalise

#: Tests of what the extra `models` installs: without it they are left out.
TORCH = ["compact", "fusion", "generative", "huggingface", "openclip", "sentence_transformers", "torch"]
TORCH += ["memory/test_held.py", "test_control_tokens.py"]
collect_ignore = [] if find_spec("torch") and find_spec("transformers") else TORCH
if find_spec("torch"):
    import_torch()  # as the package does, before a file of tests imports it

WORDS = ["red", "blue", "one", "two", "cup", "bowl", "left", "right"]


@dataclass
class Histogram:
    """A dual encoder: an image is the mean of its channels and their squares, a text its letters' sums."""

    name: str = "histogram"
    fingerprint: str = "histogram-1"
    kind: str = "similarity"
    image_batches: list[int] = field(default_factory=list)
    text_batches: list[int] = field(default_factory=list)

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        self.image_batches.append(len(images))
        unit = [image.astype(np.float64).reshape(-1, 3) / 255 for image in images]
        rows = [np.concatenate([u.mean(axis=0), (u**2).mean(axis=0), [0.1]]) for u in unit]
        return normalise(np.array(rows, np.float32))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.text_batches.append(len(texts))
        rows = [[1 + sum(ord(letter) % (k + 3) for letter in text) for k in range(7)] for text in texts]
        return normalise(np.array(rows, np.float32))

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return dot_products(images, texts)


@dataclass
class Fusion:
    """A pair scorer: the mean of a picture, turned by the text's hash."""

    name: str = "fusion"
    fingerprint: str = "fusion-1"
    kind: str = "probability"
    batches: list[int] = field(default_factory=list)

    def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(len(texts))
        turns = [hashlib.sha256(text.encode()).digest()[0] for text in texts]
        return np.array([(i.mean() * turn / 255) % 1 for i, turn in zip(images, turns, strict=True)], np.float32)


@dataclass
class Likelihood:
    """The same as a generator."""

    name: str = "likelihood"
    fingerprint: str = "likelihood-1"
    kind: str = "logit"

    def log_likelihoods(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        return -Fusion().score_pairs(images, texts)


@pytest.fixture
def histogram():
    return Histogram


@pytest.fixture
def fusion():
    return Fusion


@pytest.fixture
def likelihood():
    return Likelihood


@pytest.fixture
def picture_set(tmp_path):
    """Make a pair set of random pictures, PNG files of 12 by 16 pixels."""

    def make(n=10, shape=(2, 2), seed=0):
        from PIL import Image

        rng = np.random.default_rng(seed)
        folder = tmp_path / f"pictures-{seed}"
        folder.mkdir(exist_ok=True)
        items = []
        for k in range(n):
            images = tuple(f"{k}-{i}.png" for i in range(shape[0]))
            for image in images:
                colour = rng.integers(0, 200, 3)
                noise = rng.integers(0, 56, (12, 16, 3))
                Image.fromarray((colour + noise).astype(np.uint8)).save(folder / image)
            texts = tuple(" ".join(rng.choice(WORDS, 4)) + f" {t}" for t in range(shape[1]))
            items.append(Item(id=f"item-{k}", images=images, texts=texts))
        return PairSet("pictures", tuple(items), folder)

    return make


@pytest.fixture
def new_model(request):
    """Make a fresh model of the parametrised kind."""
    if request.param == "onnx":
        from tellapart.models.onnx.dual_encoder import OnnxDualEncoder

        folder = request.getfixturevalue("tiny_encoder").folder
        return lambda: OnnxDualEncoder(folder)
    return request.getfixturevalue(request.param) if isinstance(request.param, str) else request.param
