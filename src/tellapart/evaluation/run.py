"""A run: models by benchmarks, or files of scores, into a run folder that an interruption leaves complete so far.

The first model is the run's subject and its record lies in the folder itself; further models are measured, too, each in
a run folder under `beside/`. Outcomes that a lower precision changes are counted on a sample of items. One process at a
time has a folder: two that read its record and then wrote theirs would each lose the other's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import as_benchmark, find_benchmark, tell_apart
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.atomic import drop_lock, holder_of, take_lock
from tellapart.data.item import filled_tags
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import ScoreKind, join_names, note_spread
from tellapart.data.strict_json import plain_stem
from tellapart.data.validation import describe_changes
from tellapart.errors import RunError, TellapartError, TellapartWarning
from tellapart.evaluation.evaluate import (
    Evaluation,
    Prepared,
    chosen,
    evaluate,
    evaluate_predictions,
    plan,
    prepare,
    prepare_listed,
    read_predictions,
)
from tellapart.evaluation.verified import read_result
from tellapart.models.find import Deferred, expect_taken, find_deferred, options_beside
from tellapart.models.memory.adapter import is_stored
from tellapart.models.memory.held import HeldModel, as_model
from tellapart.models.options import AUTO, ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import Scored
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import fastest_dtype
from tellapart.models.transductive import MARK, read_mark
from tellapart.records.machine import versions
from tellapart.records.result import (
    BenchmarkResult,
    Flips,
    Located,
    ModelRecord,
    Precision,
    Result,
    RunRecord,
    Sample,
)
from tellapart.records.run_folder import RESULTS, beside, locate, write_result
from tellapart.records.samples import read_samples, write_samples
from tellapart.stats.intervals import share_in_clusters
from tellapart.stats.paired import paired, write_p
from tellapart.tasks.pairs import ListedPairs

#: The precision that others are compared with.
_EXACT = "float32"

#: How many items `dtype="auto"` draws, and the largest share of a metric's outcomes that may flip, if not given.
CHECKED, MOST_FLIPS = 200, 0.005

#: Of 10,000 drawn sign flips, none of which was as extreme.
_SMALLEST_P = 1 / 10_001

#: The lock of a run folder, there while a process writes into the folder.
_LOCK = ".lock"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run, as the parameters of `tellapart.evaluate` of these names.

    Models and benchmarks are names or objects; `limit` is a text, and `place` has the folders of the benchmarks' files.

    >>> Settings().benchmarks
    ('demo',)
    """

    models: tuple[str | Model | Callable[..., Any], ...] = (DEFAULT_MODEL, *REFERENCES)
    names: tuple[str, ...] = ()
    benchmarks: tuple[str | Benchmark | PairSet, ...] = ("demo",)
    limit: str | None = None
    items: Path | None = None
    tags: Path | None = None
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
    instruction: str | None = None
    frames: int | None = None
    seed: int = 0
    strict: bool = False
    place: Locations = field(default_factory=Locations)


@dataclass(slots=True)
class _Candidate:
    """A model in the dtype in which it is measured.

    `exact` is the same in float32, where a sample is to be scored in both; `compared` are the comparisons by benchmark,
    each made once, and `reason` is the choice of the dtype in words.
    """

    model: Model | Deferred
    dtype: str
    exact: Model | Deferred | None = None
    compared: dict[str, Precision] = field(default_factory=dict)
    reason: str = ""

    def compare(
        self, ready: Prepared[Any, Any], settings: Settings, progress: Callable[[str], Progress] | None = None
    ) -> Precision | None:
        """Score items of a benchmark, drawn by the seed, in both dtypes, and compare the outcomes."""
        name, seed = ready.benchmark.name, settings.seed
        if self.exact is not None and name not in self.compared:
            order = np.random.default_rng(seed).permutation(ready.task.size(ready.records))
            drawn = np.sort(order[: settings.check]).tolist()
            part = replace(ready, records=ready.task.select(ready.records, drawn))
            lower, again = (
                evaluate(model, part, batch_size=settings.batch_size, seed=seed, progress=report)
                for model, dtype in ((self.model, self.dtype), (self.exact, _EXACT))
                for report in [progress and progress(f"{model.name} in {dtype} on a sample of {name}")]
            )
            true = again.result.true
            compared = compare_precisions(lower.samples, again.samples, dtype=self.dtype, true=true, seed=seed)
            self.compared[name] = compared.model_copy(update={"most": settings.flips})
        return self.compared.get(name)


