"""Origin: an item's first picture or caption is told from its others without any matching.

A linear head is fitted on features that know nothing of the item's other side, and judges items of other clusters than
it was fitted on. An audit tries the statistics of files, pixels and words, and a model's vectors if one is named
(`detectability`). `detect` plays the benchmark by a frozen model's vectors alone: its score bounds what origin gives.

Source: BiVLC (Miranda et al. 2024), section on detectors and appendix E.3: a sigmoid neuron on the frozen encoder of
each side. There vectors are not scaled to length one; here they are as the model gives them, and standardised.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.auditing.finding import MARGIN, Finding, NotDone, judge, mean_with_interval
from tellapart.benchmarks.arguments import PairsGiven, load_sets, locations
from tellapart.benchmarks.plugins import exit_is_error, open_model
from tellapart.data.arguments import PathGiven, as_path, expect_used
from tellapart.data.images import file_format
from tellapart.data.pairset import PairSet, describe
from tellapart.data.progress import Progress
from tellapart.data.scores import as_numbers
from tellapart.errors import DataError, ScoreError
from tellapart.models.find import Deferred, find_deferred, find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import embeddings
from tellapart.models.store.cache import CacheGiven, use_store
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import Record
from tellapart.records.run_folder import write_text_file
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.stats.held_out import FOLDS, PENALTY, fit_head, held_out, in_order

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
    """Features of one side of the items, float `(item, entry, dimensions)`; names, if a dimension has a meaning."""

    of: str
    by: str
    features: NDArray[np.floating]
    names: tuple[str, ...] = ()


def detectability(
    pairs: PairSet, *, pictures: bool, model: str | None = None, progress: Progress | None = None
) -> tuple[list[Finding], list[NotDone]]:
    """Make every check of origin that can be made."""
    count = min(MOST_ITEMS, len(pairs))
    part = pairs.select([k * len(pairs) // count for k in range(count)])
    clusters = len({item.cluster for item in part.items})
    if clusters < _FEWEST_CLUSTERS:
        reason = f"{clusters} clusters: a head is fitted on at least {_FEWEST_CLUSTERS}"
        return [], [NotDone(name="detectable", reason=reason)]
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
    mean = mean_with_interval(right, pairs)
    warns, says = False, f"not more than {100 * MARGIN:g} points above chance (50 %)"
    if mean["value"] - 0.5 > MARGIN:
        p, swaps = _p_value(evidence, clusters, mean["value"], seed, progress)
        warns, differ = p <= LARGEST_P, f"they come from different processes{_strongest_statistic(evidence)}"
        says = f"p = {p:.3f} ({swaps} swaps): {differ if warns else 'not told from one process'}"
    first = "first pictures" if evidence.of == "images" else "first captions"
    limit, better = f"at most {50 + 100 * MARGIN:g} %", f"no better than {100 * (1 - LARGEST_P):g} % of random swaps"
    title = f"{first} told from the others by {evidence.by} alone, in items held out"
    ids = [pairs.items[k].id for k in np.flatnonzero(right == 1)] if warns else []
    name = f"detectable: {evidence.of}, by {evidence.by}"
    return judge(name, title, mean, f"{limit}, or {better}", warns, says, items=ids)


def word_counts(texts: Sequence[Sequence[str]]) -> Evidence:
    """Count the 256 commonest words and marks of all texts, capitals and characters: features `(item, text, 258)`."""
    split = [[Counter(_WORD.findall(text.lower())) for text in row] for row in texts]
    commonest = Counter(word for row in split for words in row for word in words.elements())
    vocabulary = sorted(commonest, key=lambda word: (-commonest[word], word))[:_WORDS]
    features = []
    for row, counts in zip(texts, split, strict=True):
        marks = [(sum(map(str.isupper, text)), len(text)) for text in row]
        of_words = ([words[word] for word in vocabulary] for words in counts)
        features.append([[*of_text, *mark] for of_text, mark in zip(of_words, marks, strict=True)])
    names = (f"the word {word!r}" if word[0].isalnum() else f"the mark {word!r}" for word in vocabulary)
    return Evidence("captions", "words", np.array(features, np.float64), (*names, "capitals", "length"))


def _picture_evidence(pairs: PairSet, progress: Progress | None) -> list[Evidence]:
    """Decode the pictures of the items, each once."""
    of_files: dict[str, NDArray[np.float64]] = {}
    of_pixels: dict[str, NDArray[np.float64]] = {}
    references = [*dict.fromkeys(image for item in pairs.items for image in item.images)]
    for done, reference in enumerate(references, 1):
        pixels = pairs.pixels(reference)
        of_files[reference] = file_statistics(pairs.read_bytes(reference), pixels)
        of_pixels[reference] = pixel_statistics(pixels)
        if progress:
            progress("pictures", done, len(references))
    return [
        Evidence("images", name, np.array([[of[image] for image in item.images] for item in pairs.items]), names)
        for name, of, names in (("file", of_files, FILE_STATISTICS), ("pixels", of_pixels, PIXEL_STATISTICS))
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


# BiVLC's control: a detector of generated images and captions plays the retrieval game without matching anything. With
# the probability that an entry is synthetic, an image is answered rightly if it is called what it is (exactly one half
# is natural), and the positive caption looks less synthetic than the negative; a caption likewise. Text, image and
# group scores are their conjunctions.
#
# Source: BiVLC (Miranda et al. 2024), appendix on detectors; `src/Detectors` of its repository.


def detector_outcomes(text: ArrayLike, image: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the accuracies of a detector on each item: metric -> float64 `(item,)` of 0 and 1.

    `text` and `image` hold the probability that a caption, or an image, is synthetic: `(item, 2)`, positive, negative.
    """
    sides = []
    for side, values in (("text", text), ("image", image)):
        array = as_numbers(values, f"detector probabilities of {side}:", "(item, 2)").astype(np.float64)
        if not (len(array) and ((array >= 0) & (array <= 1)).all()):
            why = "there are none, or some are not in [0, 1]; give probabilities, not logits"
            raise ScoreError(f"detector probabilities of {side}: {why}")
        sides.append(array)
    texts, images = sides
    if len(texts) != len(images):
        raise ScoreError(f"{len(texts)} items of captions and {len(images)} of images; give both of the same items")
    texts_in_order, images_in_order = texts[:, 0] < texts[:, 1], images[:, 0] < images[:, 1]
    outcomes: dict[str, NDArray[Any]] = {
        "ipos_2t": (images[:, 0] <= 0.5) & texts_in_order,
        "ineg_2t": (images[:, 1] > 0.5) & texts_in_order,
        "tpos_2i": (texts[:, 0] <= 0.5) & images_in_order,
        "tneg_2i": (texts[:, 1] > 0.5) & images_in_order,
    }
    outcomes["text_score"] = outcomes["ipos_2t"] & outcomes["ineg_2t"]
    outcomes["image_score"] = outcomes["tpos_2i"] & outcomes["tneg_2i"]
    outcomes["group_score"] = outcomes["text_score"] & outcomes["image_score"]
    return {name: column.astype(np.float64) for name, column in outcomes.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """The probability that an entry is synthetic, float64 `(item, 2)`, by heads that were fitted on others."""

    images: NDArray[np.float64]
    texts: NDArray[np.float64]

    def outcomes(self) -> dict[str, NDArray[np.float64]]:
        """Return both accuracies and the detector's scores in the game: name -> float64 `(item,)`."""
        # Exactly one half is called natural, as in the game.
        image, text = (((side > 0.5) == np.array([False, True])).mean(axis=1) for side in (self.images, self.texts))
        return {"image_accuracy": image, "text_accuracy": text} | detector_outcomes(self.texts, self.images)


class DetectorScore(Record):
    """One number of a detector, with its interval over clusters."""

    value: float
    low: float | None
    high: float | None
    method: str
    reason: str = ""


class Detection(Record):
    """A detector's scores on a pair set.

    Attributes:
        pairs: the set's name.
        model, fingerprint: of the frozen encoder.
        trained_on: the set that the heads were fitted on; None if on the other folds of this one.
        items, clusters: how many.
        folds: parts, if the heads were fitted on the set itself.
        seed, penalty: of the heads.
        formats: of pictures' bytes -> first and second ones that have it; `format_accuracy` calls the commoner kind.
        scores: `format_accuracy`, `image_accuracy` and `text_accuracy` (chance is one half), then the game:
            `text_score`, `image_score`, `group_score` and the four directions.
    """

    pairs: str
    model: str
    fingerprint: str
    trained_on: str | None
    items: int
    clusters: int
    folds: int | None
    seed: int
    penalty: float
    formats: dict[str, tuple[int, int]]
    scores: dict[str, DetectorScore]


@exit_is_error
def detect(
    pairs: PairsGiven,
    model: str | Model,
    *,
    trained_on: PairsGiven | None = None,
    folds: int = 5,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    device: str = "cpu",
    seed: int = 0,
    cache: CacheGiven = None,
    out: PathGiven | None = None,
    progress: ProgressGiven = None,
) -> Detection:
    """Test whether a real/synthetic classifier on frozen features solves the benchmark.

    Args:
        pairs: a pair set, its folder, or a benchmark: first natural, second synthetic.
        model: a dual encoder, which stays frozen: its name, or an object.
        trained_on: fit the heads on this set; on the other folds of the same one if not given.
        folds: parts, of clusters that stay together.
        data, images, outside_images, device, cache, progress: as of `evaluate`.
        seed: of the folds and the bootstrap.
        out: also write the record there, as JSON.

    Raises:
        TellapartError: a set or the model cannot be found, or it is not a dual encoder.

    >>> import tellapart as ta
    >>> pairs = ta.load_pairs("demo").select(range(20))
    >>> found = ta.detect(pairs, "demo-encoder", folds=2, cache=False)  # both pictures of an item are drawn alike
    >>> found.items, 0.3 < found.scores["image_accuracy"].value < 0.7
    (20, True)
    """
    if trained_on is not None:
        expect_used("detect", "with trained_on=PAIRS: there are no folds then", folds=(folds, 5))
    place = locations(data, images, outside_images)
    with use_store(cache) as store, reporting(progress) as report:
        measured, other = load_sets(pairs, trained_on, place)
        options = ModelOptions(device=device)
        encoder = find_deferred(open_model(model), options, store) if isinstance(model, str) else model
        update = None if report is None else report("detect")
        found = origins(measured, encoder, store=store, trained_on=other, folds=folds, seed=seed, progress=update)
    names = [item.cluster for item in measured.items]
    kinds = [[file_format(measured.read_bytes(image)) for image in item.images] for item in measured.items]
    first, second = (Counter(side) for side in zip(*kinds, strict=True))
    lean = {kind: np.sign(second[kind] - first[kind]) for kind in sorted(first | second)}
    right = [2 - lean[natural] + lean[synthetic] for natural, synthetic in kinds]  # of 4: a tie is half right
    columns = {"format_accuracy": np.array(right) / 4, **found.outcomes()}
    scores = {}
    for name, column in columns.items():
        mean = mean_with_interval(column, measured, seed=seed)
        scores[name] = DetectorScore.model_validate({key: mean[key] for key in DetectorScore.model_fields})
    detection = Detection(
        pairs=measured.name,
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        trained_on=None if other is None else other.name,
        items=len(measured),
        clusters=len(set(names)),
        folds=folds if other is None else None,
        seed=seed,
        penalty=PENALTY,
        formats={kind: (first[kind], second[kind]) for kind in lean},
        scores=scores,
    )
    if out is not None:
        text = json.dumps(detection.model_dump(mode="json"), indent=1, allow_nan=False)  # in ASCII
        write_text_file(as_path(out, "out"), text + "\n")
    return detection


def origins(
    pairs: PairSet,
    model: Model | Deferred,
    *,
    store: EmbeddingStore,
    trained_on: PairSet | None = None,
    folds: int = FOLDS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Origins:
    """Return the probabilities of heads that were fitted on others; arguments and errors as `detect`."""
    sets = [pairs] if trained_on is None else [pairs, trained_on]
    for pair_set in sets:
        if pair_set.shape != (2, 2):
            shapes = f"{describe(pair_set.shape)}; a detector plays sets of {describe((2, 2))}"
            raise DataError(f"{pair_set.name} has items of {shapes}")
    encoded = [embeddings(model, pair_set, store=store, progress=progress) for pair_set in sets]
    vectors = [(np.asarray(part.images), np.asarray(part.texts)) for part in encoded]  # each `(item, 2, dimensions)`
    if trained_on is None:
        clusters = [item.cluster for item in pairs.items]
        return Origins(*(held_out(side, clusters, folds=folds, seed=seed) for side in vectors[0]))
    items = [pair_set.items for pair_set in sets]
    # No head is fitted on entries that are measured here: the same pixels, or the same words.
    pixels = [
        [[part.hashes[name] for name in row.images] for row in rows] for rows, part in zip(items, encoded, strict=True)
    ]
    texts = [[row.texts for row in rows] for rows in items]
    probabilities = []
    for ours, theirs, (measured, others) in zip(*vectors, (pixels, texts), strict=True):
        unseen = ~np.isin(others, measured)
        labels = np.tile(np.array([0, 1]), (len(theirs), 1))
        if {*labels[unseen].tolist()} != {0, 1}:
            raise DataError("the training set has no entries of both kinds that the measured set has not; name another")
        probabilities.append(fit_head(theirs[unseen], labels[unseen]).probabilities(ours))
    return Origins(*probabilities)
