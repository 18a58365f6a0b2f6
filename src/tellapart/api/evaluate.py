"""Measure models on benchmarks, and scores that were made elsewhere: the functions of `tellapart run` and `score`."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.api.run import Run
from tellapart.benchmarks.arguments import PairsGiven, load_pairs, locations, refuse_columns, refuse_idle
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import BenchmarkGiven, as_benchmark, find_benchmark, with_probes
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.plugins import exit_is_error, open_benchmark, open_model
from tellapart.data.answer_text import PREDICTION
from tellapart.data.arguments import LimitGiven, PathGiven, as_limit, as_names, as_path, as_tuple, expect_used
from tellapart.data.atomic import atomic_file
from tellapart.data.scores import ScoreKind, Scores, as_numbers
from tellapart.errors import RunError, ScoreError, TellapartError, quote
from tellapart.evaluation.distributed import Rank, run_in_ranks
from tellapart.evaluation.follow import Follower, follow_checkpoints, parse_seconds
from tellapart.evaluation.run import Settings, run_scores
from tellapart.evaluation.verified import read_result
from tellapart.models.generative.sampling import with_samples
from tellapart.models.memory.adapter import keep_random_state
from tellapart.models.memory.external import VectorModel, VectorsGiven, name_rows, read_vectors, write_scores
from tellapart.models.memory.held import HeldModel, ModelGiven, as_model
from tellapart.models.memory.mistakes import explain_argument
from tellapart.models.protocols import Model
from tellapart.models.store.cache import CacheGiven, describe_stored, store_path, use_store
from tellapart.records.run_folder import RESULTS, file_name, find_runs
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.report.show import write_run_report

#: The fewest seconds after which the page of a growing curve loads itself again.
_RELOAD = 5.0

#: The time between two looks for checkpoints.
EVERY = "10m"


def _as_follower(
    follow: PathGiven | None, every: str | float, until: int | None, models: object, names: Sequence[str]
) -> Follower | None:
    """Return the follower of a folder of checkpoints; None without `follow`."""
    if follow is None:
        expect_used("evaluate", "without follow=FOLDER", every=(every, EVERY), until=(until, None))
        return None
    if Rank.here().of > 1:
        raise RunError(f"follow={quote(follow)}: one process follows checkpoints; start it without torchrun")
    forms = () if models is None else as_tuple(models, "models")
    if len(forms) > 1 or not all(isinstance(form, str) for form in forms):
        raise RunError(f"models={quote(models)} with follow={quote(follow)}: give one name, with {{}} for a checkpoint")
    if len(names) > 1:
        raise RunError(f"names={quote(names)} with follow={quote(follow)}: give one, before the checkpoints' names")
    return Follower(
        place=str(as_path(follow, "follow")),
        form=forms[0] if forms else None,
        every=parse_seconds(every),
        until=until,
        prefix=f"{names[0]}/" if names else "",
    )


def _write_reports(
    names: Iterable[str], follower: Follower, folder: Path, outside: bool, ready: Callable[[str], None] | None
) -> None:
    """Write the report with the curve after each checkpoint; it loads itself again until nothing more is awaited."""
    name = None
    try:
        for name in names:
            write_run_report(folder, outside=outside, reload=min(max(follower.every, _RELOAD), 60))
            if ready is not None:
                ready(name)
    finally:
        if name is not None:
            write_run_report(folder, outside=outside)


_log = logging.getLogger(__name__)


class _Tensor(Protocol):
    def detach(self) -> Any: ...


_Given = TypeVar("_Given")
_Opened = TypeVar("_Opened")

#: A model as callers give it: a name, a file's object, or an argument of `as_model`.
ModelNamed: TypeAlias = str | Path | ModelGiven

#: Scores as callers give them: a file, numbers (item, image, text), `{id: matrix}`, `Scores`; or `{benchmark: file}`.
ScoresGiven: TypeAlias = PathGiven | ArrayLike | _Tensor | Scores | Mapping[str, PathGiven | ArrayLike | _Tensor]


@exit_is_error
def evaluate(
    models: ModelNamed | Sequence[ModelNamed] | None = None,
    benchmarks: BenchmarkGiven | Sequence[BenchmarkGiven] = "demo",
    *,
    out: PathGiven | None = None,
    limit: LimitGiven = None,
    items: PathGiven | None = None,
    tags: PathGiven | None = None,
    probe: str | Sequence[str] = (),
    batched: bool | None = None,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
    names: str | Sequence[str] = (),
    batch_size: int | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    check: int | None = None,
    flips: float | None = None,
    reading: str | None = None,
    regions: PathGiven | None = None,
    texts: str = "raw",
    image_size: int | None = None,
    tokenizer: PathGiven | None = None,
    calls: int = 8,
    insecure: bool = False,
    instruction: str | None = None,
    samples: int | None = None,
    temperature: float = 1.0,
    frames: int | None = None,
    seed: int = 0,
    strict: bool = False,
    follow: PathGiven | None = None,
    every: str | float = EVERY,
    until: int | None = None,
    dry_run: bool = False,
    cache: CacheGiven = None,
    progress: ProgressGiven = None,
    command: str = "",
    ready: Callable[[str], None] | None = None,
    left_out: Callable[[str], None] = _log.warning,
) -> Run:
    """Measure models on benchmarks.

    A model is a name (`tellapart ls models`), a file's object (`my_model.py:MyModel`), one in memory (`tellapart.model`
    makes it of open_clip's and transformers' objects), an object with `encode_images` and `encode_texts` or of another
    protocol in `tellapart.models.protocols`, or a function: `(image, text) -> number`, or `(images, texts) -> matrix`
    of an item's images and texts. Objects and functions are given PIL images, RGB, always. A function without an
    attribute `fingerprint` is computed again each time.

    Args:
        models: one or several; the default model and the reference models if not given.
        benchmarks: one or several: a name (`tellapart ls benchmarks`), `folder:PATH`, `table:FILE`, a file's object
            (`my_set.py:MY_SET`), a `PairSet` or a `Benchmark`.
        out: the run folder, which a later call with the same models goes on with; a temporary one if not given.
        limit: measure only so many items (20) or such a share of them (0.1), spread evenly.
        items: a file of ids, one a line: measure these items of the one benchmark alone.
        tags: a JSONL file of further tags: in each line an `id` of the sets and tags of that item, such as the
            `bindings.jsonl` of an audit. Results are broken down by them.
        probe: also measure the sets of pairs without one of their sides, and compare: blank (one grey picture),
            foreign (pictures of other items), shuffled (captions in shuffled words); of videos reversed, jumbled or
            still (the first frame). They are sets, too: `blank:demo`.
        batched: whether functions take all images and texts of an item and return their matrix; the value of their
            attribute `batched` if not given.
        data, images: folders of the benchmarks' files and images.
        outside_images: images may lie outside of these folders; never for a stranger's set.
        columns: of `table:FILE`, field -> its column: `{"image_0": "left", "image_1": "right", "caption_0": "a"}`.
        cache: the folder of the embedding store, or a store; False keeps embeddings in memory.
        progress: True shows it, False does not; if not given, a notebook and a terminal show it.
        command: what the record names as the command.
        names: the models' names in results, one for each, in their order; as each names itself if not given.
        batch_size: images, texts or pairs computed together, as suits the model if None; changes no number.
        device: cpu, cuda or mps.
        dtype: of torch models: float32, bfloat16 or float16. Scores are float32. `auto`: the fastest that the device
            computes natively; float32 if that flips too many outcomes of `check` items (200) of any benchmark.
        check: score so many items of each benchmark, drawn by `seed`, in float32, too. A note and the record's
            `precision` count the outcomes that the dtype flips.
        flips: with `dtype="auto"`, the largest share of a metric's outcomes that may flip; .005 if not given.
        reading: which of a model's readings is scored; the family's first if not given.
        regions: a file of a detector's regions (`.npz`, `.safetensors`), for models that read those.
        texts: raw; cleaned, for models in their authors' files; library: its way (SigLIP).
        image_size: side of the images of models in their authors' files, in pixels.
        tokenizer: the folder of their tokenizer, if not beside the file or on the hub.
        calls: requests in flight at once, to a server (`api:`).
        insecure: ask a server (`api:`) of another machine over plain http, too.
        instruction: to an embedder or a reranker that reads one, in place of its default (`st:`, and forms of `api:`).
        samples: also draw so many answers of each model that writes, and count what all draws get and what changes.
        temperature: of these draws.
        frames: of each video, evenly spread; the set's number, or 8, if not given.
        seed: of the bootstrap, and of models that draw.
        strict: refuse files that hold another number of records than the benchmark as published.
        follow: a folder, or a pattern with `*` (in quotes, in a shell), of checkpoints that land there while a model
            trains; each is measured once. `{}` in a model's name stands for their paths: `open_clip:ViT-B-32-gelu@{}`.
        every: seconds between two looks for them, or a text such as 30s, 10m, 2h.
        until: stop after so many checkpoints; never if not given.
        dry_run: list all problems, count what is stored, try a few items for the time, and write nothing. See `plan`.
        ready, left_out: called with the name of each measured checkpoint, and a sentence on each unreadable one.

    Raises:
        TellapartError: a name is unknown, a file is malformed, or a model cannot do a benchmark. Nothing is
            computed before everything is found.

    >>> import tellapart as ta
    >>> run = ta.evaluate("oracle", "demo", limit=20)
    >>> run.value("group_score"), run.record("group_score").n
    (1.0, 20)
    """
    for parameter, given in (("models", models), ("benchmarks", benchmarks)):
        if (mistake := explain_argument(given, parameter)) is not None:
            raise RunError(f"evaluate: {mistake}")
    if tokenizer is not None and callable(tokenizer):
        raise RunError(
            "evaluate: tokenizer= names the folder of a tokenizer, for models in their authors' files: write "
            "evaluate(ta.model(model, preprocess=preprocess, tokenizer=tokenizer), ...)"
        )
    if samples is None:
        expect_used("evaluate", "without samples=K", temperature=(temperature, 1.0))
    elif models is None or follow is not None or as_names(names):
        raise RunError(f"samples={samples}: name the models, and neither follow= nor names=")
    else:
        models = with_samples(as_tuple(models, "models"), samples, temperature)
    place = locations(data, images, outside_images, columns)
    sets = with_probes(as_tuple(benchmarks, "benchmarks"), as_names(probe))
    refuse_columns(columns, sets)
    refuse_idle(sets, place, strict=strict)
    faults: list[str] | None = [] if dry_run else None
    settings = Settings(
        names=as_names(names), limit=as_limit(limit), items=None if items is None else as_path(items, "items"),
        tags=None if tags is None else as_path(tags, "tags"),
        benchmarks=tuple(_open_each(sets, lambda a: open_benchmark(a) if isinstance(a, str) else a, faults)),
        batch_size=batch_size, device=device, dtype=dtype, check=check, flips=flips, reading=reading, texts=texts,
        regions=None if regions is None else as_path(regions, "regions"), image_size=image_size, calls=calls,
        tokenizer=None if tokenizer is None else as_path(tokenizer, "tokenizer"), insecure=insecure, frames=frames,
        instruction=instruction, seed=seed, strict=strict, place=place,
    )  # fmt: skip
    follower = _as_follower(follow, every, until, models, settings.names)
    if models is not None and follower is None:
        opened = tuple(_open_each(as_tuple(models, "models"), partial(open_given, batched=batched), faults))
        for model in opened:
            if isinstance(model, HeldModel):
                model.expect_settings(device=device, dtype=dtype, reading=reading)
        settings = replace(settings, models=opened)
    if dry_run:
        if follower is not None or Rank.here().of > 1:
            raise RunError("dry_run=True plans models that are there, in one process; leave follow= and torchrun out")
        from tellapart.dry_run.run import plan_run

        folder = Path("a temporary folder") if out is None else as_path(out, "out")
        with keep_random_state(), reporting(progress) as report:
            planned = Run(folder)
            planned.plan = plan_run(settings, folder, store_path(cache), report and report("dry run"), faults or ())
        return planned
    with ExitStack() as stack, keep_random_state():
        folder = stack.enter_context(_run_folder(out))
        store = stack.enter_context(use_store(cache))
        report = stack.enter_context(reporting(progress))
        if follower is not None:
            names_measured = follow_checkpoints(
                follower, settings, folder, store=store, command=command, progress=report, left_out=left_out
            )
            _write_reports(names_measured, follower, folder, place.outside, ready)
            return Run(folder, scratch=out is None)
        results = run_in_ranks(settings, folder, store=store, command=command, progress=report)
    return Run(folder, scratch=out is None, leads=bool(results), results=results)


#: `evaluate`, by the name of the command.
run = evaluate


@exit_is_error
def score(
    benchmark: BenchmarkGiven | None,
    scores: ScoresGiven,
    *,
    name: str | None = None,
    kind: ScoreKind | None = None,
    out: PathGiven | None = None,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    strict: bool = False,
    progress: ProgressGiven = None,
    command: str = "",
) -> Run:
    """Measure one model's scores or predictions that were made elsewhere.

    Args:
        benchmark: a name, `folder:PATH`, a file's object, a `PairSet` or a `Benchmark`; None if `scores` maps names
            to files.
        scores: a file (`.npz`, `.npy`, `.csv`, `.jsonl`, or of a task's predictions); numbers `(item, image, text)` in
            the benchmark's order, in a list or an array; `{id: matrix}`; or `Scores`.
        name: the model's name in results; a file's name if not given.
        kind: of the scores: similarity, logit or probability.
        out: the run folder; files of further benchmarks join it under the same name.
        data, images, outside_images: as of `evaluate`.
        columns: as of `evaluate`; also `{"prediction": FIELD}`, the field of predictions, whatever its name.
        seed: of the bootstrap.
        strict: refuse files that hold another number of records than the benchmark as published.
        progress: as of `evaluate`.
        command: what the record names as the command.

    Raises:
        TellapartError: the scores do not fit their format or the benchmark.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> numbers = np.tile([[0.9, 0.1], [0.2, 0.8]], (400, 1, 1))  # float64; compared in float32
    >>> ta.score("demo", numbers, name="mine").value("text_score")
    1.0
    """
    as_names(name, "name")
    if kind is not None and kind not in get_args(ScoreKind):
        raise ScoreError(f"kind={kind}: use one of {', '.join(get_args(ScoreKind))}")
    # The field of predictions is in the file of scores; all other columns are of a table's benchmark.
    table_columns = columns and {field: column for field, column in dict(columns).items() if field != PREDICTION}
    sets = scores if benchmark is None and isinstance(scores, Mapping) else (benchmark,)
    refuse_columns(table_columns, sets)
    place = refuse_idle(sets, locations(data, images, outside_images, columns), strict=strict)
    with _run_folder(out) as folder, reporting(progress) as report:
        if benchmark is None:
            if not isinstance(scores, Mapping) or not scores:
                raise RunError("score: name a benchmark, or map the names of several to their files")
            files = {_open_known(each, place): as_path(file, "scores") for each, file in scores.items()}
        else:
            known = _open_known(benchmark, place)
            files = {known: _file_of(scores, known, place, folder, kind)}
            name = name or (None if isinstance(scores, str | Path) else "scores")
        run_scores(
            files, folder, kind=kind, name=name, seed=seed, command=command, strict=strict, place=place, progress=report
        )
    return Run(folder, scratch=out is None)


def describe_kept(folder: Path, cache: CacheGiven = None) -> str | None:
    """Describe the result of an interrupted run: records of finished benchmarks, and embeddings in a store."""
    stored = describe_stored(cache)
    runs = find_runs(folder) if (folder / RESULTS).is_file() else []
    finished = sum(len(read_result(run).benchmarks) for run in runs)
    if not finished:
        return stored
    results = f"{finished:,} finished {'result is' if finished == 1 else 'results are'} kept in {folder}"
    return f"{results}; {stored or 'of the others nothing is (--no-cache)'}"


@contextmanager
def _run_folder(out: PathGiven | None) -> Iterator[Path]:
    """Yield the run folder; without `out` a temporary one, which an error deletes unless it has results."""
    if out is not None:
        yield as_path(out, "out")
        return
    folder = Path(tempfile.mkdtemp(prefix="tellapart-")) / "run"
    try:
        yield folder
    except BaseException:
        if not (folder / RESULTS).is_file():
            shutil.rmtree(folder.parent, ignore_errors=True)
        raise


def _open_each(
    given: Iterable[_Given], open_given: Callable[[_Given], _Opened], faults: list[str] | None
) -> Iterator[_Opened]:
    """Open each name or object by a function. In a dry run, an error joins the faults, and the others are opened."""
    for argument in given:
        try:
            yield open_given(argument)
        except TellapartError as error:
            if faults is None:
                raise
            faults.append(str(error))


def open_given(model: ModelNamed, *, batched: bool | None = None) -> str | Model:
    """Return the name of a model, or the model of an object."""
    return open_model(model) if isinstance(model, str) else as_model(model, batched=batched)


def _open_known(benchmark: BenchmarkGiven, place: Locations) -> str | Benchmark:
    """Return the name under which a benchmark is found, or the benchmark of an object."""
    if isinstance(benchmark, str | Path):
        return open_benchmark(str(benchmark))
    return as_benchmark(benchmark, place)


def _file_of(
    scores: ScoresGiven, benchmark: str | Benchmark, place: Locations, folder: Path, kind: ScoreKind | None
) -> Path:
    """Return the file of scores; scores in memory are written to a file in the run folder, which the record names."""
    if isinstance(scores, str | Path):
        return as_path(scores, "scores")
    to, name = folder / "given", benchmark if isinstance(benchmark, str) else benchmark.name
    if isinstance(scores, Mapping):
        scores = Scores(tuple(scores), _to_array(list(scores.values())), kind or "similarity")
    if isinstance(scores, Scores):
        to.mkdir(parents=True, exist_ok=True)
        write_scores(scores, path := to / f"{file_name(name)}.npz")
        return path
    numbers = _to_array(scores)
    opened = find_benchmark(benchmark, place) if isinstance(benchmark, str) else benchmark
    records = opened.records_here()
    size = len(opened.outline().ids if records is None else records)
    if len(numbers) != size:
        raise ScoreError(
            f"score({name!r}, scores): give numbers (item, image, text) of its {size:,} items, in its order; "
            f"got {numbers.shape}"
        )
    to.mkdir(parents=True, exist_ok=True)
    with atomic_file(path := to / f"{file_name(name)}.npy") as draft, draft.open("wb") as file:
        np.save(file, numbers)
    return path


def _to_array(values: object) -> NDArray[np.generic]:
    """Return numbers as an array: of a list, of numpy, or of a tensor."""
    if hasattr(values, "detach"):
        values = values.detach().to("cpu").double().numpy()
    argument = f"scores={quote(values)} ({type(values).__name__}), if they name no file,"
    return as_numbers(values, argument, "(item, image, text)", kinds="fiu")


def score_vectors(
    images: VectorsGiven,
    texts: VectorsGiven,
    benchmark: PairsGiven = "demo",
    *,
    image_ids: Sequence[str] | None = None,
    text_ids: Sequence[str] | None = None,
    name: str = "vectors",
    out: PathGiven | None = None,
    limit: LimitGiven = None,
    data: PathGiven | None = None,
    seed: int = 0,
    command: str = "",
) -> Run:
    """Measure vectors that another system computed, on minimal pairs: a score is the cosine.

    Args:
        images, texts: numbers `(n, dimensions)` in an array, a list or a tensor; or a file of them: `.npz` (`ids`,
            `vectors`), `.parquet` (`id`, `vector`), `.safetensors` (`vectors`, and `ids` as JSON in its metadata), or
            `.npy`. Lengths other than one are scaled to one, and the record names them.
        benchmark: minimal pairs, as `load_pairs` takes them.
        image_ids: the reference of each row's image in the pair set (`item.images`). Without ids, here and in the
            file, rows follow the order of the items: one for each of an item's images, or one for each distinct image
            at its first place.
        text_ids: the text of each row, likewise.
        name: in results.
        out, limit, data, seed, command: as of `evaluate`.

    Raises:
        ScoreError: there are more or fewer rows than images or texts, an id is unknown or missing, a vector is not
            finite or has length zero, or dimensions differ; the message has the row.
        TellapartError: no such pairs.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> pairs = ta.load_pairs("demo")
    >>> texts = list(dict.fromkeys(text for item in pairs.items for text in item.texts))
    >>> rng = np.random.default_rng(0)
    >>> vectors = rng.normal(size=(800, 16)), rng.normal(size=(len(texts), 16))
    >>> ta.score_vectors(*vectors, pairs, text_ids=texts).record("text_score").n
    400
    """
    pairs = load_pairs(benchmark, data=data)
    named_vectors = []
    for side, values, ids in (("images", images, image_ids), ("texts", texts, text_ids)):
        vectors, file_ids = read_vectors(as_path(values, side)) if isinstance(values, str | Path) else (values, None)
        named_vectors.append(name_rows(side, vectors, file_ids if ids is None else ids, pairs.items, pairs.name))
    model = VectorModel(name, *named_vectors)
    return evaluate(model, pairs, out=out, limit=limit, seed=seed, cache=False, command=command)
