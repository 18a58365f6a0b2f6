"""Do benchmarks agree? The models that several were measured on, and how alike those rank them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tellapart.data.arguments import PathGiven
from tellapart.errors import RunError
from tellapart.evaluation.systems import omit_references
from tellapart.records.result import IDS_ONLY, IMPORTED
from tellapart.records.zipped import run_folders
from tellapart.report.measured import gather
from tellapart.report.numbers import is_deviation, items_text
from tellapart.report.plots.style import PAGE, draw_shades, fold, make_panels, write_title
from tellapart.stats.benchmark_agreement import agree, items_to_tell_apart
from tellapart.tasks.registry import headline, main_metric, read_bounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Fewer models give no correlation worth a number.
FEWEST_MODELS = 5


class Measured(NamedTuple):
    """One model's number on one benchmark, of `n` items (0 if unknown); higher is better."""

    value: float
    n: int = 0
    metric: str = ""


@dataclass(frozen=True, slots=True)
class AgreeingBenchmark:
    """One benchmark's ranking of models, compared with the others.

    Attributes:
        n: items; 0 if unknown.
        mean: of its rank correlations with the other benchmarks.
        nearest: the benchmark that ranks models most like it.
        items_needed: so many of its items would rank these models with a reliability of 0.9; None if unknown.
    """

    name: str
    metric: str
    n: int
    mean: float
    nearest: str
    nearest_correlation: float
    items_needed: float | None


@dataclass(frozen=True, slots=True)
class Agreeing:
    """How alike benchmarks rank the models that all of them were measured on.

    Attributes:
        benchmarks: in the order of the clustering, neighbours alike.
        correlations: Spearman's, rows and columns in that order.
        shares: of the variance of ranks that each principal component holds.
        dimensions: components above those of shuffled tables.
        left_out: benchmarks that too few of these models were measured on, or on which all are equal.
    """

    models: int
    benchmarks: tuple[AgreeingBenchmark, ...]
    correlations: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]
    dimensions: int
    left_out: tuple[str, ...]


def find_agreement(table: Mapping[str, Mapping[str, Measured]]) -> Agreeing:
    """Compare benchmarks over the models that all of them were measured on."""
    benchmarks, models = _find_complete(table)
    values = np.array([[table[model][name].value for name in benchmarks] for model in models])
    if len(benchmarks) < 2 or len(models) < FEWEST_MODELS:
        raise RunError(
            f"no two benchmarks share {FEWEST_MODELS} models; agreement needs {FEWEST_MODELS} models or more that were "
            "measured on the same benchmarks: name more runs"
        )
    agreement = agree(values)

    def make_row(k: int) -> AgreeingBenchmark:
        name, column, nearest = benchmarks[k], values[:, k], agreement.nearest(k)
        size = max(table[model][name].n for model in models)
        needed = items_to_tell_apart(column, size) if size and column.min() >= 0 and column.max() <= 1 else None
        metric, correlation = table[models[0]][name].metric, float(agreement.spearman[k, nearest])
        return AgreeingBenchmark(name, metric, size, agreement.mean(k), benchmarks[nearest], correlation, needed)

    return Agreeing(
        models=len(models),
        benchmarks=tuple(map(make_row, agreement.order)),
        correlations=tuple(map(tuple, agreement.spearman[np.ix_(agreement.order, agreement.order)].tolist())),
        shares=tuple(map(float, agreement.shares)),
        dimensions=agreement.dimensions,
        left_out=tuple(sorted({name for row in table.values() for name in row} - set(benchmarks))),
    )


def _find_complete(table: Mapping[str, Mapping[str, Measured]]) -> tuple[list[str], list[str]]:
    """Return benchmarks and models of the largest table without gaps; benchmarks of most models come first."""

    def differing(names: Iterable[str], models: Iterable[str]) -> list[str]:
        """Return the benchmarks on which these models have more than one value."""
        rows = [table[model] for model in models]
        return [name for name in names if len({row[name].value for row in rows if name in row}) > 1]

    counts = Counter(name for row in table.values() for name in row)
    names = sorted(differing(counts, table), key=lambda name: -counts[name])
    tables: list[tuple[list[str], list[str]]] = [([], [])]
    for k in range(2, len(names) + 1):
        models = [model for model, row in table.items() if row.keys() >= set(names[:k])]
        if len(models) >= FEWEST_MODELS:
            tables.append((differing(names[:k], models), models))
    return max(tables, key=lambda of: len(of[0]) * len(of[1]))


#: With more benchmarks than this, cells have no room for their numbers.
_MOST_NUMBERED = 24