def run(
    settings: Settings,
    out: Path,
    *,
    store: EmbeddingStore,
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
    expect: Callable[[Prepared[Any, Any]], object] = lambda _: None,
) -> dict[Path, Result]:
    """Measure every model on every benchmark; return the run folders with their records, the subject's first.

    The record is written after each benchmark. Nothing is computed before every name is resolved and every combination
    is known to be defined. `progress` takes "model on benchmark" to the callback for its progress; `expect` may refuse
    a benchmark's records before they are measured.

    A benchmark that the folder holds already, made by the same model with the same settings on the same content, is
    not measured again.
    """
    automatic, settings = settings.dtype == AUTO, settle_dtype(settings)
    benchmarks, models = resolve(settings, store)
    candidates = _list_candidates(models, settings, store)
    if automatic:
        _choose_dtypes(candidates, benchmarks, settings, store, progress)
    dtypes = [candidate.dtype for candidate in candidates]
    placed = place_runs([candidate.model for candidate in candidates], dtypes, settings, out, command)
    failed: dict[int, TellapartError] = {}
    with ExitStack() as held:
        results = [held.enter_context(take_up(*place)) for place in placed]
        for benchmark in benchmarks:
            expect(ready := prepare_for(settings, benchmark, store))
            for row, (candidate, (folder, model, _)) in enumerate(zip(candidates, placed, strict=True)):
                if row in failed:
                    continue
                report = progress(f"{model.name} on {benchmark.name}") if progress else None
                try:
                    if not is_stored(candidate.model) or not holds(folder, results[row], ready):
                        measured = _measure(candidate, ready, settings, results[row].run, report)
                        results[row] = keep(folder, results[row], benchmark, measured)
                except TellapartError as error:
                    failed[row] = error
                    if len(candidates) * len(benchmarks) > 1:
                        others = "" if len(candidates) == 1 else "other models go on, "
                        warnings.warn(
                            f"{model.name} stopped on {benchmark.name}; {others}what is measured stays in {out}, and "
                            "the same command measures the rest; to go on without this model, leave it out",
                            TellapartWarning,
                            stacklevel=2,
                        )
        if failed:
            raise next(iter(failed.values()))
    return dict(zip((folder for folder, _, _ in placed), results, strict=True))


def place_runs(
    models: Sequence[Model | Deferred], dtypes: Sequence[str], settings: Settings, out: Path, command: str = ""
) -> list[tuple[Path, ModelRecord, RunRecord]]:
    """Return each model's folder, its record, and that of its run, as `take_up` takes them."""
    names = settings.names or distinct_names([model.name for model in models], settings.models)
    marks = [MARK if isinstance(given, str) and read_mark(given) else "" for given in settings.models]
    names = [name.removesuffix(mark) + mark for name, mark in zip(names, marks, strict=True)]
    if alike := {name for name in names if names.count(name) > 1}:
        raise RunError(f"{names.count(min(alike))} models call themselves {min(alike)!r}; name each: names=(...)")
    asked = ModelOptions(reading=settings.reading)
    placed: list[tuple[Path, ModelRecord, RunRecord]] = []
    for given, name, model, dtype in zip(settings.models, names, models, dtypes, strict=True):
        folder = beside(out, name) if placed else out
        # Settings do not move a model in memory.
        device, of_dtype = (model.device, model.dtype) if isinstance(model, HeldModel) else (settings.device, dtype)
        record = ModelRecord(
            name=name,
            fingerprint=model.fingerprint,
            kind=model.kind,
            dtype=None if str(of_dtype) == _EXACT else str(of_dtype),
            reading=options_beside(given, settings.models, asked).reading,
            prompt=getattr(getattr(model, "prompt", None), "label", None),
            texts=getattr(model, "texts", None) or None,
            provenance=getattr(model, "provenance", None) or None,
            file=None if (file := getattr(model, "file", None)) is None else locate(file, folder, hashed=True),
        )
        on_device = replace(settings, device=str(device))
        now = run_record(folder, seed=settings.seed, command=command, settings=on_device, place=settings.place)
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
    return replace(settings, dtype=dtype, check=None if dtype == _EXACT else check, flips=flips)


