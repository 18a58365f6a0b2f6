"""One item as a matrix: its images, its captions, and each model's score of every pair of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import find_pairs
from tellapart.benchmarks.place import Place
from tellapart.data.images import decode
from tellapart.errors import DataError, RunError, TellapartError, require
from tellapart.metrics.registry import headline
from tellapart.report.items import true_pairs
from tellapart.report.measured import Measured, pick_benchmark, samples_of
from tellapart.report.numbers import plain
from tellapart.result import RunRecord, Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_matrix"]


def draw_matrix(runs: Sequence[Measured], item: str, benchmark: str | None = None) -> Figure:
    """Draw an item: images across, captions down, a score in every cell, a block a model; true pairs are framed.

    The darker the cell, the higher the score within the item; a model's verdicts stand above its block.

    Args:
        runs: models with scores of that item.
        item: its id.
        benchmark: which; the one there is if not given.

    Raises:
        RunError: no such item, a task's item without a matrix, or a run that another tool measured.

    Source: Wang et al. 2023 (EqBen), Figures 1 and 5.

    >>> draw_matrix([], "0")
    Traceback (most recent call last):
    tellapart.errors.RunError: no run measured 'anything'; they hold nothing
    """
    benchmark, own = pick_benchmark(runs, benchmark)
    found = [_sample(run, benchmark, item) for run in own]
    images, texts = len(found[0].scores), len(found[0].scores[0])
    pictures = _pictures(own[0].result.run, benchmark, found[0])
    require("matplotlib", extra="plot")
    from matplotlib.figure import Figure

    side = 1.15
    figure = Figure(figsize=(2.0 + len(own) * (side * images + 0.25), 0.75 + side + 0.62 * texts))
    grid = figure.add_gridspec(
        2, 1 + len(own), width_ratios=[1.75, *[side * images] * len(own)], height_ratios=[side, 0.62 * texts]
    )
    _captions(figure.add_subplot(grid[1, 0]), found[0], texts)
    for block, (run, sample) in enumerate(zip(own, found, strict=True), start=1):
        inner = grid[0, block].subgridspec(1, images, wspace=0.04)
        for number in range(images):
            _picture(figure.add_subplot(inner[0, number]), number, pictures[number])
        _cells(figure.add_subplot(grid[1, block]), sample, run.label)
    figure.suptitle(f"{plain(benchmark)}, item {plain(item)}", x=0.01, ha="left", size=9)
    return figure


def _sample(run: Measured, benchmark: str, item: str) -> Sample:
    found = [sample for sample in samples_of(run, benchmark) if sample.id == item]
    if not found:
        raise RunError(f"{run.folder}: {benchmark} has no item {item!r}; ids stand in samples/{benchmark}.jsonl")
    if not found[0].scores:
        raise RunError(f"{run.folder}: item {item!r} of {benchmark} is a task's, without scores of images and texts")
    return found[0]


def _pictures(run: RunRecord, benchmark: str, sample: Sample) -> list[NDArray[np.uint8] | None]:
    """Read the item's images where the run found them; None for one that is not there any more."""
    folders = (None if folder is None else Path(folder) for folder in (run.data, run.images))
    place = Place(*(folder if folder is not None and folder.is_dir() else None for folder in folders))
    read: Callable[[str], bytes] | None = None
    try:
        pairs = find_pairs(benchmark, place).pairs_here()
        read = None if pairs is None else pairs.read_bytes
    except TellapartError:  # a folder that has moved since
        read = None
    references = sample.images or ("",) * len(sample.scores)
    return [_pixels(read, reference) for reference in references]


def _pixels(read: Callable[[str], bytes] | None, reference: str) -> NDArray[np.uint8] | None:
    if read is None or not reference:
        return None
    try:
        return decode(read(reference), reference)
    except (DataError, OSError):
        return None


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _picture(axes: Axes, number: int, pixels: NDArray[np.uint8] | None) -> None:
    _bare(axes)
    axes.set_title(f"image {number}", loc="center", size=7, pad=2)
    if pixels is None:
        axes.text(0.5, 0.5, "not here", ha="center", va="center", transform=axes.transAxes, color="#595959")
    else:
        axes.imshow(pixels)


def _captions(axes: Axes, sample: Sample, texts: int) -> None:
    _bare(axes)
    axes.set_ylim(texts, 0)
    captions = sample.texts or tuple(f"caption {number}" for number in range(texts))
    for row, caption in enumerate(captions):
        shown = textwrap.fill(plain(caption), 28, max_lines=4, placeholder=" …")
        axes.text(1.0, row + 0.5, shown, ha="right", va="center", transform=axes.get_yaxis_transform(), size=7)


def _cells(axes: Axes, sample: Sample, label: str) -> None:
    from matplotlib.patches import Rectangle

    values = np.array(sample.scores, dtype=np.float32).T  # (text, image): captions go down
    _bare(axes)
    spread: Any = np.ptp(values) or 1.0
    shade = (values - values.min()) / spread
    axes.imshow(shade, cmap="Greys", vmin=-0.05, vmax=1.6, aspect="auto")
    true = {(text, image) for image, text in true_pairs((values.shape[1], values.shape[0]))}
    for (row, column), value in np.ndenumerate(values):
        framed = (row, column) in true
        weight = "bold" if framed else "normal"
        axes.text(column, row, f"{value:.4g}", ha="center", va="center", weight=weight)
        if framed:
            axes.add_patch(
                Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, fill=False, linewidth=1.8, edgecolor="black")
            )
    axes.set_xlabel(f"{textwrap.fill(label, 26)}\n{_verdicts(sample)}", size=7)


def _verdicts(sample: Sample) -> str:
    names = headline(sample.outcomes)
    if not names:
        names = tuple(name for name in sample.outcomes if name in {"choice_score", "pairwise"})
    return ", ".join(f"{name.removesuffix('_score')} {_verdict(sample, name)}" for name in names)


def _verdict(sample: Sample, metric: str) -> str:
    return "right" if sample.outcomes[metric] >= 1 else "tied" if metric in sample.tied else "wrong"
