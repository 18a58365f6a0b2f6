"""Detectability: an item's first picture or caption is recognised among its others without any matching.

If one picture of a pair is a photograph and the other one generated, or compressed once more, a model may answer by
origin. So a linear head is fitted on features that know nothing of the item's other side, and judges items of clusters
that it was not fitted on. If it orders more of them rightly than chance does, first and others do not come from one
process.

Source: BiVLC (Miranda et al. 2024), section on detectors and appendix E.3, where it controls a benchmark.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.auditing.finding import MARGIN, Finding, NotDone, judge, mean_with_interval
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.models.find import find_model
from tellapart.models.scoring.compute import embeddings
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.stats.held_out import held_out, in_order

_FORMATS = ("JPEG", "PNG", "WEBP")

FILE_STATISTICS = ("width", "height", "bytes a pixel", "JPEG quantisation", *_FORMATS)

PIXEL_STATISTICS = (
    *("brightness", "contrast", "saturation", "clipped pixels", "sharpness", "noise"),
    *("JPEG blocks", "spectrum slope", "high frequencies"),
)

#: The side of the square, about the centre, whose spectrum is taken.
_SQUARE = 256

#: Added before a logarithm, in squared levels: flat pictures have finite numbers.
_FLOOR = 1e-3


def file_statistics(data: bytes, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return `FILE_STATISTICS` of a file's bytes and its decoded pixels: float64 `(7,)`.

    Sizes and bytes are logarithms; the quantisation is the mean of the JPEG tables, 0 elsewhere; formats are 0 or 1.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as picture:
            kind, tables = picture.format, getattr(picture, "quantization", None) or {}
    except UnidentifiedImageError:  # a frame of numpy, or a video
        kind, tables = None, {}
    quantisation = float(np.mean([np.mean(table) for table in tables.values()])) if tables else 0.0
    height, width = pixels.shape[-3:-1]
    sizes = [math.log(width), math.log(height), math.log(len(data) / (width * height))]
    return np.array([*sizes, quantisation, *(kind == format_name for format_name in _FORMATS)], np.float64)


def pixel_statistics(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return `PIXEL_STATISTICS` of an RGB picture, uint8 `(height, width, 3)`: float64 `(9,)`; of a video, their means.

    - sharpness, noise: logarithm of the mean squared response to the 3x3 Laplacian, and of the median one to its
      diagonal mask; compression and blur lower both, generators' decoders leave other traces.
    - JPEG blocks: logarithm of the mean step across the borders of 8 by 8 blocks over that elsewhere.
    - spectrum slope, high frequencies: of the radial power spectrum's logarithm on that of the frequency, and the
      logarithm of the share of power above a quarter of the sampling rate.

    Sources: Immerkaer (1996), Computer Vision and Image Understanding 64, 300-302 (noise); Wang, Sheikh & Bovik (2002),
    ICIP (blocks); Durall, Keuper & Keuper (2020), CVPR (spectra of generated pictures).
    """
    if pixels.ndim == 4:
        return np.asarray(np.mean([pixel_statistics(frame) for frame in pixels], axis=0))
    grey = pixels.mean(axis=2, dtype=np.float64)
    saturation = (pixels.max(axis=2).astype(np.int16) - pixels.min(axis=2)).mean()
    clipped = ((pixels == 0) | (pixels == 255)).mean()
    slope, high = _spectrum_statistics(grey)
    return np.array(
        [grey.mean(), grey.std(), saturation, clipped, *_residual_statistics(grey), _block_ratio(grey), slope, high],
        np.float64,
    )


def _residual_statistics(grey: NDArray[np.float64]) -> tuple[float, float]:
    """Return sharpness and noise; those of a flat picture if it is too small for a mask."""
    if min(grey.shape) < 3:
        return math.log(_FLOOR), math.log(_FLOOR)
    straight = grey[1:-1, :-2] + grey[1:-1, 2:] + grey[:-2, 1:-1] + grey[2:, 1:-1] - 4 * grey[1:-1, 1:-1]
    # Noise: blind to edges and to slopes of brightness.
    across = grey[:-2, :-2] - 2 * grey[:-2, 1:-1] + grey[:-2, 2:]
    vertical = grey[2:, :-2] - 2 * grey[2:, 1:-1] + grey[2:, 2:]
    middle = grey[1:-1, :-2] - 2 * grey[1:-1, 1:-1] + grey[1:-1, 2:]
    diagonal = across - 2 * middle + vertical
    return math.log((straight**2).mean() + _FLOOR), math.log(float(np.median(diagonal**2)) + _FLOOR)


