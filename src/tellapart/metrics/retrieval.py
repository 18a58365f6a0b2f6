"""Image-text retrieval both ways: the rank of the best true entry and recall at k.

A rank counts the false entries that score at least as much as the best true one: a tie is never in the model's
favour, so a constant model has the worst rank and not the first. Several captions may belong to one image, and
several images to one caption; the best-placed true entry counts, and ties among true entries do no harm. Each strict
value has a tie-neutral one, its exact expectation when tied entries are put in random order.

One pass over blocks of rows counts both directions and keeps the first few entries of each query; the gallery is not
sorted and the full matrix of comparisons never exists. A result depends on neither the block size nor the order of
images and captions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import as_float32, as_numbers, join_names
from tellapart.errors import MetricError, ScoreError

_GRID = 2.0**26  # `grid_vectors` rounds to multiples of 1 / _GRID
_PRODUCTS_AT_ONCE = 1 << 22  # float64 numbers that `cosines` has in memory besides its result


def grid_vectors(vectors: ArrayLike, noun: str, first_row: int = 0) -> NDArray[np.float64]:
    """Scale vectors `(vector, dimension)` to length one and round them to multiples of 2^-26.

    Products are then multiples of 2^-52, and by Cauchy-Schwarz no partial sum reaches 2, so that float64 holds all of
    them exactly. However a matrix product orders its sums, equal vectors get equal cosines.

    >>> grid_vectors([[3.0, 4.0]], "images").round(4)
    array([[0.6, 0.8]])
    """
    exact = np.array(vectors, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if len(bad):
        raise ScoreError(
            f"{len(bad)} {noun} are zero or not finite, and have no direction: rows "
            f"{join_names([str(first_row + row) for row in bad])}; encode them again"
        )
    exact /= lengths
    exact *= _GRID
    np.rint(exact, out=exact)
    exact /= _GRID
    return exact


def cosines(left: ArrayLike, right: ArrayLike) -> NDArray[np.float32]:
    """Return the cosine of every vector on the left with every one on the right: float32 `(left, right)`.

    Each cosine is rounded once, from the exact product of its two `grid_vectors`.

    >>> cosines([[2.0, 0.0], [3.0, 3.0]], [[0.0, 1.0], [5.0, 0.0]]).round(4)
    array([[0.    , 1.    ],
           [0.7071, 0.7071]], dtype=float32)
    """
    first, second = (np.asarray(side, dtype=np.float64) for side in (left, right))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ScoreError(f"cosines: expected two matrices of one width; got shapes {first.shape} and {second.shape}")
    columns = grid_vectors(second, "vectors on the right").T
    result = np.empty((len(first), len(second)), np.float32)
    step = max(1, _PRODUCTS_AT_ONCE // max(len(second), first.shape[1], 1))
    for start in range(0, len(first), step):
        result[start : start + step] = grid_vectors(first[start : start + step], "vectors on the left", start) @ columns
    return result


# The ceiling of retrieval: queries that no model can win, because an image or a caption is in the gallery twice.
# A duplicate is a gallery entry (VLUE lists 5,450 images of which 5,413 are distinct), and a model of content alone
# gives both the same score. The count separates the model's failures from the set's.


def unavoidable_misses(
    images: Sequence[str], captions: Sequence[str], pairs: Sequence[tuple[int, int]], k: int = 1
) -> tuple[int, int]:
    """Return how many queries any model must miss at `k`: image to text, text to image.

    This holds for models that depend on content alone and for the strict rule on ties. A query's true entry is
    tied with every false entry of the same content, which must fit above it. And queries of the same content get
    the same order of the gallery, so at most `k` different truths can be within its first `k`. The count is a lower
    bound: an order that wins all the rest may not exist. Source: VLUE `itr_vlue_test.json`.

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
        counts = Counter(gallery[entry] for entry in entries)
        if min(copies[content] - true_copies for content, true_copies in counts.items()) < k:
            winnable[queries[query]][frozenset(entries)] += 1
    won = 0
    for by_truth in winnable.values():
        overlapping = len(frozenset().union(*by_truth)) < sum(map(len, by_truth))
        # Truths that share an entry can be won together; only disjoint ones compete for the first k places.
        won += sum(by_truth.values()) if overlapping else sum(n for _, n in by_truth.most_common(k))
    return len(truths) - won


