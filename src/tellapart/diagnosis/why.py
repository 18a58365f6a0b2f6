"""Why models fail on square items: items by reason, how much of their scores is match or prior, and priors subtracted.

Square items are pairs with their scores, questions of yes or no in fours, and outcomes of comparisons alone.

Priors are subtracted as a user could: a picture's prior is its mean score with captions of other clusters, a caption's
its mean with pictures of others. A weight times it is subtracted. The weight is the best one on the other folds of
clusters: no item chooses its weight.

Source: VisualGPTScore (arXiv 2306.01879), section 4, of captions: P(t)^alpha there is a weight times a mean here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice, product
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.benchmarks.find import set_name
from tellapart.data.answer_text import read_label
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.rows import read_csv
from tellapart.data.scores import ScoreKind
from tellapart.data.strict_json import plain_stem
from tellapart.errors import RunError, quote
from tellapart.evaluation.compare import correct
from tellapart.evaluation.systems import (
    System,
    check_items,
    expect_same_content,
    expect_tag,
    key_samples,
    label_runs,
)
from tellapart.evaluation.verify import find_set
from tellapart.metrics.matching import (
    MATCHING_METRICS,
    Reason,
    contrasts,
    match_bounds,
    reason_bounds,
    reasons,
    right_sides,
    share_of_squares,
    sums_of_squares,
)
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import tabulate
from tellapart.metrics.yes_no import OPTIONS
from tellapart.models.find import Deferred, find_deferred
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import KeyReader, MatrixScorer, Model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import BenchmarkResult, Sample, Value
from tellapart.records.samples import read_samples
from tellapart.stats.held_out import FOLDS, fold_of
from tellapart.stats.paired import Difference, at_floor, enough_flips, paired, paired_difference, write_p

#: The parts of the squares of scores, in the order of `sums_of_squares`.
SHARES = ("match_share", "caption_share", "picture_share")

#: One choice for all of an item -> its words: of scores the best caption or picture, of answers yes or no.
COLLAPSE = {
    "same_caption": "same caption for all pictures",
    "same_picture": "same picture for all captions",
    "same_answer": "same answer to both pictures",
}

_MATCH = MATCHING_METRICS[0]

_LOST = frozenset({Reason.CAPTION, Reason.PICTURE, Reason.BOTH})

#: Shares of items by which models are compared -> the reasons of these items.
_COMPARED = {"match": {Reason.RIGHT, *_LOST}, "match, and are lost to a prior": _LOST}

#: Weights of a prior that are tried. A mean over few unrelated captions is noisy: less than all of it may be best.
_WEIGHTS = np.arange(21) / 10

#: Images, and as many texts, of a square item; `match_score` takes no more.
_SIZES = {*range(2, 7)}

#: Names of the two comparisons of a side, and of both together: the images', the texts'.
_SIDES = (("ipos_2t", "ineg_2t", "text_score", "i2t"), ("tpos_2i", "tneg_2i", "image_score", "t2i"))

#: Columns of BiVLC's files -> comparisons.
_COLUMNS = {
    "text_score_i0": "ipos_2t",
    "text_score_i1": "ineg_2t",
    "image_score_c0": "tpos_2i",
    "image_score_c1": "tneg_2i",
}


class _Explained(NamedTuple):
    """One model's square items of a benchmark, and the reason of each."""

    model: str
    folder: Path
    record: BenchmarkResult
    squares: Sequence[Sample]
    outcome: Sequence[Reason]