def _block_ratio(grey: NDArray[np.float64]) -> float:
    ratios = []
    for axis in (0, 1):
        steps = np.abs(np.diff(grey, axis=axis)).mean(axis=1 - axis)
        border = np.arange(len(steps)) % 8 == 7
        if border.any():
            ratios.append(math.log((steps[border].mean() + _FLOOR) / (steps[~border].mean() + _FLOOR)))
    return float(np.mean(ratios)) if ratios else 0.0


def _spectrum_statistics(grey: NDArray[np.float64]) -> tuple[float, float]:
    side = min(_SQUARE, *grey.shape)
    if side < 8:
        return 0.0, 0.0
    top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
    window = np.hanning(side)
    square = grey[top : top + side, left : left + side]
    power = np.abs(np.fft.rfft2((square - square.mean()) * window[:, None] * window[None, :])) ** 2
    radius = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    rings = np.minimum((radius * side).round().astype(np.int64), side // 2 + 1)
    counts = np.bincount(rings.ravel())
    mean = np.bincount(rings.ravel(), power.ravel())[1 : side // 2] / counts[1 : side // 2]
    slope = float(np.polyfit(np.log(np.arange(1, side // 2)), np.log(mean + _FLOOR), 1)[0])
    return slope, math.log((power[radius > 0.25].sum() + _FLOOR) / (power.sum() + _FLOOR))


#: Clusters below which no head is fitted.
_FEWEST_CLUSTERS = 20

#: Items that are looked at, evenly spread: 1,000 give a standard error of 1.6 points.
MOST_ITEMS = 1000

#: How often entries are swapped at random, and the chance of a warning on a set whose entries come from one process.
SWAPS, LARGEST_P = 99, 0.01

#: Swaps that did as well, after which it is clear that there is nothing to find.
_ENOUGH = 10

_WORD = re.compile(r"\w+|[^\w\s]")
#: Words that are counted, of a set's commonest.
_WORDS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Features of one side of the items.

    Attributes:
        of: `images` or `captions`.
        by: the kind of the features.
        features: float `(item, entry, dimensions)`.
        names: of the dimensions; none if a single one has no meaning.
    """

    of: str
    by: str
    features: NDArray[np.floating]
    names: tuple[str, ...] = ()


def detectability(
    pairs: PairSet, *, pictures: bool, model: str | None = None, progress: Progress | None = None
) -> tuple[list[Finding], list[NotDone]]:
    """Make every check of origin that can be made."""
    clusters = len({item.cluster for item in pairs.items})
    if clusters < _FEWEST_CLUSTERS:
        reason = f"{clusters} clusters: a head is fitted on at least {_FEWEST_CLUSTERS}"
        return [], [NotDone(name="detectable", reason=reason)]
    count = min(MOST_ITEMS, len(pairs))
    part = pairs.select([k * len(pairs) // count for k in range(count)])
    not_done, evidence = [], []
    images, texts = pictures and pairs.shape[0] > 1, pairs.shape[1] > 1
    if texts:
        evidence.append(word_counts([item.texts for item in part.items]))
    if images:
        evidence += _picture_evidence(part, progress)
    elif pictures:
        reason = "items have one picture: there is no other to tell it from"
        not_done.append(NotDone(name="detectable: images", reason=reason))
    if model is not None and (images or texts):
        with EmbeddingStore(None) as store:
            vectors = embeddings(find_model(model), part, store=store, images=images, texts=texts, progress=progress)
        sides = (("images", vectors.images), ("captions", vectors.texts))
        evidence += [Evidence(of, model, side) for of, side in sides if side is not None]
    elif images:
        reason = "no --detector-model was named; file and pixel statistics alone were judged"
        not_done.append(NotDone(name="detectable: by an encoder", reason=reason))
    return [detectable(clue, part, progress=progress) for clue in evidence], not_done


def detectable(evidence: Evidence, pairs: PairSet, *, seed: int = 0, progress: Progress | None = None) -> Finding:
    """Return the share of held-out items whose first entry a head recognises, and its p-value under random swaps.

    The p-value is of the share among those of sets whose entries are swapped at random, cluster by cluster: an interval
    alone would warn too often, because heads of different folds share items.

    Source of the p-value, which stops early: Besag & Clifford (1991), Biometrika 78, 301-304.
    """
    clusters = [item.cluster for item in pairs.items]
    right = in_order(held_out(evidence.features, clusters, seed=seed))
    mean = mean_with_interval(right, pairs, bounds=(0.0, 1.0))
    warns, says = False, f"not more than {100 * MARGIN:g} points above chance (50 %)"
    if mean["value"] - 0.5 > MARGIN:
        p, swaps = _p_value(evidence, clusters, mean["value"], seed, progress)
        warns = p <= LARGEST_P
        meaning = (
            f"they come from different processes{_strongest_statistic(evidence)}"
            if warns
            else "not told from one process"
        )
        says = f"p = {p:.3f} ({swaps} swaps): {meaning}"
    first = "first pictures" if evidence.of == "images" else "first captions"
    limit, better = f"at most {50 + 100 * MARGIN:g} %", f"no better than {100 * (1 - LARGEST_P):g} % of random swaps"
    name, title = f"{evidence.of}, by {evidence.by}", f"{first} told from the others by {evidence.by} alone"
    ids = [pairs.items[k].id for k in np.flatnonzero(right == 1)] if warns else []
    title, allowed = f"{title}, in items held out", f"{limit}, or {better}"
    return judge(f"detectable: {name}", title, mean, allowed, warns, says, items=ids)


def word_counts(texts: Sequence[Sequence[str]]) -> Evidence:
    """Count the 256 commonest words and marks of all texts, capitals and characters: features `(item, text, 258)`."""
    split = [[_WORD.findall(text.lower()) for text in row] for row in texts]
    commonest = Counter(word for row in split for words in row for word in words)
    vocabulary = sorted(commonest, key=lambda word: (-commonest[word], word))[:_WORDS]
    column = {word: k for k, word in enumerate(vocabulary)}
    counts = np.zeros((len(texts), len(texts[0]), len(vocabulary) + 2))
    for k, row in enumerate(split):
        for j, words in enumerate(row):
            for word in words:
                if word in column:
                    counts[k, j, column[word]] += 1
            counts[k, j, len(vocabulary) :] = sum(map(str.isupper, texts[k][j])), len(texts[k][j])
    names = (f"the word {word!r}" if word[0].isalnum() else f"the mark {word!r}" for word in vocabulary)
    return Evidence("captions", "words", counts, (*names, "capitals", "length"))


def _picture_evidence(pairs: PairSet, progress: Progress | None) -> list[Evidence]:
    """Decode the pictures of the items, each once."""
    features: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    references = [*dict.fromkeys(image for item in pairs.items for image in item.images)]
    for done, reference in enumerate(references, 1):
        pixels = pairs.pixels(reference)
        features[reference] = file_statistics(pairs.read_bytes(reference), pixels), pixel_statistics(pixels)
        if progress:
            progress("pictures", done, len(references))
    of_files, of_pixels = (
        np.array([[features[image][side] for image in item.images] for item in pairs.items]) for side in (0, 1)
    )
    return [
        Evidence("images", "file", of_files, FILE_STATISTICS),
        Evidence("images", "pixels", of_pixels, PIXEL_STATISTICS),
    ]


def _p_value(
    evidence: Evidence, clusters: Sequence[str], value: float, seed: int, progress: Progress | None
) -> tuple[float, int]:
    """Return the share of random swaps that a head recognises as often as `value`, and how many were tried."""
    features, stage = evidence.features, f"{evidence.of} told by {evidence.by}: swaps"
    names, cluster_of = np.unique(np.asarray(clusters), return_inverse=True)
    rng = np.random.default_rng(seed)
    as_good = 0
    for tried in range(1, SWAPS + 1):
        orders = rng.permuted(np.tile(np.arange(features.shape[1]), (len(names), 1)), axis=1)[cluster_of]
        swapped = np.take_along_axis(features, orders[:, :, None], axis=1)
        as_good += float(in_order(held_out(swapped, clusters, seed=seed)).mean()) >= value
        if progress is not None:
            progress(stage, SWAPS if as_good == _ENOUGH else tried, SWAPS)
        if as_good == _ENOUGH:
            return _ENOUGH / tried, tried
    return (as_good + 1) / (SWAPS + 1), SWAPS


def _strongest_statistic(evidence: Evidence) -> str:
    """Name the statistic that alone is most often higher, or lower, in the others than in the first."""
    if not evidence.names:
        return ""
    first, others = evidence.features[:, :1], evidence.features[:, 1:]
    higher = (np.sign(others - first)).mean(axis=(0, 1))
    strongest = int(np.abs(higher).argmax())
    return f"; most by {evidence.names[strongest]}, {'higher' if higher[strongest] > 0 else 'lower'} in the others"