def prepare_for(settings: Settings, benchmark: Benchmark, store: EmbeddingStore) -> Prepared[Any, Any]:
    """Load the records of a benchmark that a run measures; errors as of `prepare`."""
    asked = {name: getattr(settings, name) for name in ("limit", "items", "tags", "strict", "frames")}
    return prepare(benchmark, store=store, **asked)


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
        if settings.check < 1 or settings.dtype == _EXACT:
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
    models = _find_models(settings, store)
    chosen(1, settings.limit)
    if settings.items is not None and len(benchmarks) > 1:
        raise RunError(
            f"items={settings.items} are of one benchmark; got {', '.join(each.name for each in benchmarks)}"
        )
    if settings.tags is not None and (other := next((each for each in benchmarks if each.task != "pairs"), None)):
        raise RunError(f"tags={settings.tags} are of items of pairs; {other.name} is of the task {other.task!r}")
    for model in models:
        for benchmark in benchmarks:
            plan(model, benchmark)
    return benchmarks, models


def _find_models(settings: Settings, store: EmbeddingStore) -> list[Model | Deferred]:
    expect_distinct(settings.models, "models=")
    models: list[Model | Deferred] = []
    all_options = _model_options(settings, store)
    for given, options in zip(settings.models, all_options, strict=True):
        if isinstance(given, str):
            expect_taken(given, options)
    for given, options in zip(settings.models, all_options, strict=True):
        if isinstance(given, str):
            models.append(find_deferred(given, options, store))
        else:
            models.append(model := as_model(given))
            # A held model has compared its device, dtype and reading with them; other options of named models do
            # nothing for an object.
            options.expect_effect(model.name, {"device", "dtype", "reading"} if isinstance(model, HeldModel) else ())
    return models


def _model_options(settings: Settings, store: EmbeddingStore) -> list[ModelOptions]:
    """Return the options with which each model is made."""
    shared = {each.name for each in fields(ModelOptions)} & {each.name for each in fields(Settings)}
    options = ModelOptions(
        **{name: getattr(settings, name) for name in shared},
        answers=None if store.path is None else store.path.with_name("answers.sqlite"),
        auto=settings.flips is not None,
    )
    return [options_beside(each, settings.models, options) for each in settings.models]


def distinct_names(own: Sequence[str], typed: Sequence[object]) -> list[str]:
    """Name each model as it names itself, or as the user did if two would share a name (two checkpoints of one)."""
    return [
        typed_name if own.count(name) > 1 and isinstance(typed_name, str) else name
        for name, typed_name in zip(own, typed, strict=True)
    ]


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


def _measure(
    candidate: _Candidate, ready: Prepared, settings: Settings, now: RunRecord, progress: Progress | None
) -> Evaluation:
    """Measure one benchmark, with a comparison of its precision and the reason of its choice in record and notes."""
    evaluation = evaluate(candidate.model, ready, batch_size=now.batch_size, seed=now.seed, progress=progress)
    precision = candidate.compare(ready, settings)
    notes = (candidate.reason, "" if precision is None else _describe_flips(precision))
    update = {"precision": precision, "notes": (*evaluation.result.notes, *filter(None, notes))}
    return replace(evaluation, result=evaluation.result.model_copy(update=update))


def _list_candidates(models: Sequence[Model | Deferred], settings: Settings, store: EmbeddingStore) -> list[_Candidate]:
    """List the models with the dtype that was asked for; those to be checked, with their float32, too.

    A model that computes the same in every dtype has no other float32.
    """
    given = ModelOptions(dtype=settings.dtype)
    candidates = [
        _Candidate(model, options_beside(typed, settings.models, given).dtype)
        for model, typed in zip(models, settings.models, strict=True)
    ]
    if settings.check is None:
        return candidates
    for row, options in enumerate(_model_options(replace(settings, dtype=_EXACT), store)):
        if isinstance(typed := settings.models[row], str):
            exact = find_deferred(typed, options, store)
            if exact.fingerprint != candidates[row].model.fingerprint:
                candidates[row].exact = exact
    return candidates


