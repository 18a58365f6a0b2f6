"""Fusion encoders as pair scorers: each image's and text's half runs once, and only the joint layers for every pair."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError
from tellapart.models.fusion.torch_encoder import StateEncoder, TorchState
from tellapart.models.huggingface.inputs import Prepared
from tellapart.models.protocols import Pixels
from tellapart.models.store.content_hash import text_hash

__all__ = ["FusionScorer", "StateModel", "image_key"]

#: Halves kept in memory, in bytes: about 600 images of BLIP at 384 pixels (577 x 768 float32 each).
CACHE_BYTES = 2**30

#: Pairs whose halves are in memory together beyond the cache's bound.
_CHUNK = 64


class StateModel:
    """A model of an encoder of states, which are looked up by content and kept in memory, within a bound.

    States are large (a third of a million numbers for one image of BLIP), so they are never in the store on disk.
    Whether a half was looked up or computed changes no number.

    Args:
        encoder: computes the states.
        cache_bytes: bound of all states kept, in bytes. Beyond it only the states of 64 pairs are.

    Attributes:
        images_encoded, texts_encoded: how many halves were computed.
        bytes_held: memory of the states that are kept now, in bytes.
    """

    #: A sentence on its files for results: which weights were taken, if there were others.
    provenance = ""

    def __init__(self, encoder: StateEncoder, *, cache_bytes: int = CACHE_BYTES) -> None:
        if cache_bytes < 0:
            raise ModelError(f"cache_bytes must be at least 0; got {cache_bytes}")
        self.encoder, self._limit = encoder, cache_bytes
        self.name, self.fingerprint, self.kind = encoder.name, encoder.fingerprint, encoder.kind
        self.parameters, self.images_encoded, self.texts_encoded, self.bytes_held = encoder.parameters, 0, 0, 0
        self._states = OrderedDict[str, TorchState]()  # those unused the longest come first, and are dropped first
        self._truncated: set[str] = set()

    @property
    def truncated(self) -> int:
        """How many different texts so far were longer than the context and lost their end."""
        return len(self._truncated)

    def image_states(self, images: Sequence[Pixels | Prepared]) -> list[TorchState]:
        """Return the state of each image, uint8 `(height, width, 3)` or prepared."""
        # A pair set's image comes as one array for all of its texts.
        hashes = {number: image_key(image) for number, image in {id(image): image for image in images}.items()}
        states, fresh = self._fetch([hashes[id(image)] for image in images], images, self.encoder.encode_images)
        self.images_encoded += len(fresh)
        return states

    def text_states(self, texts: Sequence[str]) -> list[TorchState]:
        """Return the state of each text."""
        states, fresh = self._fetch(list(map(text_hash, texts)), texts, self.encoder.encode_texts)
        self.texts_encoded += len(fresh)
        self._truncated.update(key for key, state in fresh.items() if state.truncated)
        return states

    def pair_numbers(self, images: Sequence[Pixels | Prepared], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the number of image `k`, uint8 `(height, width, 3)` or prepared, and text `k`: float32 `(n,)`."""
        if len(images) != len(texts):
            raise ModelError(f"score_pairs takes as many images as texts; got {len(images)} and {len(texts)}")
        numbers = np.zeros(len(texts), np.float32)
        for start in range(0, len(texts), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            states = self.image_states(images[chunk]), self.text_states(texts[chunk])
            numbers[chunk] = self.encoder.score_states(*states)
        return numbers

    def _fetch(
        self, keys: Sequence[str], samples: Sequence[Any], encode: Callable[[Sequence[Any]], Sequence[TorchState]]
    ) -> tuple[list[TorchState], dict[str, TorchState]]:
        """Return the state of every sample, and by their keys those that were computed now."""
        distinct = dict(zip(keys, samples, strict=True))
        cached = {key: self._states[key] for key in distinct if key in self._states}
        missing = [key for key in distinct if key not in cached]
        encoded = encode([distinct[key] for key in missing]) if missing else []
        if len(encoded) != len(missing):
            raise ModelError(f"the model gave {len(encoded)} states for {len(missing)} images or texts")
        fresh = dict(zip(missing, encoded, strict=True))
        self._states |= fresh
        self.bytes_held += sum(state.nbytes for state in encoded)
        for key in distinct:
            self._states.move_to_end(key)
        while self.bytes_held > self._limit:
            self.bytes_held -= self._states.popitem(last=False)[1].nbytes
        states = cached | fresh
        return [states[key] for key in keys], fresh


class FusionScorer(StateModel):
    """A model of states as a pair scorer; the store keeps the pairs' scores.

    Attributes:
        batch_size: pairs to score at once, so that few halves share a forward with filling.
        prepare_image: prepares an RGB image for `score_pairs`; called from many threads.
    """

    batch_size = _CHUNK
    score_pairs = StateModel.pair_numbers

    def __init__(self, encoder: StateEncoder, *, cache_bytes: int = CACHE_BYTES) -> None:
        super().__init__(encoder, cache_bytes=cache_bytes)
        self.prepare_image = encoder.prepare_image
        self.__dict__ |= encoder.offers

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the model, a sentence each."""
        return self.encoder.notes


def image_key(image: Pixels | Prepared) -> str:
    """Return the SHA-256 of an image, or of a prepared one: names, types, shapes and bytes of its inputs."""
    if isinstance(image, np.ndarray):
        return pixel_hash(image)
    digest = hashlib.sha256()
    for name in sorted(image):
        array = np.ascontiguousarray(image[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()
