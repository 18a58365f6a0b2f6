"""Detectors: heads on frozen features that separate the second image of a pair from the first, and the second caption.

If first entries are natural and second ones synthetic, a head on frozen vectors learns the origin, and may play the
benchmark by it, without matching anything. Its score bounds the part of a model's score that origin alone explains.

Source: BiVLC (Miranda et al. 2024), section on detectors and appendix E.3: a sigmoid neuron on the frozen encoder of
each side. There the vectors are not scaled to length one; here they are as the model gives them, and features are
standardised.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.benchmarks.arguments import PairsGiven, load_sets, locations
from tellapart.benchmarks.plugins import exit_is_error, open_model
from tellapart.data.arguments import PathGiven, as_path, expect_used
from tellapart.data.images import file_format
from tellapart.data.pairset import PairSet, describe
from tellapart.data.progress import Progress
from tellapart.errors import DataError, ScoreError
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.scoring.compute import Embeddings, embeddings
from tellapart.models.scoring.deferred import Deferred, find_deferred
from tellapart.models.store.cache import CacheGiven, use_store
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.run_folder import write_text_file
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.stats.clusters import is_binary
from tellapart.stats.held_out import FOLDS, PENALTY, fit_head, held_out
from tellapart.stats.intervals import interval_for

# BiVLC's control: a detector of generated images and captions plays the retrieval game without matching anything.
#
# A model that distinguishes natural from synthetic can pick the right caption for an image by origin alone. The rules,
# with the probability that an entry is synthetic (0 natural, 1 synthetic):
#
#     ipos_2t = the positive image is called natural,   and the positive caption looks less synthetic than the negative
#     ineg_2t = the negative image is called synthetic, and the same
#     tpos_2i = the positive caption is called natural,   and the positive image looks less synthetic than the negative
#     tneg_2i = the negative caption is called synthetic, and the same
#
# and text, image and group scores are their conjunctions. Exactly one half is called natural.
#
# Source: BiVLC (Miranda et al. 2024), appendix on detectors; `src/Detectors` of its repository.


def detector_outcomes(text: ArrayLike, image: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the accuracies of a detector on each item: metric -> float64 `(item,)` of 0 and 1.

    `text` and `image` hold the probability that a caption, or an image, is synthetic: `(item, 2)`, positive, negative.
    """
    texts, images = _check_probabilities(text, "text"), _check_probabilities(image, "image")
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


def _check_probabilities(values: ArrayLike, what: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoreError(f"detector probabilities of {what}: expected numbers (item, 2): {error}") from error
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ScoreError(f"detector probabilities of {what}: expected (item, 2); got shape {array.shape}")
    if not ((array >= 0) & (array <= 1)).all():
        raise ScoreError(f"detector probabilities of {what}: some are not in [0, 1]; give probabilities, not logits")
    return array


#: One side of a set: vectors, and the image or caption of each.
_Side = tuple[NDArray[np.float32], NDArray[np.str_]]


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


class DetectorScore(BaseModel):
    """One number of a detector, with its interval over clusters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    low: float | None
    high: float | None
    method: str
    reason: str = ""


class Detection(BaseModel):
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

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Separate natural from synthetic by frozen features, and play the benchmark by that alone.

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
        encoder = (
            find_deferred(open_model(model), ModelOptions(device=device), store) if isinstance(model, str) else model
        )
        update = None if report is None else report("detect")
        probabilities = origins(
            measured, encoder, store=store, trained_on=other, folds=folds, seed=seed, progress=update
        )
    names = [item.cluster for item in measured.items]
    kinds = [[file_format(measured.read_bytes(image)) for image in item.images] for item in measured.items]
    first, second = (Counter(side) for side in zip(*kinds, strict=True))
    lean = {kind: np.sign(second[kind] - first[kind]) for kind in sorted(first | second)}
    right = [2 - lean[natural] + lean[synthetic] for natural, synthetic in kinds]  # of 4: a tie is half right
    columns = {"format_accuracy": np.array(right) / 4, **probabilities.outcomes()}
    scores = {}
    for name, column in columns.items():
        interval = interval_for(column, names, binary=is_binary(column), bounds=(0.0, 1.0), seed=seed)
        bounds = {"low": interval.low, "high": interval.high, "method": interval.method, "reason": interval.reason}
        scores[name] = DetectorScore.model_validate({"value": float(column.mean()), **bounds})
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
        write_text_file(as_path(out, "out"), detection_text(detection))
    return detection


def detection_text(detection: Detection) -> str:
    """Return a detection's record as JSON, in ASCII, which every terminal's encoding has."""
    return json.dumps(detection.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"


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
    for pair_set in (pairs, *([trained_on] if trained_on is not None else [])):
        if pair_set.shape != (2, 2):
            raise DataError(
                f"{pair_set.name} has items of {describe(pair_set.shape)}; a detector plays sets of {describe((2, 2))}"
            )
    ours = _split_sides(pairs, embeddings(model, pairs, store=store, progress=progress))
    if trained_on is None:
        clusters = [item.cluster for item in pairs.items]
        return Origins(*(held_out(vectors, clusters, folds=folds, seed=seed) for vectors, _ in ours))
    theirs = _split_sides(trained_on, embeddings(model, trained_on, store=store, progress=progress))
    return Origins(*(_fit_on_other(vector, other) for vector, other in zip(ours, theirs, strict=True)))


def _split_sides(pairs: PairSet, encoded: Embeddings) -> tuple[_Side, _Side]:
    """Return images and texts: vectors `(item, 2, dimensions)`, and names `(item, 2)`, equal for equal entries."""
    assert encoded.images is not None  # noqa: S101  (both were asked for)
    assert encoded.texts is not None  # noqa: S101
    images = np.array([[encoded.hashes[image] for image in item.images] for item in pairs.items])
    return (encoded.images, images), (encoded.texts, np.array([item.texts for item in pairs.items]))


def _fit_on_other(ours: _Side, theirs: _Side) -> NDArray[np.float64]:
    """Fit on the other set's entries, without those that are measured here, too."""
    (vectors, names), (other_vectors, other_names) = ours, theirs
    names_seen = set(names.ravel())
    unseen = np.array([[name not in names_seen for name in row] for row in other_names])
    labels = np.tile(np.array([0, 1]), (len(other_vectors), 1))
    if {*labels[unseen].tolist()} != {0, 1}:
        raise DataError(
            "the training set holds no entries of both kinds that the measured set does not hold; name another"
        )
    return fit_head(other_vectors[unseen], labels[unseen]).probabilities(vectors)