def _choose_dtypes(
    candidates: Sequence[_Candidate],
    benchmarks: Sequence[Benchmark],
    settings: Settings,
    store: EmbeddingStore,
    progress: Callable[[str], Progress] | None,
) -> None:
    """Choose each model's dtype, before a record names it: float32 if the faster one flips too many outcomes.

    That is more than a share `settings.flips` of a metric's outcomes of a sample, on any benchmark.
    """
    most = settings.flips
    if settings.check is None or most is None:
        for candidate in candidates:
            candidate.dtype = _EXACT
            candidate.reason = f"dtype=auto chose float32: {settings.device} computes no lower precision natively"
        return
    checked = [candidate for candidate in candidates if candidate.exact is not None]
    prepared = [prepare_for(settings, benchmark, store) for benchmark in benchmarks] if checked else []
    for candidate in candidates:
        if candidate.exact is None:
            candidate.dtype = _EXACT
            continue
        for ready in prepared:
            candidate.compare(ready, settings, progress)
        worst = max(candidate.compared, key=lambda name: candidate.compared[name].share)
        share, faster, verdict = candidate.compared[worst].share, "", "no more"
        if share > most:
            candidate.model, candidate.dtype = candidate.exact, _EXACT
            faster, verdict = f"in {settings.dtype} ", "more"
        flips = f"{faster}up to {100 * share:.2f}% of outcomes flip ({worst}), {verdict} than flips={most:g}"
        candidate.reason = f"dtype=auto chose {candidate.dtype}: {flips}"


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


@contextmanager
def take_up(folder: Path, model: ModelRecord, run: RunRecord) -> Iterator[Result]:
    """Yield the folder's record, or a new one, and keep the folder for this process until the block ends.

    Another run's record is refused before anything is computed. A folder in which nothing was written is gone again.
    """
    _expect_writable(folder)
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}; name another out=") from error
    path = folder / _LOCK
    try:
        with ExitStack() as held:
            with suppress(OSError):  # nothing can be written here, which the first result reports, if there is one
                if (lock := take_lock(path)) is None:
                    raise RunError(
                        f"process {holder_of(path)} is writing its run into {folder}; wait until it has ended, or name "
                        "another out="
                    )
                held.callback(drop_lock, path, lock)
            yield look_up(folder, model, run)
    finally:
        with suppress(OSError):  # it holds something
            for each in new:
                each.rmdir()


def look_up(folder: Path, model: ModelRecord, run: RunRecord) -> Result:
    """Return what `take_up` yields, and make and keep no folder; errors as there, but for another process."""
    _expect_writable(folder)
    if not (folder / RESULTS).exists():
        return Result(run=run, model=model, benchmarks={})
    expect_same_run(folder, old := read_result(folder), model, run)
    return old


def holds(folder: Path, result: Result, ready: Prepared) -> bool:
    """Return whether a record in a folder has a benchmark; it is refused with other content, clusters or tags."""
    name = ready.benchmark.name
    finished = result.benchmarks.get(name)
    if finished is None:
        return False
    if finished.fingerprint != ready.fingerprint:
        raise RunError(f"{folder} holds {name} with other content; name another out=, or delete it")
    if changed := _list_changed(folder, finished, ready):
        raise RunError(
            f"{folder} holds {name} with other clusters, tags, captions or true captions of {join_names(changed)}, so "
            "its numbers are not those of the set as it is now; name another out=, or delete it"
        )
    return True


def _list_changed(folder: Path, finished: BenchmarkResult, ready: Prepared) -> list[str]:
    """List the measured pairs whose facts beyond the fingerprint differ in the set: it covers no clusters and no tags.

    Of scores made elsewhere it covers ids alone, so that captions, the true one first, are compared if both have them;
    so are tags and clusters; else, as files of the set may be missing, clusters that are no ids and tags of both alone.
    """
    records = ready.records
    if finished.samples is None or not isinstance(records, PairSet | ListedPairs):  # of other records it covers all
        return []
    outline = records.outline
    facts = dict(zip(outline.ids, zip(outline.clusters, map(dict, outline.tags), strict=True), strict=True))
    texts = {item.id: item.truth_first().texts for item in records.items or ()}

    def is_changed(sample: Sample) -> bool:
        if sample.id not in facts or (sample.texts and texts and sample.texts != texts[sample.id]):
            return True
        cluster, tags = facts[sample.id]
        if isinstance(records, PairSet) or (sample.texts and texts):
            return (sample.cluster, filled_tags(sample.tags)) != (cluster, tags)  # older runs have empty tags
        moved = cluster != sample.cluster and sample.id not in (cluster, sample.cluster)
        return moved or any(tags[tag] != sample.tags[tag] for tag in tags.keys() & sample.tags.keys())

    with suppress(RunError):  # of a file that is missing or damaged, which its readers name
        return [one.id for one in read_samples(folder, ready.benchmark.name, finished) if is_changed(one)]
    return []