#: Entries for each query, as in COCO-Counterfactuals' Figure 9.
DEPTH = 5


@dataclass(frozen=True, slots=True, eq=False)
class TopEntries:
    """The entries that score most for each query, the best first; equal scores keep the gallery's order.

    Positions in the gallery, int64, and their scores, float32, are `(query, k)`; `k` is `DEPTH`, or less in a smaller
    gallery.
    """

    entry: NDArray[np.int64]
    score: NDArray[np.float32]

    def of(self, query: int) -> tuple[tuple[int, float], ...]:
        """Return the entries of one query with their scores."""
        return tuple(zip(self.entry[query].tolist(), self.score[query].tolist(), strict=True))


def top_entries(scores: NDArray[np.float32], *, start: int = 0) -> TopEntries:
    """Return the top entries of each row without sorting it.

    `scores`: finite float32 `(query, entry)`; not changed.
    """
    remaining = np.array(scores, dtype=np.float32, order="C")
    rows = np.arange(len(remaining))
    depth = min(DEPTH, remaining.shape[1])
    entry, score = np.empty((len(rows), depth), np.int64), np.empty((len(rows), depth), np.float32)
    for rank in range(depth):
        best = remaining.argmax(axis=1)  # the first of equal ones
        entry[:, rank], score[:, rank] = best + start, remaining[rows, best]
        remaining[rows, best] = -np.inf
    return TopEntries(entry, score)


def merge_top_entries(before: TopEntries | None, after: TopEntries) -> TopEntries:
    """Return the top entries of two parts of a gallery, the first part's ahead if scores are equal."""
    if before is None:
        return after
    entry = np.concatenate([before.entry, after.entry], axis=1)
    score = np.concatenate([before.score, after.score], axis=1)
    order = np.argsort(-score, axis=1, kind="stable")[:, :DEPTH]
    return TopEntries(np.take_along_axis(entry, order, axis=1), np.take_along_axis(score, order, axis=1))


