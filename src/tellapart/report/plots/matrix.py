"""One item as a matrix: its images, its captions, and each model's score of every pair of them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.video import as_picture, decode_slot
from tellapart.errors import DataError, RunError, nearest, plain
from tellapart.evaluation.systems import System
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Sample
from tellapart.records.samples import samples_path
from tellapart.report.image_sources import ImageSources
from tellapart.report.measured import pick_benchmark, samples_of, title_of_set
from tellapart.report.plots.style import GREY, PAGE, fold, new_figure, write_title
from tellapart.report.sections import true_pairs, true_texts
from tellapart.tasks.registry import headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches: of a cell's or a picture's width, between blocks, of the captions; a block with one image is wider, for its
#: model's name.
_SIDE, _GAP, _CAPTION, _NARROWEST = 0.8, 0.15, 1.5, 1.2
_LETTER = 0.062  # of 7 points


def draw_matrix(runs: Sequence[System], item: str, benchmark: str | None = None) -> Figure:
    """Draw an item: images across, captions down, a score in every cell, a block a model; true pairs are framed.

    The darker the cell, the higher the score within the item; a model's verdicts are under its block.

    Source: Wang et al. 2023 (EqBen), Figures 1 and 5.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    samples = [_find_sample(run, benchmark, item) for run in measured]
    images, texts = len(samples[0].scores), len(samples[0].scores[0])
    pictures = _read_pictures(measured[0], benchmark, samples[0])
    width = max(_SIDE * images, _NARROWEST)
    block = width + _GAP
    across = min(len(measured), max(1, int((PAGE - _CAPTION) // block)))
    down = -(-len(measured) // across)
    figure = new_figure(_CAPTION + across * block, 0.35 + _SIDE + down * (0.42 * texts + 0.5))
    grid = figure.add_gridspec(
        1 + down, 1 + across, width_ratios=[_CAPTION, *[width] * across], height_ratios=[_SIDE, *[0.42 * texts] * down]
    )
    for line in range(1, 1 + down):
        axes = _add_bare(figure, grid[line, 0])
        axes.set_ylim(texts, 0)
        for row, caption in enumerate(samples[0].texts or [f"caption {number}" for number in range(texts)]):
            text = textwrap.fill(plain(caption), 26, max_lines=4, placeholder=" …")
            axes.text(1.0, row + 0.5, text, ha="right", va="center", transform=axes.get_yaxis_transform(), size=7)
    for column in range(1, 1 + across):
        inner = grid[0, column].subgridspec(1, images, wspace=0.04)
        for number in range(images):
            axes = _add_bare(figure, inner[0, number])
            axes.set_title(f"image {number}", loc="center", size=7, pad=2)
            if (pixels := pictures[number]) is None:
                axes.text(0.5, 0.5, "not here", ha="center", va="center", transform=axes.transAxes, color=GREY)
            else:
                axes.imshow(pixels)
    for number, (run, sample) in enumerate(zip(measured, samples, strict=True)):
        axes = _add_bare(figure, grid[1 + number // across, 1 + number % across])
        _draw_cells(axes, sample, run.label, int(width / _LETTER))
    write_title(figure, f"{title_of_set(measured, benchmark)}, item {plain(item)}")
    return figure


def _find_sample(run: System, benchmark: str, item: str) -> Sample:
    folder = run.folders[benchmark]
    samples = {sample.id: sample for sample in samples_of(run, benchmark)}
    sample = samples.get(item)
    if sample is None:
        hint = nearest(item, samples) or ";"
        path = samples_path(folder, benchmark)
        listed = f"{len(samples):,} ids, such as {next(iter(samples), '')!r}, are in"
        raise RunError(f"{folder}: {benchmark} has no item {item!r}{hint} its {listed} {path}")
    if not sample.scores:
        raise RunError(f"{folder}: item {item!r} of {benchmark} is a task's, without scores of images and texts")
    return sample


def _read_pictures(run: System, benchmark: str, sample: Sample) -> list[NDArray[np.uint8] | None]:
    folder = run.folders[benchmark]
    read = ImageSources.of(folder, read_result(folder), benchmark).reader()

    def decode(reference: str) -> NDArray[np.uint8] | None:
        with suppress(DataError, OSError):
            return None if read is None else as_picture(decode_slot(read(reference), reference))
        return None

    return [decode(image) for image in sample.images] or [None] * len(sample.scores)


def _add_bare(figure: Figure, place: Any) -> Axes:
    axes = figure.add_subplot(place)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def _draw_cells(axes: Axes, sample: Sample, label: str, letters: int) -> None:
    from matplotlib.patches import Rectangle

    values = np.array(sample.scores, dtype=np.float32).T  # (text, image): captions go down
    spread: Any = np.ptp(values) or 1.0
    shade = (values - values.min()) / spread
    axes.imshow(shade, cmap="Greys", vmin=-0.05, vmax=2.0, aspect="auto")
    numbers = _write_scores(values)
    true = true_texts(sample.outcomes, values.shape[0])
    framed_cells = {(text, image) for image, text in true_pairs((values.shape[1], values.shape[0]), true)}
    for (row, column), value in np.ndenumerate(values):
        framed = (row, column) in framed_cells
        weight = "bold" if framed else "normal"
        axes.text(column, row, numbers[float(value)], ha="center", va="center", weight=weight, size=7)
        if framed:
            place = (column - 0.47, row - 0.46)
            axes.add_patch(Rectangle(place, 0.94, 0.92, fill=False, linewidth=1.8, edgecolor="black"))
    names = headline(sample.outcomes) or [name for name in sample.outcomes if name in {"choice_score", "pairwise"}]
    said = ["right" if sample.outcomes[name] >= 1 else "tied" if name in sample.tied else "wrong" for name in names]
    verdicts = ", ".join(f"{name.removesuffix('_score')} {word}" for name, word in zip(names, said, strict=True))
    axes.set_xlabel(f"{fold(label, letters)}\n{textwrap.fill(verdicts, letters)}", size=7)


def _write_scores(values: NDArray[np.float32]) -> dict[float, str]:
    """Write scores with as many digits as distinguish different ones, at least four."""
    numbers = sorted({float(value) for value in values.flat})
    for digits in range(4, 10):  # nine distinguish any two of float32
        written = [f"{number:.{digits}g}" for number in numbers]
        if len(set(written)) == len(numbers):
            break
    return dict(zip(numbers, written, strict=True))
