"""The generalisation gap: a model's score in the domain it was trained on, less its score outside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS, is_ranked, names
from tellapart.data.arguments import PathGiven
from tellapart.data.scores import join_names
from tellapart.errors import MetricError, RunError
from tellapart.evaluation.systems import label_runs
from tellapart.evaluation.verified import read_result
from tellapart.records.result import BenchmarkResult
from tellapart.records.run_folder import find_runs
from tellapart.records.zipped import run_folders


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Pearson's correlation over models, -1 to 1; None if one of the two does not vary.

    Source: VLUE section 5 (over its models, in-domain against out-of-domain).
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or len(a) < 2:
        raise MetricError(f"pearson needs two numbers for each of two or more models; got shapes {a.shape}, {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise MetricError("pearson: a number is not finite; leave out models that were not measured on both")
    if a.min() == a.max() or b.min() == b.max():
        return None
    # Scaled before they are squared, so that neither tiny nor huge spreads are lost; sums are exact in any order.
    a, b = ((v - fsum(v) / len(v)) for v in (a, b))
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return max(-1.0, min(1.0, fsum(a * b) / sqrt(fsum(a * a) * fsum(b * b))))


#: Fewer models give no correlation: that of two is 1 or -1 whatever was measured.
FEWEST_CORRELATED = 4

#: The metric in domain, and the one out of it; VLUE measures VQA by another rule in each.
_PAIRED = (
    *((name, name) for name in ("i2t_recall@1", "t2i_recall@1", "accuracy", "box_accuracy", "bleu_4", "cider")),
    ("soft_accuracy", "exact_match"),
)


class Gap(BaseModel, frozen=True):
    """One model's loss in one task.

    Attributes:
        task: `IN-DOMAIN BENCHMARK: metric`.
        in_domain, out_of_domain: the values.
        in_domain_items, out_of_domain_items: how many items each counts; after a limit, how many records it left.
        in_domain_limited_from, out_of_domain_limited_from: the benchmark's full number of items if a limit cut it.
        gap: the first less the second; positive if the model loses.
        low, high: its interval, the two benchmarks being independent; None if one of the values has no interval.
        reason: why that value has none.
    """

    model: str
    task: str
    in_domain: float
    out_of_domain: float
    gap: float
    low: float | None
    high: float | None
    reason: str | None = None
    in_domain_items: int = 0
    out_of_domain_items: int = 0
    in_domain_limited_from: int | None = None
    out_of_domain_limited_from: int | None = None


class Gaps(BaseModel, frozen=True):
    """Every model's gaps, and how the two orders of models agree.

    Attributes:
        rows: one for each model and task.
        correlation: task -> Pearson's correlation over models of the in-domain and the out-of-domain score; None if
            one of the two does not vary, or fewer than four models measured both.
        models: task -> how many models measured both.
    """

    rows: tuple[Gap, ...]
    correlation: dict[str, float | None]
    models: dict[str, int]


def gap(runs: Sequence[PathGiven]) -> Gaps:
    """Return the models' losses out of domain: every task that a run measured on both sides, and the correlation.

    Runs of one model are put together: of one name, and, if they were computed here, of the same weights and settings.

    Source: VLUE section 5.2 (Table 2 and the correlation over models).

    >>> import json
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> records = [{"sentence": "Two dogs.", "images": ["a.png", "b.png"], "label": "True"}] * 4
    >>> for file, right in (("nlvr2_test.json", 3), ("nlvr2_vlue_test.json", 2)):
    ...     predictions = [{"id": k, "prediction": k < right} for k in range(4)]
    ...     _ = (folder / file).write_text(json.dumps(records))
    ...     _ = (folder / f"mine_{file}").write_text(json.dumps(predictions))
    >>> files = {"nlvr2": folder / "mine_nlvr2_test.json", "vlue-nlvr2": folder / "mine_nlvr2_vlue_test.json"}
    >>> row = ta.gap([ta.score(None, files, name="mine", data=folder)]).rows[0]
    >>> row.task, row.in_domain, row.out_of_domain, row.gap
    ('nlvr2: accuracy', 0.75, 0.5, 0.25)
    """
    models: dict[tuple[str, ...], tuple[str, dict[str, BenchmarkResult]]] = {}
    with run_folders(runs, "runs") as folders:
        results = [read_result(run) for folder in folders for run in find_runs(folder)]
    # Reference models and draws of answers are left out, unless there is nothing else: several runs hold the same ones.
    for result in [other for other in results if is_ranked(other.model.name)] or results:
        name, records = models.setdefault(result.model.system, (result.model.name, {}))
        if twice := [benchmark for benchmark in result.benchmarks if benchmark in records]:
            raise RunError(f"{name} measured {twice[0]} in two of these runs; name one of them")
        records.update(result.benchmarks)
    # Score files belong to the only computed model of their name, unless that model measured the same benchmark.
    for system, (name, records) in [*models.items()]:
        computed = [other for key, (called, other) in models.items() if called == name and key[1]]
        if not system[1] and len(computed) == 1 and not records.keys() & computed[0].keys():
            computed[0].update(models.pop(system)[1])
    systems = [*models.values()]
    labels = label_runs([name for name, _ in systems])
    rows = [row for label, (_, records) in zip(labels, systems, strict=True) for row in _make_rows(label, records)]
    if not rows:
        pairs = "; ".join(f"{other.name} and {other.rival}" for other in _in_domain())
        alike = [label for label, (name, _) in zip(labels, systems, strict=True) if label != name]
        hint = f"; {join_names(alike)} differ in weights, precision, reading or prompt" if alike else ""
        raise RunError(f"no model measured a task in domain and out of it; the pairs are {pairs}{hint}")
    sides: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        sides.setdefault(row.task, []).append((row.in_domain, row.out_of_domain))
    correlation = {
        task: pearson(*zip(*points, strict=True)) if len(points) >= FEWEST_CORRELATED else None
        for task, points in sides.items()
    }
    return Gaps(rows=tuple(rows), correlation=correlation, models={task: len(points) for task, points in sides.items()})


def _in_domain() -> list[Benchmark]:
    benchmarks = []
    for name in names("benchmark"):
        try:
            benchmark = find_benchmark(name)
        except Exception:  # another package's, and broken; `tellapart ls benchmarks` shows why
            if name in BENCHMARKS:
                raise
            continue
        if benchmark.domain == "in-domain" and benchmark.rival:
            benchmarks.append(benchmark)
    return benchmarks


def _make_rows(model: str, benchmarks: dict[str, BenchmarkResult]) -> Iterator[Gap]:
    for benchmark in _in_domain():
        inside, outside = benchmarks.get(benchmark.name), benchmarks.get(benchmark.rival)
        if inside is None or outside is None:
            continue
        for metric, rival in _PAIRED:
            if metric in inside.metrics and rival in outside.metrics:
                values = inside.metrics[metric], outside.metrics[rival]
                lacking = next((value for value in values if value.low is None or value.high is None), None)
                low = high = None
                if lacking is None:
                    sides = (np.array([value.value, value.low, value.high], np.float64) for value in values)
                    low, high = map(float, difference_bounds(*sides))
                yield Gap(
                    model=model,
                    task=f"{benchmark.name}: {metric}",
                    in_domain=values[0].value,
                    out_of_domain=values[1].value,
                    gap=values[0].value - values[1].value,
                    low=low,
                    high=high,
                    reason=None if lacking is None else lacking.reason,
                    in_domain_items=inside.limited_to or values[0].n,
                    out_of_domain_items=outside.limited_to or values[1].n,
                    in_domain_limited_from=inside.limited_from,
                    out_of_domain_limited_from=outside.limited_from,
                )


def difference_bounds(
    inside: Sequence[NDArray[np.float64]] | NDArray[np.float64],
    outside: Sequence[NDArray[np.float64]] | NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of a difference of two independent values, each given as value, low and high end.

    Source: Newcombe (1998), Stat. Med. 17, 873-890; Zou and Donner (2008), Stat. Med. 27, 1693-1702.
    """
    value = inside[0] - outside[0]
    below = np.sqrt((inside[0] - inside[1]) ** 2 + (outside[2] - outside[0]) ** 2)
    return value - below, value + np.sqrt((inside[2] - inside[0]) ** 2 + (outside[0] - outside[1]) ** 2)
