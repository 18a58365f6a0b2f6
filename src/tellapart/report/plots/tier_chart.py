"""A ranking as a chart: points with intervals, and bands of models that the items do not distinguish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System
from tellapart.report.measured import outcomes_of, pick_benchmark, ranking_metrics, value_of
from tellapart.report.plots.bars import title_of
from tellapart.report.plots.style import COLUMN, GREY, PAGE, axes_of, fold, look, write_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Of a name in a line, if the picture is a column wide; longer names have two lines, or a page.
_LETTERS = 20


def draw_tiers(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, *, seed: int = 0
) -> Figure:
    """Draw models from best to worst; a band of grey or white is a tier.

    No member of a tier differs from its best, and all models of later tiers do.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    metric = metric or ranking_metrics({benchmark: measured})[benchmark]
    values = {run.label: value_of(run, benchmark, metric) for run in measured}
    outcomes = outcomes_of(measured, benchmark, metric)
    narrow = max(fold(name, _LETTERS).count("\n") for name in values) < 2
    labels = {name: fold(name, _LETTERS if narrow else 2 * _LETTERS) for name in values}
    height = max(0.28, 0.14 * max(name.count("\n") + 1 for name in labels.values()))
    figure, axes = axes_of(COLUMN if narrow else PAGE, 0.9 + height * len(measured))
    row = 0
    names: list[str] = []
    for band, tier in enumerate(rank_outcomes(outcomes.of, outcomes.clusters, seed=seed)):
        if band % 2 == 0:
            axes.axhspan(row - 0.5, row + len(tier.names) - 0.5, color="#ececec", zorder=0, linewidth=0)
        for number, name in enumerate(tier.names):
            value = values[name]
            if value.low is not None and value.high is not None:
                axes.plot([100 * value.low, 100 * value.high], [row, row], color="black", linewidth=1.2)
            axes.plot(
                100 * value.value, row, marker=look(band).marker, color=look(band).colour, markeredgecolor="black"
            )
            if number == 0:
                axes.text(1.01, row, f"rank {tier.rank}", transform=axes.get_yaxis_transform(), va="center")
            names.append(name)
            row += 1
    chance = values[measured[0].label].chance
    if chance is not None:
        axes.axvline(100 * chance, color=GREY, linestyle="--", linewidth=1.2)
        axes.text(100 * chance, -0.55, " chance", color=GREY, va="bottom")
    axes.set_yticks(range(len(names)), [labels[name] for name in names], linespacing=0.9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"{metric.replace('_', ' ')}, percent")
    axes.grid(axis="x")
    write_title(figure, title_of(measured, benchmark))
    return figure
