"""How many outcomes a lower precision changes: a sample of a benchmark's items is scored in float32, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.progress import Progress
from tellapart.errors import RunError
from tellapart.evaluation.evaluate import Evaluation, Prepared, evaluate
from tellapart.records.result import Flips, Precision, Sample
from tellapart.stats.intervals import share_in_clusters
from tellapart.stats.paired import paired, write_p

if TYPE_CHECKING:
    from tellapart.models.protocols import Model
    from tellapart.models.scoring.deferred import Deferred

#: The precision that others are compared with.
_EXACT = "float32"

#: How many items `dtype="auto"` draws, and the largest share of a metric's outcomes that may flip, if not given.
CHECKED, MOST_FLIPS = 200, 0.005


#: Of 10,000 drawn sign flips, none of which was as extreme.
_SMALLEST_P = 1 / 10_001


def expect_pairs(benchmark: str, task: str, check: int) -> None:
    """Refuse a check of a benchmark that is not of pairs: a sample of others would have other outcomes."""
    if task != "pairs":
        raise RunError(
            f"check={check} scores a sample of minimal pairs twice; {benchmark} is of task {task!r}: leave out check=, "
            f"or measure it in a run of its own with dtype={_EXACT!r}"
        )


def check_precision(
    exact: Model | Deferred,
    ready: Prepared,
    evaluation: Evaluation,
    *,
    dtype: str,
    check: int,
    seed: int = 0,
    batch_size: int | None = None,
) -> Evaluation:
    """Score `check` items in float32, too, and return the evaluation with the comparison in its record and notes."""
    again = evaluate(exact, _draw_items(ready, check, seed), batch_size=batch_size, seed=seed)
    drawn = {sample.id: sample for sample in again.yield_samples()}
    by_id = {sample.id: sample for sample in evaluation.yield_samples() if sample.id in drawn}
    lower = [by_id[name] for name in drawn]
    precision = compare_precisions(lower, [*drawn.values()], dtype=dtype, true=evaluation.result.true, seed=seed)
    return _add_precision(evaluation, precision)


@dataclass(frozen=True, slots=True)
class ChosenDtype:
    """The dtype that `auto` chose for a model, and why.

    Attributes:
        model: in that dtype.
        dtype: its name.
        found: benchmark -> the comparison of the faster dtype with float32; empty if there is none to compare.
        reason: a sentence for the record.
    """

    model: Model | Deferred
    dtype: str
    found: Mapping[str, Precision] = field(default_factory=dict)
    reason: str = ""

    def add_to(self, evaluation: Evaluation, benchmark: str) -> Evaluation:
        """Return an evaluation with the choice in its record and notes."""
        if not self.reason:
            return evaluation
        return _add_precision(evaluation, self.found.get(benchmark), self.reason)


def choose_dtype(
    model: Model | Deferred,
    exact: Model | Deferred,
    benchmarks: Sequence[Prepared[Any, Any]],
    *,
    dtype: str,
    check: int,
    most: float,
    seed: int = 0,
    batch_size: int | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> ChosenDtype:
    """Score `check` items of each benchmark in a faster dtype and in float32, chosen if too many outcomes flip.

    That is more than a share `most` of a metric's outcomes, on any benchmark.
    """
    precisions: dict[str, Precision] = {}
    for ready in benchmarks:
        part = _draw_items(ready, check, seed)
        lower, again = (
            evaluate(
                candidate,
                part,
                batch_size=batch_size,
                seed=seed,
                progress=progress(f"{candidate.name} in {name} on a sample of {ready.benchmark.name}")
                if progress
                else None,
            )
            for candidate, name in ((model, dtype), (exact, _EXACT))
        )
        precision = compare_precisions(lower.samples, again.samples, dtype=dtype, true=again.result.true, seed=seed)
        precisions[ready.benchmark.name] = precision.model_copy(update={"most": most})
    worst = max(precisions, key=lambda name: precisions[name].share)
    share = f"up to {100 * precisions[worst].share:.2f}% of outcomes flip ({worst}), {{}} than flips={most:g}"
    if precisions[worst].share > most:
        return ChosenDtype(exact, _EXACT, precisions, f"dtype=auto chose {_EXACT}: in {dtype} {share.format('more')}")
    return ChosenDtype(model, dtype, precisions, f"dtype=auto chose {dtype}: {share.format('no more')}")


def _draw_items(ready: Prepared[Any, Any], check: int, seed: int) -> Prepared[Any, Any]:
    """Return a benchmark with so many of its items, drawn by a seed."""
    count = ready.task.size(ready.records)
    drawn = np.sort(np.random.default_rng(seed).permutation(count)[:check])
    return replace(ready, records=ready.task.select(ready.records, drawn.tolist()))


def _add_precision(evaluation: Evaluation, precision: Precision | None, *reasons: str) -> Evaluation:
    described = () if precision is None else (_describe_flips(precision),)
    notes = (*evaluation.result.notes, *reasons, *described)
    return replace(evaluation, result=evaluation.result.model_copy(update={"precision": precision, "notes": notes}))


def compare_precisions(
    lower: list[Sample] | tuple[Sample, ...],
    exact: list[Sample] | tuple[Sample, ...],
    *,
    dtype: str,
    true: int = 1,
    seed: int = 0,
) -> Precision:
    """Count the outcomes that differ between two precisions of samples of the same items, in the same order.

    >>> right = Sample(id="a", cluster="a", scores=((0.51, 0.5),), outcomes={"acc": 1.0})
    >>> wrong = Sample(id="a", cluster="a", scores=((0.5, 0.505),), outcomes={"acc": 0.0})
    >>> found = compare_precisions([wrong], [right], dtype="bfloat16")
    >>> found.flips["acc"].flipped, round(found.largest_difference, 3), round(found.farthest_from_tie, 3)
    (1, 0.01, 0.01)
    """
    scores = [np.array([sample.scores for sample in samples], np.float64) for samples in (lower, exact)]
    clusters = [sample.cluster for sample in exact]
    apart = None if len(set(clusters)) == len(clusters) else clusters
    flips: dict[str, Flips] = {}
    moved = np.zeros(len(exact), np.bool_)
    for metric in exact[0].outcomes:
        a, b = (np.array([sample.outcomes[metric] for sample in samples], np.float64) for samples in (lower, exact))
        if not np.isin([a, b], (0, 1)).all():  # a size, not a decision
            continue
        moved |= a != b
        interval = share_in_clusters(a != b, apart)
        tested = paired(a, b, clusters, seed=seed)
        bounds = {"low": interval.low, "high": interval.high}
        flips[metric] = Flips(n=tested.n, gained=tested.only_a, lost=tested.only_b, p=tested.p, **bounds)
    margins = _find_margins(scores[1], true)[moved]
    return Precision(
        dtype=dtype,
        against=_EXACT,
        items=len(exact),
        seed=seed,
        flips=flips,
        largest_difference=float(np.abs(scores[0] - scores[1]).max()),
        farthest_from_tie=float(margins.max()) if margins.size else None,
    )


def _find_margins(scores: NDArray[np.float64], true: int) -> NDArray[np.float64]:
    """Return how far each item `(item, image, text)` is from a tie: a true pair's least distance from another entry."""
    if true > 1:
        between = np.abs(scores[:, 0, :true, None] - scores[:, 0, None, true:])
        return np.asarray(between.min(axis=(1, 2)), np.float64)
    margins = np.full(len(scores), np.inf)
    for pair in range(min(scores.shape[1:])):
        others = np.concatenate([np.delete(scores[:, pair], pair, 1), np.delete(scores[:, :, pair], pair, 1)], axis=1)
        margins = np.minimum(margins, np.abs(others - scores[:, pair, pair, None]).min(axis=1))
    return margins


def _describe_flips(precision: Precision) -> str:
    counts = []
    for metric, flips in precision.flips.items():
        bounds = "" if flips.low is None or flips.high is None else f" [{100 * flips.low:.2f}, {100 * flips.high:.2f}]"
        share = 100 * flips.flipped / flips.n
        # No exact p has this value.
        p = write_p(flips.p, at_most=flips.p == _SMALLEST_P)
        counts.append(f"{metric} {flips.flipped} ({share:.2f}%{bounds}, p {p if p.startswith('<=') else f'= {p}'})")
    near = (
        f"; flipped items are within {precision.farthest_from_tie:.2g} of a tie" if precision.farthest_from_tie else ""
    )
    return (
        f"{precision.dtype} against {precision.against} on {precision.items:,} items drawn with seed {precision.seed}, "
        f"outcomes that flip: {', '.join(counts)}; a score moves by at most {precision.largest_difference:.2g}{near}"
    )
