"""The ceiling of retrieval: queries that no model can win, because an image or a caption is in the gallery twice.

A duplicate is a gallery entry (VLUE lists 5,450 images of which 5,413 are distinct), and a model of content alone
gives both the same score. The count separates the model's failures from the set's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tellapart.errors import MetricError


def unavoidable_misses(
    images: Sequence[str], captions: Sequence[str], pairs: Sequence[tuple[int, int]], k: int = 1
) -> tuple[int, int]:
    """Return how many queries any model must miss at `k`: image to text, text to image.

    This holds for models that depend on content alone and for the strict rule on ties. A query's true entry is
    tied with every false entry of the same content, which must fit above it. And queries of the same content get
    the same order of the gallery, so at most `k` different truths can be within its first `k`. The count is a lower
    bound: an order that wins all the rest may not exist.

    Args:
        images: the content of each image (a path or a hash); equal strings are equal pictures.
        captions: each caption.
        pairs: the true pairs, image and caption, from 0.
        k: the depth.

    Raises:
        MetricError: `k` is below 1, or a pair is out of range.

    Source: VLUE `itr_vlue_test.json`.

    >>> unavoidable_misses(["a.png", "a.png"], ["a cat", "one cat"], [(0, 0), (1, 1)])
    (1, 2)
    """
    if k < 1:
        raise MetricError(f"unavoidable_misses: k must be at least 1; got {k}")
    if not all(0 <= i < len(images) and 0 <= c < len(captions) for i, c in pairs):
        raise MetricError(f"a pair lies outside the {len(images)} images and {len(captions)} captions")
    swapped = [(caption, image) for image, caption in pairs]
    return _count_misses(images, captions, pairs, k), _count_misses(captions, images, swapped, k)


def _count_misses(queries: Sequence[str], gallery: Sequence[str], pairs: Sequence[tuple[int, int]], k: int) -> int:
    copies = Counter(gallery)
    truths: dict[int, set[int]] = defaultdict(set)
    for query, entry in pairs:
        truths[query].add(entry)
    # Content of the query -> its truth -> how many queries could be won with that truth.
    winnable: dict[str, Counter[frozenset[int]]] = defaultdict(Counter)
    for query, entries in truths.items():
        own = Counter(gallery[entry] for entry in entries)
        if min(copies[content] - mine for content, mine in own.items()) < k:
            winnable[queries[query]][frozenset(entries)] += 1
    won = 0
    for by_truth in winnable.values():
        overlapping = len(frozenset().union(*by_truth)) < sum(map(len, by_truth))
        # Truths that share an entry can be won together; only disjoint ones compete for the first k places.
        won += sum(by_truth.values()) if overlapping else sum(n for _, n in by_truth.most_common(k))
    return len(truths) - won