def agreement(
    runs: PathGiven | Sequence[PathGiven], *, benchmarks: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> Agreeing:
    """Return how alike benchmarks rank the models that all of them were measured on.

    Args:
        runs: run folders, or TOML files of imported numbers.
        benchmarks: which; all if none.
        labels: a model's name -> what to call it.

    Raises:
        TellapartError: a folder is not a run, or there are not two benchmarks with five models in common.
    """
    from tellapart.benchmarks.find import set_name

    benchmarks = [*map(set_name, benchmarks)]
    with run_folders(runs, "runs") as folders:
        table = _read_numbers(folders, labels or {}, benchmarks)
    measured = {name for row in table.values() for name in row}
    if unknown := [name for name in benchmarks if name not in measured]:
        listed = ", ".join(sorted(measured)) or "nothing"
        raise RunError(f"agree: no run measured {unknown[0]!r}; these have {listed}")
    wanted = set(benchmarks) or measured
    chosen = {model: {name: of for name, of in row.items() if name in wanted} for model, row in table.items()}
    return find_agreement(chosen)


def _read_numbers(
    paths: Sequence[Path], labels: Mapping[str, str], benchmarks: Sequence[str] = ()
) -> dict[str, dict[str, Measured]]:
    """Read the number of each model by the metric that ranks each benchmark, of runs and imported numbers (`.toml`).

    It is of the metrics that most models have; a model without it is left out. The content of these `benchmarks`, of
    all if none are named, has to be the same in all runs.
    """
    table: dict[str, dict[str, Mapping[str, Measured]]] = {}  # model -> benchmark -> metric

    def add(model: str, benchmark: str, numbers: Mapping[str, Measured]) -> None:
        if numbers:
            table.setdefault(model, {})[benchmark] = numbers

    for imported in (read_bounded(path) for path in paths if path.suffix == ".toml"):
        for model in (model for model in imported.models if model.kind == "model"):
            for name, scores in model.scores.items():
                size = imported.items.get(name, 0)
                add(model.name, name, {metric: Measured(score, size, metric) for metric, score in scores.items()})
    folders = [path for path in paths if path.suffix != ".toml"]
    contents: dict[str, str] = {}
    for system in omit_references(gather(folders, labels)) if folders else ():
        for name, record in system.result.benchmarks.items():
            asked = not benchmarks or name in benchmarks
            if record.limited_from is None:  # else a part of the items
                known = not record.fingerprint.startswith((IDS_ONLY, IMPORTED))
                if asked and known and contents.setdefault(name, record.fingerprint) != record.fingerprint:
                    raise RunError(f"agree: {name} has other content in {system.place} than in a run before it")
                shares = {metric: of for metric, of in record.metrics.items() if not is_deviation(of)}
                add(system.label, name, {metric: Measured(of.value, of.n, metric) for metric, of in shares.items()})
            elif asked:
                raise RunError(
                    f"agree: {system.place} measured {items_text(record)} of {name}; agreement takes all of a set's "
                    "items: measure it without limit=, or name the other sets with benchmarks="
                )
    models_of: dict[str, Counter[str]] = {}  # benchmark -> metric -> how many models have it
    for row in table.values():
        for name, numbers in row.items():
            models_of.setdefault(name, Counter()).update([*numbers])
    main = {}
    for name, counts in models_of.items():
        metrics = sorted(metric for metric, models in counts.items() if models == max(counts.values()))
        main[name] = main_metric(headline(metrics) or metrics)
    return {
        model: {name: numbers[main[name]] for name, numbers in row.items() if main[name] in numbers}
        for model, row in table.items()
    }


def draw_agreement(paths: Sequence[Path], benchmarks: Sequence[str], labels: Mapping[str, str] | None) -> Figure:
    """Draw rank correlations of benchmarks, neighbours alike: purple agrees, orange disagrees."""
    found = agreement(paths, benchmarks=benchmarks, labels=labels)
    size, matrix = len(found.benchmarks), np.array(found.correlations)
    names = [fold(benchmark.name, 28) for benchmark in found.benchmarks]
    figure, (axes,) = make_panels(PAGE, min(9.0, 1.9 + 0.19 * size))
    numbered = size <= _MOST_NUMBERED
    texts = [[f"{100 * value:.0f}" for value in row] for row in found.correlations] if numbered else []
    scale: dict[str, Any] = {"boundaries": np.linspace(-1, 1, 101), "ticks": [-1, -0.5, 0, 0.5, 1]}
    draw_shades(axes, matrix, texts, (names, names), colours="PuOr", limits=(-1.4, 1.4), letters=6, **scale)
    axes.tick_params(labelsize=7 if size <= 40 else 5)
    first = ", ".join(f"{100 * share:.0f}" for share in found.shares[:3])
    axes.set_xlabel(
        f"Spearman's correlation over {found.models} models ({'times 100' if numbered else 'shade'}); principal "
        f"components of ranks: {first} % of the variance, {found.dimensions} above shuffled tables",
        fontsize=7,
        wrap=True,
    )
    write_title(figure, f"Do {size} benchmarks rank {found.models} models alike?")
    return figure
