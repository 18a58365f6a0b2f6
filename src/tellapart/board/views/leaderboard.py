"""The leaderboard of one benchmark: by metrics, by the values of a tag, or by domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, func, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Score
from tellapart.board.views.limited import describe_hidden
from tellapart.board.views.rows import Block, Column, Leaderboard, arrange_rows, make_row, read_heads, read_scores
from tellapart.board.views.view import Cell, Link, benchmark_head, one_by_slug
from tellapart.errors import UnknownNameError
from tellapart.records.run_folder import file_name
from tellapart.tasks.registry import main_metric

#: In place of a tag: columns for the benchmark, its rival of the other domain, and the gap between them.
BY_DOMAIN = "domain-of-benchmarks"


def leaderboard(session: Session, _settings: BoardSettings, slug: str) -> Leaderboard:
    """Show a benchmark by its headline metrics."""
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    names = benchmark.headline
    table: dict[int, dict[str, Cell]] = {}
    for score in read_scores(session, [benchmark], "", names):
        table.setdefault(score.model, {})[score.metric] = score.cell
    columns = tuple(Column(title=name) for name in names)
    main = names.index(main_metric(names)) if names else 0
    cells = {key: [row.get(name) for name in names] for key, row in table.items()}
    return _of_benchmark(session, benchmark, _Cells(columns, cells, main))


def by_tag(session: Session, _settings: BoardSettings, slug: str, tag: str, metric: str) -> Leaderboard:
    """Show a benchmark by the values of a tag: a column each, their mean, and for two values the gap between them.

    Source: VLUE Table 2 (in-domain and OOD).
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    name = find_name(benchmark, "metric", metric, metrics_of(session, benchmark))
    if tag == BY_DOMAIN:
        return _by_domain(session, benchmark, name)
    tag_name = find_name(benchmark, "tag", tag, tags_of(session, benchmark))
    scores = read_scores(session, [benchmark], tag_name, [name])
    values = sorted({score.value_of for score in scores if score.value_of})
    table: dict[int, dict[str, Cell]] = {}
    for score in scores:
        table.setdefault(score.model, {})[score.value_of] = score.cell
    columns = [Column(title=f"{tag_name}: {value}") for value in values]
    if len(values) > 1:
        columns.append(Column(title="mean of the values", about="every value weighs the same"))
    if len(values) == 2:
        columns.append(Column(title="gap", unit="points", about=f"{values[0]} less {values[1]}"))
    cells = {key: _spread_cells(row, values) for key, row in table.items()}
    return _of_benchmark(session, benchmark, _Cells(tuple(columns), cells, 0, tag_name, name))


def _spread_cells(row: Mapping[str, Cell], values: Sequence[str]) -> list[Cell | None]:
    cells = [row.get(value) for value in values]
    if len(values) > 1:
        cells.append(row.get(""))
    if len(values) == 2:
        cells.append(_cell_difference(cells[0], cells[1]))
    return cells


def _cell_difference(first: Cell | None, second: Cell | None) -> Cell | None:
    if first is None or second is None:
        return None
    limited, rounded = first.limited or second.limited, first.rounded and second.rounded
    return Cell(value=first.value - second.value, n=0, limited=limited, rounded=rounded)


def _by_domain(session: Session, benchmark: Benchmark, metric: str) -> Leaderboard:
    rival = (
        session.exec(select(Benchmark).where(Benchmark.name == benchmark.rival)).first() if benchmark.rival else None
    )
    if rival is None:
        raise UnknownNameError(f"{benchmark.name} has no benchmark of the other domain on this board")
    inside, outside = (benchmark, rival) if benchmark.domain == "in-domain" else (rival, benchmark)
    other = _matching_metric(session, rival, metric)
    names = {inside.id: metric if inside is benchmark else other, outside.id: metric if outside is benchmark else other}
    table: dict[int, dict[int | None, Cell]] = {}
    for side in (inside, outside):
        for score in read_scores(session, [side], "", [names[side.id]]):
            table.setdefault(score.model, {})[side.id] = score.cell
    pairs = {model: (row.get(inside.id), row.get(outside.id)) for model, row in table.items()}
    cells = {model: (*pair, _cell_difference(*pair)) for model, pair in pairs.items()}
    columns = (
        Column(title="in-domain", about=f"{inside.name}: {names[inside.id]}"),
        Column(title="out-of-domain", about=f"{outside.name}: {names[outside.id]}"),
        Column(title="gap", unit="points", about="in-domain less out-of-domain"),
    )
    return _of_benchmark(session, benchmark, _Cells(columns, cells, 1, BY_DOMAIN, metric))


