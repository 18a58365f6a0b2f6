"""Why models fail on square items: items by reason, and how much of their scores is match or prior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.catalog import nearest
from tellapart.errors import RunError
from tellapart.evaluation.compare import correct
from tellapart.evaluation.debias import Debiased
from tellapart.evaluation.systems import System, check_items, label_runs
from tellapart.evaluation.yes_no_squares import read_comparisons, read_outcome_file, read_squares
from tellapart.metrics.matching import (
    MATCHING_METRICS,
    Reason,
    contrasts,
    match_bounds,
    reason_bounds,
    reasons,
    share_of_squares,
    sums_of_squares,
)
from tellapart.metrics.metric import fits
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import tabulate
from tellapart.records.result import BenchmarkResult, Sample, Value
from tellapart.records.samples import read_samples
from tellapart.stats.paired import at_floor, enough_flips, paired, write_p

#: The parts of the squares of scores, in the order of `sums_of_squares`.
SHARES = ("match_share", "caption_share", "picture_share")

_MATCH = MATCHING_METRICS[0]

_LOST = frozenset({Reason.CAPTION, Reason.PICTURE, Reason.BOTH})

#: Shares of items by which models are compared -> the reasons of these items.
_COMPARED = {"match": {Reason.RIGHT, *_LOST}, "match, and are lost to a prior": _LOST}


@dataclass(frozen=True, slots=True)
class _Explained:
    """One model's square items of a benchmark, and the reason of each."""

    model: str
    folder: Path
    squares: Sequence[Sample]
    outcome: Sequence[Reason]


class Reasons(BaseModel, frozen=True):
    """The reasons of one model on one benchmark.

    Attributes:
        scale: of the scores that sums are taken of: similarity, logit, `logit of the probability`; or `answers` or
            `outcomes`, which have no sums.
        n, clusters: items, and the groups that are resampled together.
        reasons: `Reason` -> the share of items, with its interval.
        shares: of the match, the captions and the pictures in the squares of scores; empty where all scores are equal.
        match_score: the items whose true pairs have the largest sum; a model without priors gets these right.
        by: tag -> value -> the reasons and shares of these items.
        left_out: units that are no square items, as questions without a partner.
        changed_by_scale: items whose match differs between probabilities and their logits; None of other scores.
        items: each item's id, match and larger prior, and reason, for the picture; of 2x2 items alone.
        at_most: of answers and outcomes alone, the largest numbers that they allow; the others are the smallest.
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
    at_most: Reasons | None = None

    def bounds(self) -> list[tuple[str, Value, Value]]:
        """Return each number's name, and the number at least and at most; both are one of scores."""
        least, most = (
            {**row.reasons, **row.shares, _MATCH.name: row.match_score} for row in (self, self.at_most or self)
        )
        return [(name, value, most[name]) for name, value in least.items()]