class Reasons(BaseModel, frozen=True):
    """The reasons of one model on one benchmark.

    Attributes:
        scale: of the scores that sums are taken of: similarity, logit, `logit of the probability`; or `answers` or
            `outcomes`, which have no sums.
        reasons: `Reason` -> the share of items, with its interval.
        shares: of the match, the captions and the pictures in the squares of scores; empty where all scores are equal.
        match_score: the items whose true pairs have the largest sum; a model without priors gets these right.
        collapse: the share of items with one best caption for all pictures (`same_caption`), or one best picture for
            all captions (`same_picture`); of answers, of questions with one answer to both pictures (`same_answer`).
        by: tag -> value -> the reasons and shares of these items.
        left_out: how many units are no square items, such as questions without a partner.
        changed_by_scale: how many items' match differs between probabilities and their logits; None of other scores.
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
    collapse: dict[str, Value]
    by: dict[str, dict[str, dict[str, Value]]]
    left_out: int = 0
    changed_by_scale: int | None = None
    items: tuple[tuple[str, float, float, str], ...] = ()
    at_most: Reasons | None = None

    def bounds(self) -> list[tuple[str, Value, Value]]:
        """Return each number's name, and the number at least and at most; both are one of scores."""
        least, most = (
            {**row.reasons, **row.shares, _MATCH.name: row.match_score, **row.collapse}
            for row in (self, self.at_most or self)
        )
        return [(name, value, most[name]) for name, value in least.items()]


class MatchDifference(BaseModel, frozen=True):
    """Two models on the same items: b less a in one share of items, with a paired interval and test.

    `what` is the share: `match`, or `match, and are lost to a prior`; `p_holm` is adjusted for all rows, and `flips`
    are the sign vectors that the test draws, None if it is exact.
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


class Debiased(BaseModel, frozen=True):
    """A model's group score with priors subtracted, and its gain, with a paired interval that takes weights as given.

    The prior is that of `pictures`, `captions` or `both`; weights are of the pictures' and of the captions' means over
    `unrelated` captions and pictures, averaged over folds.
    """

    benchmark: str
    model: str
    prior: str
    weights: tuple[float, float]
    unrelated: int
    group_score: float
    gain: Difference


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
    """Explain the items of runs, and of files."""
    rows: list[Reasons] = []
    pairs: list[tuple[str, tuple[_Explained, _Explained]]] = []
    refused: list[str] = []
    measured_sets = dict.fromkeys(name for run in runs for name in run.folders)
    benchmark = benchmark and set_name(benchmark)
    names = [name for name in measured_sets if benchmark in (None, name)]
    if benchmark is not None and not names and not files:
        raise RunError(f"no run measured {benchmark!r}; they hold {', '.join(measured_sets) or 'nothing'}")
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
                measured += [_Explained(run.label, run.folders[name], record, squares, outcome)] if outcome else []
                rows.append(row)
            elif bounds := bound_outcomes(run.label, name, samples, seed):
                rows += bounds
            else:
                refused.append(f"{name}: {_say_shape(record, samples)}")
        expect_same_content(name, [(model.folder, model.record) for model in measured])
        pairs += [(name, pair) for pair in combinations(measured, 2)]
    for label, path in zip(label_runs([*map(plain_stem, files)]), files, strict=True):
        rows += bound_outcomes(label, benchmark or "files of outcomes", read_outcome_file(path), seed)
    if not rows:
        raise RunError(f"no item to explain: reasons are of as many images as texts, two to six; {'; '.join(refused)}")
    if by is not None:
        expect_tag(by, list(dict.fromkeys(tag for row in rows for tag in row.by)))
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
    model: str, benchmark: str, record: BenchmarkResult, squares: Sequence[Sample], left_out: int = 0, *,
    seed: int = 0, by_tag: bool = True,
) -> tuple[Reasons, list[Reason]]:  # fmt: skip
    """Measure the reasons of square items with scores, of one shape; return each item's, too: none of answers alone."""
    raw = np.array([sample.scores for sample in squares], np.float32)
    identity: dict[str, Any] = {"model": model, "benchmark": benchmark, "left_out": left_out, "scale": "answers"}
    if record.kind is None:  # yes or no: which of two is surer is known where the answers differ
        true = raw[:, [0, 1], [0, 1]]
        sides = np.hstack([true - raw[:, [0, 1], [1, 0]], true - raw[:, [1, 0], [0, 1]]])
        same = PerItem(name="same_answer", strict=(raw[:, 0] == raw[:, 1]).mean(axis=1, dtype=np.float64))
        return _measure_bounds(identity, squares, np.where(sides == 0, np.nan, sides > 0), seed, by_tag, same), []
    scores = _MATCH.scaled(raw, record.kind)
    outcome, squared = reasons(scores), sums_of_squares(scores)
    match = _MATCH.measure(scores)
    shares = [
        PerItem(name=name, strict=squared, reduce=partial(share_of_squares, part=part))
        for part, name in enumerate(SHARES if squared.sum() > 0 else ())
    ]
    identity["scale"] = record.kind
    if scores.shape[1:] == (2, 2):
        sums = contrasts(scores)
        match_and_prior = np.stack([sums[:, 0], np.abs(sums[:, 1:]).max(axis=1)], axis=1).tolist()
        rows = zip(squares, match_and_prior, outcome, strict=True)
        identity["items"] = tuple((sample.id, *numbers, reason.value) for sample, numbers, reason in rows)
    if record.kind == "probability":
        changed = int((match.strict != _MATCH.per_item(raw)).sum())
        identity |= {"scale": "logit of the probability", "changed_by_scale": changed}
    in_reason = np.array([[of_item is reason for of_item in outcome] for reason in Reason])
    collapse = [
        PerItem(name="same_caption", strict=same_choice(scores).astype(float), binary=True),
        PerItem(name="same_picture", strict=same_choice(scores.swapaxes(1, 2)).astype(float), binary=True),
    ]
    return _tabulate(identity, squares, in_reason, [*shares, match, *collapse], seed, by_tag), outcome


