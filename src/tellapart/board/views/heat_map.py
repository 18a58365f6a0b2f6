"""A heat map of one benchmark: a row for each value of a tag, a column for each model, one metric."""

from __future__ import annotations

from sqlmodel import Session

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark
from tellapart.board.views.leaderboard import find_name, metrics_of, tags_of
from tellapart.board.views.limited import describe_hidden
from tellapart.board.views.rows import make_row, place_rows, read_heads, read_scores
from tellapart.board.views.view import BenchmarkHead, Cell, Link, ModelHead, Table, View, benchmark_head, one_by_slug
from tellapart.records.run_folder import file_name


class HeatCell(View):
    """One number of the map; the title gives the value, its interval and the number of items.

    Attributes:
        text: the value in percent, as the map shows it.
        shade: 0 (nothing right) to 10 (everything).
        above_chance: whether the interval lies above the value of guessing; None if one of the two is unknown.
        limited: as in `Cell`.
    """

    value: float
    text: str
    n: int
    shade: int
    above_chance: bool | None
    limited: str = ""


class HeatRow(View):
    """One value of the tag, or all items; the title is the value, or the published part of hidden items.

    Attributes:
        n: the number of items with this value; the largest one if models were measured on different numbers.
        cells: one for each model; None for a model without a number.
    """

    n: int
    cells: tuple[HeatCell | None, ...]


class HeatMap(View):
    """A benchmark's numbers by the values of a tag and by model.

    Attributes:
        metric: the metric of every number.
        models: in order of the value over all items, the best first; people and reference models last.
        rows: one for each value of the tag, the most frequent first; then one for all items, or those of hidden ones
            whose numbers are published: `30 of 60 items, rounded to 5 points`.
        choices, metrics: links to the same map by each tag, and by each metric.
    """

    benchmark: BenchmarkHead
    tag: str
    metric: str
    models: tuple[ModelHead, ...]
    rows: tuple[HeatRow, ...]
    choices: tuple[Link, ...]
    metrics: tuple[Link, ...]

    def table(self) -> Table:
        """Return a row for each value of the tag and a column for each model; numbers are fractions, not per cent."""
        head = (self.tag, "items", *(model.label for model in self.models))
        rows = ((row.title, row.n, *(cell.value if cell else None for cell in row.cells)) for row in self.rows)
        return Table(title=self.title, rows=(head, *rows))


def heat_map(session: Session, _settings: BoardSettings, slug: str, tag: str, metric: str) -> HeatMap:
    """Show a benchmark's numbers by the values of a tag and by model."""
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    metric_name = find_name(benchmark, "metric", metric, metrics_of(session, benchmark))
    tag_name = find_name(benchmark, "tag", tag, tags_of(session, benchmark))
    by_value: dict[str, dict[int, Cell]] = {}  # value of the tag -> model -> cell
    for score in read_scores(session, [benchmark], tag_name, [metric_name]):
        if score.value_of:  # a macro average is over all values
            by_value.setdefault(score.value_of, {})[score.model] = score.cell
    overall = {score.model: score.cell for score in read_scores(session, [benchmark], "", [metric_name])}
    heads = read_heads(session)
    measured = {model for row in by_value.values() for model in row}
    rows = [make_row(heads[model], [overall.get(model)]) for model in measured]
    ranked = place_rows(rows, 0)
    others = sorted((row for row in rows if row.model.kind != "model"), key=lambda row: (row.model.kind, row.title))
    models = [row.model for row in (*ranked, *others)]
    ids = {head.slug: model for model, head in heads.items()}
    order = sorted(by_value, key=lambda value: (-max(cell.n for cell in by_value[value].values()), value))
    address = {"slug": slug, "metric": file_name(metric_name)}
    all_items = describe_hidden(session, [benchmark]).get(benchmark.id or 0, "all items")
    return HeatMap(
        title=f"{benchmark_head(benchmark).title}: {metric_name} by {tag_name}",
        benchmark=benchmark_head(benchmark),
        tag=tag_name,
        metric=metric_name,
        models=tuple(models),
        rows=tuple(
            HeatRow(
                title=name,
                n=max((cell.n for cell in row.values()), default=0),
                cells=tuple(_heat_cell(row.get(ids[model.slug]), f"{model.label}, {name}") for model in models),
            )
            for name, row in [*((value, by_value[value]) for value in order), (all_items, overall)]
        ),
        choices=tuple(
            Link(text=name, page="map", args={**address, "tag": file_name(name)}, current=name == tag_name)
            for name in tags_of(session, benchmark)
        ),
        metrics=tuple(
            Link(
                text=name,
                page="map",
                args={"slug": slug, "tag": file_name(tag_name), "metric": file_name(name)},
                current=name == metric_name,
            )
            for name in metrics_of(session, benchmark)
        ),
    )


def _heat_cell(cell: Cell | None, place: str) -> HeatCell | None:
    if cell is None:
        return None
    interval = f" ({cell.reason})" if cell.reason else ""
    if cell.low is not None and cell.high is not None:
        interval = f" [{100 * cell.low:.1f}, {100 * cell.high:.1f}]"
    bounded = cell.low is not None and cell.chance is not None
    part = f", {cell.limited}" if cell.limited else ""
    return HeatCell(
        title=f"{place}: {cell.percent()} %{interval}, {cell.n:,} {'item' if cell.n == 1 else 'items'}{part}",
        value=cell.value,
        text=cell.percent(1),
        n=cell.n,
        shade=round(10 * min(1.0, max(0.0, cell.value))),
        above_chance=(cell.low or 0.0) > (cell.chance or 0.0) if bounded else None,
        limited=cell.limited,
    )
