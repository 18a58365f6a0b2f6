"""The part of a run that one of several processes computes, and the store's file that it writes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.protocols import DualEncoder, KeyReader, MatrixScorer, Model, TextScorer
from tellapart.models.store.embedding_store import EmbeddingStore


def shard_folder(store: Path) -> Path:
    """Return the folder of the shards of a store's file."""
    return store.parent / f"{store.stem}-shards"


def list_shards(folder: Path) -> list[Path]:
    """Return the files of ranks in a folder, and those that came from other machines; others are not a run's."""
    return sorted([*folder.glob("rank-*-of-*.sqlite"), *folder.glob("from-*-rank-*-of-*.sqlite")])


class Shard(EmbeddingStore):
    """A store that one process writes, and that reads the rows of another store, too."""

    def __init__(self, path: Path | None, main: EmbeddingStore) -> None:
        super().__init__(path)
        self._main = main

    @property
    def prepared(self) -> Path | None:
        """The file of prepared pictures near the other store."""
        return self._main.prepared

    def read(self, space: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of keys that either of both files has."""
        values = super().read(space, keys)
        return values | self._main.read(space, [key for key in keys if key not in values])


@dataclass(frozen=True, slots=True)
class _Part(PairSet):
    """Pairs of another set, whose messages name that set's items."""

    whole: PairSet | None = None

    def where(self, reference: str) -> str:
        return PairSet.where(self, reference) if self.whole is None else self.whole.where(reference)


def own_part(model: Model, pairs: PairSet, rank: int, ranks: int) -> PairSet | None:
    """Return the work of process `rank` (from 0) of `ranks`, as pairs of one image and one text; None if nothing.

    An image belongs to a process by the hash of its reference, a text by its hash: neither order nor `--limit`
    moves it. For a dual encoder each image and each text is computed by one process, paired with any other; for a model
    that reads both together, each pair is computed by the process of its image.
    """
    if isinstance(model, KeyReader | MatrixScorer):
        return None  # no store keeps its scores

    def is_mine(content: str) -> bool:
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        return int(digest[:8], 16) % ranks == rank

    if isinstance(model, TextScorer | DualEncoder):
        reads_images, first = not isinstance(model, TextScorer), pairs.items[0]
        texts = [*filter(is_mine, dict.fromkeys(text for item in pairs.items for text in item.texts))]
        images = [
            *filter(is_mine, dict.fromkeys(image for item in pairs.items for image in item.images if reads_images))
        ]
        filled = zip(cycle(images or first.images[:1]), cycle(texts or first.texts[:1]), strict=False)
        filler = list(islice(filled, max(len(images), len(texts))))
    else:
        all_pairs = dict.fromkeys((image, text) for item in pairs.items for image in item.images for text in item.texts)
        filler = [(image, text) for image, text in all_pairs if is_mine(image)]
    if not filler:
        return None
    items = tuple(Item(id=str(k), images=(image,), texts=(text,)) for k, (image, text) in enumerate(filler))
    return _Part(pairs.name, items, pairs.root, read=pairs.read, whole=pairs)