_BLOCK = 1 << 22  # scores compared at once: 16 MiB of float32, 32 MiB of float64


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The rank of the best true entry of each query, as three counts, int64 `(query,)`.

    `above` counts false entries that score more than the best true entry, `tied` those that score the same. `true_tied`
    counts true entries that score the same, the best one included. `first` has the entries that score most, for people.
    """

    above: NDArray[np.int64]
    tied: NDArray[np.int64]
    true_tied: NDArray[np.int64]
    first: TopEntries | None = None

    @property
    def rank(self) -> NDArray[np.int64]:
        """The strict rank, from 1: int64 `(query,)`; every tied false entry is placed before the true one."""
        return 1 + self.above + self.tied

    def recall(self, k: int) -> NDArray[np.float64]:
        """Return 1 for each query with a true entry among the first `k`, ties lost: float64 `(query,)`.

        Source: VLUE section 3.1 (R@k); X-VLM `itm_eval`, there with ties in favour of the higher index.
        """
        return np.asarray(self.rank <= _check_depth(k), dtype=np.float64)

    def tie_neutral_recall(self, k: int) -> NDArray[np.float64]:
        """Return the chance of a true entry among the first `k`, ties broken at random: float64 `(query,)`.

        With `f` false and `t` true entries tied and `j` places left for them, it is 1 - C(f, j) / C(f + t, j).
        """
        places = np.clip(_check_depth(k) - self.above, 0, self.tied + 1)
        missed = np.ones(len(self.above))
        for filled in range(int(places.max(initial=0))):
            # The next tied place goes to a false entry, given that all before it did.
            false_left = np.maximum(self.tied - filled, 0)
            step = false_left / np.maximum(false_left + self.true_tied, 1)
            missed = np.where(filled < places, missed * step, missed)
        # One true entry: the product telescopes, and the short form is exact.
        return np.asarray(np.where(self.true_tied == 1, places / (self.tied + 1), 1 - missed))


@dataclass(frozen=True, slots=True, eq=False)
class Retrieval:
    """Both directions of one gallery: `image_to_text` has a query for each image, `text_to_image` for each caption."""

    image_to_text: Ranks
    text_to_image: Ranks

    def mean_recall(self, ks: Sequence[int] = (1, 5, 10)) -> float:
        """Return the mean of the recalls at every `k` in both directions (X-VLM's `r_mean`), as a share."""
        means = [ranks.recall(k).mean() for ranks in (self.image_to_text, self.text_to_image) for k in ks]
        return float(np.mean(means))


def scores_both_ways(scores: ArrayLike, pairs: ArrayLike) -> Retrieval:
    """Rank every caption for each image, and every image for each caption.

    Scores are `(image, caption)`, compared in float32; true pairs are integers `(pair, 2)`, image and caption, from 0.
    Each image and caption is in at least one.

    Source: VLUE section 3.1; COCO-Counterfactuals' retrieval over all images.

    >>> retrieval = scores_both_ways([[0.9, 0.7, 0.1], [0.2, 0.8, 0.1]], [(0, 0), (0, 1), (1, 2)])
    >>> retrieval.image_to_text.rank, retrieval.text_to_image.rank
    (array([1, 3]), array([1, 2, 2]))
    """
    values = as_float32(as_numbers(scores, "scores_both_ways: scores", "(image, caption)"))
    links = _make_links(pairs, values.shape)
    rows = max(1, _BLOCK // values.shape[1])
    blocks = ((start, values[start : start + rows]) for start in range(0, len(values), rows))
    return _count_blocks(blocks, values[links.image, links.caption], links)


def embeddings_both_ways(images: ArrayLike, captions: ArrayLike, pairs: ArrayLike) -> Retrieval:
    """Rank by the cosine of embeddings `(image or caption, dimension)`, without holding the full matrix of scores.

    Dot products of `grid_vectors` are exact in float64, so the cosine, rounded to float32 once, depends on its two
    vectors alone: equal images tie whatever the block, the threads and the order, and no BLAS can break the tie.

    >>> retrieval = embeddings_both_ways([[2, 0], [2, 0], [0, 1]], [[3, 0], [1, 1], [0, 5]], [(0, 0), (1, 1), (2, 2)])
    >>> retrieval.text_to_image.rank
    array([2, 3, 1])
    """
    left, right = (
        grid_vectors(as_float32(as_numbers(vectors, f"embeddings of {noun}s", f"({noun}, dimension)")), f"{noun}s")
        for noun, vectors in (("image", images), ("caption", captions))
    )
    if left.shape[1] != right.shape[1]:
        raise ScoreError(
            f"embeddings_both_ways: images have {left.shape[1]} dimensions and captions {right.shape[1]}; "
            "give the embeddings of one model"
        )
    links = _make_links(pairs, (len(left), len(right)))
    at_once = max(1, _BLOCK // left.shape[1])
    true = np.concatenate(
        [
            np.einsum("pd,pd->p", left[links.image[s : s + at_once]], right[links.caption[s : s + at_once]])
            for s in range(0, len(links.image), at_once)
        ]
    ).astype(np.float32)
    rows = max(1, _BLOCK // len(right))
    blocks = ((start, (left[start : start + rows] @ right.T).astype(np.float32)) for start in range(0, len(left), rows))
    return _count_blocks(blocks, true, links)


def chance_recall(true: ArrayLike, gallery: int, k: int) -> NDArray[np.float64]:
    """Return the recall of each query at `k` from a gallery in random order: float64 `(query,)`.

    With `t` true entries among `n` it is 1 - C(n - t, k) / C(n, k): also the tie-neutral recall of a constant model.

    >>> chance_recall([1, 2], gallery=4, k=1), chance_recall([1], gallery=4, k=9)
    (array([0.25, 0.5 ]), array([1.]))
    """
    counts = np.asarray(true, dtype=np.float64)
    missed = np.ones(len(counts))
    for drawn in range(min(_check_depth(k), gallery)):
        missed *= np.maximum(gallery - counts - drawn, 0) / (gallery - drawn)
    return 1 - missed


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """True pairs sorted by image; `of_caption` sorts them by caption; the starts are where each entry's pairs begin."""

    image: NDArray[np.int64]
    caption: NDArray[np.int64]
    image_starts: NDArray[np.int64]
    of_caption: NDArray[np.int64]
    caption_starts: NDArray[np.int64]


def _make_links(pairs: ArrayLike, shape: tuple[int, ...]) -> _Links:
    links: NDArray[Any] = np.asarray(pairs)
    if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu" or len(links) == 0:
        raise MetricError(
            f"retrieval needs true pairs, integers (pair, 2) of image and caption; got {links.dtype} {links.shape}"
        )
    for column, (noun, size) in enumerate(zip(("image", "caption"), shape, strict=True)):
        used = links[:, column]
        if used.min() < 0 or used.max() >= size:
            wrong = int(np.flatnonzero((used < 0) | (used >= size))[0])
            raise MetricError(f"true pair {wrong} names {noun} {used[wrong]}; there are {size}, counted from 0")
        if len(alone := np.setdiff1d(np.arange(size), used)):
            raise MetricError(
                f"{len(alone)} of {size} {noun}s are in no true pair: {join_names([str(a) for a in alone])}; "
                "leave them out: a query without a true entry has no rank"
            )
    order = np.lexsort((links[:, 1], links[:, 0]))
    image, caption = (links[order, column].astype(np.int64) for column in (0, 1))
    twice = np.flatnonzero((np.diff(image) == 0) & (np.diff(caption) == 0))
    if len(twice):
        raise MetricError(f"true pair (image {image[twice[0]]}, caption {caption[twice[0]]}) is repeated")
    of_caption = np.argsort(caption, kind="stable")
    image_starts = np.searchsorted(image, np.arange(shape[0]))
    caption_starts = np.searchsorted(caption[of_caption], np.arange(shape[1]))
    return _Links(image, caption, image_starts, of_caption, caption_starts)


def _count_blocks(
    blocks: Iterator[tuple[int, NDArray[np.float32]]], true: NDArray[np.float32], links: _Links
) -> Retrieval:
    """Count, for each image and caption, the entries above and level with its best true score."""
    best_image = np.maximum.reduceat(true, links.image_starts)
    best_caption = np.maximum.reduceat(true[links.of_caption], links.caption_starts)
    image_above, image_level = (np.zeros(len(best_image), np.int64) for _ in range(2))
    caption_above, caption_level = (np.zeros(len(best_caption), np.int64) for _ in range(2))
    image_first: list[TopEntries] = []
    caption_first: TopEntries | None = None
    bad: list[str] = []
    for start, block in blocks:
        finite = np.isfinite(block).all(axis=1)
        bad += [str(start + row) for row in np.flatnonzero(~finite)]
        rows = slice(start, start + len(block))
        image_above[rows] = np.count_nonzero(block > best_image[rows, None], axis=1)
        image_level[rows] = np.count_nonzero(block == best_image[rows, None], axis=1)
        caption_above += np.count_nonzero(block > best_caption, axis=0)
        caption_level += np.count_nonzero(block == best_caption, axis=0)
        image_first.append(top_entries(block))
        caption_first = merge_top_entries(caption_first, top_entries(block.T, start=start))
    if bad:
        raise ScoreError(
            f"retrieval scores must be finite; NaN or infinite in the rows of {len(bad)} of {len(best_image)} images: "
            f"{join_names(bad)}; score them again"
        )
    first = TopEntries(*(np.concatenate([getattr(part, name) for part in image_first]) for name in ("entry", "score")))
    image_tied = np.add.reduceat((true == best_image[links.image]).astype(np.int64), links.image_starts)
    is_best = (true == best_caption[links.caption])[links.of_caption]
    caption_tied = np.add.reduceat(is_best.astype(np.int64), links.caption_starts)
    return Retrieval(
        Ranks(image_above, image_level - image_tied, image_tied, first),
        Ranks(caption_above, caption_level - caption_tied, caption_tied, caption_first),
    )


def _check_depth(k: int) -> int:
    if k < 1:
        raise MetricError(f"recall at k needs a k of at least 1; got {k}")
    return k
