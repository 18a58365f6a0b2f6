"""Leaderboards: one benchmark by metrics, by the values of a tag or by domain, and all benchmarks side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy
from pydantic import TypeAdapter
from sqlmodel import Session, col, func, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Entry, Model, Score
from tellapart.board.views.view import (
    BenchmarkHead,
    Cell,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    main_metric,
    one_by_slug,
)
from tellapart.errors import UnknownNameError
from tellapart.records.run_folder import file_name

__all__ = ["BY_DOMAIN", "MEAN", "Column", "Leaderboard", "LeaderboardRow", "all_benchmarks", "by_tag", "leaderboard"]

#: In place of a tag: columns for the benchmark, its rival of the other domain, and the gap between them.
BY_DOMAIN = "domain-of-benchmarks"

#: The head of the column that averages benchmarks.
MEAN = "mean"

_CELL = ("value", "low", "high", "chance", "n", "ties", "tie_neutral", "tier", "mark")
_CELLS = TypeAdapter(list[Cell])


class Column(View):
    """One column.

    Attributes:
        unit: `percent`, or `points` for a difference of percentages.
        link: of its head, if it has one.
    """

    unit: str = "percent"
    about: str = ""
    link: Link | None = None


class LeaderboardRow(View):
    """One model; a cell for each column, None where it was not measured."""

    model: ModelHead
    cells: tuple[Cell | None, ...]
    rank: int | None = None


class Leaderboard(View):
    """A leaderboard.

    Attributes:
        rows: the best model first, by the column at `sorted_by`.
        references: people, then reference models; they have no rank.
        chance: of each column.
        choices, metrics: links to other columns for the same benchmark, and to other metrics.
        tested: at least one column's models were tested against each other.
    """

    benchmark: BenchmarkHead | None = None
    about: str = ""
    columns: tuple[Column, ...]
    sorted_by: int = 0
    rows: tuple[LeaderboardRow, ...]
    references: tuple[LeaderboardRow, ...]
    chance: tuple[float | None, ...]
    choices: tuple[Link, ...] = ()
    metrics: tuple[Link, ...] = ()
    tested: bool = False

    def table(self) -> Table:
        """Return models by columns, as fractions; a tier beside each column that has tiers."""
        head: list[str] = ["model", "kind"]
        for column in self.columns:
            head += [column.title, f"{column.title} low", f"{column.title} high", f"{column.title} tier"]
        rows: list[tuple[str | float | None, ...]] = [tuple(head)]
        for row in (*self.rows, *self.references):
            cells = [(c.value, c.low, c.high, c.tier) if c else (None,) * 4 for c in row.cells]
            rows.append((row.model.label, row.model.kind, *(part for cell in cells for part in cell)))
        return Table(title=self.title, rows=tuple(rows))


def leaderboard(session: Session, _settings: BoardSettings, slug: str) -> Leaderboard:
    """Show a benchmark by its headline metrics.

    Raises:
        UnknownNameError: there is no such benchmark.
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    names = benchmark.headline
    table: dict[int, dict[str, Cell]] = {}
    for score in _scores(session, [benchmark], "", names):
        table.setdefault(score.model, {})[score.metric] = score.cell
    columns = tuple(Column(title=name) for name in names)
    main = names.index(main_metric(names)) if names else 0
    cells = {key: [row.get(name) for name in names] for key, row in table.items()}
    return _of_benchmark(session, benchmark, _Cells(columns, cells, main))


