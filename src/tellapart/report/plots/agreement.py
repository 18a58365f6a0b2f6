"""A heat map of how alike benchmarks rank models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tellapart.data.arguments import PathGiven
from tellapart.errors import RunError
from tellapart.evaluation.systems import leave_references
from tellapart.records.imported import read_imported
from tellapart.records.result import BenchmarkResult
from tellapart.records.zipped import run_folders
from tellapart.report.benchmark_agreement import Agreeing, Measured, find_agreement
from tellapart.report.measured import gather
from tellapart.report.numbers import is_deviation
from tellapart.report.plots.style import PAGE, axes_of, fold, write_title
from tellapart.tasks.registry import headline, main_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: With more benchmarks than this, cells have no room for their numbers.
_MOST_NUMBERS = 24


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
    with run_folders(runs, "runs") as folders:
        table = _read_numbers(folders, labels or {})
    measured = {name for row in table.values() for name in row}
    if unknown := [name for name in benchmarks if name not in measured]:
        listed = ", ".join(sorted(measured)) or "nothing"
        raise RunError(f"agree: no run measured {unknown[0]!r}; these have {listed}")
    wanted = set(benchmarks) or measured
    return find_agreement(
        {model: {name: number for name, number in row.items() if name in wanted} for model, row in table.items()}
    )


def _read_numbers(paths: Sequence[Path], labels: Mapping[str, str]) -> dict[str, dict[str, Measured]]:
    """Read the number of each model that ranks it on each benchmark, of runs and of imported numbers (`.toml`)."""
    table: dict[str, dict[str, Measured]] = {}
    for path in (path for path in paths if path.suffix == ".toml"):
        imported = read_imported(path)
        for model in imported.models:
            if model.kind == "model":
                row = table.setdefault(model.name, {})
                row |= {
                    name: Measured(scores[main], imported.items.get(name, 0), main)
                    for name, scores in model.scores.items()
                    if (main := main_metric(headline(scores) or sorted(scores)))
                }
    if folders := [path for path in paths if path.suffix != ".toml"]:
        for system in leave_references(gather(folders, labels)):
            row = table.setdefault(system.label, {})
            row |= {
                name: number for name, record in system.result.benchmarks.items() if (number := _ranking_number(record))
            }
    return table


def _ranking_number(record: BenchmarkResult) -> Measured | None:
    """Return the number that ranks a record's benchmark; None for a part of the items, or if no share does."""
    shares = {name: value for name, value in record.metrics.items() if not is_deviation(value)}
    main = main_metric(headline(shares) or sorted(shares))
    if not main or record.limited_from is not None:
        return None
    return Measured(shares[main].value, shares[main].n, main)


def draw_agreement(agreement: Agreeing) -> Figure:
    """Draw rank correlations of benchmarks, neighbours alike: purple agrees, orange disagrees."""
    names = [benchmark.name for benchmark in agreement.benchmarks]
    size = len(names)
    labels = [fold(name, 28) for name in names]
    figure, axes = axes_of(PAGE, min(9.0, 1.9 + 0.19 * size))
    matrix = np.array(agreement.correlations)
    image = axes.imshow(matrix, cmap="PuOr", vmin=-1.4, vmax=1.4, aspect="auto")
    axes.set_yticks(range(size), labels)
    axes.set_xticks(range(size), labels, rotation=90)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=7 if size <= 40 else 5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if size <= _MOST_NUMBERS:
        for (down, across), value in np.ndenumerate(matrix):
            axes.text(across, down, f"{100 * value:.0f}", ha="center", va="center", size=6)
    else:
        figure.colorbar(image, ax=axes, boundaries=np.linspace(-1, 1, 101), ticks=[-1, -0.5, 0, 0.5, 1])
    first = ", ".join(f"{100 * share:.0f}" for share in agreement.shares[:3])
    unit = "times 100" if size <= _MOST_NUMBERS else "shade"
    axes.set_xlabel(
        f"Spearman's correlation over {agreement.models} models ({unit}); principal components of ranks: {first} % of "
        f"the variance, {agreement.dimensions} above shuffled tables",
        fontsize=7,
        wrap=True,
    )
    write_title(figure, f"Do {size} benchmarks rank {agreement.models} models alike?")
    return figure
