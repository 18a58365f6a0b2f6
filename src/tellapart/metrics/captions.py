"""Caption metrics: BLEU-1 to 4, ROUGE-L and CIDEr-D, as pycocoevalcap computes them, with one value per caption.

A caption here is its tokens joined by blanks (`tellapart.metrics.ptb.tokenize`); `caption_scores` takes raw captions.
Given equal tokens the numbers equal pycocoevalcap's to 1e-9. Its conventions are kept if they differ from the
papers: BLEU takes the reference closest in length, the shorter of two; ROUGE-L takes the best precision and the best
recall, which may come from different references, and counts one empty word in an empty caption; its CIDEr is CIDEr-D
with sigma 6. One is not kept: CIDEr of a single image is 0 there for any caption (the logarithm of one image is the
weight of every n-gram); here it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import join_names
from tellapart.errors import MetricError
from tellapart.metrics.per_item import mean
from tellapart.metrics.ptb import tokenize

Hypotheses = Mapping[str, str]
"""The caption of each image id."""

References = Mapping[str, Sequence[str]]
"""The reference captions of each image id; one or more."""

BLEU_STATISTICS = (
    *("hypothesis_length", "reference_length"),
    *(f"guesses_{n}" for n in range(1, 5)),
    *(f"matches_{n}" for n in range(1, 5)),
)
"""The columns of `bleu_statistics`; their sums over captions are all that BLEU needs."""

_ORDER = 4
_SIGMA = 6.0
_BETA = 1.2


def bleu_statistics(hypotheses: Hypotheses, references: References) -> NDArray[np.float64]:
    """Return the terms that BLEU sums: float64 (item, 10), columns `BLEU_STATISTICS`, items as in `hypotheses`.

    Source: Papineni et al. 2002, section 2; `pycocoevalcap/bleu/bleu_scorer.py` with option "closest".

    >>> bleu_statistics({"1": "a dog runs"}, {"1": ["a dog sits", "the dog runs fast"]})
    array([[3., 3., 3., 2., 1., 0., 3., 2., 0., 0.]])
    """
    return _bleu_statistics(_Corpus("bleu_statistics", hypotheses, references))


def bleu(statistics: ArrayLike) -> NDArray[np.float64]:
    """Return BLEU-1 to BLEU-4: float64 (..., 4), from statistics (..., 10), of one caption or summed over captions.

    Source: Papineni et al. 2002, section 2.3; the small constants are pycocoevalcap's.

    >>> rows = bleu_statistics({"1": "a dog runs", "2": "a cat"}, {"1": ["a dog sits"], "2": ["a cat"]})
    >>> bleu(rows.sum(axis=0)).round(3), bleu(rows)[:, 0].round(3)
    (array([0.8 , 0.73, 0.  , 0.  ]), array([0.667, 1.   ]))
    """
    rows = np.asarray(statistics, dtype=np.float64)
    if rows.ndim == 0 or rows.shape[-1] != len(BLEU_STATISTICS):
        raise MetricError(
            f"bleu needs the {len(BLEU_STATISTICS)} statistics of bleu_statistics on the last axis; got shape "
            f"{rows.shape}"
        )
    length, reference_length = rows[..., :1], rows[..., 1:2]
    guesses, matches = rows[..., 2:6], rows[..., 6:]
    precision = np.cumprod((matches + 1e-15) / (guesses + 1e-9), axis=-1) ** (1 / np.arange(1, _ORDER + 1))
    ratio = (length + 1e-15) / (reference_length + 1e-9)
    return np.asarray(precision * np.exp(np.minimum(0.0, 1 - 1 / ratio)))


def rouge_l(hypotheses: Hypotheses, references: References) -> NDArray[np.float64]:
    """Return ROUGE-L of each caption: float64 (item,) in [0, 1], items as in `hypotheses`. The corpus's is the mean.

    Source: Lin 2004, section 3; `pycocoevalcap/rouge/rouge.py` with beta 1.2.

    >>> rouge_l({"1": "a dog runs", "2": "a cat"}, {"1": ["a dog sits", "dog runs"], "2": ["a cat"]}).round(4)
    array([0.8299, 1.    ])
    """
    return _rouge_l(_Corpus("rouge_l", hypotheses, references))


def cider(hypotheses: Hypotheses, references: References) -> NDArray[np.float64]:
    """Return CIDEr-D of each caption: float64 (item,) in [0, 10], items as in `hypotheses`. The corpus's is the mean.

    An n-gram weighs by the share of the images whose references hold it, so a caption's value depends on the corpus.

    Source: Vedantam et al. 2015, section 4 and equation 5 (CIDEr-D); `pycocoevalcap/cider/cider_scorer.py`.

    >>> cider({"1": "a dog runs", "2": "a cat"}, {"1": ["a dog runs", "dogs"], "2": ["one cat sits"]}).round(3)
    array([3.75 , 1.007])
    """
    return _score_cider(_Corpus("cider", hypotheses, references))


@dataclass(frozen=True, slots=True, eq=False)
class CaptionScores:
    """The caption metrics of one system, by caption, in the order of the hypotheses."""

    ids: tuple[str, ...]
    bleu_statistics: NDArray[np.float64]
    rouge_l: NDArray[np.float64]
    cider: NDArray[np.float64]

    def corpus(self) -> dict[str, float]:
        """Return BLEU-1 to 4, ROUGE-L and CIDEr as papers print them, in fractions (CIDEr: 1.0 is printed 100)."""
        by_order = bleu(self.bleu_statistics.sum(axis=0))
        return {
            **{f"bleu_{n}": float(value) for n, value in enumerate(by_order, 1)},
            "rouge_l": float(mean(self.rouge_l)),
            "cider": float(mean(self.cider)),
        }


def caption_scores(hypotheses: Hypotheses, references: References) -> CaptionScores:
    """Tokenise raw captions and measure all metrics.

    >>> captions = {"1": "A dog runs.", "2": "Two cats sit."}
    >>> caption_scores(captions, {"1": ["The dog runs", "A dog"], "2": ["Cats sit."]}).cider.round(3)
    array([3.337, 3.756])
    """
    _check_ids("caption_scores", hypotheses, references)
    corpus = _Corpus(
        "caption_scores",
        {image: tokenize(caption) for image, caption in hypotheses.items()},
        {image: [tokenize(caption) for caption in references[image]] for image in hypotheses},
    )
    return CaptionScores(tuple(hypotheses), _bleu_statistics(corpus), _rouge_l(corpus), _score_cider(corpus))


def _check_ids(call: str, hypotheses: Hypotheses, references: References) -> None:
    """Raise unless both hold the same images, each with a list of references."""
    if not hypotheses and not references:
        raise MetricError(f"{call}: no captions to measure; give one caption and its references for each image")
    for images, others, names in ((hypotheses, references, "references"), (references, hypotheses, "hypotheses")):
        missing = [str(image) for image in images if image not in others]
        if missing:
            raise MetricError(
                f"{call}: {len(missing)} images have no {names}: {join_names(missing)}; both must name the same ids"
            )
    bad = [str(image) for image, captions in references.items() if isinstance(captions, str) or not len(captions)]
    if bad:
        raise MetricError(
            f"{call}: {len(bad)} images have no list of references: {join_names(bad)}; give each at least one caption"
        )


class _Corpus:
    """Captions as numbers: hypotheses first, then the references in the order of their images.

    N-grams are numbered by their words in alphabetical order, so that every sum over them has an order which does not
    depend on the order of the images.
    """

    def __init__(self, call: str, hypotheses: Hypotheses, references: References) -> None:
        _check_ids(call, hypotheses, references)
        self.call = call
        self.hypotheses = tuple(hypotheses.values())
        self.references = tuple(tuple(references[image]) for image in hypotheses)
        self.items = len(self.hypotheses)
        sentences = [caption.split() for caption in chain(self.hypotheses, *self.references)]
        self.item_of_reference = np.repeat(np.arange(self.items), [len(captions) for captions in self.references])
        self.lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        vocabulary = {word: code for code, word in enumerate(sorted(set(chain.from_iterable(sentences))))}
        self.words = np.fromiter((vocabulary[word] for word in chain.from_iterable(sentences)), np.int64)
        self.vocabulary_size = max(1, len(vocabulary))

    @cached_property
    def counts(self) -> tuple[_Counts, ...]:
        """The n-gram counts of order 1 to 4."""
        return tuple(self._count_ngrams())

    def _count_ngrams(self) -> Iterable[_Counts]:
        sentence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        remaining = np.repeat(np.cumsum(self.lengths), self.lengths) - np.arange(len(self.words))
        start, codes = np.arange(len(self.words)), self.words
        for order in range(1, _ORDER + 1):
            if order > 1:
                room = remaining[start] >= order
                start, codes = start[room], codes[room]
                pairs = codes * self.vocabulary_size + self.words[start + order - 1]
                codes = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
            distinct = int(codes.max()) + 1 if len(codes) else 1
            keys, count = np.unique(sentence[start] * distinct + codes, return_counts=True)
            yield _Counts(keys // distinct, keys % distinct, count, distinct, self)


class _Counts:
    """The counts of each n-gram of one order in each sentence, split in hypotheses and references.

    Attributes (all int64, sorted by sentence, then by n-gram): of hypotheses `of`, the item, `gram` and `count`; of
    references `reference`, `reference_item`, `reference_gram` and `reference_count`; `match`: for each entry of a
    reference, the index of the same n-gram in its hypothesis, or -1.
    """

    def __init__(
        self,
        sentence: NDArray[np.int64],
        gram: NDArray[np.int64],
        count: NDArray[np.int64],
        distinct: int,
        corpus: _Corpus,
    ) -> None:
        split = int(np.searchsorted(sentence, corpus.items))
        self.distinct = distinct
        self.of, self.gram, self.count = sentence[:split], gram[:split], count[:split]
        self.reference = sentence[split:] - corpus.items
        self.reference_gram, self.reference_count = gram[split:], count[split:]
        self.reference_item = corpus.item_of_reference[self.reference]
        codes = self.of * distinct + self.gram
        target = self.reference_item * distinct + self.reference_gram
        index = np.minimum(np.searchsorted(codes, target), max(0, len(codes) - 1))
        self.match = np.where(codes[index] == target, index, -1) if len(codes) else np.full(len(target), -1)


def _bleu_statistics(corpus: _Corpus) -> NDArray[np.float64]:
    lengths, reference_lengths = corpus.lengths[: corpus.items], corpus.lengths[corpus.items :]
    item = corpus.item_of_reference
    # Sorted by item, distance, length: the first of each item is the closest, the shorter of two.
    order = np.lexsort((reference_lengths, np.abs(reference_lengths - lengths[item]), item))
    first = np.unique(item[order], return_index=True)[1]
    columns = [lengths, reference_lengths[order][first]]
    columns += [np.maximum(0, lengths - n + 1) for n in range(1, _ORDER + 1)]
    for counts in corpus.counts:
        highest = np.zeros(len(counts.gram), dtype=np.int64)
        shared = counts.match >= 0
        np.maximum.at(highest, counts.match[shared], counts.reference_count[shared])
        columns.append(np.bincount(counts.of, np.minimum(highest, counts.count), corpus.items))
    return np.stack(columns, axis=1).astype(np.float64)


def _score_cider(corpus: _Corpus) -> NDArray[np.float64]:
    if corpus.items < 2:
        raise MetricError(
            f"{corpus.call}: CIDEr of one image would be 0 for every caption, because it weighs an n-gram by the "
            "logarithm of the number of images, log(1) = 0; give two images or more"
        )
    item, references = corpus.item_of_reference, len(corpus.item_of_reference)
    total = np.zeros(references)
    for counts in corpus.counts:
        pairs = np.unique(counts.reference_item * counts.distinct + counts.reference_gram)
        images = np.bincount(pairs % counts.distinct, minlength=counts.distinct)
        idf = np.log(float(corpus.items)) - np.log(np.maximum(1.0, images))
        weight = counts.count * idf[counts.gram]
        reference_weight = counts.reference_count * idf[counts.reference_gram]
        norm = np.sqrt(np.bincount(counts.of, weight**2, corpus.items))[item]
        reference_norm = np.sqrt(np.bincount(counts.reference, reference_weight**2, references))
        shared = counts.match >= 0
        clipped = np.minimum(weight[counts.match[shared]], reference_weight[shared])
        dot = np.bincount(counts.reference[shared], clipped * reference_weight[shared], references)
        scale = norm * reference_norm
        total += np.divide(dot, scale, out=np.zeros(references), where=scale > 0)
    # The reference compares numbers of bigrams: if anything is shared, the same difference as of words.
    delta = (corpus.lengths[: corpus.items][item] - corpus.lengths[corpus.items :]).astype(np.float64)
    similarity = total / _ORDER * np.exp(-(delta**2) / (2 * _SIGMA**2))
    return np.asarray(10 * np.bincount(item, similarity, corpus.items) / np.bincount(item, minlength=corpus.items))


def _rouge_l(corpus: _Corpus) -> NDArray[np.float64]:
    values = np.zeros(corpus.items)
    for item, (hypothesis, references) in enumerate(zip(corpus.hypotheses, corpus.references, strict=True)):
        words = hypothesis.split(" ")  # by single blanks: an empty caption is one empty word
        places: dict[str, int] = {}
        for index, word in enumerate(words):
            places[word] = places.get(word, 0) | 1 << index
        precision = recall = 0.0
        for reference in references:
            others = reference.split(" ")
            common = _longest_common(places, len(words), others)
            precision, recall = max(precision, common / len(words)), max(recall, common / len(others))
        if precision and recall:
            values[item] = (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)
    return values


def _longest_common(places: Mapping[str, int], length: int, words: Iterable[str]) -> int:
    """Return the length of the longest common subsequence, a row of its table at a time in the bits of an integer.

    Source: Hyyrö 2004, "Bit-parallel LCS-length computation revisited"; a 0 bit is a step of the row.
    """
    full = (1 << length) - 1
    row = full
    for word in words:
        same = row & places.get(word, 0)
        row = (row + same) | (row - same)
    return length - (row & full).bit_count()
