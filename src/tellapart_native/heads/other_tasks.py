"""Heads of other tasks on a fusion encoder: answers of a list, a sentence about two images, boxes.

As for scores, each image's and text's half runs once while it is kept, and nothing depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError
from tellapart.models.fusion.scoring import CACHE_BYTES, StateCache
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder, TorchState
from tellapart.models.protocols import Pixels, Sides
from tellapart.models.store.content_hash import text_hash
from tellapart_native.heads.heat import heat_box

__all__ = ["FusionAnswers", "FusionBoxes", "FusionHead", "FusionHeat", "FusionTwoImages"]


class FusionHead:
    """The parts of all heads: the identity, and states of images and texts that are kept within a bound.

    Args:
        encoder: computes the states and joins them.
        cache_bytes: bound of all states kept, in bytes.
    """

    provenance = ""

    def __init__(self, encoder: TorchFusionEncoder, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.encoder = encoder
        self.name, self.fingerprint, self.kind = encoder.name, encoder.fingerprint, encoder.kind
        self.parameters = encoder.parameters
        self._cache = StateCache(cache_bytes)
        self._truncated: set[str] = set()

    @property
    def truncated(self) -> int:
        """How many different texts so far were longer than the context and lost their end."""
        return len(self._truncated)

    def image_states(self, images: Sequence[Pixels]) -> list[TorchState]:
        """Return the state of each image, uint8 `(height, width, 3)`."""
        keys = [f"image {pixel_hash(image)}" for image in images]
        states, _ = self._cache.fetch(dict(zip(keys, images, strict=True)), self.encoder.encode_images)
        return [states[key] for key in keys]

    def text_states(self, texts: Sequence[str]) -> list[TorchState]:
        """Return the state of each text."""
        keys = [f"text {text_hash(text)}" for text in texts]
        states, fresh = self._cache.fetch(dict(zip(keys, texts, strict=True)), self.encoder.encode_texts)
        self._truncated.update(key for key, state in fresh.items() if state.truncated)
        return [states[key] for key in keys]

    def outputs(self, images: Sequence[Pixels], texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the head's output for image and text `k`.

        Raises:
            ModelError: not as many images as texts.
        """
        self._expect_images(texts, images)
        return self.encoder.outputs(self.image_states(images), self.text_states(texts))

    def _expect_images(self, texts: Sequence[str], *images: Sequence[Any]) -> None:
        if any(len(side) != len(texts) for side in images):
            counts = " and ".join(str(len(side)) for side in images)
            raise ModelError(f"{self.name}: {len(texts)} texts with {counts} images; give an image for each text")


class FusionAnswers(FusionHead):
    """Chooses the answer with the greatest number; of equal ones that which is first in the list.

    Args:
        encoder: puts out a number for each answer.
        answers: in the order of those numbers.
        cache_bytes: as `FusionHead`.
    """

    def __init__(self, encoder: TorchFusionEncoder, answers: Sequence[str], *, cache_bytes: int = CACHE_BYTES) -> None:
        super().__init__(encoder, cache_bytes=cache_bytes)
        self.answers = tuple(answers)

    def choose_answers(self, images: Sequence[Pixels], questions: Sequence[str]) -> list[str]:
        """Answer question `k` about image `k`.

        Raises:
            ModelError: not as many images as questions.
        """
        return [self.answers[int(numbers.argmax())] for numbers in self.outputs(images, questions)]


class FusionTwoImages(FusionHead):
    """Judges a sentence about two images; each image is encoded once, whichever side it stands on."""

    def judge(self, left: Sequence[Pixels], right: Sequence[Pixels], sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return P(sentence `k` is true of the images `k`): float32 `(n,)`.

        Raises:
            ModelError: not as many images on both sides as sentences.
        """
        self._expect_images(sentences, left, right)
        states = self.image_states([*left, *right])
        both = [
            TorchState(one.tensors + other.tensors)
            for one, other in zip(states[: len(left)], states[len(left) :], strict=True)
        ]
        return self.encoder.score_states(both, self.text_states(sentences))


class FusionBoxes(FusionHead):
    """Finds boxes by a head that puts out middle x, middle y, width and height as shares of the image."""

    def find_boxes(
        self, images: Sequence[Pixels], phrases: Sequence[str], candidates: Sequence[Sequence[Sides]]
    ) -> list[Sides]:
        """Return x, y, width and height in pixels of the box of phrase `k` in image `k`; candidates are not read.

        Raises:
            ModelError: not as many images as phrases.
        """
        del candidates
        boxes = []
        for image, (x, y, width, height) in zip(images, self.outputs(images, phrases), strict=True):
            rows, columns = image.shape[:2]
            left, top = (x - width / 2) * columns, (y - height / 2) * rows
            boxes.append((float(left), float(top), float(width * columns), float(height * rows)))
        return boxes


class FusionHeat(FusionHead):
    """Finds boxes by a map of where the image supports the match (weakly supervised: no box was ever seen)."""

    def find_boxes(
        self, images: Sequence[Pixels], phrases: Sequence[str], candidates: Sequence[Sequence[Sides]]
    ) -> list[Sides]:
        """Return the candidate, or the rectangle of the map's cells, that holds the most heat: see `heat_box`.

        Raises:
            ModelError: not as many images as phrases.
        """
        heats = self.outputs(images, phrases)
        return [
            heat_box(heat, (image.shape[1], image.shape[0]), own)
            for heat, image, own in zip(heats, images, candidates, strict=True)
        ]
