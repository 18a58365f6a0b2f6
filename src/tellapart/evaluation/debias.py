"""Squares whose priors are subtracted as a user could: the model's means over unrelated captions and pictures.

A picture's prior is its mean score with captions of other clusters, a caption's its mean with pictures of others. A
weight times it is subtracted. The weight is the best one on the other folds of clusters: no item chooses its weight.

Source: VisualGPTScore (arXiv 2306.01879), section 4, of captions: P(t)^alpha there is a weight times a mean here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import ScoreKind
from tellapart.errors import RunError, quote
from tellapart.evaluation.systems import System
from tellapart.evaluation.verify import find_set
from tellapart.evaluation.yes_no_squares import read_squares
from tellapart.metrics.matching import MATCHING_METRICS, right_sides
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import KeyReader, MatrixScorer, Model
from tellapart.models.scoring.deferred import Deferred, find_deferred
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.samples import read_samples
from tellapart.stats.held_out import FOLDS, fold_of
from tellapart.stats.paired import Difference, paired_difference

#: Weights of a prior that are tried. A mean over few unrelated captions is noisy: less than all of it may be best.
_WEIGHTS = np.arange(21) / 10


class Debiased(BaseModel, frozen=True):
    """A model's group score with priors subtracted, and its gain, with a paired interval that takes weights as given.

    Attributes:
        prior: whose means are subtracted: `pictures`, `captions` or `both`.
        weights: of the pictures' and of the captions' means, averaged over folds.
        unrelated: captions, or pictures, that a mean is over.
    """

    benchmark: str
    model: str
    prior: str
    weights: tuple[float, float]
    unrelated: int
    group_score: float
    gain: Difference


def debias(
    run: System,
    benchmark: str,
    *,
    unrelated: int,
    store: EmbeddingStore,
    seed: int = 0,
    progress: Callable[[str], Progress] | None = None,
) -> list[Debiased]:
    """Score a run's pictures with unrelated captions, and its captions with unrelated pictures, and subtract the means.

    The model and the set are opened again, as the record names them; what the store has of them is not computed again.

    Raises:
        RunError: the scores come from elsewhere; the model or the set is not here, or is another one now; the model
            reads whole items.
        TellapartError: as `find_model` and `score`; the set has one cluster alone.
    """
    record, folder = run.record(benchmark), run.folders[benchmark]
    model = _open_model(run, record.kind, f"debias={unrelated}: {run.label} on {benchmark}", store)
    found = find_set(folder, run.result, benchmark)
    if (read := found.read_image()) is None:
        raise RunError(found.needs())
    squares, _ = read_squares(read_samples(folder, benchmark, record))
    recorded, clusters = np.array([square.scores for square in squares], np.float32), [one.cluster for one in squares]
    means = []
    for side, axis in (("texts", 2), ("images", 1)):
        entries = [getattr(square, side) for square in squares]
        items = tuple(
            Item(id=one.id, **{"images": one.images, "texts": one.texts, side: held + others})
            for one, held, others in zip(squares, entries, _draw(entries, clusters, unrelated, seed), strict=True)
        )
        report = progress(f"{run.label} on {benchmark}, unrelated {side}") if progress else None
        values = score(model, PairSet(benchmark, items, folder, read=read), store=store, progress=report).scores.values
        inside = values[:, : recorded.shape[1], : recorded.shape[2]]
        if not np.allclose(inside, recorded, 1e-3, 1e-3):
            raise RunError(f"debias={unrelated}: {run.label} scores {benchmark} otherwise now; run it again")
        outside = np.delete(values, range(recorded.shape[axis]), axis)
        means.append(MATCHING_METRICS[0].scaled(outside, model.kind).mean(axis, dtype=np.float64))
    scores = MATCHING_METRICS[0].scaled(inside, model.kind)
    before = right_sides(scores).all(axis=1)
    fold = fold_of(clusters, folds=min(FOLDS, len(set(clusters))), seed=seed)
    return [
        Debiased(
            benchmark=benchmark,
            model=run.label,
            prior=prior,
            weights=weights,
            unrelated=outside.shape[1],
            group_score=float(after.mean()),
            gain=paired_difference(after, before, clusters, binary=True, seed=seed),
        )
        for prior, (after, weights) in _subtract(scores, means[0], means[1], fold).items()
    ]


def _open_model(run: System, kind: ScoreKind | None, call: str, store: EmbeddingStore) -> Model | Deferred:
    model, made = run.result.model, run.result.run
    if not model.fingerprint or kind is None or model.name.startswith("api:"):  # no record has a server asked
        raise RunError(f"{call}: its scores come from a file, a server or answers; name a run of a model loaded here")
    options = ModelOptions(made.device or "cpu", made.seed, model.dtype or "float32", model.reading)
    opened = find_deferred(model.name, options, store)
    if opened.fingerprint != model.fingerprint:
        now = f"{quote(model.name)} is {opened.fingerprint[:12]} now, and {model.fingerprint[:12]} in the record"
        raise RunError(f"{call}: {now}: it changed, or took options that no record has; run it again")
    if isinstance(opened, KeyReader | MatrixScorer):
        raise RunError(f"{call} reads whole items, so no caption of another one; leave out debias=")
    return opened


def _draw(entries: Sequence[tuple[str, ...]], clusters: Sequence[str], most: int, seed: int) -> list[tuple[str, ...]]:
    """Return captions, or pictures, of other clusters for each item: as many for each, in one random order."""
    items = [*zip(entries, clusters, strict=True)]
    every = sorted({(entry, cluster) for held, cluster in items for entry in held})
    order = [every[k] for k in np.random.default_rng(seed).permutation(len(every))]
    rows = [tuple(islice((e for e, c in order if c != cluster and e not in held), most)) for held, cluster in items]
    return [row[: min(map(len, rows))] for row in rows]


def _subtract(
    scores: NDArray[np.float32], pictures: NDArray[np.float64], captions: NDArray[np.float64], fold: NDArray[np.int64]
) -> dict[str, tuple[NDArray[np.bool_], tuple[float, float]]]:
    """Return the items that are right with priors subtracted, by whose, and mean weights; of equal ones the least."""
    # A picture's prior moves the captions' choices of pictures alone, and a caption's the pictures' of captions.
    image = np.array([right_sides(scores - weight * pictures[:, :, None])[:, 1] for weight in _WEIGHTS])
    text = np.array([right_sides(scores - weight * captions[:, None, :])[:, 0] for weight in _WEIGHTS])
    every, results = range(len(_WEIGHTS)), {}
    for prior, *tried in (("pictures", every, [0]), ("captions", [0], every), ("both", every, every)):
        choices = sorted(product(*tried), key=sum)
        right = np.array([image[x] & text[y] for x, y in choices])
        best = np.array([right[:, fold != part].sum(axis=1).argmax() for part in range(fold.max() + 1)])
        picture, caption = _WEIGHTS[np.array(choices)[best]].mean(axis=0).tolist()
        results[prior] = right[best[fold], np.arange(len(fold))], (picture, caption)
    return results
