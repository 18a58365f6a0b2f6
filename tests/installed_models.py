"""Models as another package would install them: the tests put this file and its entry points on the path."""

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Colours:
    """An honest dual encoder: an image is its mean colours and their spread, a text its letters."""

    name, fingerprint, kind = "colours", "colours-1", "similarity"

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        rows = [np.concatenate([i.reshape(-1, 3).mean(axis=0), i.reshape(-1, 3).std(axis=0)]) for i in images]
        return np.array(rows, np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[sum(ord(c) % (k + 3) for c in text) for k in range(6)] for text in texts], np.float32)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return (images[:, None, :] * texts[None, :, :]).sum(axis=2)


class Slow(Colours):
    """The same, but each batch of images takes its time; it says on standard error when it is at work."""

    name, fingerprint = "slow", "slow-1"

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        os.write(2, b"encoding\n")
        time.sleep(float(os.environ.get("TEST_SECONDS_PER_BATCH", "0")))
        return super().encode_images(images)


class OfItsBatch(Colours):
    """A broken one: a vector depends on its neighbours in the batch."""

    name, fingerprint = "of-its-batch", "of-its-batch-1"

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        vectors = super().encode_images(images)
        return vectors - vectors.mean(axis=0) * np.float32(len(images) > 1)


class Probable:
    """A pair scorer whose scores are probabilities."""

    name, fingerprint, kind = "probable", "probable-1", "probability"

    def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        drawn = [(i.mean() * sum(map(ord, text))) % 1 for i, text in zip(images, texts, strict=True)]
        return np.array(drawn, np.float32)


def colours(_options: Any) -> Colours:
    return Colours()


def slow(_options: Any) -> Slow:
    return Slow()


def of_its_batch(_options: Any) -> OfItsBatch:
    return OfItsBatch()


def probable(_options: Any) -> Probable:
    return Probable()


def twin(_options: Any) -> Colours:
    """Another checkpoint that calls itself by the same name."""
    model = Colours()
    model.fingerprint = "colours-2"
    return model


def no_model(_options: Any) -> str:
    return "a string"


NO_BENCHMARK = {"name": "a dictionary"}
