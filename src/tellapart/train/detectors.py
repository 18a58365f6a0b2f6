"""Detectors: can frozen features tell the second image of a pair from the first, and the second caption, and what is that worth?

Where first entries are natural and second ones synthetic, a head on frozen vectors learns the origin, and may play the
benchmark by it, without matching anything. What it gets bounds what origin alone explains of a model's score.

Source: BiVLC (Miranda et al. 2024), section on detectors and appendix E.3: a sigmoid neuron on the frozen encoder of each
side. There the vectors are not scaled to length one; here they are as the model gives them, and features are standardised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.benchmarks.bivlc_detector import detector_outcomes
from tellapart.data.pairset import PairSet, describe
from tellapart.data.progress import Progress
from tellapart.errors import DataError
from tellapart.models.deferred import Deferred
from tellapart.models.embeddings import Embeddings, embeddings
from tellapart.models.protocols import Model
from tellapart.models.store import EmbeddingStore
from tellapart.stats.clusters import is_binary
from tellapart.stats.held_out import FOLDS, held_out
from tellapart.stats.intervals import interval_for
from tellapart.stats.sigmoid_head import PENALTY, fit_head

__all__ = ["Detection", "DetectorScore", "DetectorSettings", "Origins", "detect", "origins"]

#: What a detection reports, beside what `detector_outcomes` gives.
_ACCURACIES = ("image_accuracy", "text_accuracy")


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """How heads are fitted.

    Attributes:
        folds: parts of the set, whole clusters each, if it is judged by heads fitted on itself.
        seed: of the parts, and of the bootstrap.
        penalty: of the heads' weights.

    >>> DetectorSettings().folds
    5
    """

    folds: int = FOLDS
    seed: int = 0
    penalty: float = PENALTY


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """The probability that an entry is synthetic, as heads judge that were fitted on others.

    Attributes:
        images: float64 `(item, 2)`.
        texts: float64 `(item, 2)`.

    >>> judged = Origins(np.array([[0.1, 0.9]]), np.array([[0.2, 0.4]]))
    >>> {name: float(column[0]) for name, column in judged.outcomes().items() if "accuracy" in name}
    {'image_accuracy': 1.0, 'text_accuracy': 0.5}
    """

    images: NDArray[np.float64]
    texts: NDArray[np.float64]

    def outcomes(self) -> dict[str, NDArray[np.float64]]:
        """Return both accuracies and what the detector gets as a player: name -> float64 `(item,)`.

        Raises:
            ScoreError: not probabilities of the same items' two entries.

        >>> Origins(np.array([[0.1, 0.9]]), np.array([[0.2, 0.4]])).outcomes()["text_score"]
        array([1.])
        """
        played = detector_outcomes(self.texts, self.images)
        # Exactly one half is called natural, as in the game.
        sides = [((side > 0.5) == np.array([False, True])).mean(axis=1) for side in (self.images, self.texts)]
        return dict(zip(_ACCURACIES, sides, strict=True)) | played


class DetectorScore(BaseModel):
    """One number of a detector, with its interval over clusters.

    >>> DetectorScore(value=0.5, low=0.4, high=0.6, method="wilson").value
    0.5
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    low: float | None
    high: float | None
    method: str


class Detection(BaseModel):
    """What a detector got on a pair set.

    Attributes:
        pairs: the set's name.
        model: the frozen encoder.
        fingerprint: its own.
        trained_on: the set that the heads were fitted on; None if on the other folds of this one.
        items, clusters: how many.
        folds: parts, where it was judged by itself.
        seed, penalty: of the heads.
        scores: `image_accuracy` and `text_accuracy` (chance is one half), then the game: `text_score`, `image_score`,
            `group_score` and the four directions.

    >>> Detection.model_fields["trained_on"].annotation
    str | None
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

    Args:
        pairs: items of two images and two texts: first natural, second synthetic.
        model: a dual encoder.
        store: where its vectors are kept.
        trained_on: a set of the same shape to fit the heads on; else each fold is judged by the others.
        settings: of the heads.
        progress: told what is done.

    Raises:
        DataError: items of another shape, too few clusters, an image that cannot be read, or a training set of which
            nothing is left but what is measured.
        ModelError: the model is no dual encoder, or its output is not what it must be.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> from tellapart.models.find import find_model
    >>> few = find_benchmark("demo").pairs().select(range(0, 300, 10))
    >>> found = detect(few, find_model("demo-encoder"), store=EmbeddingStore(None))
    >>> found.items, [*found.scores][:4]
    (30, ['image_accuracy', 'text_accuracy', 'ipos_2t', 'ineg_2t'])
    """
    settings = settings or DetectorSettings()
    judged = origins(pairs, model, store=store, trained_on=trained_on, settings=settings, progress=progress)
    names = [item.cluster for item in pairs.items]
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
        scores={name: _score(column, names, settings.seed) for name, column in judged.outcomes().items()},
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
    """Return how heads that were fitted on others judge each entry; arguments and errors as `detect`.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Constant
    >>> single = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
    >>> origins(single, Constant(), store=EmbeddingStore(None))
    Traceback (most recent call last):
    tellapart.errors.DataError: s has items of 1 image and 2 texts; a detector plays sets of 2 images and 2 texts
    """
    settings = settings or DetectorSettings()
    for each in (pairs, *([trained_on] if trained_on is not None else [])):
        if each.shape != (2, 2):
            raise DataError(
                f"{each.name} has items of {describe(each.shape)}; a detector plays sets of {describe((2, 2))}"
            )
    here = embeddings(model, pairs, store=store, progress=progress)
    if trained_on is None:
        clusters = [item.cluster for item in pairs.items]
        fitted = [
            held_out(side, clusters, folds=settings.folds, seed=settings.seed, penalty=settings.penalty)
            for side in _sides(here)
        ]
        return Origins(*fitted)
    there = embeddings(model, trained_on, store=store, progress=progress)
    names = [_names(pairs, here), _names(trained_on, there)]
    return Origins(
        *(
            _judged(ours, theirs, known=set(mine.ravel()), names=other, penalty=settings.penalty)
            for ours, theirs, mine, other in zip(_sides(here), _sides(there), *names, strict=True)
        )
    )


def _sides(found: Embeddings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    assert found.images is not None  # noqa: S101  (both were asked for)
    assert found.texts is not None  # noqa: S101
    return found.images, found.texts


def _names(pairs: PairSet, found: Embeddings) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """What each image and each text is, `(item, 2)`: equal ones have equal names."""
    images = np.array([[found.hashes[image] for image in item.images] for item in pairs.items])
    return images, np.array([item.texts for item in pairs.items])


def _judged(
    ours: NDArray[np.float32],
    theirs: NDArray[np.float32],
    *,
    known: set[str],
    names: NDArray[np.str_],
    penalty: float,
) -> NDArray[np.float64]:
    """Fit on the other set's entries, without those that are measured here, too."""
    fresh = np.array([[name not in known for name in row] for row in names])
    labels = np.tile(np.array([0, 1]), (len(theirs), 1))
    if {*labels[fresh].tolist()} != {0, 1}:
        raise DataError(
            "the training set holds no entries of both kinds that the measured set does not hold; name another"
        )
    return fit_head(theirs[fresh], labels[fresh], penalty=penalty).probabilities(ours)


def _score(column: NDArray[np.float64], clusters: Sequence[str], seed: int) -> DetectorScore:
    found = interval_for(column, clusters, binary=is_binary(column), seed=seed)
    return DetectorScore(value=float(column.mean()), low=found.low, high=found.high, method=found.method)
