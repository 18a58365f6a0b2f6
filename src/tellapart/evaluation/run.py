"""A run: models by benchmarks, into a run folder that an interruption leaves complete up to its last benchmark.

The first model is the run's subject and its record lies in the folder itself; further models are measured, too, each in
a run folder under `beside/`. Outcomes that a lower precision changes are counted on a sample of items.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark, tell_apart
from tellapart.benchmarks.given import as_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import RunError, TellapartError, TellapartWarning
from tellapart.evaluation.evaluate import Evaluation, Prepared, chosen, evaluate, plan, prepare
from tellapart.evaluation.resume import holds, keep, take_up
from tellapart.models.find import expect_taken, options_beside
from tellapart.models.memory.adapter import is_stored
from tellapart.models.memory.given import as_model
from tellapart.models.memory.held import HeldModel
from tellapart.models.options import AUTO, ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.scoring.deferred import Deferred, find_deferred
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import fastest_dtype
from tellapart.models.transductive import MARK, read_mark
from tellapart.records.machine import versions
from tellapart.records.result import Flips, ModelRecord, Precision, Result, RunRecord, Sample
from tellapart.records.run_folder import beside, locate
from tellapart.stats.intervals import share_in_clusters
from tellapart.stats.paired import paired, write_p

#: The precision that others are compared with.
_EXACT = "float32"

#: How many items `dtype="auto"` draws, and the largest share of a metric's outcomes that may flip, if not given.
CHECKED, MOST_FLIPS = 200, 0.005

#: Of 10,000 drawn sign flips, none of which was as extreme.
_SMALLEST_P = 1 / 10_001

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run, as the parameters of `tellapart.evaluate` of these names, but for what follows.

    Attributes:
        models: names, objects of a protocol, or functions of an image and a text, as `as_model` takes them.
        benchmarks: names, declarations or pair sets.
        limit: a number or a share of items, as a text; None for all.
        place: the folders of the benchmarks' files.

    >>> Settings().benchmarks
    ('demo',)
    """

    models: tuple[str | Model | Callable[..., Any], ...] = (DEFAULT_MODEL, *REFERENCES)
    names: tuple[str, ...] = ()
    benchmarks: tuple[str | Benchmark | PairSet, ...] = ("demo",)
    limit: str | None = None
    items: Path | None = None
    batch_size: int | None = None
    device: str = "cpu"
    dtype: str = "float32"
    check: int | None = None
    flips: float | None = None
    reading: str | None = None
    regions: Path | None = None
    texts: str = "raw"
    image_size: int | None = None
    tokenizer: Path | None = None
    calls: int = 8
    insecure: bool = False
    frames: int | None = None
    seed: int = 0
    strict: bool = False
    place: Locations = field(default_factory=Locations)


def run(
    settings: Settings,
    out: Path,
    *,
    store: EmbeddingStore,
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
) -> list[Path]:
    """Measure every model on every benchmark; return the run folders, the subject's first.

    The record is written after each benchmark. Nothing is computed before every name is resolved and every combination
    is known to be defined. `progress` takes "model on benchmark" to the callback for its progress.

    A benchmark that the folder holds already, made by the same model with the same settings on the same content, is
    not measured again.

    >>> import tempfile
    >>> from tellapart.evaluation.verified import read_result
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     settings = Settings(models=("oracle",), limit="3")
    ...     folders = run(settings, Path(scratch), store=EmbeddingStore(None))
    ...     read_result(folders[0]).benchmarks["demo"].metrics["text_score"].value
    1.0
    """
    asked, settings = settings, settle_dtype(settings)
    benchmarks, models = resolve(settings, store)
    exact = _find_exact(models, settings, store)
    given = ModelOptions(dtype=settings.dtype)
    taken = [options_beside(each, settings.models, given).dtype for each in settings.models]
    choices = [ChosenDtype(model, dtype) for model, dtype in zip(models, taken, strict=True)]
    if asked.dtype == AUTO:
        choices = _choose_dtypes(models, exact, benchmarks, settings, store, progress)
        models, exact = [choice.model for choice in choices], [None] * len(models)
    placed = place_runs(models, [choice.dtype for choice in choices], settings, out, command)
    folders, records = [folder for folder, _, _ in placed], [record for _, record, _ in placed]
    failed: dict[int, TellapartError] = {}
    with ExitStack() as held:
        results = [held.enter_context(take_up(*place)) for place in placed]
        for benchmark in benchmarks:
            ready = prepare_for(settings, benchmark, store)
            for row, (choice, folder) in enumerate(zip(choices, folders, strict=True)):
                if row in failed:
                    continue
                report = progress(f"{records[row].name} on {benchmark.name}") if progress else None
                try:
                    results[row] = _measure_once(results[row], choice, exact[row], ready, folder, report)
                except TellapartError as error:
                    failed[row] = error
                    if len(choices) * len(benchmarks) > 1:
                        _warn_of_stop(records[row].name, benchmark.name, out, alone=len(choices) == 1)
        if failed:
            raise next(iter(failed.values()))
    return folders


