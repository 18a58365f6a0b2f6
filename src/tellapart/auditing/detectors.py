"""Detectors: heads on frozen features that separate the second image of a pair from the first, and the second caption.

If first entries are natural and second ones synthetic, a head on frozen vectors learns the origin, and may play the
benchmark by it, without matching anything. Its score bounds the part of a model's score that origin alone explains.

Source: BiVLC (Miranda et al. 2024), section on detectors and appendix E.3: a sigmoid neuron on the frozen encoder of
each side. There the vectors are not scaled to length one; here they are as the model gives them, and features are
standardised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.benchmarks.bivlc_detector import detector_outcomes
from tellapart.data.images import file_format
from tellapart.data.pairset import PairSet, describe
from tellapart.data.progress import Progress
from tellapart.errors import DataError
from tellapart.models.protocols import Model
from tellapart.models.scoring.deferred import Deferred
from tellapart.models.scoring.embeddings import Embeddings, embeddings
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.stats.clusters import is_binary
from tellapart.stats.held_out import FOLDS, held_out
from tellapart.stats.intervals import interval_for
from tellapart.stats.sigmoid_head import PENALTY, fit_head

#: The report of a detection, in addition to `detector_outcomes`.
_ACCURACIES = ("image_accuracy", "text_accuracy")

#: One side of a set: vectors, and the image or caption of each.
_Side = tuple[NDArray[np.float32], NDArray[np.str_]]


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """The fit of the heads.

    Attributes:
        folds: number of parts of the set, if its heads are fitted on the set itself; a cluster is never split.
        seed: of the parts, and of the bootstrap.
        penalty: of the heads' weights.
    """

    folds: int = FOLDS
    seed: int = 0
    penalty: float = PENALTY


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """The probability that an entry is synthetic, by heads that were fitted on others.

    Attributes:
        images: float64 `(item, 2)`.
        texts: float64 `(item, 2)`.

    >>> origins = Origins(np.array([[0.1, 0.9]]), np.array([[0.2, 0.4]]))
    >>> {name: float(column[0]) for name, column in origins.outcomes().items() if "accuracy" in name}
    {'image_accuracy': 1.0, 'text_accuracy': 0.5}
    """

    images: NDArray[np.float64]
    texts: NDArray[np.float64]

    def outcomes(self) -> dict[str, NDArray[np.float64]]:
        """Return both accuracies and the detector's scores in the game: name -> float64 `(item,)`."""
        game = detector_outcomes(self.texts, self.images)
        # Exactly one half is called natural, as in the game.
        sides = [((side > 0.5) == np.array([False, True])).mean(axis=1) for side in (self.images, self.texts)]
        return dict(zip(_ACCURACIES, sides, strict=True)) | game


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


def detect(
    pairs: PairSet,
    model: Model | Deferred,
    *,
    store: EmbeddingStore,
    trained_on: PairSet | None = None,
    settings: DetectorSettings | None = None,
    progress: Progress | None = None,
) -> Detection:
    """Fit heads on a frozen encoder's vectors, and measure them as detectors and as players.

    >>> from tellapart.benchmarks.find import load_pairs
    >>> from tellapart.models.find import find_model
    >>> few = load_pairs("demo").select(range(0, 400, 10))
    >>> detection = detect(few, find_model("demo-encoder"), store=EmbeddingStore(None))
    >>> detection.formats, [*detection.scores][:4]
    ({'WEBP': (40, 40)}, ['format_accuracy', 'image_accuracy', 'text_accuracy', 'ipos_2t'])
    """
    settings = settings or DetectorSettings()
    probabilities = origins(pairs, model, store=store, trained_on=trained_on, settings=settings, progress=progress)
    names = [item.cluster for item in pairs.items]
    kinds = [[file_format(pairs.read_bytes(image)) for image in item.images] for item in pairs.items]
    first, second = (Counter(side) for side in zip(*kinds, strict=True))
    lean = {kind: np.sign(second[kind] - first[kind]) for kind in sorted(first | second)}
    right = [2 - lean[natural] + lean[synthetic] for natural, synthetic in kinds]  # of 4: a tie is half right
    columns = {"format_accuracy": np.array(right) / 4, **probabilities.outcomes()}
    return Detection(
        pairs=pairs.name,
        model=model.name,
        fingerprint=model.fingerprint,
        trained_on=None if trained_on is None else trained_on.name,
        items=len(pairs),
        clusters=len(set(names)),
        folds=settings.folds if trained_on is None else None,
        seed=settings.seed,
        penalty=settings.penalty,
        formats={kind: (first[kind], second[kind]) for kind in lean},
        scores={name: _detector_score(column, names, settings.seed) for name, column in columns.items()},
    )


def origins(
    pairs: PairSet,
    model: Model | Deferred,
    *,
    store: EmbeddingStore,
    trained_on: PairSet | None = None,
    settings: DetectorSettings | None = None,
    progress: Progress | None = None,
) -> Origins:
    """Return the probabilities of heads that were fitted on others; arguments and errors as `detect`."""
    settings = settings or DetectorSettings()
    for each in (pairs, *([trained_on] if trained_on is not None else [])):
        if each.shape != (2, 2):
            raise DataError(
                f"{each.name} has items of {describe(each.shape)}; a detector plays sets of {describe((2, 2))}"
            )
    ours = _split_sides(pairs, embeddings(model, pairs, store=store, progress=progress))
    if trained_on is None:
        clusters = [item.cluster for item in pairs.items]
        return Origins(
            *(
                held_out(vectors, clusters, folds=settings.folds, seed=settings.seed, penalty=settings.penalty)
                for vectors, _ in ours
            )
        )
    theirs = _split_sides(trained_on, embeddings(model, trained_on, store=store, progress=progress))
    return Origins(*(_fit_on_other(own, other, settings.penalty) for own, other in zip(ours, theirs, strict=True)))


def _split_sides(pairs: PairSet, encoded: Embeddings) -> tuple[_Side, _Side]:
    """Return images and texts: vectors `(item, 2, dimensions)`, and names `(item, 2)`, equal for equal entries."""
    assert encoded.images is not None  # noqa: S101  (both were asked for)
    assert encoded.texts is not None  # noqa: S101
    images = np.array([[encoded.hashes[image] for image in item.images] for item in pairs.items])
    return (encoded.images, images), (encoded.texts, np.array([item.texts for item in pairs.items]))


def _fit_on_other(ours: _Side, theirs: _Side, penalty: float) -> NDArray[np.float64]:
    """Fit on the other set's entries, without those that are measured here, too."""
    (vectors, names), (other_vectors, other_names) = ours, theirs
    known = set(names.ravel())
    unseen = np.array([[name not in known for name in row] for row in other_names])
    labels = np.tile(np.array([0, 1]), (len(other_vectors), 1))
    if {*labels[unseen].tolist()} != {0, 1}:
        raise DataError(
            "the training set holds no entries of both kinds that the measured set does not hold; name another"
        )
    return fit_head(other_vectors[unseen], labels[unseen], penalty=penalty).probabilities(vectors)


def _detector_score(column: NDArray[np.float64], clusters: Sequence[str], seed: int) -> DetectorScore:
    interval = interval_for(column, clusters, binary=is_binary(column), bounds=(0.0, 1.0), seed=seed)
    return DetectorScore(
        value=float(column.mean()), low=interval.low, high=interval.high, method=interval.method, reason=interval.reason
    )