#: VLUE measures VQA by another rule in each domain.
_OTHER_RULE = {"soft_accuracy": "exact_match", "exact_match": "soft_accuracy"}


def _matching_metric(session: Session, rival: Benchmark, metric: str) -> str:
    rival_metrics = metrics_of(session, rival)
    return next(
        (name for name in (metric, _OTHER_RULE.get(metric, "")) if name in rival_metrics), main_metric(rival.headline)
    )


@dataclass(frozen=True, slots=True)
class _Cells:
    """The table of one benchmark: model -> a cell for each column, sorted by one of them."""

    columns: tuple[Column, ...]
    cells: Mapping[int, Sequence[Cell | None]]
    sorted_by: int
    tag: str = ""
    metric: str = ""


def _of_benchmark(session: Session, benchmark: Benchmark, table: _Cells) -> Leaderboard:
    heads = read_heads(session)
    rows = [make_row(heads[model], cells) for model, cells in table.cells.items()]
    metric = table.metric or main_metric(benchmark.headline)
    block, head = (
        Block(title="", first=0, last=len(table.columns), sorted_by=table.sorted_by),
        benchmark_head(benchmark),
    )
    if note := describe_hidden(session, [benchmark]).get(benchmark.id or 0):
        head = head.model_copy(update={"part": note})
    board = arrange_rows(rows, table.columns, [block], title=head.title, about="")
    return board.model_copy(
        update={
            "benchmark": head,
            "maps": _map_links(session, benchmark, metric),
            "choices": _choice_links(session, benchmark, table.tag, metric),
            "metrics": _metric_choices(session, benchmark, table.tag, metric),
        }
    )


def _map_links(session: Session, benchmark: Benchmark, metric: str) -> tuple[Link, ...]:
    arguments = {"slug": benchmark.slug, "metric": file_name(metric)}
    return tuple(
        Link(text=tag, page="map", args={**arguments, "tag": file_name(tag)}) for tag in tags_of(session, benchmark)
    )


def _choice_links(session: Session, benchmark: Benchmark, tag: str, metric: str) -> tuple[Link, ...]:
    arguments = {"slug": benchmark.slug, "metric": file_name(metric)}
    links = [Link(text="metrics", page="benchmark", args={"slug": benchmark.slug}, current=not tag)]
    if benchmark.rival and session.exec(select(Benchmark.id).where(Benchmark.name == benchmark.rival)).first():
        links.append(Link(text="domain", page="by", args={**arguments, "tag": BY_DOMAIN}, current=tag == BY_DOMAIN))
    of_tags = (
        Link(text=each, page="by", args={**arguments, "tag": file_name(each)}, current=tag == each)
        for each in tags_of(session, benchmark)
    )
    return (*links, *of_tags)


def _metric_choices(session: Session, benchmark: Benchmark, tag: str, metric: str) -> tuple[Link, ...]:
    if not tag:
        return ()
    arguments = {"slug": benchmark.slug, "tag": tag if tag == BY_DOMAIN else file_name(tag)}
    return tuple(
        Link(text=each, page="by", args={**arguments, "metric": file_name(each)}, current=each == metric)
        for each in metrics_of(session, benchmark)
    )


def find_name(benchmark: Benchmark, kind: str, address: str, names: Iterable[str]) -> str:
    """Return the metric or the tag of a benchmark that has this name in addresses."""
    name = {file_name(each): each for each in names}.get(address)
    if name is None:
        raise UnknownNameError(f"{benchmark.name} has no {kind} {address[:200]!r} here")
    return name


def tags_of(session: Session, benchmark: Benchmark) -> list[str]:
    """Return the tags by which a benchmark has numbers."""
    # From one to the next in the index `score_of`: DISTINCT reads every number of the benchmark, tens of thousands.
    tags, tag = [], ""
    following = select(func.min(Score.tag)).where(Score.benchmark_id == benchmark.id)
    while (tag := session.exec(following.where(Score.tag > tag)).one()) is not None:
        tags.append(tag)
    return sorted(tags)


def metrics_of(session: Session, benchmark: Benchmark) -> list[str]:
    """Return the shares of right answers that a benchmark has, its headline first."""
    same = (Score.benchmark_id == benchmark.id, Score.tag == "", Score.deviation == False)  # noqa: E712
    names = set(session.exec(select(Score.metric).where(*same).distinct()).all())
    return [*(name for name in benchmark.headline if name in names), *sorted(names - set(benchmark.headline))]