def expect_same_run(folder: Path, old: Result, model: ModelRecord, run: RunRecord) -> None:
    """Refuse a folder whose record is of another model, or of other settings: of all that may move a number."""
    now, then = (
        {
            "model": of.name,
            "weights": of.fingerprint or "computed elsewhere",
            "kind of score": of.kind,
            **{name: getattr(settings, name) for name in ("seed", "limit", "check", "device")},
            "reading": of.reading,
        }
        for of, settings in ((model, run), (old.model, old.run))
    )
    if differing := [key for key in now if now[key] != then[key]]:
        hint = "name another out=, or delete it"
        if not model.fingerprint and not old.model.fingerprint and len(differing) == 1:
            hint = f"if this is the same model, add name={old.model.name!r}; else name another out="
        raise RunError(f"{folder} holds another run ({describe_changes(then, now)}); {hint}")


def keep(
    folder: Path, result: Result, benchmark: Benchmark, evaluation: Evaluation, file: Located | None = None
) -> Result:
    """Write a benchmark's samples and its part of the record; return the record."""
    own = None if benchmark.own is None else locate(benchmark.own, folder, hashed=benchmark.own.suffix == ".py")
    # The samples first: a record never names a benchmark whose samples are not there.
    samples = write_samples(folder, benchmark.name, evaluation.yield_samples())
    record = evaluation.result.model_copy(update={"own": own, "file": file, "samples": samples})
    result = result.model_copy(update={"benchmarks": {**result.benchmarks, benchmark.name: record}})
    write_result(folder, result)
    return result


def _expect_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, unless it holds a run: better now than after an hour."""
    if (folder / RESULTS).exists():
        return
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not nearest.is_dir():
        raise RunError(f"cannot write to {folder}: {nearest} is not a folder; name another out=")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RunError(f"cannot write to {folder}: {nearest} may not be written; name another out=")


def run_scores(
    files: Mapping[str | Benchmark, Path],
    out: Path,
    *,
    kind: ScoreKind | None = None,
    name: str | None = None,
    seed: int = 0,
    command: str = "",
    strict: bool = False,
    place: Locations | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Path:
    """Measure a model from files of scores or predictions that were made elsewhere, and write one run folder.

    Every file is read before anything is written; a later call can add files of further benchmarks. A benchmark that
    the folder already holds, from the same file, is not measured again. A file is `.npz`, `.csv` or `.jsonl`, of tasks
    that of `tellapart export`, filled in. Its name is the model's by default, and the kind of its scores is the one
    that it states, or else similarity.
    """
    if name is None and len(files) != 1:
        named = ", ".join(file if isinstance(file, str) else file.name for file in files)
        raise RunError(f"scores= of {named or 'no benchmark'}: name their model with name=")
    model = ModelRecord(name=name or plain_stem(next(iter(files.values()))))
    score_files = []
    for given, path in files.items():
        ready = prepare_listed(find_benchmark(given, place) if isinstance(given, str) else given, strict=strict)
        score_files.append((ready, path, *read_predictions(ready, path, kind, place), locate(path, out, hashed=True)))
    with take_up(out, model, run_record(out, seed=seed, command=command, place=place)) as held:
        result = held
        for ready, path, predictions, reading, located in score_files:
            benchmark = ready.benchmark.name
            if holds(out, result, ready):
                record = result.benchmarks[benchmark]
                before = (record.file.sha256 if record.file else "", record.kind, record.field)
                if before != (located.sha256, ready.task.kind_of(predictions), reading.fields_read):
                    raise RunError(
                        f"{out} holds {benchmark} measured from another file or field ({record.origin}, "
                        f"{record.field!r}); name another out=, or delete it"
                    )
                continue
            evaluation = evaluate_predictions(
                ready,
                predictions,
                origin=str(path.resolve()),
                seed=seed,
                reading=reading,
                notes=note_spread([predictions.scores]) if isinstance(predictions, Scored) else (),
                progress=progress(f"{model.name} on {benchmark}") if progress else None,
            )
            result = keep(out, result, ready.benchmark, evaluation, located)
    return out
