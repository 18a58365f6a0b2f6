"""Items of a benchmark: how far from wrong each is, which are the worst, and their data for the page's browser."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.records.result import Sample

#: Items that the browser of one benchmark holds: each takes 200 to 500 bytes of the page, and a browser must read all
#: of them before it shows one.
MOST_ITEMS = 10_000

#: One in so many of them is taken from the best items, the others from the worst.
_BEST = 10


def true_texts(measured: Container[str], texts: int) -> int:
    """Return how many texts of an item of one image are true: all but one if `itt` was measured of it."""
    return texts - 1 if "itt" in measured else 1


def true_pairs(shape: tuple[int, int], true: int = 1) -> tuple[tuple[int, int], ...]:
    """Return the true (image, text) pairs of an item: equal indices, or the first if one side is single."""
    images, texts = shape
    if true > 1:
        return tuple((0, k) for k in range(true))
    return tuple((k, k) for k in range(images)) if images == texts else ((0, 0),)


def margins(scores: NDArray[np.float32], true: int = 1) -> NDArray[np.float32]:
    """Return by how much each item's lowest true pair outscores its highest false one: float32 (item,).

    Positive exactly if the group score (2x2) or the choice (1xm, nx1) is right, for float32 subtraction of
    different numbers is never zero.
    """
    _, images, texts = scores.shape
    belongs = np.zeros((images, texts), dtype=bool)
    for pair in true_pairs((images, texts), true):
        belongs[pair] = True
    lowest: NDArray[np.float32] = scores[:, belongs].min(axis=1)
    with np.errstate(over="ignore"):
        difference = lowest - scores[:, ~belongs].max(axis=1)
    # JSON has no infinity: a margin beyond float32 is written as its greatest number.
    return np.asarray(np.nan_to_num(difference), np.float32)


def worst_first(margins_of: Sequence[NDArray[np.float32]]) -> list[int]:
    """Order items so that every model's worst come first: by the best-placed of their ranks, ties sharing a rank."""
    ranks = [
        np.searchsorted(order, margin, "left") + np.searchsorted(order, margin, "right")
        for margin, order in ((margin, np.sort(margin)) for margin in margins_of)
    ]
    best = np.min(np.stack(ranks), axis=0)
    return [int(item) for item in np.argsort(best, kind="stable")]


def browsed_items(order: Sequence[int], most: int) -> list[int]:
    """Return the items that the browser holds, worst first: all, or of `most` nine tenths the worst, one the best."""
    if len(order) <= most:
        return list(order)
    best = most // _BEST
    return [*order[: most - best], *order[len(order) - best :]]


def shared_outcomes(samples: Sequence[Sample]) -> set[str]:
    """Return the metrics of which every item has a value."""
    names = {tuple(sample.outcomes) for sample in samples}  # of many items hardly ever more than one
    return set.intersection(*map(set, names)) if names else set()


def item_table(samples: Sequence[Sample], pictures: Mapping[str, int]) -> dict[str, Any]:
    """Return ids, texts, pictures and tags of a benchmark's items, as columns for JSON."""
    tags: dict[str, Any] = {}
    for tag in sorted({tag for sample in samples for tag in sample.tags}):
        of = [sample.tags.get(tag) or None for sample in samples]  # an empty one is none
        code = {value: number for number, value in enumerate(sorted({value for value in of if value is not None}))}
        tags[tag] = {"values": [*code], "of": [-1 if value is None else code[value] for value in of]}
    return {
        "ids": [sample.id for sample in samples],
        "texts": [sample.texts for sample in samples],
        "pictures": [[pictures.get(reference, -1) for reference in sample.images] for sample in samples],
        "tags": tags,
    }


def model_table(samples: Sequence[Sample], metrics: Sequence[str]) -> dict[str, Any]:
    """Return one model's scores, margins and outcomes, as columns for JSON."""
    values = np.array([sample.scores for sample in samples], dtype=np.float32)
    return {
        # numpy writes a float32 with the fewest digits that read back the same; float64 keeps them.
        "scores": values.reshape(len(values), -1).astype(str).astype(np.float64).tolist(),
        "margins": margins(values, true_texts(samples[0].outcomes, values.shape[2])).astype(str).astype(float).tolist(),
        # One letter an item: right, wrong, or not right because of a tie.
        "outcomes": {
            metric: "".join("1" if of.outcomes[metric] >= 1 else "t" if metric in of.tied else "0" for of in samples)
            for metric in metrics
        },
    }
