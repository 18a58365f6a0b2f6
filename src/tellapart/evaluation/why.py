"""Why models fail on square items: items by reason, and how much of their scores is match or prior."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.catalog import nearest
from tellapart.errors import RunError
from tellapart.evaluation.debias import Debiased
from tellapart.evaluation.shared_benchmarks import check_items
from tellapart.evaluation.systems import System
from tellapart.evaluation.yes_no_squares import read_squares
from tellapart.metrics.matching import MATCHING_METRICS, Reason, contrasts, reasons, share_of_squares, sums_of_squares
from tellapart.metrics.metric import fits
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import Tabulated, tabulate
from tellapart.records.result import BenchmarkResult, Sample, Value
from tellapart.records.samples import read_samples
from tellapart.stats.multiple import holm
from tellapart.stats.paired import enough_flips, mcnemar, paired_difference, paired_permutation

__all__ = ["SHARES", "MatchDifference", "Reasons", "Why", "explain", "measure_reasons"]

#: The parts of the squares of scores, in the order of `sums_of_squares`.
SHARES = ("match_share", "caption_share", "picture_share")

_MATCH = MATCHING_METRICS[0]


class Reasons(BaseModel, frozen=True):
    """The reasons of one model on one benchmark.

    Attributes:
        scale: of the scores that sums are taken of: similarity, logit, `logit of the probability`, or `answers`: yes
            is 1 and no is 0.
        n, clusters: items, and the groups that are resampled together.
        reasons: `Reason` -> the share of items, with its interval.
        shares: of the match, the captions and the pictures in the squares of scores; empty where all scores are equal.
        match_score: the items whose true pairs have the largest sum; a model without priors gets these right.
        by: tag -> value -> the reasons and shares of these items.
        left_out: units that are no square items, as questions without a partner.
        changed_by_scale: items whose match differs between probabilities and their logits; None of other scores.
        items: each item's id, match and larger prior, and reason, for the picture; of 2x2 items alone.
    """

    model: str
    benchmark: str
    scale: str
    n: int
    clusters: int
    reasons: dict[str, Value]
    shares: dict[str, Value]
    match_score: Value
    by: dict[str, dict[str, dict[str, Value]]]
    left_out: int = 0
    changed_by_scale: int | None = None
    items: tuple[tuple[str, float, float, str], ...] = ()


class MatchDifference(BaseModel, frozen=True):
    """Two models on the same items: b less a in one share of items, with a paired interval and test.

    Attributes:
        what: `match`: the model sees the difference; `match, and are lost to a prior`: a prior outweighs it.
        p_holm: p, adjusted for all rows (Holm).
    """

    benchmark: str
    a: str
    b: str
    what: str
    difference: float
    low: float | None
    high: float | None
    p: float
    p_holm: float = 1.0


class Why(BaseModel, frozen=True):
    """The reasons of every model and benchmark, paired differences of models, and scores with priors subtracted."""

    rows: tuple[Reasons, ...]
    differences: tuple[MatchDifference, ...] = ()
    debiased: tuple[Debiased, ...] = ()


def explain(runs: Sequence[System], *, benchmark: str | None = None, by: str | None = None, seed: int = 0) -> Why:
    """Explain the items of runs.

    Args:
        runs: systems with run folders.
        benchmark: which; all with square items if None.
        by: a tag that some item must have; all tags are measured.
        seed: of the bootstrap and of the sign flips.

    Raises:
        RunError: no run has square items, none measured that benchmark, or no item has the tag.
    """
    rows: list[Reasons] = []
    differences: list[MatchDifference] = []
    refused: list[str] = []
    names = dict.fromkeys(name for run in runs for name in run.folders if benchmark in (None, name))
    if benchmark is not None and not names:
        held = ", ".join(dict.fromkeys(name for run in runs for name in run.folders)) or "nothing"
        raise RunError(f"no run measured {benchmark!r}; they hold {held}")
    for name in names:
        measured: dict[str, tuple[Path, list[Sample], list[Reason]]] = {}
        for run in runs:
            if name not in run.folders:
                continue
            record = run.record(name)
            samples = read_samples(run.folders[name], name, record)
            squares, left_out = read_squares(samples)
            if not squares:
                refused.append(f"{name}: {_say_shape(record, samples)}")
                continue
            row, outcome = measure_reasons(run.label, name, record, squares, left_out, seed=seed)
            rows.append(row)
            measured[run.label] = run.folders[name], squares, outcome
        for a, b in combinations(measured, 2):
            differences += _compare(name, a, measured[a], b, measured[b], seed)
    if not rows:
        raise RunError(f"no item to explain: reasons are of as many images as texts, two to six; {'; '.join(refused)}")
    tags = dict.fromkeys(tag for row in rows for tag in row.by)
    if by is not None and by not in tags:
        there = f"the tags are {', '.join(tags)}" if tags else "these items have no tags"
        raise RunError(f"no item has the tag {by!r}{nearest(by, tags) or ';'} {there}")
    adjusted = holm([row.p for row in differences]) if differences else ()
    pairs = zip(differences, adjusted, strict=True)
    return Why(rows=tuple(rows), differences=tuple(row.model_copy(update={"p_holm": float(p)}) for row, p in pairs))


def _say_shape(record: BenchmarkResult, samples: Sequence[Sample]) -> str:
    if record.shape is None:
        return "a task whose items are no square of pictures and captions"
    images, texts = record.shape
    if samples and not samples[0].scores:
        return "its scores were made elsewhere, and are not in the run"
    alone = (
        ": it has a caption's prior alone" if images == 1 else ": it has a picture's prior alone" if texts == 1 else ""
    )
    return f"items of {images} images and {texts} texts{alone}"


def measure_reasons(
    model: str, benchmark: str, record: BenchmarkResult, squares: Sequence[Sample], left_out: int = 0, *, seed: int = 0
) -> tuple[Reasons, list[Reason]]:
    """Measure the reasons of square items with scores, of one shape; return each item's, too.

    Raises:
        MetricError: the items are not square, or have more than six captions.
        ScoreError: a score is not finite.
    """
    raw = np.array([sample.scores for sample in squares], np.float32)
    kind = record.kind or "similarity"
    scores = _MATCH.scaled(raw, kind)
    outcome = reasons(scores)
    squared = sums_of_squares(scores)
    table = _tabulate(outcome, scores, squared, squares, seed)
    matched = _MATCH.per_item(scores)
    changed = int((matched != _MATCH.per_item(raw)).sum()) if kind == "probability" else None
    parts = {tag: {value: each.metrics for value, each in of.items()} for tag, of in table.by.items()}
    scale = "answers" if record.kind is None else "logit of the probability" if changed is not None else kind
    return Reasons(
        model=model,
        benchmark=benchmark,
        scale=scale,
        n=len(squares),
        clusters=len({sample.cluster for sample in squares}),
        reasons={reason: table.metrics[reason] for reason in Reason},
        shares={name: table.metrics[name] for name in SHARES if name in table.metrics},
        match_score=table.metrics[_MATCH.name],
        by=parts,
        left_out=left_out,
        changed_by_scale=changed,
        items=_list_items(squares, scores, outcome),
    ), outcome


def _tabulate(
    outcome: Sequence[Reason],
    scores: NDArray[np.float32],
    squared: NDArray[np.float64],
    squares: Sequence[Sample],
    seed: int,
) -> Tabulated:
    columns = [
        PerItem(name=reason, strict=np.array([one is reason for one in outcome], np.float64), binary=True)
        for reason in Reason
    ]
    match = PerItem(
        name=_MATCH.name,
        strict=_MATCH.per_item(scores),
        neutral=_MATCH.tie_neutral(scores),
        chance=_MATCH.chance((scores.shape[1], scores.shape[2])),
        binary=True,
    )
    if squared.sum() > 0:
        columns += [
            PerItem(name=name, strict=squared, reduce=partial(share_of_squares, part=part))
            for part, name in enumerate(SHARES)
        ]
    clusters, tags = [sample.cluster for sample in squares], [sample.tags for sample in squares]
    return tabulate([*columns, match], clusters, tags, seed=seed)


def _list_items(
    squares: Sequence[Sample], scores: NDArray[np.float32], outcome: Sequence[Reason]
) -> tuple[tuple[str, float, float, str], ...]:
    """Return id, match D, larger prior max(|T|, |M|) and reason of 2x2 items."""
    if not fits("2x2", (scores.shape[1], scores.shape[2])):
        return ()
    found = contrasts(scores)
    prior = np.abs(found[:, 1:]).max(axis=1)
    return tuple(
        (sample.id, float(match), float(larger), reason.value)
        for sample, match, larger, reason in zip(squares, found[:, 0], prior, outcome, strict=True)
    )


def _compare(
    benchmark: str,
    a: str,
    first: tuple[Path, Sequence[Sample], Sequence[Reason]],
    b: str,
    second: tuple[Path, Sequence[Sample], Sequence[Reason]],
    seed: int,
) -> list[MatchDifference]:
    keyed = [{(sample.unit, sample.id): sample for sample in samples} for _, samples, _ in (first, second)]
    check_items(benchmark, first[0], keyed[0], second[0], keyed[1])
    place = {key: row for row, key in enumerate(keyed[1])}
    order = [place[key] for key in keyed[0]]
    one, other = list(first[2]), [second[2][row] for row in order]
    clusters = [sample.cluster for sample in first[1]]
    rows = []
    lost = {Reason.CAPTION, Reason.PICTURE, Reason.BOTH}
    for what, held in (("match", {Reason.RIGHT, *lost}), ("match, and are lost to a prior", lost)):
        x, y = (np.array([reason in held for reason in outcome], np.float64) for outcome in (one, other))
        found = paired_difference(y, x, clusters, binary=True, seed=seed)
        exact = len(set(clusters)) == len(clusters)
        p = mcnemar(x, y).p if exact else paired_permutation(x, y, clusters, resamples=enough_flips(2), seed=seed)
        rows.append(
            MatchDifference(
                benchmark=benchmark, a=a, b=b, what=what, difference=found.value, low=found.low, high=found.high, p=p
            )
        )
    return rows
