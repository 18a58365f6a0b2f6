"""The leaderboards: one benchmark by metrics, by the values of a tag, or by domain; and all benchmarks beside each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy
from pydantic import TypeAdapter
from sqlmodel import Session, func, select

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

__all__ = ["BY_DOMAIN", "MEAN", "Column", "Leaderboard", "Row", "all_benchmarks", "by_tag", "leaderboard"]

#: In place of a tag: the benchmark, its rival of the other domain, and the gap between them.
BY_DOMAIN = "domain-of-benchmarks"

#: The head of the column that averages benchmarks.
MEAN = "mean"

_CELL = ("value", "low", "high", "chance", "n", "ties", "tie_neutral", "tier", "mark")
_CELLS = TypeAdapter(list[Cell])


class Column(View):
    """One column.

    Attributes:
        unit: `percent`, or `points` for a difference of percentages.
        link: where its head leads; None for nowhere.

    >>> Column(title="group_score").unit
    'percent'
    """

    unit: str = "percent"
    about: str = ""
    link: Link | None = None


class Row(View):
    """One model; a cell a column, None where it was not measured.

    >>> Row(title="a", model=ModelHead(slug="a", label="a", kind="model"), cells=(None,)).rank is None
    True
    """

    model: ModelHead
    cells: tuple[Cell | None, ...]
    rank: int | None = None


class Leaderboard(View):
    """A leaderboard.

    Attributes:
        columns, rows: the table; the best first, by the column at `sorted_by`.
        references: people, then reference models: they take no rank.
        chance: of each column.
        choices: other columns for the same benchmark.
        tested: at least one column's models were tested against each other.

    >>> Leaderboard(title="a", columns=(), rows=(), references=(), chance=()).choices
    ()
    """

    benchmark: BenchmarkHead | None = None
    about: str = ""
    columns: tuple[Column, ...]
    sorted_by: int = 0
    rows: tuple[Row, ...]
    references: tuple[Row, ...]
    chance: tuple[float | None, ...]
    choices: tuple[Link, ...] = ()
    metrics: tuple[Link, ...] = ()
    tested: bool = False

    def table(self) -> Table:
        """Return models by columns, fractions; a tier beside each column that has tiers.

        >>> Leaderboard(title="a", columns=(), rows=(), references=(), chance=()).table().rows
        (('model', 'kind'),)
        """
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

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     leaderboard(session, BoardSettings(), "demo")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no benchmark 'demo'
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    names = benchmark.headline
    table: dict[int, dict[str, Cell]] = {}
    for score in _scores(session, [benchmark], "", names):
        table.setdefault(score.model, {})[score.metric] = score.cell
    columns = tuple(Column(title=name) for name in names)
    main = names.index(main_metric(names)) if names else 0
    cells = {key: [row.get(name) for name in names] for key, row in table.items()}
    return _board(session, benchmark, _Found(columns, cells, main))


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

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     by_tag(session, BoardSettings(), "demo", "type", "group_score")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no benchmark 'demo'
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    name = {file_name(each): each for each in _metrics(session, benchmark)}.get(metric)
    if name is None:
        raise UnknownNameError(f"{benchmark.name} has no metric {metric[:200]!r} here")
    if tag == BY_DOMAIN:
        return _by_domain(session, benchmark, name)
    found = {file_name(each): each for each in _tags(session, benchmark)}.get(tag)
    if found is None:
        raise UnknownNameError(f"{benchmark.name} has no tag {tag[:200]!r} here")
    scores = _scores(session, [benchmark], found, [name])
    values = sorted({score.value_of for score in scores if score.value_of})
    table: dict[int, dict[str, Cell]] = {}
    for score in scores:
        table.setdefault(score.model, {})[score.value_of] = score.cell
    columns = [Column(title=f"{found}: {value}") for value in values]
    if len(values) > 1:
        columns.append(Column(title="mean of the values", about="every value weighs the same"))
    if len(values) == 2:
        columns.append(Column(title="gap", unit="points", about=f"{values[0]} less {values[1]}"))
    cells = {key: _spread(row, values) for key, row in table.items()}
    return _board(session, benchmark, _Found(tuple(columns), cells, 0, found, name))


def all_benchmarks(session: Session, settings: BoardSettings) -> Leaderboard:
    """Show every benchmark beside each other, by the metric that ranks it, and the mean of models measured on all.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     all_benchmarks(session, BoardSettings()).rows
    ()
    """
    benchmarks = session.exec(select(Benchmark).order_by(Benchmark.name, Benchmark.id)).all()  # type: ignore[arg-type]
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
    return _arranged(rows, columns, 0, title=settings.title, about=settings.about)


def _mean(cells: Sequence[Cell | None]) -> tuple[Cell | None, ...]:
    """The mean as a cell of its own; none at all where there is nothing to average."""
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
    found: dict[int, dict[int | None, Cell]] = {}
    for each in (inside, outside):
        for score in _scores(session, [each], "", [names[each.id]]):
            found.setdefault(score.model, {})[each.id] = score.cell
    pairs = {model: (row.get(inside.id), row.get(outside.id)) for model, row in found.items()}
    cells = {model: (*pair, _difference(*pair)) for model, pair in pairs.items()}
    columns = (
        Column(title="in-domain", about=f"{inside.name}: {names[inside.id]}"),
        Column(title="out-of-domain", about=f"{outside.name}: {names[outside.id]}"),
        Column(title="gap", unit="points", about="in-domain less out-of-domain"),
    )
    return _board(session, benchmark, _Found(columns, cells, 1, BY_DOMAIN, metric))


#: VLUE measures VQA by another rule in each domain.
_OTHER_RULE = {"soft_accuracy": "exact_match", "exact_match": "soft_accuracy"}


def _matching(session: Session, rival: Benchmark, metric: str) -> str:
    there = _metrics(session, rival)
    return next((name for name in (metric, _OTHER_RULE.get(metric, "")) if name in there), main_metric(rival.headline))


@dataclass(frozen=True, slots=True)
class _Found:
    """What stands in one benchmark's table: model -> a cell for each column."""

    columns: tuple[Column, ...]
    cells: Mapping[int, Sequence[Cell | None]]
    by: int
    tag: str = ""
    metric: str = ""


