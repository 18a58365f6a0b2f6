"""The sweep between the start and the trained weights (WiSE-FT), and the alpha that is Pareto-best.

A fine-tuned model is better on the tuned task and worse elsewhere; the weights between both ends often keep most of
the first and lose little of the second.

Source: Wortsman et al., Robust fine-tuning of zero-shot models (WiSE-FT), CVPR 2022, equation 1.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tellapart.data.progress import Progress
from tellapart.data.scores import join_names
from tellapart.errors import MetricError, ModelError
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.run_folder import write_text_file
from tellapart.stats.pareto import pareto_best
from tellapart.tasks.registry import headline
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.run_files import Weights


@dataclass(frozen=True, slots=True)
class Sweep:
    """A curve over alphas: each one's mean headline metric on each benchmark; 0 is the start, 1 the trained model."""

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
    store: EmbeddingStore,
    *,
    progress: Callable[[str], Progress] | None = None,
) -> Sweep:
    """Measure the weights at each alpha; keep the model of the best one."""
    curve: dict[float, tuple[float, ...]] = {}
    names: dict[float, str] = {}
    for alpha in sorted({*alphas}):
        folder = out / f"alpha-{alpha:.2f}"
        shutil.rmtree(folder / "model", ignore_errors=True)  # of a sweep that was killed
        names[alpha] = save(interpolate(*ends, alpha), folder / "model")
        used, kept = replace(settings, models=(names[alpha],)), store if alpha in (0, 1) else EmbeddingStore(None)
        run(used, folder / "report", store=kept, command="tellapart train", progress=progress)
        results = read_result(folder / "report").benchmarks
        headlines = [[result.metrics[name].value for name in headline(result.metrics)] for result in results.values()]
        curve[alpha] = tuple(sum(values) / len(values) for values in headlines)
    best = best_alpha(curve)
    for alpha in curve.keys() - {best}:
        shutil.rmtree(out / f"alpha-{alpha:.2f}" / "model")
    sweep = Sweep(tuple(results), curve, best, names[best])
    write_text_file(out / "curve.json", json.dumps(asdict(sweep), indent=1, allow_nan=False) + "\n")
    return sweep


def interpolate(before: Mapping[str, Tensor], after: Mapping[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """Return `(1 - alpha) * before + alpha * after`, tensor by tensor, in new memory.

    Computed in float64 and rounded once to the tensors' type, on the device of `before`; 0 and 1 give the ends to
    the bit. Tensors of integers or truth values (counters, positions) are not points on a line: they are copied
    from the nearer end, at 1/2 from `after`.
    """
    if not 0 <= alpha <= 1:
        raise ModelError(f"interpolate: alpha must lie between 0 (before) and 1 (after); got {alpha}")
    kinds = [{name: (tuple(tensor.shape), tensor.dtype) for name, tensor in side.items()} for side in (before, after)]
    if odd := sorted(name for name in before.keys() | after.keys() if kinds[0].get(name) != kinds[1].get(name)):
        first, second = (side.get(odd[0], "none") for side in kinds)
        raise ModelError(
            f"interpolate: {len(odd)} tensors differ, {join_names(odd)}: {odd[0]!r} is {first} before and {second} "
            "after; both ends must be one architecture (merge LoRA's matrices into the weights first)"
        )

    def mix(start: Tensor, end: Tensor) -> Tensor:
        # At an end no arithmetic: nought times infinity is not a number.
        if alpha in (0, 1) or not start.is_floating_point():
            return (start if alpha < 0.5 else end.to(start.device)).detach().clone()
        start64, end64 = start.detach().to(torch.float64), end.detach().to(start.device, torch.float64)
        return ((1 - alpha) * start64 + alpha * end64).to(start.dtype)

    return {name: mix(start, after[name]) for name, start in before.items()}


def best_alpha(curve: Mapping[float, Sequence[float]]) -> float:
    """Return the Pareto-best alpha of a sweep: of the front, the greatest mean over objectives.

    Of equally good ones the smallest is taken: it is nearest to the weights before, and forgets least. An alpha with a
    NaN among its scores was not measured and is left out.
    """
    if not curve or any(math.isnan(alpha) for alpha in curve):
        raise MetricError(f"best_alpha: a score for each of one or more alphas is needed; got {list(curve)}")
    alphas, sizes = sorted(curve), sorted({len(scores) for scores in curve.values()})
    if len(sizes) > 1:
        raise MetricError(f"best_alpha: every alpha needs a score for each objective; got {sizes[0]} and {sizes[-1]}")
    return alphas[pareto_best([curve[alpha] for alpha in alphas])]
