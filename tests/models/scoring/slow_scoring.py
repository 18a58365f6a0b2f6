"""Score a pair set and hang in a chosen batch: the process that `test_scoring.py` kills there."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore


class Hanging:
    """Says how many it encodes, encodes them, and never comes back from one of the batches.

    Args:
        hang_at: the batch, counted from 1 over texts and images; 0 for none.
    """

    name, fingerprint, kind = "hanging", "hanging-1", "similarity"

    def __init__(self, hang_at: int) -> None:
        self.left = hang_at

    def encode_images(self, images: list[np.ndarray]) -> np.ndarray:
        self.take("images", len(images))
        return np.array([[i.mean(), i.std(), i[0, 0, 0]] for i in images], np.float32)

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        self.take("texts", len(texts))
        return np.array([[len(text), ord(text[0]), ord(text[-1])] for text in texts], np.float32)

    def similarity(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        return (images[:, None, :] * texts[None, :, :]).sum(axis=2)

    def take(self, what: str, n: int) -> None:
        sys.stdout.write(f"{what} {n}\n")
        sys.stdout.flush()
        self.left -= 1
        if self.left == 0:
            time.sleep(600)


def main(folder: Path, cache: Path, batch_size: int, hang_at: int) -> None:
    """Score `folder/pairs.txt` and write the scores beside it."""
    lines = (folder / "pairs.txt").read_text().splitlines()
    items = [Item.model_validate_json(line) for line in lines]
    with EmbeddingStore(cache) as store:
        scored = score(Hanging(hang_at), PairSet("killed", tuple(items), folder), store=store, batch_size=batch_size)
    np.save(cache.with_suffix(".npy"), scored.scores.values)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