def same_choice(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return whether all rows of an item have one and the same largest column: bool `(item,)`; a tie is no choice.

    >>> same_choice(np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]])).tolist()
    [True, False, False]
    """
    best = scores == scores.max(axis=2, keepdims=True)
    chosen = scores.argmax(axis=2)
    return np.asarray((best.sum(axis=2) == 1).all(axis=1) & (chosen == chosen[:, :1]).all(axis=1))


def bound_outcomes(
    model: str, benchmark: str, samples: Sequence[Sample], seed: int = 0, *, by_tag: bool = True
) -> list[Reasons]:
    """Bound the reasons by outcomes of the four comparisons of 2x2 items; nothing if no item has them."""
    pairs = [(sample, right) for sample in samples if (right := read_comparisons(sample)) is not None]
    named = {"model": model, "benchmark": benchmark, "left_out": len(samples) - len(pairs), "scale": "outcomes"}
    items, outcomes = [sample for sample, _ in pairs], np.array([right for _, right in pairs])
    return [_measure_bounds(named, items, outcomes, seed, by_tag)] if pairs else []


def _measure_bounds(
    identity: Mapping[str, Any], samples: Sequence[Sample], right: NDArray[np.float64], seed: int, by_tag: bool,
    *others: PerItem,
) -> Reasons:  # fmt: skip
    """Measure the least and the most that outcomes allow, float64 (item, 4), as of `match_bounds`."""
    in_reason, match, chance = reason_bounds(right), match_bounds(right).astype(float), _MATCH.chance((2, 2))
    columns = [PerItem(name=_MATCH.name, strict=row, chance=chance, binary=True) for row in match.T]
    least, most = (
        _tabulate(identity, samples, in_reason[..., end], [columns[end], *others], seed, by_tag) for end in (0, 1)
    )
    return least.model_copy(update={"at_most": most})


def _tabulate(
    identity: Mapping[str, Any],
    samples: Sequence[Sample],
    in_reason: NDArray[np.bool_],
    others: Sequence[PerItem],
    seed: int,
    by_tag: bool,
) -> Reasons:
    """Average the reasons, bool (reason, item), and other columns."""
    columns = [
        PerItem(name=name, strict=row.astype(float), binary=True) for name, row in zip(Reason, in_reason, strict=True)
    ]
    clusters = [sample.cluster for sample in samples]
    table = tabulate([*columns, *others], clusters, [sample.tags for sample in samples] if by_tag else [], seed=seed)
    numbers = _read_numbers(table.metrics)
    return Reasons(
        n=len(samples),
        clusters=len({*clusters}),
        reasons={reason: numbers[reason] for reason in Reason},
        shares={name: numbers[name] for name in SHARES if name in numbers},
        match_score=numbers[_MATCH.name],
        collapse={name: numbers[name] for name in COLLAPSE if name in numbers},
        by={
            tag: {value: _read_numbers(part.metrics) for value, part in parts.items()}
            for tag, parts in table.by.items()
        },
        **identity,
    )


def _read_numbers(metrics: Mapping[str, Value]) -> dict[str, Value]:
    """Return numbers with shares between 0 and 1, which a bootstrap may leave; none of items of equal scores."""
    numbers = {name: value for name, value in metrics.items() if not np.isnan(value.value)}
    for name in numbers.keys() & set(SHARES):
        ends = {end: getattr(numbers[name], end) for end in ("low", "high")}
        inside = {end: value if value is None else min(max(value, 0.0), 1.0) for end, value in ends.items()}
        numbers[name] = numbers[name].model_copy(update=inside)
    return numbers


def _compare(benchmark: str, a: _Explained, b: _Explained, flips: int, seed: int) -> Iterator[MatchDifference]:
    keyed = [key_samples(model.squares) for model in (a, b)]
    check_items(benchmark, a.folder, keyed[0], b.folder, keyed[1])
    place = {key: row for row, key in enumerate(keyed[1])}
    reasons_of_b = [b.outcome[place[key]] for key in keyed[0]]
    clusters = [sample.cluster for sample in a.squares]
    for share, counted in _COMPARED.items():
        of_a, of_b = ([reason in counted for reason in outcome] for outcome in (a.outcome, reasons_of_b))
        tested = paired(of_a, of_b, clusters, flips=flips, seed=seed)
        apart = tested.difference
        yield MatchDifference(
            benchmark=benchmark, a=a.model, b=b.model, what=share, difference=apart.value, low=apart.low,
            high=apart.high, p=tested.p, flips=tested.flips,
        )  # fmt: skip


def read_comparisons(sample: Sample) -> tuple[float, ...] | None:
    """Return whether image 0, image 1, text 0 and text 1 prefer their own; NaN if that is not known, None of neither.

    Of a side that is wrong, one comparison is.

    >>> read_comparisons(Sample(id="a", cluster="a", outcomes={"text_score": 1, "image_score": 0}))
    (1.0, 1.0, 0.0, nan)
    """
    outcomes, values = sample.outcomes, list[float]()
    for first, second, *both in _SIDES:
        side = next((outcomes[name] for name in both if name in outcomes), None)
        if first in outcomes and second in outcomes:
            values += outcomes[first], outcomes[second]
        elif side is not None:
            values += (1.0, 1.0) if side == 1 else (side, nan)
    right_or_wrong = all(value in {0, 1} or isnan(value) for value in values)
    return tuple(map(float, values)) if len(values) == 4 and right_or_wrong else None


def read_outcome_file(path: Path) -> list[Sample]:
    """Read outcomes of the four comparisons of 2x2 items from a CSV file: BiVLC's columns, or a metric's names.

    A column `cluster`, else `caption`, names what is resampled together; `id` the items; others are tags.
    """
    rows, names = [*read_csv(path)], {*_COLUMNS, *(name for side in _SIDES for name in side)}
    samples: list[Sample] = []
    lines: dict[str, int] = {}
    for line, row in rows:
        outcomes: dict[str, float] = {}
        for name in names & row.keys():
            if (label := read_label(row[name])) is None:
                raise RunError(
                    f"{path}:{line}: {name}={quote(row[name])}; write 1 if the comparison is right, 0 if not"
                )
            outcomes[_COLUMNS.get(name, name)] = float(label)
        id_ = row.get("id") or str(len(samples))
        if (first := lines.setdefault(id_, line)) != line:
            raise RunError(f"{path}:{line}: id {quote(id_)} is in line {first}, too; keep one of them")
        cluster = row.get("cluster") or row.get("caption") or id_
        tags = {name: row[name] for name in row.keys() - names - {"id", "cluster", "caption", "group_score"}}
        samples.append(Sample(id=id_, cluster=cluster, tags=tags, outcomes=outcomes))
    if not samples or read_comparisons(samples[0]) is None:
        raise RunError(
            f"{path}: no outcomes of the four comparisons; write the header id,{','.join(_COLUMNS)} and 0 or "
            "1 below it (one picture with several captions has a caption's prior alone, and no reasons)"
        )
    return samples


def read_squares(samples: Sequence[Sample]) -> tuple[list[Sample], int]:
    """Return samples with square scores, and how many units are left out.

    Pairs have their scores. Of a group of two images with two questions, each answered yes and no once (NaturalBench,
    TimeBlind), the scores are the answers: yes is 1, no is 0. An answer that cannot be read is taken as the wrong one.

    >>> read_squares([Sample(id="a", cluster="a", scores=((0.9, 0.1),), outcomes={})])
    ([], 1)
    """
    if any(sample.scores for sample in samples):
        shapes = ({len(sample.scores), *map(len, sample.scores)} for sample in samples)
        square = [sample for sample, sides in zip(samples, shapes, strict=True) if len(sides) == 1 and sides < _SIZES]
        return square, len(samples) - len(square)
    answers = {sample.id: sample for sample in samples if sample.unit == "answer"}
    groups = [sample for sample in samples if sample.unit == "group"]
    fours = [four for group in groups if (four := _as_square(group, answers)) is not None]
    return fours, len(groups) - len(fours)


def _as_square(group: Sample, answers: Mapping[str, Sample]) -> Sample | None:
    """Return a group with the answers as scores, question k true of image k; None if it is no square of yes and no."""
    rows = [answers[name] for name in group.id.split("+") if name in answers]
    if len(rows) != 4 or len(group.images) != 2 or len(group.texts) != 2:
        return None
    gold: dict[tuple[str, str], bool] = {}
    said: dict[tuple[str, str], float] = {}
    for row in rows:
        if len(row.images) != 1 or row.gold not in OPTIONS:
            return None
        cell = row.images[0], row.texts[0]
        gold[cell] = row.gold == OPTIONS[row.gold][0]
        said[cell] = float(gold[cell] == bool(row.outcomes.get("a_acc")))
    true = [[image for image in group.images if gold.get((image, text))] for text in group.texts]
    if len(gold) != 4 or sorted(true) != sorted([image] for image in group.images):
        return None
    images = tuple(image for (image,) in true)
    scores = tuple(tuple(said[image, text] for text in group.texts) for image in images)
    return replace(group, images=images, scores=scores)


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
    """
    record, folder = run.record(benchmark), run.folders[benchmark]
    model = _open_model(run, record.kind, f"debias={unrelated}: {run.label} on {benchmark}", store)
    benchmark_set = find_set(folder, run.result, benchmark)
    if (read := benchmark_set.read_image()) is None:
        raise RunError(benchmark_set.needs())
    squares, _ = read_squares(read_samples(folder, benchmark, record))
    recorded, clusters = np.array([square.scores for square in squares], np.float32), [one.cluster for one in squares]
    means = []
    for side, axis in (("texts", 2), ("images", 1)):
        entries = [getattr(square, side) for square in squares]
        drawn = _draw(entries, clusters, unrelated, seed)
        if not drawn[0]:
            raise RunError(f"debias={unrelated}: an item of {benchmark} has no unrelated {side}; leave out debias=")
        items = tuple(
            Item(id=one.id, **{"images": one.images, "texts": one.texts, side: held + others})
            for one, held, others in zip(squares, entries, drawn, strict=True)
        )
        report = progress(f"{run.label} on {benchmark}, unrelated {side}") if progress else None
        values = score(model, PairSet(benchmark, items, folder, read=read), store=store, progress=report).scores.values
        inside = values[:, : recorded.shape[1], : recorded.shape[2]]
        if not np.allclose(inside, recorded, 1e-3, 1e-3):
            raise RunError(f"debias={unrelated}: {run.label} scores {benchmark} otherwise now; run it again")
        outside = np.delete(values, range(recorded.shape[axis]), axis)
        means.append(_MATCH.scaled(outside, model.kind).mean(axis, dtype=np.float64))
    scores = _MATCH.scaled(inside, model.kind)
    before = right_sides(scores).all(axis=1)
    fold = fold_of(clusters, folds=min(FOLDS, len(set(clusters))), seed=seed)
    return [
        Debiased(
            benchmark=benchmark, model=run.label, prior=prior, weights=weights, unrelated=outside.shape[1],
            group_score=float(after.mean()),
            gain=paired_difference(after, before, clusters, binary=True, seed=seed),
        )
        for prior, (after, weights) in _subtract(scores, means[0], means[1], fold).items()
    ]  # fmt: skip


