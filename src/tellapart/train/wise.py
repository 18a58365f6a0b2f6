"""The sweep between the start and the trained weights: what is kept of either, and the alpha that is Pareto-best."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tellapart.data.progress import Progress
from tellapart.evaluation.run import Settings, run
from tellapart.metrics.registry import headline
from tellapart.models.store import EmbeddingStore
from tellapart.records.result import BenchmarkResult
from tellapart.records.run_folder import read_result, write_whole
from tellapart.train.checkpoint import Weights
from tellapart.train.interpolation import best_alpha, sweep

__all__ = ["Sweep", "objective", "wise"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A curve over alphas.

    Attributes:
        benchmarks: one objective each: the mean of its headline metrics.
        curve: alpha -> objectives, in the order of the benchmarks; 0 are the start's weights, 1 the trained ones.
        best: the Pareto-best alpha. It is chosen on what is reported, so its own numbers flatter it.
        model: its name.

    >>> Sweep(("demo",), {0.0: (0.1,), 1.0: (0.4,)}, 1.0, "local-dir:model").best
    1.0
    """

    benchmarks: tuple[str, ...]
    curve: dict[float, tuple[float, ...]]
    best: float
    model: str


def wise(
    before: Weights,
    after: Weights,
    alphas: Sequence[float],
    save: Callable[[Weights, Path], str],
    benchmarks: Sequence[str],
    out: Path,
    *,
    device: str = "cpu",
    progress: Callable[[str], Progress] | None = None,
) -> Sweep:
    """Measure the weights at each alpha; keep the model of the best one.

    Args:
        before: the start's weights.
        after: the trained ones.
        alphas: from 0 to 1.
        save: writes weights as a model to a new folder and returns its name.
        benchmarks: what is measured.
        out: gets a run folder for each alpha, `curve.json`, and `model/`.
        device: `cpu`, `cuda` or `mps`.
        progress: takes what is at work to the callable that is told of its progress.

    Raises:
        TellapartError: a benchmark cannot be had, or the weights are of two architectures.

    Source: Wortsman et al., Robust fine-tuning of zero-shot models (WiSE-FT), CVPR 2022, equation 1.

    >>> wise.__name__
    'wise'
    """
    curve: dict[float, tuple[float, ...]] = {}
    names: dict[float, str] = {}
    for alpha, weights in sweep(before, after, sorted({*alphas})):
        folder = out / f"alpha-{alpha:.2f}"
        shutil.rmtree(folder / "model", ignore_errors=True)  # of a sweep that was killed
        names[alpha] = save(weights, folder / "model")
        settings = Settings(models=(names[alpha],), benchmarks=tuple(benchmarks), device=device)
        run(settings, folder / "report", store=EmbeddingStore(None), command="tellapart train", progress=progress)
        measured = read_result(folder / "report").benchmarks
        curve[alpha] = tuple(objective(measured[name]) for name in benchmarks)
    best = best_alpha(curve)
    for alpha in curve:
        if alpha != best:
            shutil.rmtree(out / f"alpha-{alpha:.2f}" / "model")
    found = Sweep(tuple(benchmarks), curve, best, names[best])
    write_whole(out / "curve.json", json.dumps(asdict(found), indent=1, allow_nan=False) + "\n")
    return found


def objective(result: BenchmarkResult) -> float:
    """Return the mean of a benchmark's headline metrics.

    >>> from tellapart.records.result import Value
    >>> def value(mean):
    ...     return Value(value=mean, method="wilson", n=4, clusters=4, average="items")
    >>> found = {"text_score": value(0.5), "image_score": value(0.25), "group_score": value(0.0), "v1": value(9.0)}
    >>> objective(BenchmarkResult(title="", fingerprint="", metrics=found, origin=""))
    0.25
    """
    names = headline(result.metrics)
    return sum(result.metrics[name].value for name in names) / len(names)
