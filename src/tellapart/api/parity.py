"""Compare two implementations of a model: the function of `tellapart parity`."""

from __future__ import annotations

from dataclasses import replace

from tellapart.benchmarks.arguments import locations, refuse_idle
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.plugins import exit_is_error, open_benchmark, open_model
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.pairset import PairSet
from tellapart.errors import RunError, quote
from tellapart.evaluation.evaluate import prepare
from tellapart.evaluation.parity import Parity, compare_doors
from tellapart.models.find import find_model
from tellapart.models.memory.given import ModelGiven, as_model
from tellapart.models.memory.held import HeldModel
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.report.progress import ProgressGiven, reporting

__all__ = ["parity"]


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
    >>> def count(image, text):  # or any other object that `evaluate` takes
    ...     return float(len(text))
    >>> count.fingerprint = "count-1"
    >>> ta.parity(count, count, limit=8).flipped
    0.0
    """
    name = open_benchmark(benchmark)
    opened = find_benchmark(name, refuse_idle((name,), locations(data, images, outside_images)))
    if opened.task != "pairs":
        raise RunError(f"benchmark={quote(benchmark)} is of the task {opened.task!r}; parity compares scores of pairs")
    ready = prepare(opened, store=EmbeddingStore(None), limit=None if limit is None else str(limit))
    pairs: PairSet = ready.records
    options = ModelOptions(device=device, dtype=dtype, reading=reading, texts=texts)
    of_b = replace(options, dtype=dtype_b or dtype, reading=reading_b or reading)
    with reporting(progress) as report:
        return compare_doors(
            _open_door(a, options),
            _open_door(b, of_b),
            pairs,
            picture=None if picture is None else as_path(picture, "picture"),
            progress=None if report is None else report("parity"),
        )


def _open_door(model: str | ModelGiven, options: ModelOptions) -> Model:
    if isinstance(model, str):
        return find_model(open_model(model), options)
    wrapped = as_model(model)
    if isinstance(wrapped, HeldModel):
        wrapped.expect_settings(device=options.device, dtype=options.dtype, reading=options.reading)
    return wrapped
