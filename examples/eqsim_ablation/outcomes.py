"""The outcomes of the runs: right or wrong item by item, means over seeds, and paired intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.metrics.registry import METRICS

__all__ = ["DRAWS", "Interval", "group", "paired", "parts", "summarise", "unpack"]

#: Resamples of an interval.
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference and its 95 % interval.

    >>> Interval(0.1, 0.02, 0.2).excludes_zero
    True
    """

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def summarise(scores: NDArray[np.float32]) -> dict[str, Any]:
    """Return the record's facts of scores `(item, 2, 2)`: right or wrong by item, and mean sizes of the deviations.

    >>> summarise(np.array([[[2, 1], [0, 3]], [[0, 1], [0, 1]]], np.float32))["text_score"]
    '80'
    """
    right = {name: METRICS[name].per_item(scores).astype(bool) for name in ("text_score", "image_score")}
    sizes = {name: np.abs(METRICS[name].per_item(scores)).mean() for name in ("v1", "v2_text", "v2_image")}
    packed: dict[str, Any] = {name: np.packbits(values).tobytes().hex() for name, values in right.items()}
    return packed | {name: round(float(size), 5) for name, size in sizes.items()}


def unpack(packed: str, count: int) -> NDArray[np.bool_]:
    """Return right or wrong by item, bool `(count,)`.

    >>> unpack("80", 2).tolist()
    [True, False]
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(packed), np.uint8), count=count).astype(bool)


def group(run: Mapping[str, Any], count: int) -> NDArray[np.bool_]:
    """Return which items have both captions and both images right, bool `(count,)`.

    >>> group({"text_score": "80", "image_score": "c0"}, 2).tolist()
    [True, False]
    """
    return unpack(run["text_score"], count) & unpack(run["image_score"], count)


def parts(values: PairSet) -> dict[str, NDArray[np.bool_]]:
    """Return the items of each column of the tables: the aspects, all, and combinations in training or not.

    >>> from tellapart.benchmarks.find import load_pairs
    >>> {name: int(mine.sum()) for name, mine in parts(load_pairs("demo")).items()}
    {'location': 100, 'counting': 100, 'attribute': 100, 'all': 300, 'seen': 150, 'held out': 150}
    """
    aspect = np.array([item.tags["aspect"] for item in values.items])
    held_out = np.array([item.tags["held_out"] == "yes" for item in values.items])
    masks = {name: aspect == name for name in ("location", "counting", "attribute")}
    masks |= {"all": np.ones(len(aspect), bool), "seen": ~held_out, "held out": held_out}
    return {name: mask for name, mask in masks.items() if mask.any()}


def paired(ours: Sequence[NDArray[np.bool_]], theirs: Sequence[NDArray[np.bool_]], *, seed: int = 0) -> Interval:
    """Return how much more often we are right, with a percentile interval of a bootstrap over seeds and items at once.

    Args:
        ours: by seed, bool `(item,)`.
        theirs: of the same seeds and items.
        seed: of the draws.

    >>> right, wrong = np.ones(9, bool), np.zeros(9, bool)
    >>> paired([right, right], [wrong, wrong])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    differences = np.array(ours, np.float64) - np.array(theirs, np.float64)  # (seed, item)
    seeds, items = differences.shape
    rng = np.random.default_rng(seed)
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS)
    of_items = rng.multinomial(items, np.full(items, 1 / items), DRAWS)
    means = ((of_seeds @ differences) * of_items).sum(1) / (seeds * items)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(differences.mean()), float(low), float(high))