def _warn_of_stop(model: str, benchmark: str, out: Path, *, alone: bool) -> None:
    """Warn of a model that failed, before its error: the others are measured first."""
    warnings.warn(
        f"{model} stopped on {benchmark}; {'' if alone else 'other models go on, '}what is measured stays in {out}, "
        "and the same command measures the rest; to go on without this model, leave it out",
        TellapartWarning,
        stacklevel=3,
    )


def place_runs(
    models: Sequence[Model | Deferred], dtypes: Sequence[str], settings: Settings, out: Path, command: str = ""
) -> list[tuple[Path, ModelRecord, RunRecord]]:
    """Return each model's folder, its record, and that of its run, as `take_up` takes them."""
    placed = []
    records = _open_records(models, dtypes, settings, out)
    folders = _name_folders(out, [record.name for record in records])
    for folder, record, model in zip(folders, records, models, strict=True):
        own = replace(settings, device=_held(model, "device", settings.device))
        now = run_record(folder, seed=settings.seed, command=command, settings=own, place=settings.place)
        placed.append((folder, record, now))
    return placed


def settle_dtype(settings: Settings) -> Settings:
    """Return settings with a dtype: for `auto` the device's fastest one, a number of items, and a share of flips."""
    if settings.dtype != AUTO:
        if settings.flips is not None:
            raise RunError(f"flips={settings.flips:g} with dtype={settings.dtype!r}: it is of dtype={AUTO!r} alone")
        return settings
    dtype = fastest_dtype(settings.device)
    check = CHECKED if settings.check is None else settings.check
    flips = MOST_FLIPS if settings.flips is None else settings.flips
    if not 0 <= flips <= 1:
        raise RunError(f"flips={flips:g}: give a share of outcomes from 0 to 1, for example {MOST_FLIPS}")
    return replace(settings, dtype=dtype, check=None if dtype == "float32" else check, flips=flips)


def _choose_dtypes(
    models: Sequence[Model | Deferred],
    exact: Sequence[Model | Deferred | None],
    benchmarks: Sequence[Benchmark],
    settings: Settings,
    store: EmbeddingStore,
    progress: Callable[[str], Progress] | None,
) -> list[ChosenDtype]:
    """Choose each model's dtype, before a record names it."""
    if settings.check is None or settings.flips is None:
        reason = f"dtype=auto chose float32: {settings.device} computes no lower precision natively"
        return [ChosenDtype(model, "float32", reason=reason) for model in models]
    checked = any(one is not None for one in exact)
    ready = [prepare_for(settings, benchmark, store) for benchmark in benchmarks] if checked else []
    return [
        ChosenDtype(model, _EXACT) if one is None else _choose_dtype(model, one, ready, settings, progress)
        for model, one in zip(models, exact, strict=True)
    ]


def prepare_for(settings: Settings, benchmark: Benchmark, store: EmbeddingStore) -> Prepared[Any, Any]:
    """Load the records of a benchmark that a run measures; errors as of `prepare`."""
    return prepare(
        benchmark,
        store=store,
        limit=settings.limit,
        items=settings.items,
        strict=settings.strict,
        frames=settings.frames,
    )