def by_tag(session: Session, _settings: BoardSettings, slug: str, tag: str, metric: str) -> Leaderboard:
    """Show a benchmark by the values of a tag: a column each, their mean, and for two values the gap between them.

    Args:
        session: on the database.
        slug: the benchmark.
        tag: as `file_name` writes it, or `BY_DOMAIN`.
        metric: as `file_name` writes it.

    Raises:
        UnknownNameError: there is no such benchmark, tag or metric.

    Source: VLUE Table 2 (in-domain and OOD).
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    name = {file_name(each): each for each in _metrics(session, benchmark)}.get(metric)
    if name is None:
        raise UnknownNameError(f"{benchmark.name} has no metric {metric[:200]!r} here")
    if tag == BY_DOMAIN:
        return _by_domain(session, benchmark, name)
    tag_name = {file_name(each): each for each in _tags(session, benchmark)}.get(tag)
    if tag_name is None:
        raise UnknownNameError(f"{benchmark.name} has no tag {tag[:200]!r} here")
    scores = _scores(session, [benchmark], tag_name, [name])
    values = sorted({score.value_of for score in scores if score.value_of})
    table: dict[int, dict[str, Cell]] = {}
    for score in scores:
        table.setdefault(score.model, {})[score.value_of] = score.cell
    columns = [Column(title=f"{tag_name}: {value}") for value in values]
    if len(values) > 1:
        columns.append(Column(title="mean of the values", about="every value weighs the same"))
    if len(values) == 2:
        columns.append(Column(title="gap", unit="points", about=f"{values[0]} less {values[1]}"))
    cells = {key: _spread(row, values) for key, row in table.items()}
    return _of_benchmark(session, benchmark, _Cells(tuple(columns), cells, 0, tag_name, name))


def all_benchmarks(session: Session, settings: BoardSettings) -> Leaderboard:
    """Show all benchmarks side by side, each by the metric that ranks it, and the mean of models measured on all."""
    benchmarks = session.exec(select(Benchmark).order_by(col(Benchmark.name), col(Benchmark.id))).all()
    mains = {b.id: main_metric(b.headline) for b in benchmarks}
    table: dict[int, dict[int | None, Cell]] = {}
    for score in _scores(session, benchmarks, "", sorted(set(mains.values()))):
        if mains[score.benchmark] == score.metric:
            table.setdefault(score.model, {})[score.benchmark] = score.cell
    columns = [
        Column(
            title=b.name,
            about=f"{mains[b.id]}; {b.title}",
            link=Link(text=b.name, page="benchmark", args={"slug": b.slug}),
        )
        for b in benchmarks
    ]
    meant = [k for k, b in enumerate(benchmarks) if not settings.performance or b.name in settings.performance]
    heads, rows = _heads(session), []
    for model, own in table.items():
        cells = [own.get(b.id) for b in benchmarks]
        rows.append(_row(heads[model], (*_mean([cells[k] for k in meant]), *cells)))
    if len(meant) > 1:
        over = ", ".join(columns[k].title for k in meant)
        columns.insert(0, Column(title=MEAN, about=f"over {over}; only for models measured on all of them"))
    return _arrange(rows, columns, 0, title=settings.title, about=settings.about)


def _mean(cells: Sequence[Cell | None]) -> tuple[Cell | None, ...]:
    """Return the mean as one cell; no cell where there is nothing to average."""
    if len(cells) < 2:
        return ()
    values = [cell.value for cell in cells if cell]
    return (Cell(value=math.fsum(values) / len(values), n=0) if len(values) == len(cells) else None,)


def _spread(row: Mapping[str, Cell], values: Sequence[str]) -> list[Cell | None]:
    cells = [row.get(value) for value in values]
    if len(values) > 1:
        cells.append(row.get(""))
    if len(values) == 2:
        cells.append(_difference(cells[0], cells[1]))
    return cells


def _difference(first: Cell | None, second: Cell | None) -> Cell | None:
    return None if first is None or second is None else Cell(value=first.value - second.value, n=0)


def _by_domain(session: Session, benchmark: Benchmark, metric: str) -> Leaderboard:
    rival = (
        session.exec(select(Benchmark).where(Benchmark.name == benchmark.rival)).first() if benchmark.rival else None
    )
    if rival is None:
        raise UnknownNameError(f"{benchmark.name} has no benchmark of the other domain on this board")
    inside, outside = (benchmark, rival) if benchmark.domain == "in-domain" else (rival, benchmark)
    other = _matching(session, rival, metric)
    names = {inside.id: metric if inside is benchmark else other, outside.id: metric if outside is benchmark else other}
    table: dict[int, dict[int | None, Cell]] = {}
    for each in (inside, outside):
        for score in _scores(session, [each], "", [names[each.id]]):
            table.setdefault(score.model, {})[each.id] = score.cell
    pairs = {model: (row.get(inside.id), row.get(outside.id)) for model, row in table.items()}
    cells = {model: (*pair, _difference(*pair)) for model, pair in pairs.items()}
    columns = (
        Column(title="in-domain", about=f"{inside.name}: {names[inside.id]}"),
        Column(title="out-of-domain", about=f"{outside.name}: {names[outside.id]}"),
        Column(title="gap", unit="points", about="in-domain less out-of-domain"),
    )
    return _of_benchmark(session, benchmark, _Cells(columns, cells, 1, BY_DOMAIN, metric))


#: VLUE measures VQA by another rule in each domain.
_OTHER_RULE = {"soft_accuracy": "exact_match", "exact_match": "soft_accuracy"}


def _matching(session: Session, rival: Benchmark, metric: str) -> str:
    there = _metrics(session, rival)
    return next((name for name in (metric, _OTHER_RULE.get(metric, "")) if name in there), main_metric(rival.headline))


@dataclass(frozen=True, slots=True)
class _Cells:
    """The table of one benchmark: model -> a cell for each column, sorted by one of them."""

    columns: tuple[Column, ...]
    cells: Mapping[int, Sequence[Cell | None]]
    sorted_by: int
    tag: str = ""
    metric: str = ""


def _of_benchmark(session: Session, benchmark: Benchmark, table: _Cells) -> Leaderboard:
    heads = _heads(session)
    rows = [_row(heads[model], own) for model, own in table.cells.items()]
    metric = table.metric or main_metric(benchmark.headline)
    return _arrange(rows, table.columns, table.sorted_by, title=benchmark.title, about="").model_copy(
        update={
            "benchmark": benchmark_head(benchmark),
            "choices": _choices(session, benchmark, table.tag, metric),
            "metrics": _metric_choices(session, benchmark, table.tag, metric),
        }
    )


def _arrange(
    rows: Sequence[LeaderboardRow], columns: Sequence[Column], by: int, *, title: str, about: str
) -> Leaderboard:
    def key(row: LeaderboardRow) -> tuple[bool, float, str]:
        cell = row.cells[by] if row.cells else None
        return (cell is None, -cell.value if cell else 0.0, row.model.label)

    contestants = sorted((row for row in rows if row.model.kind == "model"), key=key)
    ranked = []
    for k, row in enumerate(contestants, start=1):
        cell = row.cells[by] if row.cells else None
        ranked.append(row.model_copy(update={"rank": (cell.tier or k) if cell else None}))
    others = sorted((row for row in rows if row.model.kind != "model"), key=lambda row: (row.model.kind, key(row)))
    return Leaderboard(
        title=title,
        about=about,
        columns=tuple(columns),
        sorted_by=by,
        rows=tuple(ranked),
        references=tuple(others),
        chance=tuple(_chance(rows, column) for column in range(len(columns))),
        tested=any(cell is not None and cell.tier is not None for row in rows for cell in row.cells),
    )


def _chance(rows: Sequence[LeaderboardRow], column: int) -> float | None:
    return next((cell.chance for row in rows if (cell := row.cells[column]) and cell.chance is not None), None)


def _choices(session: Session, benchmark: Benchmark, tag: str, metric: str) -> tuple[Link, ...]:
    own = {"slug": benchmark.slug, "metric": file_name(metric)}
    links = [Link(text="metrics", page="benchmark", args={"slug": benchmark.slug}, current=not tag)]
    if benchmark.rival and session.exec(select(Benchmark.id).where(Benchmark.name == benchmark.rival)).first():
        links.append(Link(text="domain", page="by", args={**own, "tag": BY_DOMAIN}, current=tag == BY_DOMAIN))
    of_tags = (
        Link(text=each, page="by", args={**own, "tag": file_name(each)}, current=tag == each)
        for each in _tags(session, benchmark)
    )
    return (*links, *of_tags)


def _metric_choices(session: Session, benchmark: Benchmark, tag: str, metric: str) -> tuple[Link, ...]:
    if not tag:
        return ()
    own = {"slug": benchmark.slug, "tag": tag if tag == BY_DOMAIN else file_name(tag)}
    return tuple(
        Link(text=each, page="by", args={**own, "metric": file_name(each)}, current=each == metric)
        for each in _metrics(session, benchmark)
    )


def _tags(session: Session, benchmark: Benchmark) -> list[str]:
    # From one to the next in the index `score_of`: DISTINCT reads every number of the benchmark, tens of thousands.
    tags, tag = [], ""
    following = select(func.min(Score.tag)).where(Score.benchmark_id == benchmark.id)
    while (tag := session.exec(following.where(Score.tag > tag)).one()) is not None:
        tags.append(tag)
    return sorted(tags)


def _metrics(session: Session, benchmark: Benchmark) -> list[str]:
    same = (Score.benchmark_id == benchmark.id, Score.tag == "", Score.deviation == False)  # noqa: E712
    names = set(session.exec(select(Score.metric).where(*same).distinct()).all())
    return [*(name for name in benchmark.headline if name in names), *sorted(names - set(benchmark.headline))]


class _Score(NamedTuple):
    model: int
    benchmark: int
    value_of: str
    metric: str
    cell: Cell


def _scores(session: Session, benchmarks: Sequence[Benchmark], tag: str, metrics: Sequence[str]) -> list[_Score]:
    """Return the numbers of some benchmarks over one tag, as cells.

    The query names all three columns of the index `score_of`, since an entry has hundreds of numbers, and reads plain
    rows instead of objects, since a page shows thousands.
    """
    score, entry = Score.__table__.c, Entry.__table__.c  # type: ignore[attr-defined]
    mark = sqlalchemy.case((~entry.on_trust, ""), (entry.folder != "", "on trust"), else_="imported")
    numbers = [score[name] for name in _CELL[:-1]]
    query = (
        sqlalchemy.select(entry.model_id, score.benchmark_id, score.value_of, score.metric, *numbers, mark)
        .where(entry.id == score.entry_id, score.tag == tag, score.metric.in_(metrics))
        .where(score.benchmark_id.in_([benchmark.id for benchmark in benchmarks]))
    )
    rows = session.connection().execute(query).all()
    cells = _CELLS.validate_python([dict(zip(_CELL, row[4:], strict=True)) for row in rows])
    return [_Score(row[0], row[1], row[2], row[3], cell) for row, cell in zip(rows, cells, strict=True)]


def _heads(session: Session) -> dict[int, ModelHead]:
    model = Model.__table__.c  # type: ignore[attr-defined]
    rows = session.connection().execute(sqlalchemy.select(model.id, model.slug, model.label, model.kind))
    return {number: ModelHead(slug=slug, label=label, kind=kind) for number, slug, label, kind in rows}


def _row(head: ModelHead, cells: Sequence[Cell | None]) -> LeaderboardRow:
    return LeaderboardRow(title=head.label, model=head, cells=tuple(cells))