class MatchDifference(BaseModel, frozen=True):
    """Two models on the same items: b less a in one share of items, with a paired interval and test.

    Attributes:
        what: `match`: the model sees the difference; `match, and are lost to a prior`: a prior outweighs it.
        p_holm: p, adjusted for all rows (Holm).
        flips: how many sign vectors the test draws if it cannot try them all; None of the exact test.
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
    flips: int | None = None

    @property
    def p_holm_text(self) -> str:
        """The adjusted p as it is printed."""
        return write_p(self.p_holm, at_most=at_floor(self.p, self.flips))


class Why(BaseModel, frozen=True):
    """The reasons of every model and benchmark, paired differences of models, and scores with priors subtracted."""

    rows: tuple[Reasons, ...]
    differences: tuple[MatchDifference, ...] = ()
    debiased: tuple[Debiased, ...] = ()


def explain(
    runs: Sequence[System],
    files: Sequence[Path] = (),
    *,
    benchmark: str | None = None,
    by: str | None = None,
    seed: int = 0,
) -> Why:
    """Explain the items of runs, and of files.

    Args:
        runs: systems with run folders.
        files: of outcomes of comparisons, as `read_outcome_file` takes them; a model is named as its file.
        benchmark: which; all with square items if None. Files have this name.
        by: a tag that some item must have; all tags are measured.
        seed: of the bootstrap and of the sign flips.

    Raises:
        RunError: no run has square items, none measured that benchmark, or no item has the tag; a file has no outcomes.
    """
    rows: list[Reasons] = []
    pairs: list[tuple[str, tuple[_Explained, _Explained]]] = []
    refused: list[str] = []
    names = dict.fromkeys(name for run in runs for name in run.folders if benchmark in (None, name))
    if benchmark is not None and not names and not files:
        held = ", ".join(dict.fromkeys(name for run in runs for name in run.folders)) or "nothing"
        raise RunError(f"no run measured {benchmark!r}; they hold {held}")
    for name in names:
        measured: list[_Explained] = []
        for run in runs:
            if name not in run.folders:
                continue
            record = run.record(name)
            samples = read_samples(run.folders[name], name, record)
            squares, left_out = read_squares(samples)
            if squares:
                row, outcome = measure_reasons(run.label, name, record, squares, left_out, seed=seed)
                measured += [_Explained(run.label, run.folders[name], squares, outcome)] if outcome else []
                rows.append(row)
            elif bounds := _bound_outcomes(run.label, name, samples, seed):
                rows += bounds
            else:
                refused.append(f"{name}: {_say_shape(record, samples)}")
        pairs += [(name, pair) for pair in combinations(measured, 2)]
    for label, path in zip(label_runs([path.stem for path in files]), files, strict=True):
        rows += _bound_outcomes(label, benchmark or "files of outcomes", read_outcome_file(path), seed)
    if not rows:
        raise RunError(f"no item to explain: reasons are of as many images as texts, two to six; {'; '.join(refused)}")
    tags = dict.fromkeys(tag for row in rows for tag in row.by)
    if by is not None and by not in tags:
        there = f"the tags are {', '.join(tags)}" if tags else "these items have no tags"
        raise RunError(f"no item has the tag {by!r}{nearest(by, tags) or ';'} {there}")
    flips = enough_flips(len(_COMPARED) * len(pairs))
    differences = [row for name, (a, b) in pairs for row in _compare(name, a, b, flips, seed)]
    return Why(rows=tuple(rows), differences=tuple(correct(differences)))


def _say_shape(record: BenchmarkResult, samples: Sequence[Sample]) -> str:
    if record.shape is None:
        return "a task whose items are no square of pictures and captions"
    images, texts = record.shape
    if images == texts and samples and not samples[0].scores:
        return "its scores were made elsewhere, and neither they nor outcomes of a side (text_score) are in the run"
    side = "caption" if images == 1 else "picture" if texts == 1 else ""
    return f"items of {images} images and {texts} texts" + (f": it has a {side}'s prior alone" if side else "")


def measure_reasons(
    model: str, benchmark: str, record: BenchmarkResult, squares: Sequence[Sample], left_out: int = 0, *, seed: int = 0
) -> tuple[Reasons, list[Reason]]:
    """Measure the reasons of square items with scores, of one shape; return each item's, too: none of answers alone.

    Raises:
        MetricError: the items are not square, or have more than six captions.
        ScoreError: a score is not finite.
    """
    raw = np.array([sample.scores for sample in squares], np.float32)
    named: dict[str, Any] = {"model": model, "benchmark": benchmark, "left_out": left_out, "scale": "answers"}
    if record.kind is None:  # yes or no: which of two is surer is known where the answers differ
        true = raw[:, [0, 1], [0, 1]]
        sides = np.hstack([true - raw[:, [0, 1], [1, 0]], true - raw[:, [1, 0], [0, 1]]])
        return _measure_bounds(named, squares, np.where(sides == 0, np.nan, sides > 0), seed), []
    scores = _MATCH.scaled(raw, record.kind)
    outcome, squared = reasons(scores), sums_of_squares(scores)
    match = PerItem(
        name=_MATCH.name,
        strict=_MATCH.per_item(scores),
        neutral=_MATCH.tie_neutral(scores),
        chance=_MATCH.chance((scores.shape[1], scores.shape[2])),
        binary=True,
    )
    shares = [
        PerItem(name=name, strict=squared, reduce=partial(share_of_squares, part=part))
        for part, name in enumerate(SHARES if squared.sum() > 0 else ())
    ]
    named |= {"scale": record.kind, "items": _list_items(squares, scores, outcome)}
    if record.kind == "probability":
        changed = int((match.strict != _MATCH.per_item(raw)).sum())
        named |= {"scale": "logit of the probability", "changed_by_scale": changed}
    held = np.array([[one is reason for one in outcome] for reason in Reason])
    return _tabulate(named, squares, held, [*shares, match], seed), outcome


def _bound_outcomes(model: str, benchmark: str, samples: Sequence[Sample], seed: int) -> list[Reasons]:
    pairs = [(sample, right) for sample in samples if (right := read_comparisons(sample)) is not None]
    if not pairs:
        return []
    left_out = len(samples) - len(pairs)
    named = {"model": model, "benchmark": benchmark, "left_out": left_out, "scale": "outcomes"}
    return [_measure_bounds(named, [sample for sample, _ in pairs], np.array([right for _, right in pairs]), seed)]


def _measure_bounds(
    named: Mapping[str, Any], samples: Sequence[Sample], right: NDArray[np.float64], seed: int
) -> Reasons:
    """Measure the least and the most that outcomes allow, float64 (item, 4), as of `match_bounds`."""
    held, match, chance = reason_bounds(right), match_bounds(right).astype(float), _MATCH.chance((2, 2))
    columns = [PerItem(name=_MATCH.name, strict=row, chance=chance, binary=True) for row in match.T]
    least, most = (_tabulate(named, samples, held[..., end], [columns[end]], seed) for end in (0, 1))
    return least.model_copy(update={"at_most": most})


def _tabulate(
    named: Mapping[str, Any], samples: Sequence[Sample], held: NDArray[np.bool_], others: Sequence[PerItem], seed: int
) -> Reasons:
    """Average the reasons, bool (reason, item), and other columns."""
    columns = [
        PerItem(name=name, strict=row.astype(float), binary=True) for name, row in zip(Reason, held, strict=True)
    ]
    clusters = [sample.cluster for sample in samples]
    table = tabulate([*columns, *others], clusters, [sample.tags for sample in samples], seed=seed)
    return Reasons(
        n=len(samples),
        clusters=len({*clusters}),
        reasons={reason: table.metrics[reason] for reason in Reason},
        shares={name: table.metrics[name] for name in SHARES if name in table.metrics},
        match_score=table.metrics[_MATCH.name],
        by={
            tag: {value: _defined_numbers(part.metrics) for value, part in parts.items()}
            for tag, parts in table.by.items()
        },
        **named,
    )


def _defined_numbers(metrics: Mapping[str, Value]) -> dict[str, Value]:
    """Return numbers without the shares of items whose scores are all equal: their squares have no parts."""
    return {name: value for name, value in metrics.items() if not np.isnan(value.value)}


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


def _compare(benchmark: str, a: _Explained, b: _Explained, flips: int, seed: int) -> Iterator[MatchDifference]:
    keyed = [{(sample.unit, sample.id): sample for sample in model.squares} for model in (a, b)]
    check_items(benchmark, a.folder, keyed[0], b.folder, keyed[1])
    place = {key: row for row, key in enumerate(keyed[1])}
    reasons_of_b = [b.outcome[place[key]] for key in keyed[0]]
    clusters = [sample.cluster for sample in a.squares]
    for share, counted in _COMPARED.items():
        of_a, of_b = ([reason in counted for reason in outcome] for outcome in (a.outcome, reasons_of_b))
        found = paired(of_a, of_b, clusters, flips=flips, seed=seed)
        yield MatchDifference(
            benchmark=benchmark,
            a=a.model,
            b=b.model,
            what=share,
            difference=found.difference.value,
            low=found.difference.low,
            high=found.difference.high,
            p=found.p,
            flips=found.flips,
        )