def resolve(settings: Settings, store: EmbeddingStore) -> tuple[list[Benchmark], list[Model | Deferred]]:
    """Find every benchmark and every model by name, and refuse undefined combinations before anything is computed."""
    if settings.names and len(expect_distinct(settings.names, "names=")) != len(settings.models):
        raise RunError(f"{len(settings.names)} names= for {len(settings.models)} models; name each -m, in its order")
    benchmarks = tell_apart(
        [
            find_benchmark(each, settings.place) if isinstance(each, str) else as_benchmark(each, settings.place)
            for each in expect_distinct(settings.benchmarks, "benchmarks=")
        ],
        lambda benchmark: prepare(benchmark, store=store).fingerprint,
    )
    if settings.check is not None:
        if settings.check < 1 or settings.dtype == "float32":
            raise RunError(
                f"check={settings.check} with dtype={settings.dtype!r}: give a number of items from 1, and the dtype "
                "that is compared with float32, for example dtype='bfloat16'"
            )
        for benchmark in benchmarks:
            if benchmark.task != "pairs":  # a sample of others would have other outcomes
                raise RunError(
                    f"check={settings.check} scores a sample of minimal pairs twice; {benchmark.name} is of task "
                    f"{benchmark.task!r}: leave out check=, or measure it in a run of its own with dtype={_EXACT!r}"
                )
    expect_distinct(settings.models, "models=")
    options = [options_beside(each, settings.models, _model_options(settings, store)) for each in settings.models]
    for given, own in zip(settings.models, options, strict=True):
        if isinstance(given, str):
            expect_taken(given, own)
    models = [
        find_deferred(given, own, store) if isinstance(given, str) else _hold_object(given, own)
        for given, own in zip(settings.models, options, strict=True)
    ]
    chosen(1, settings.limit)
    if settings.items is not None and len(benchmarks) > 1:
        raise RunError(
            f"items={settings.items} are of one benchmark; got {', '.join(each.name for each in benchmarks)}"
        )
    for model in models:
        for benchmark in benchmarks:
            plan(model, benchmark)
    return benchmarks, models


def _hold_object(given: Model | Callable[..., Any], options: ModelOptions) -> Model:
    """Return a model in memory; the options of models that are named do nothing for it."""
    model = as_model(given)
    # A held model has compared its device, dtype and reading with them.
    options.expect_effect(model.name, {"device", "dtype", "reading"} if isinstance(model, HeldModel) else ())
    return model


def _model_options(settings: Settings, store: EmbeddingStore) -> ModelOptions:
    shared = {each.name for each in fields(ModelOptions)} & {each.name for each in fields(Settings)}
    return ModelOptions(
        **{name: getattr(settings, name) for name in shared},
        answers=None if store.path is None else store.path.with_name("answers.sqlite"),
        auto=settings.flips is not None,
    )


def _find_exact(
    models: Sequence[Model | Deferred], settings: Settings, store: EmbeddingStore
) -> list[Model | Deferred | None]:
    """Find the float32 model of each that is to be checked; None of one that computes the same in every dtype."""
    if settings.check is None:
        return [None] * len(models)
    options = replace(_model_options(settings, store), dtype="float32")
    exact = [
        find_deferred(each, options_beside(each, settings.models, options), store) if isinstance(each, str) else None
        for each in settings.models
    ]
    pairs = zip(exact, models, strict=True)
    return [one if one is not None and one.fingerprint != model.fingerprint else None for one, model in pairs]


def distinct_names(own: Sequence[str], typed: Sequence[object]) -> list[str]:
    """Name each model as it names itself, or as the user did if two would share a name (two checkpoints of one)."""
    return [
        typed_name if own.count(name) > 1 and isinstance(typed_name, str) else name
        for name, typed_name in zip(own, typed, strict=True)
    ]


def _open_records(models: Sequence[Model], dtypes: Sequence[str], settings: Settings, out: Path) -> list[ModelRecord]:
    names = settings.names or distinct_names([model.name for model in models], settings.models)
    marks = [MARK if isinstance(given, str) and read_mark(given) else "" for given in settings.models]
    names = [name.removesuffix(mark) + mark for name, mark in zip(names, marks, strict=True)]
    if alike := {name for name in names if names.count(name) > 1}:
        raise RunError(f"{names.count(min(alike))} models call themselves {min(alike)!r}; name each: names=(...)")
    folders = _name_folders(out, names)
    asked = ModelOptions(reading=settings.reading)
    return [
        ModelRecord(
            name=name,
            fingerprint=model.fingerprint,
            kind=model.kind,
            dtype=None if (dtype := _held(model, "dtype", chosen)) == "float32" else dtype,
            reading=options_beside(given, settings.models, asked).reading,
            prompt=getattr(getattr(model, "prompt", None), "label", None),
            texts=getattr(model, "texts", None) or None,
            provenance=getattr(model, "provenance", None) or None,
            file=None if (file := getattr(model, "file", None)) is None else locate(file, folder, hashed=True),
        )
        for given, name, model, chosen, folder in zip(settings.models, names, models, dtypes, folders, strict=True)
    ]


def _held(model: Model | Deferred, attribute: str, setting: str) -> str:
    """Return the device or the dtype of a model in memory, which settings do not move; else the setting."""
    return str(getattr(model, attribute)) if isinstance(model, HeldModel) else setting


def _name_folders(out: Path, names: Sequence[str]) -> list[Path]:
    return [out, *(beside(out, name) for name in names[1:])]


