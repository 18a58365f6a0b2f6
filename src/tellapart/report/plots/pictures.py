"""Pictures of benchmarks: bars in panels, rankings in tiers, heat maps, and one item as a matrix of its scores."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.video import as_picture, decode_slot
from tellapart.errors import DataError, RunError, nearest, plain
from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Sample, Value
from tellapart.records.samples import samples_path
from tellapart.report.benchmark_runs import heat_map, is_above_chance
from tellapart.report.image_sources import ImageSources
from tellapart.report.items import true_pairs, true_texts
from tellapart.report.measured import (
    first_metrics,
    outcomes_of,
    pick_benchmark,
    ranking_metrics,
    samples_of,
    title_of,
    title_of_set,
    value_of,
)
from tellapart.report.numbers import is_deviation, items_text, percent, thousands
from tellapart.report.plots.style import (
    COLUMN,
    GREY,
    LETTER,
    PAGE,
    draw_shades,
    fold,
    look,
    make_panels,
    new_figure,
    write_title,
)
from tellapart.tasks.registry import headline, is_higher_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Panels side by side at most, and the least inches of one, so that each is wide enough for a readable scale.
_MOST_PANELS, _PANEL = 4, 0.8

#: The line of chance.
_CHANCE: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 1.2}

#: Of a name in a line, if the picture is a column wide; longer names have two lines, or a page.
_NAME = 20


def draw_bars(runs: Sequence[System], benchmarks: Sequence[str] = (), metrics: Sequence[str] = ()) -> Figure:
    """Draw a panel for each metric, or for each of several benchmarks: a bar with its interval for each model."""
    if len(benchmarks) < 2:
        benchmark, measured = pick_benchmark(runs, next(iter(benchmarks), None))
        names = tuple(metrics) or first_metrics([run.record(benchmark) for run in measured])
        panels = {name.replace("_", " "): [value_of(run, benchmark, name) for run in measured] for name in names}
        return draw_panels([run.label for run in measured], panels, title_of(measured, benchmark))
    measured_by = dict(pick_benchmark(runs, name) for name in benchmarks)
    of_sets: dict[str, list[Value | None]] = {}
    for benchmark, metric in ranking_metrics(measured_by, metrics).items():
        items = items_text(measured_by[benchmark][0].record(benchmark))
        title = f"{title_of_set(runs, benchmark)}: {metric.replace('_', ' ')}{f' ({items})' if items else ''}"
        of_sets[title] = [value_of(run, benchmark, metric) if run in measured_by[benchmark] else None for run in runs]
    return draw_panels([run.label for run in runs], of_sets)


def draw_panels(labels: Sequence[str], panels: Mapping[str, Sequence[Value | None]], title: str = "") -> Figure:
    """Draw panels that share axes, title -> a value for each model; the models are named on the left."""
    if deviations := [title for title, values in panels.items() if any(of and is_deviation(of) for of in values)]:
        raise RunError(f"{deviations[0]} is a deviation in the unit of the scores; bars show shares, curves deviations")
    names = [fold(label, _NAME if len(panels) == 1 else 30) for label in labels]
    room = 0.3 + LETTER * max(len(line) for name in names for line in name.split("\n"))
    words = max((len(word) for heading in panels for word in heading.split()), default=0)
    width = COLUMN if room + len(panels) * max(_PANEL, LETTER * 9 / 8 * words) <= COLUMN else PAGE
    across = min(_MOST_PANELS, len(panels))
    down = -(-len(panels) // across)
    # Titles have 9 points, the letters that `LETTER` measures 8.
    titles = [fold(heading, max(8, int((width - room) / across / (LETTER * 9 / 8)))) for heading in panels]
    lines = 1 + max(heading.count("\n") for heading in titles)
    height = len(names) * (0.17 + 0.11 * max(name.count("\n") for name in names)) + 0.14 * lines + 0.25
    height = (0.6 if title else 0.35) + down * height
    figure, grid = make_panels(width, height, len(panels), across, sharex=True, sharey=True)
    for axes, heading, values in zip(grid, titles, panels.values(), strict=True):
        _draw_bar_panel(axes, values)
        axes.set_title(heading)
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    legend = "percent; line: interval; dashed: chance; diamond: ties at random"
    figure.supxlabel(fold(legend, int(width / LETTER)), fontsize=8)
    write_title(figure, title)
    return figure


def _draw_bar_panel(axes: Axes, values: Sequence[Value | None]) -> None:
    """Draw one bar for each row, with interval, ties and chance; the row of a missing value stays empty."""
    measured = {row: value for row, value in enumerate(values) if value is not None}
    shares = [100 * value.value for value in measured.values()]
    axes.barh([*measured], shares, 0.72, color="#56B4E9", edgecolor="black", linewidth=0.5)
    for row, value in measured.items():
        _draw_interval(axes, value, row, 1.0)
        # The value as it would be with ties broken at random; the bar counts every tie as wrong.
        if value.ties and value.tie_neutral is not None:
            axes.plot(100 * value.tie_neutral, row, "d", color="white", markeredgecolor="black", markersize=4)
    # Values of another tool have no chance.
    if chances := [value.chance for value in measured.values() if value.chance is not None]:
        axes.axvline(100 * chances[0], **_CHANCE)
    # A corpus metric (CIDEr) may lie above one, a bias below 0; shares are drawn on the full scale, so that pictures
    # compare. Limits are shared with earlier panels, which turn the scaling to these values off.
    (left, right), data = axes.get_xlim(), axes.dataLim
    axes.set_xlim(min(0.0, left, data.x0), max(100.0, right, data.x1))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _draw_interval(axes: Axes, value: Value, row: int, width: float) -> None:
    if value.low is not None and value.high is not None:
        axes.plot([100 * value.low, 100 * value.high], [row, row], color="black", linewidth=width)


def draw_tiers(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, *, seed: int = 0
) -> Figure:
    """Draw models from best to worst; a band of grey or white is a tier: no member differs from its best."""
    benchmark, measured = pick_benchmark(runs, benchmark)
    metric = metric or ranking_metrics({benchmark: measured})[benchmark]
    values = {run.label: value_of(run, benchmark, metric) for run in measured}
    shared = outcomes_of(measured, benchmark, [metric])
    if metric not in shared.outcomes:
        raise RunError(f"{benchmark}: {metric} is not defined per item, so models cannot be tested on it")
    if not is_higher_better(metric):
        raise RunError(f"{benchmark}: {metric} is not best high, so models have no tiers by it; name another metric=")
    narrow = max(fold(name, _NAME).count("\n") for name in values) < 2
    labels = {name: fold(name, _NAME if narrow else 2 * _NAME) for name in values}
    height = max(0.28, 0.14 * max(name.count("\n") + 1 for name in labels.values()))
    figure, (axes,) = make_panels(COLUMN if narrow else PAGE, 0.9 + height * len(measured))
    names: list[str] = []
    outcomes = dict(zip(values, shared.outcomes[metric].T, strict=True))
    for band, tier in enumerate(rank_outcomes(outcomes, shared.clusters, seed=seed)):
        first, style = len(names), look(band)
        if band % 2 == 0:
            axes.axhspan(first - 0.5, first + len(tier.names) - 0.5, color="#ececec", zorder=0, linewidth=0)
        axes.text(1.01, first, f"rank {tier.rank}", transform=axes.get_yaxis_transform(), va="center")
        for row, name in enumerate(tier.names, start=first):
            _draw_interval(axes, values[name], row, 1.2)
            axes.plot(100 * values[name].value, row, **style.mark)
        names += tier.names
    if (chance := values[measured[0].label].chance) is not None:
        axes.axvline(100 * chance, **_CHANCE)
        axes.text(100 * chance, -0.55, " chance", color=GREY, va="bottom")
    axes.set_yticks(range(len(names)), [labels[name] for name in names], linespacing=0.9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"{metric.replace('_', ' ')}, percent")
    axes.grid(axis="x")
    write_title(figure, title_of(measured, benchmark))
    return figure


#: With more columns than this, cells have no room for their numbers.
_MOST_NUMBERS = 12

#: Inches: a line of letters, a cell with a number and one without.
_LINE, _CELL, _BARE = 0.14, 0.42, 0.14


def draw_heatmap(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, tag: str | None = None
) -> Figure:
    """Draw a metric as shades from 0 to 100 percent, its number in every cell: a tag's values by models.

    Those that are more stand down. A number in brackets is not above chance; above twelve columns shades are alone.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    heat = heat_map({run.label: run.record(benchmark) for run in measured}, benchmark, metric, tag)
    down = [f"{plain(row.name)}{f' ({thousands(row.n)})' if row.n else ''}" for row in heat.rows]
    across = list(heat.models)
    cells = [list(row.values) for row in heat.rows]
    if turned := len(across) > len(down):
        down, across, cells = across, down, [list(column) for column in zip(*cells, strict=True)]
    labels = [fold(name, 24) for name in down]
    left = LETTER * _longest_line(labels)
    heads, rotation, height, width = _fit_heads(across, left + 0.3)
    row = max(0.2, _LINE * (1 + max(name.count("\n") for name in labels)) + 0.03)
    figure, (axes,) = make_panels(width, row * len(down) + height + 0.9)
    shares = np.array([[np.nan if value is None else value.value for value in values] for values in cells])
    with_numbers = len(across) <= _MOST_NUMBERS
    texts = [list(map(_write_cell, values)) for values in cells] if with_numbers else []
    scale: dict[str, Any] = {
        "format": lambda share, _: f"{100 * share:g}",
        "boundaries": np.linspace(0, 1, 101),
        "ticks": [0, 0.5, 1],
    }
    # Beyond the darkest share there is room: black numbers stay legible, and grey print keeps the order.
    draw_shades(axes, shares, texts, (labels, heads), colours="Blues", limits=(0.0, 1.6), rotation=rotation, **scale)
    (axes.axvline if turned else axes.axhline)(len(heat.rows) - 1.5, color="white", lw=3)  # before `all items`
    above = "in brackets: not above " if with_numbers else ""
    chance = "" if heat.chance is None else f"; {above}chance ({percent(heat.chance)})"
    caption = f"{heat.metric.replace('_', ' ')}, percent{chance}"
    axes.set_xlabel(fold(caption, int((width - left - 0.2) / LETTER)), fontsize=7)
    write_title(figure, f"{title_of(measured, benchmark)}, by {plain(heat.tag)}")
    return figure


