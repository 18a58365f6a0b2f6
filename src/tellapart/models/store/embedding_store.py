"""The embedding store: the vectors, scores and pixel hashes of images, texts and pairs, in one SQLite file.

Numbers are filed under the model's fingerprint and the content's hash, so they serve every benchmark and every later
run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import StoreError
from tellapart.models.store.libraries import split_filed
from tellapart.models.store.prepared import prepared_path
from tellapart.models.store.row_file import RowFile

#: Spaces of the file: of a model's vectors and scores, of pictures' hashes, and of models by the files they come from.
_VECTORS, _SCORES, _PICTURES, _SOURCES = "vectors of ", "scores of ", "pictures", "models"


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How many models, vectors, scores of pairs and hashes of pictures a store holds."""

    models: int
    vectors: int
    pairs: int
    pictures: int


@dataclass(frozen=True, slots=True)
class StoredModel:
    """The rows of a model in a store. Its name is that of the files it was last loaded from; empty if unknown."""

    fingerprint: str
    name: str
    vectors: int
    scores: int


class EmbeddingStore(RowFile):
    """Vectors, pair scores and pixel hashes, kept between runs. Several processes may use one file at once.

    A content key is a SHA-256 in hexadecimal. Each `put_...` is one transaction. `RowFile` has the rest: damage, other
    processes and threads.

    Args:
        path: the file, made if it does not exist; None keeps everything in memory.

    Attributes:
        where: the store's name in messages.

    Raises:
        StoreError: the file was written by another version, or cannot be read or written; of every method, too.

    >>> with EmbeddingStore(None) as store:
    ...     store.put_vectors("model-a", {"00" * 32: np.ones(3, np.float32)})
    ...     store.vectors("model-a", ["00" * 32, "11" * 32])
    {'0000000000000000000000000000000000000000000000000000000000000000': array([1., 1., 1.], dtype=float32)}
    """

    @property
    def prepared(self) -> Path | None:
        """The file of prepared pictures near it; None of a store in memory."""
        return None if self.path is None else prepared_path(self.path)

    def vectors(self, model: str, contents: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors that are stored: content -> float32 `(dimensions,)`."""
        rows = self.read(_VECTORS + model, [bytes.fromhex(content) for content in contents])
        return {key.hex(): np.frombuffer(data, "<f4").astype(np.float32, copy=False) for key, data in rows.items()}

    def missing_vectors(self, model: str, contents: Iterable[str]) -> list[str]:
        """Return the contents that have no vector yet, or a damaged one, in the order given."""
        contents = list(contents)
        stored = self.vectors(model, contents)
        return [content for content in contents if content not in stored]

    def put_vectors(self, model: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep vectors, float32 `(dimensions,)` each, in one transaction."""
        for content, vector in vectors.items():
            self._check_finite(model, content, vector)
        self.write(
            _VECTORS + model, {bytes.fromhex(key): vector.astype("<f4").tobytes() for key, vector in vectors.items()}
        )

    def pair_scores(self, model: str, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], np.float32]:
        """Return the scores that are stored: (image, text) -> float32."""
        rows = self.read(_SCORES + model, [bytes.fromhex(image + text) for image, text in pairs])
        return {(key[:32].hex(), key[32:].hex()): np.frombuffer(data, "<f4")[0] for key, data in rows.items()}

    def put_pair_scores(self, model: str, scores: Mapping[tuple[str, str], np.float32]) -> None:
        """Keep the scores of (image, text) pairs, in one transaction."""
        for (image, _), score in scores.items():
            self._check_finite(model, image, score)
        rows = {bytes.fromhex(image + text): score for (image, text), score in scores.items()}
        self.write(_SCORES + model, {key: np.asarray(score, "<f4").tobytes() for key, score in rows.items()})

    def has_pair_scores(self, model: str) -> bool:
        """Return whether any score of a pair is stored."""
        return self.has_rows(_SCORES + model)

    def pixel_hashes(self, files: Iterable[str]) -> dict[str, str]:
        """Return the hashes of decoded pixels that are stored: hash of a file's bytes -> hash of its pixels."""
        return {key.hex(): value.hex() for key, value in self.read(_PICTURES, [*map(bytes.fromhex, files)]).items()}

    def put_pixel_hashes(self, hashes: Mapping[str, str]) -> None:
        """Keep which file's bytes decode to which pixels, so that a later run need not decode them."""
        if hashes:
            self.write(_PICTURES, {bytes.fromhex(file): bytes.fromhex(pixels) for file, pixels in hashes.items()})

    def model_of(self, source: str) -> dict[str, str] | None:
        """Return the facts that `put_model` kept under a key, or None."""
        facts = self.read(_SOURCES, [source.encode()]).get(source.encode())
        return None if facts is None else dict(json.loads(facts))

    def put_model(self, source: str, facts: Mapping[str, str]) -> None:
        """Keep a model's name, fingerprint and kind under the key of the files that it is made of."""
        self.write(_SOURCES, {source.encode(): json.dumps(facts, sort_keys=True).encode()})

    def counts(self) -> StoreCounts:
        """Count all rows, over all models."""
        spaces = [(space.name, space.rows) for space in self.spaces()]
        vectors, pairs, pictures = (
            sum(rows for name, rows in spaces if name.startswith(begin)) for begin in (_VECTORS, _SCORES, _PICTURES)
        )
        models = {name.removeprefix(_VECTORS).removeprefix(_SCORES) for name, _ in spaces} - {_PICTURES, _SOURCES}
        return StoreCounts(len(models), vectors, pairs, pictures)

    def models(self) -> list[StoredModel]:
        """Return the rows of each model, in the order in which they came."""
        names = {facts.get("fingerprint"): facts.get("name", "") for facts in self._sources().values()}
        sizes = dict[str, list[int]]()
        for space in self.spaces():  # one for each set of libraries that computed
            for column, begin in enumerate((_VECTORS, _SCORES)):
                if space.name.startswith(begin):
                    sizes.setdefault(split_filed(space.name.removeprefix(begin)), [0, 0])[column] += space.rows
        return [StoredModel(fingerprint, names.get(fingerprint, ""), *size) for fingerprint, size in sizes.items()]

    def forget(self, models: Iterable[str] | None) -> None:
        """Delete all that is stored of these fingerprints, or of all models and pictures, and make the file smaller."""
        spaces = [space.name for space in self.spaces()]
        if models is None:
            self.delete(spaces)
        else:
            forgotten = {*models}
            its = [
                space
                for space in spaces
                if split_filed(space.removeprefix(_VECTORS).removeprefix(_SCORES)) in forgotten
            ]
            entries = [key for key, facts in self._sources().items() if facts.get("fingerprint") in forgotten]
            self.delete(its, {_SOURCES: entries})
        self.shrink()

    def _sources(self) -> dict[bytes, dict[str, str]]:
        rows = self.read(_SOURCES, self.keys(_SOURCES))
        return {key: json.loads(facts) for key, facts in rows.items()}

    def _check_finite(self, model: str, content: str, numbers: NDArray[np.float32] | np.float32) -> None:
        if not np.isfinite(numbers).all():
            raise StoreError(
                f"{self.where} keeps finite numbers only; model {model[:12]!r} gave others for {content[:12]}"
            )
