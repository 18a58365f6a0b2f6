"""Check models, measure their costs, compare implementations: the functions of `tellapart check`, `time`, `parity`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tellapart.api.evaluate import ModelNamed, open_given
from tellapart.benchmarks.arguments import load_pairs, locations, refuse_idle
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.plugins import exit_is_error, open_benchmark, open_model
from tellapart.data.arguments import PathGiven, as_path, as_tuple, expect_used
from tellapart.data.pairset import PairSet
from tellapart.diagnosis.parity import Parity, compare_doors
from tellapart.errors import RunError, quote
from tellapart.evaluation.check import Gate, check_model, check_references
from tellapart.evaluation.evaluate import chosen, prepare
from tellapart.evaluation.run import distinct_names, expect_distinct
from tellapart.evaluation.timing import time_apart, time_model
from tellapart.models.find import find_model, options_beside
from tellapart.models.memory.held import HeldModel, ModelGiven
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.machine import versions
from tellapart.records.timing_record import Timing, Timings, write_timings
from tellapart.report.progress import ProgressGiven, reporting

#: The number of items on which the user's model is checked, as the option `limit` takes it.
_CHECKED = "30"


@exit_is_error
def check(
    model: ModelNamed | None = None, *, device: str = "cpu", seed: int = 0, progress: ProgressGiven = None
) -> list[Gate]:
    """Check that reference models get their known results on items of every shape, and test the user's model.

    Args:
        model: a name, an object or a function, as `evaluate` takes it.
        device, seed: of a model that is named.
        progress: as of `evaluate`.

    Raises:
        TellapartError: the model cannot be found.

    >>> import tellapart as ta
    >>> all(gate.passed for gate in ta.check())
    True
    """
    if not isinstance(model, str):
        expect_used("check", "without the name of a model", device=(device, "cpu"), seed=(seed, 0))
    subject = None if model is None else _open_model(model, ModelOptions(device=device, seed=seed))
    with reporting(progress) as report:
        gates = check_references(None if report is None else report("reference models"))
        if subject is not None:
            pairs = load_pairs("demo")
            update = None if report is None else report(subject.name)
            gates += check_model(subject, pairs.select(chosen(len(pairs), _CHECKED)), update)
    return gates


@exit_is_error
def time(
    models: str | Sequence[str],
    benchmark: str = "demo",
    *,
    out: PathGiven | None = None,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    progress: ProgressGiven = None,
    command: str = "",
    repeats: int = 50,
    warm_up: int = 5,
    batch_size: int = 32,
    device: str = "cpu",
    dtype: str = "float32",
    reading: str | None = None,
) -> Timings:
    """Measure the costs of models: latency of one pair by part, throughput, parameters, FLOPs, memory.

    Args:
        models: names.
        benchmark: whose images and texts to use.
        out: the file to write.
        data, images, outside_images, progress, command: as of `evaluate`.
        repeats: pairs whose latency is measured, one after the other.
        warm_up: pairs before them, which do not count.
        batch_size: given at once for the throughput.
        device, dtype, reading: as of `evaluate`.

    Raises:
        TellapartError: a name is unknown, or a model cannot be timed.

    >>> import tellapart as ta
    >>> timings = ta.time("demo-encoder", repeats=3, warm_up=1, batch_size=4)
    >>> timings.models[0].model.name, timings.models[0].throughput.pairs > 0
    ('demo-encoder', True)
    """
    for option, given, least in (("repeats", repeats, 1), ("warm_up", warm_up, 0), ("batch_size", batch_size, 1)):
        if given < least:
            raise RunError(f"{option} must be at least {least}; got {given}")
    place = refuse_idle((benchmark,), locations(data, images, outside_images))
    measure = partial(time_model, place=place, repeats=repeats, warm_up=warm_up, batch_size=batch_size)
    names = expect_distinct([open_model(name) for name in as_tuple(models, "models")], "models=")
    opened, options = open_benchmark(benchmark), ModelOptions(device=device, dtype=dtype, reading=reading)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    timed: list[Timing] = []
    with reporting(progress) as report:
        update = report("timing") if report else lambda *_: None
        update("models", 0, len(names))
        for name in names:
            timed.append(time_apart(name, partial(measure, name, opened, options_beside(name, names, options))))
            update("models", len(timed), len(names))
    labels = distinct_names([timing.model.name for timing in timed], names)
    rows = tuple(
        timing.model_copy(update={"model": timing.model.model_copy(update={"name": label})})
        for timing, label in zip(timed, labels, strict=True)
    )
    timings = Timings(started=started, command=command, versions=versions(), models=rows)
    if out is not None:
        write_timings(as_path(out, "out"), timings)
    return timings


@exit_is_error
def parity(
    a: str | ModelGiven,
    b: str | ModelGiven,
    benchmark: str = "demo",
    *,
    limit: int | str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    dtype_b: str | None = None,
    reading: str | None = None,
    reading_b: str | None = None,
    texts: str = "raw",
    picture: PathGiven | None = None,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    progress: ProgressGiven = None,
) -> Parity:
    """Compare two implementations of the same weights: tokens, pixels, vectors, scores and outcomes, in this order.

    Args:
        a, b: names of two models, or objects as `tellapart.model` and `evaluate` take them, that should give the same
            numbers.
        benchmark: a set of pairs.
        limit: a number or a share of its items; all if None.
        device: of models that are named.
        dtype: likewise; `dtype_b` of the second one, if it is another.
        reading: likewise: which of their readings is scored (`itc`, `itm`, ...); `reading_b` of the second one, if it
            is another, such as `embeddings` of a server.
        texts: likewise: `library` for captions as the libraries' tokenizers have them.
        picture: a PNG file to write: the image whose pixels differ the most as A and B read it, and the difference.
        data, images, outside_images, progress: as of `evaluate`.

    Raises:
        RunError: the benchmark is not of pairs, or the models put out scores of different kinds.
        TellapartError: a name is unknown, a file is missing, or a model fails.

    >>> import tellapart as ta
    >>> same = ta.parity("demo-encoder", "demo-encoder", limit=8)
    >>> same.first is None, same.flipped
    (True, 0.0)
    """
    name = open_benchmark(benchmark)
    opened = find_benchmark(name, refuse_idle((name,), locations(data, images, outside_images)))
    if opened.task != "pairs":
        raise RunError(f"benchmark={quote(benchmark)} is of the task {opened.task!r}; parity compares scores of pairs")
    ready = prepare(opened, store=EmbeddingStore(None), limit=None if limit is None else str(limit))
    pairs: PairSet = ready.records
    options = ModelOptions(device=device, dtype=dtype, reading=reading, texts=texts)
    options_b = replace(options, dtype=dtype_b or dtype, reading=reading_b or reading)
    with reporting(progress) as report:
        return compare_doors(
            _open_model(a, options),
            _open_model(b, options_b),
            pairs,
            picture=None if picture is None else as_path(picture, "picture"),
            progress=None if report is None else report("parity"),
        )


def _open_model(model: ModelNamed, options: ModelOptions) -> Model:
    """Open a named model with the options; refuse options that contradict a model in memory."""
    opened = open_given(model)
    if isinstance(opened, HeldModel):
        opened.expect_settings(device=options.device, dtype=options.dtype, reading=options.reading)
    return find_model(opened, options) if isinstance(opened, str) else opened