#: The packages whose versions a record names, and those that model families compute with, if they are installed.
_NAMED = ("tellapart", "numpy", "scipy", "pillow", "onnxruntime")
_OPTIONAL = ("torch", "torchvision", "transformers", "open_clip_torch", "tokenizers")


def run_record(
    folder: Path, *, seed: int, command: str, settings: Settings | None = None, place: Locations | None = None
) -> RunRecord:
    """Describe the circumstances of a run into a folder that starts now."""
    return RunRecord(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=seed,
        command=command,
        versions={"python": "", **dict.fromkeys(_NAMED, "not installed")} | versions((*_NAMED, *_OPTIONAL)),
        **{name: getattr(settings, name, None) for name in ("batch_size", "device", "limit", "check")},
        data=locate(place.data, folder) if place and place.data else None,
        images=locate(place.images, folder) if place and place.images else None,
        columns=dict(place.columns) if place else {},
    )


def expect_distinct(names: Sequence[T], parameter: str) -> Sequence[T]:
    """Return the names that a parameter (`models=`) was given; objects among them are distinct by their names."""
    typed = [name for name in names if isinstance(name, str)]
    if repeated := {name for name in typed if typed.count(name) > 1}:
        raise RunError(f"{parameter}{min(repeated)} is named twice; name each once")
    return names


def _measure_once(
    result: Result,
    choice: ChosenDtype,
    exact: Model | Deferred | None,
    ready: Prepared,
    folder: Path,
    progress: Progress | None,
) -> Result:
    """Measure one benchmark and keep it, unless the record holds it already, of a model with a fingerprint."""
    model = choice.model
    if not is_stored(model) or not holds(folder, result, ready):
        run = result.run
        evaluation = evaluate(model, ready, batch_size=run.batch_size, seed=run.seed, progress=progress)
        if exact is not None and run.check is not None:
            evaluation = _check_precision(exact, ready, evaluation, result)
        return keep(folder, result, ready.benchmark, choice.add_to(evaluation, ready.benchmark.name))
    return result


def _check_precision(exact: Model | Deferred, ready: Prepared, evaluation: Evaluation, result: Result) -> Evaluation:
    """Score some items in float32, too, and return the evaluation with the comparison in its record and notes."""
    run, dtype = result.run, result.model.dtype or _EXACT
    again = evaluate(exact, _draw_items(ready, run.check, run.seed), batch_size=run.batch_size, seed=run.seed)
    drawn = {sample.id: sample for sample in again.yield_samples()}
    by_id = {sample.id: sample for sample in evaluation.yield_samples() if sample.id in drawn}
    lower = [by_id[name] for name in drawn]
    true = evaluation.result.true
    precision = compare_precisions(lower, [*drawn.values()], dtype=dtype, true=true, seed=run.seed)
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


def _choose_dtype(
    model: Model | Deferred,
    exact: Model | Deferred,
    benchmarks: Sequence[Prepared[Any, Any]],
    settings: Settings,
    progress: Callable[[str], Progress] | None,
) -> ChosenDtype:
    """Score some items of each benchmark in a faster dtype and in float32, chosen if too many outcomes flip.

    That is more than a share `settings.flips` of a metric's outcomes, on any benchmark.
    """
    dtype, seed, most = settings.dtype, settings.seed, settings.flips or 0.0
    precisions: dict[str, Precision] = {}
    for ready in benchmarks:
        part = _draw_items(ready, settings.check, seed)
        lower, again = (
            evaluate(candidate, part, batch_size=settings.batch_size, seed=seed, progress=report)
            for candidate, name in ((model, dtype), (exact, _EXACT))
            for report in [progress and progress(f"{candidate.name} in {name} on a sample of {ready.benchmark.name}")]
        )
        precision = compare_precisions(lower.samples, again.samples, dtype=dtype, true=again.result.true, seed=seed)
        precisions[ready.benchmark.name] = precision.model_copy(update={"most": most})
    worst = max(precisions, key=lambda name: precisions[name].share)
    share = f"up to {100 * precisions[worst].share:.2f}% of outcomes flip ({worst}), {{}} than flips={most:g}"
    if precisions[worst].share > most:
        return ChosenDtype(exact, _EXACT, precisions, f"dtype=auto chose {_EXACT}: in {dtype} {share.format('more')}")
    return ChosenDtype(model, dtype, precisions, f"dtype=auto chose {dtype}: {share.format('no more')}")


def _draw_items(ready: Prepared[Any, Any], check: int | None, seed: int) -> Prepared[Any, Any]:
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
    """Count the outcomes that differ between two precisions of samples of the same items, in the same order."""
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