def _open_model(run: System, kind: ScoreKind | None, call: str, store: EmbeddingStore) -> Model | Deferred:
    model, options_of_run = run.result.model, run.result.run
    if not model.fingerprint or kind is None or model.name.startswith("api:"):  # no record has a server asked
        raise RunError(f"{call}: its scores come from a file, a server or answers; name a run of a model loaded here")
    options = ModelOptions(options_of_run.device or "cpu", options_of_run.seed, model.dtype or "float32", model.reading)
    opened = find_deferred(model.name, options, store)
    if opened.fingerprint != model.fingerprint:
        now = f"{quote(model.name)} is {opened.fingerprint[:12]} now, and {model.fingerprint[:12]} in the record"
        raise RunError(f"{call}: {now}: it changed, or took options that no record has; run it again")
    if isinstance(opened, KeyReader | MatrixScorer):
        raise RunError(f"{call} reads whole items, so no caption of another one; leave out debias=")
    return opened


def _draw(entries: Sequence[tuple[str, ...]], clusters: Sequence[str], most: int, seed: int) -> list[tuple[str, ...]]:
    """Return distinct captions, or pictures, that no item of its cluster has: as many for each, in one random order."""
    clusters_of: dict[str, set[str]] = {}
    for held, cluster in zip(entries, clusters, strict=True):
        for entry in held:
            clusters_of.setdefault(entry, set()).add(cluster)
    distinct = sorted(clusters_of)
    order = [distinct[k] for k in np.random.default_rng(seed).permutation(len(distinct))]
    rows = [
        tuple(islice((entry for entry in order if cluster not in clusters_of[entry]), most)) for cluster in clusters
    ]
    return [row[: min(map(len, rows))] for row in rows]


def _subtract(
    scores: NDArray[np.float32], pictures: NDArray[np.float64], captions: NDArray[np.float64], fold: NDArray[np.int64]
) -> dict[str, tuple[NDArray[np.bool_], tuple[float, float]]]:
    """Return the items that are right with priors subtracted, by whose, and mean weights; of equal ones the least."""
    # A picture's prior moves the captions' choices of pictures alone, and a caption's the pictures' of captions.
    image = np.array([right_sides(scores - weight * pictures[:, :, None])[:, 1] for weight in _WEIGHTS])
    text = np.array([right_sides(scores - weight * captions[:, None, :])[:, 0] for weight in _WEIGHTS])
    indices, results = range(len(_WEIGHTS)), {}
    for prior, *tried in (("pictures", indices, [0]), ("captions", [0], indices), ("both", indices, indices)):
        choices = sorted(product(*tried), key=sum)
        right = np.array([image[x] & text[y] for x, y in choices])
        best = np.array([right[:, fold != part].sum(axis=1).argmax() for part in range(fold.max() + 1)])
        picture, caption = _WEIGHTS[np.array(choices)[best]].mean(axis=0).tolist()
        results[prior] = right[best[fold], np.arange(len(fold))], (picture, caption)
    return results
