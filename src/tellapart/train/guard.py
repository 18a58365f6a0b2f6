"""The forgetting guard: the start and the trained model on the same benchmarks, and what changed, with paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tellapart.data.progress import Progress
from tellapart.evaluation.compare import Comparison, compare
from tellapart.evaluation.run import Settings, run
from tellapart.models.store import EmbeddingStore

__all__ = ["guard"]


def guard(
    before: str,
    after: str,
    benchmarks: Sequence[str],
    out: Path,
    *,
    device: str = "cpu",
    reading: str | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Comparison:
    """Measure both models, and compare them item by item: positive differences are gains.

    Args:
        before: the start, as `tellapart run -m` takes it.
        after: the trained model.
        benchmarks: names; compositional sets for what was learnt, retrieval and classification for what was forgotten.
        out: run folder of the trained model; the start's lies under `beside/`.
        device: `cpu`, `cuda` or `mps`.
        reading: of both models.
        progress: takes what is at work to the callable that is told of its progress.

    Raises:
        TellapartError: a benchmark or a model cannot be had, or the folder holds another run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     found = guard("constant", "oracle", ["demo"], Path(scratch))
    >>> found.a, found.b, [row.difference for row in found.rows]
    ('oracle', 'constant', [1.0, 1.0, 1.0])
    """
    settings = Settings(models=(after, before), benchmarks=tuple(benchmarks), device=device, reading=reading)
    folders = run(settings, out, store=EmbeddingStore(None), command="tellapart train", progress=progress)
    return compare(folders[0], folders[1])
