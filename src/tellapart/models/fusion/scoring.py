"""Fusion encoders as pair scorers: each image's and text's half runs once, and only the joint layers for every pair."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.fusion.torch_encoder import TorchState
from tellapart.models.huggingface.inputs import Prepared
from tellapart.models.protocols import Pixels
from tellapart.models.store.content_hash import text_hash

__all__ = ["CACHE_BYTES", "FusionScorer", "HalfEncoder", "StateCache", "image_key"]

#: Halves kept in memory, in bytes: about 600 images of BLIP at 384 pixels (577 x 768 float32 each).
CACHE_BYTES = 2**30

#: Pairs whose halves are in memory together beyond the cache's bound.
_CHUNK = 64


class HalfEncoder(Protocol):
    """Computes a state for each image and for each text, and scores the two of a pair, as `TorchFusionEncoder` does."""

    name: str
    fingerprint: str
    kind: ScoreKind

    def prepare_image(self, pixels: Pixels) -> Prepared:
        """Preprocess one RGB image, uint8 `(height, width, 3)`."""

    def encode_images(self, images: Sequence[Pixels | Prepared]) -> list[TorchState]:
        """Compute one state for each image, prepared or not."""

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Compute one state for each text."""

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`."""


@dataclass(slots=True)
class StateCache:
    """States by key, within a bound of bytes (`limit`); those unused the longest come first, and are dropped first."""

    limit: int
    nbytes: int = 0
    states: OrderedDict[str, TorchState] = field(default_factory=OrderedDict)

    def fetch(
        self, samples: dict[str, Any], encode: Callable[[Sequence[Any]], Sequence[TorchState]]
    ) -> tuple[dict[str, TorchState], dict[str, TorchState]]:
        """Return the state of every sample by its key, and those among them that were computed now."""
        cached = {key: self.states[key] for key in samples if key in self.states}
        missing = [key for key in samples if key not in cached]
        states = encode([samples[key] for key in missing]) if missing else []
        if len(states) != len(missing):
            raise ModelError(f"the model gave {len(states)} states for {len(missing)} images or texts")
        fresh = dict(zip(missing, states, strict=True))
        for key, state in fresh.items():
            self.states[key] = state
            self.nbytes += state.nbytes
        for key in samples:
            self.states.move_to_end(key)
        while self.nbytes > self.limit:
            self.nbytes -= self.states.popitem(last=False)[1].nbytes
        return cached | fresh, fresh


class FusionScorer:
    """A fusion encoder as a pair scorer: halves are looked up by content and kept in memory, within a bound.

    States are large (a third of a million numbers for one image of BLIP), so they are never in the store on disk, which
    keeps the pairs' scores. Whether a half was looked up or computed changes no score.

    Args:
        encoder: computes halves and scores.
        cache_bytes: bound of all states kept, in bytes. Beyond it only the states of 64 pairs are.

    Attributes:
        batch_size: pairs to score at once, so that few halves share a forward with filling.
        images_encoded, texts_encoded: how many halves were computed.
    """

    batch_size = _CHUNK
    #: A sentence on its files for results: which weights were taken, if there were others.
    provenance = ""

    def __init__(self, encoder: HalfEncoder, *, cache_bytes: int = CACHE_BYTES) -> None:
        if cache_bytes < 0:
            raise ModelError(f"cache_bytes must be at least 0; got {cache_bytes}")
        self.encoder = encoder
        self.name, self.fingerprint, self.kind = encoder.name, encoder.fingerprint, encoder.kind
        self.prepare_image, self.images_encoded, self.texts_encoded = encoder.prepare_image, 0, 0
        self._cache = StateCache(cache_bytes)
        self._truncated: set[str] = set()
        for name in ("traits", "token_ids", "input_pixels", "takes_frames"):  # of encoders that have them
            if hasattr(encoder, name):
                setattr(self, name, getattr(encoder, name))

    @property
    def truncated(self) -> int:
        """How many different texts so far were longer than the context and lost their end."""
        return len(self._truncated)

    @property
    def bytes_held(self) -> int:
        """Memory of the states that are kept now, in bytes."""
        return self._cache.nbytes

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the model, a sentence each."""
        return tuple(getattr(self.encoder, "notes", ()))

    def score_pairs(self, images: Sequence[Pixels | Prepared], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k`, uint8 `(height, width, 3)` or prepared, against text `k`: float32 `(n,)`."""
        if len(images) != len(texts):
            raise ModelError(f"score_pairs takes as many images as texts; got {len(images)} and {len(texts)}")
        # A pair set's image comes as one array for all of its texts.
        hashes = {number: image_key(image) for number, image in {id(image): image for image in images}.items()}
        image_keys, text_keys = [hashes[id(image)] for image in images], list(map(text_hash, texts))
        scores = np.zeros(len(texts), np.float32)
        for start in range(0, len(texts), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            samples = dict(zip(image_keys[chunk], images[chunk], strict=True))
            image_states, fresh = self._cache.fetch(samples, self.encoder.encode_images)
            self.images_encoded += len(fresh)
            captions = dict(zip(text_keys[chunk], texts[chunk], strict=True))
            text_states, fresh = self._cache.fetch(captions, self.encoder.encode_texts)
            self.texts_encoded += len(fresh)
            self._truncated.update(key for key, state in fresh.items() if state.truncated)
            scores[chunk] = self.encoder.score_states(
                [image_states[key] for key in image_keys[chunk]], [text_states[key] for key in text_keys[chunk]]
            )
        return scores


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
