"""Cost against the size of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.report.numbers import plain
from tellapart.report.plots.costs import BatchCosts
from tellapart.report.plots.style import COLUMN, axes_of, legend_below, look, plain_logarithm, write_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_batches"]


def draw_batches(costs: BatchCosts) -> Figure:
    """Draw a line a series, both axes logarithmic: a cost that grows with the batch's square is a line of slope two."""
    figure, axes = axes_of(COLUMN, 2.6)
    for number, (series, points) in enumerate(costs.of.items()):
        style = look(number)
        axes.plot(
            [size for size, _ in points],
            [cost for _, cost in points],
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker,
            markeredgecolor="black",
            markeredgewidth=0.5,
            label=plain(series),
        )
    sizes = sorted({size for points in costs.of.values() for size, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    write_title(figure, "cost against batch size")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    plain_logarithm(axes.yaxis)
    axes.set_xlabel("samples in a batch")
    axes.set_ylabel(costs.what)
    axes.grid()
    legend_below(figure, axes, 3)
    return figure
