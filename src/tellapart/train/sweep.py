"""The sweep between the start and the trained weights: what is kept of either, and the alpha that is Pareto-best."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tellapart.data.progress import Progress
from tellapart.evaluation.run import Settings, run
from tellapart.models.store import EmbeddingStore
from tellapart.records.result import BenchmarkResult
from tellapart.records.run_folder import read_result, write_text_file
from tellapart.tasks.registry import headline
from tellapart.train.checkpoint import Weights
from tellapart.train.interpolation import best_alpha, interpolate

__all__ = ["Sweep", "run_sweep"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A curve over alphas.

    Attributes:
        benchmarks: one objective each: the mean of its headline metrics.
        curve: alpha -> objectives, in the order of the benchmarks; 0 are the start's weights, 1 the trained ones.
        best: the Pareto-best alpha. It is chosen on what is reported, so its own numbers flatter it.
        model: its name.
    """

    benchmarks: tuple[str, ...]
    curve: dict[float, tuple[float, ...]]
    best: float
    model: str


def run_sweep(
    ends: tuple[Weights, Weights],
    alphas: Sequence[float],
    save: Callable[[Weights, Path], str],
    settings: Settings,
    out: Path,
    progress: Callable[[str], Progress] | None = None,
) -> Sweep:
    """Measure the weights at each alpha; keep the model of the best one.

    Args:
        ends: the start's weights, and the trained ones.
        alphas: from 0 to 1.
        save: writes weights as a model to a new folder and returns its name.
        settings: benchmarks and device; the models are those of the sweep.
        out: gets a run folder for each alpha, `curve.json`, and `model/`.
        progress: takes a title to the callable that gets the progress of what it names.

    Raises:
        TellapartError: a benchmark is not available, or the weights are of two architectures.

    Source: Wortsman et al., Robust fine-tuning of zero-shot models (WiSE-FT), CVPR 2022, equation 1.
    """
    curve: dict[float, tuple[float, ...]] = {}
    names: dict[float, str] = {}
    for alpha in sorted({*alphas}):
        folder = out / f"alpha-{alpha:.2f}"
        shutil.rmtree(folder / "model", ignore_errors=True)  # of a sweep that was killed
        names[alpha] = save(interpolate(*ends, alpha), folder / "model")
        run(
            replace(settings, models=(names[alpha],)),
            folder / "report",
            store=EmbeddingStore(None),
            command="tellapart train",
            progress=progress,
        )
        results = read_result(folder / "report").benchmarks
        curve[alpha] = tuple(map(_objective, results.values()))
    best = best_alpha(curve)
    for alpha in curve:
        if alpha != best:
            shutil.rmtree(out / f"alpha-{alpha:.2f}" / "model")
    sweep = Sweep(tuple(results), curve, best, names[best])
    write_text_file(out / "curve.json", json.dumps(asdict(sweep), indent=1, allow_nan=False) + "\n")
    return sweep


def _objective(result: BenchmarkResult) -> float:
    """Return the mean of a benchmark's headline metrics."""
    names = headline(result.metrics)
    return sum(result.metrics[name].value for name in names) / len(names)