def _board(session: Session, benchmark: Benchmark, found: _Found) -> Leaderboard:
    heads = _heads(session)
    rows = [_row(heads[model], own) for model, own in found.cells.items()]
    metric = found.metric or main_metric(benchmark.headline)
    made = _arranged(rows, found.columns, found.by, title=benchmark.title, about="")
    return made.model_copy(
        update={
            "benchmark": benchmark_head(benchmark),
            "choices": _choices(session, benchmark, found.tag, metric),
            "metrics": _metric_choices(session, benchmark, found.tag, metric),
        }
    )


def _arranged(rows: Sequence[Row], columns: Sequence[Column], by: int, *, title: str, about: str) -> Leaderboard:
    def key(row: Row) -> tuple[bool, float, str]:
        cell = row.cells[by] if row.cells else None
        return (cell is None, -cell.value if cell else 0.0, row.model.label)

    contestants = sorted((row for row in rows if row.model.kind == "model"), key=key)
    ranked = []
    for place, row in enumerate(contestants, start=1):
        cell = row.cells[by] if row.cells else None
        tier = cell.tier if cell else None
        ranked.append(row.model_copy(update={"rank": tier or (place if cell else None)}))
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


def _chance(rows: Sequence[Row], column: int) -> float | None:
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
    found, tag = [], ""
    following = select(func.min(Score.tag)).where(Score.benchmark_id == benchmark.id)
    while (tag := session.exec(following.where(Score.tag > tag)).one()) is not None:
        found.append(tag)
    return sorted(found)


def _metrics(session: Session, benchmark: Benchmark) -> list[str]:
    same = (Score.benchmark_id == benchmark.id, Score.tag == "", Score.deviation == False)  # noqa: E712
    found = set(session.exec(select(Score.metric).where(*same).distinct()).all())
    return [*(name for name in benchmark.headline if name in found), *sorted(found - set(benchmark.headline))]


class _Score(NamedTuple):
    model: int
    benchmark: int
    value_of: str
    metric: str
    cell: Cell


def _scores(session: Session, benchmarks: Sequence[Benchmark], tag: str, metrics: Sequence[str]) -> list[_Score]:
    """Return the numbers of some benchmarks over one tag, as cells.

    All three columns of the index `score_of` are named, for an entry has hundreds of numbers; and rows are read as
    they are, not as objects, for a page shows thousands.
    """
    score, entry = Score.__table__.c, Entry.__table__.c  # type: ignore[attr-defined]
    mark = sqlalchemy.case((~entry.on_trust, ""), (entry.folder != "", "on trust"), else_="imported")
    numbers = [score[name] for name in _CELL[:-1]]
    wanted = (
        sqlalchemy.select(entry.model_id, score.benchmark_id, score.value_of, score.metric, *numbers, mark)
        .where(entry.id == score.entry_id, score.tag == tag, score.metric.in_(metrics))
        .where(score.benchmark_id.in_([benchmark.id for benchmark in benchmarks]))
    )
    rows = session.connection().execute(wanted).all()
    cells = _CELLS.validate_python([dict(zip(_CELL, row[4:], strict=True)) for row in rows])
    return [_Score(row[0], row[1], row[2], row[3], cell) for row, cell in zip(rows, cells, strict=True)]


def _heads(session: Session) -> dict[int, ModelHead]:
    model = Model.__table__.c  # type: ignore[attr-defined]
    rows = session.connection().execute(sqlalchemy.select(model.id, model.slug, model.label, model.kind))
    return {number: ModelHead(slug=slug, label=label, kind=kind) for number, slug, label, kind in rows}


def _row(head: ModelHead, cells: Sequence[Cell | None]) -> Row:
    return Row(title=head.label, model=head, cells=tuple(cells))