def _fit_heads(across: Sequence[str], left: float) -> tuple[list[str], int, float, float]:
    """Lay out the columns' names beside `left` inches: names, degrees, their height, and the picture's width."""
    for width in (COLUMN, PAGE):
        cell = (width - left) / len(across)
        names = [fold(name, max(1, int(cell / LETTER) - 1)) for name in across]
        lines = 1 + max(name.count("\n") for name in names)
        if cell > 8 * LETTER and lines <= 3:
            return names, 0, _LINE * lines, width
    # Turned, a line of letters takes a cell's width.
    with_numbers = len(across) <= _MOST_NUMBERS
    names = [fold(name, 24 if with_numbers else 60) for name in across]
    line = _LINE * (1 + max(name.count("\n") for name in names)) + 0.02
    needed = left + len(across) * max(_CELL if with_numbers else _BARE, line)
    return names, 90, LETTER * _longest_line(names), COLUMN if needed <= COLUMN else PAGE


def _longest_line(names: Sequence[str]) -> int:
    return max(len(line) for name in names for line in name.split("\n"))


def _write_cell(value: Value | None) -> str:
    if value is None:
        return "–"
    return percent(value.value, 1) if is_above_chance(value) else f"({percent(value.value, 1)})"


#: Inches: of a cell's or a picture's width, between blocks, of the captions; a block with one image is wider, for its
#: model's name.
_SIDE, _GAP, _CAPTION, _NARROWEST = 0.8, 0.15, 1.5, 1.2
_SMALL_LETTER = 0.062  # of 7 points


def draw_matrix(runs: Sequence[System], item: str, benchmark: str | None = None) -> Figure:
    """Draw an item as EqBen's Figures 1 and 5: images across, captions down, a block of scores a model.

    True pairs are framed; the darker the cell, the higher the score within the item; verdicts are under a block.
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
        _draw_cells(axes, sample, run.label, int(width / _SMALL_LETTER))
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
