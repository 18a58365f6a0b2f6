"""A heat map of one benchmark: a row for each value of a tag, a column for each model, one metric."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, func, select

from tellapart.board.settings import BoardSettings
from tellapart.board.store import Benchmark, Score, Source
from tellapart.board.views.rows import (
    PAGE,
    BenchmarkHead,
    Block,
    Cell,
    Column,
    Leaderboard,
    Link,
    ModelHead,
    Part,
    Table,
    Unread,
    View,
    arrange_rows,
    benchmark_head,
    describe_hidden,
    find_parts,
    make_row,
    one_by_slug,
    place_rows,
    read_heads,
    read_scores,
)
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


def family_of(name: str, names: Sequence[str]) -> str:
    """Return the family of a benchmark: the shortest other name that its own begins with, else its first word.

    >>> names = ["vlue-vqa", "vlue-nlvr2", "sugarcrepe", "sugarcrepe-choice"]
    >>> [family_of(name, names) for name in names]
    ['vlue', 'vlue', 'sugarcrepe', 'sugarcrepe']
    """
    parts = re.split(r"[-/:]", name)
    heads = [name[: len("-".join(parts[:k]))] for k in range(1, len(parts))]
    return next((head for head in heads if head in names), heads[0] if heads else name)


def arrange_benchmarks(measured: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (family, benchmark): families by their most measured benchmark, likewise the benchmarks of each.

    >>> arrange_benchmarks({"aro-order": 1, "aro-relation": 2, "demo": 2, "eqben": 5})
    [('eqben', 'eqben'), ('aro', 'aro-relation'), ('aro', 'aro-order'), ('demo', 'demo')]
    """
    families = {name: family_of(name, list(measured)) for name in measured}
    largest: dict[str, int] = {}
    for name, family in families.items():
        largest[family] = max(largest.get(family, 0), measured[name])
    order = sorted(measured, key=lambda name: (-largest[families[name]], families[name], -measured[name], name))
    return [(families[name], name) for name in order]


#: The head of the column that averages benchmarks.
MEAN = "mean"


def all_benchmarks(session: Session, settings: BoardSettings, page: int = 1) -> Leaderboard:
    """Show all benchmarks side by side, each by the metric that ranks it, and the mean of models measured on all.

    Benchmarks that no ranked model was measured on are folded into a list. Families of benchmarks that share no model
    are separate tables; the one of most models comes first. Every page has all rows, and shows a part of them.
    """
    parts = find_parts(session)
    benchmarks = [b for b in session.exec(select(Benchmark).order_by(col(Benchmark.id))) if _is_shown(b.id or 0, parts)]
    heads, table = read_heads(session), _read_table(session, benchmarks)
    contestants = {model: cells for model, cells in table.items() if heads[model].kind == "model"}
    measured = {id_ for contestant in contestants.values() for id_ in contestant} or {b.id or 0 for b in benchmarks}
    folded = sorted((b for b in benchmarks if b.id not in measured), key=lambda b: (b.name, b.id))
    columns: dict[int, Column] = {}
    blocks = []
    for number, block in enumerate(_separate_blocks([b for b in benchmarks if b.id in measured], contestants), start=1):
        meant = [b for b in benchmarks if b.name in settings.performance] or block
        with_mean = _with_mean(block, meant, -number, table, contestants) if any(b in block for b in meant) else None
        start = len(columns)
        columns |= with_mean or _benchmark_columns(block)
        notes = describe_hidden(session, block)
        columns |= {key: columns[key].model_copy(update={"note": note}) for key, note in notes.items()}
        blocks.append(Block(title=block[0].name, first=start, last=len(columns), sorted_by=start))
    rows = [make_row(heads[model], [cells.get(key) for key in columns]) for model, cells in table.items()]
    board = arrange_rows(rows, tuple(columns.values()), blocks, title=settings.title, about=settings.about)
    pages = max(1, math.ceil(len(board.rows) / PAGE))
    if not 1 <= page <= pages:
        raise UnknownNameError(f"this board has pages 1 to {pages} of models; there is no page {page}")
    more = {"folded": tuple(map(_benchmark_link, folded)), "unread": _read_unread(session, settings)}
    return board.model_copy(update={**more, "page": page, "pages": pages})


def _read_unread(session: Session, settings: BoardSettings) -> tuple[Unread, ...]:
    """Return the files of this board that could not be read, by their names below its folders."""
    found = []
    for source in session.exec(select(Source).where(Source.problem != "").order_by(col(Source.path))).all():
        path = Path(source.path)
        folder = next((own for own in map(Path.resolve, settings.runs) if path.is_relative_to(own)), None)
        if folder is not None:
            found.append(Unread(title=path.relative_to(folder).as_posix(), reason=source.problem))
        elif path in (own.resolve() for own in settings.imported):
            found.append(Unread(title=path.name, reason=source.problem))
    return tuple(found)


def _with_mean(
    own: Sequence[Benchmark],
    meant: Sequence[Benchmark],
    key: int,
    table: Mapping[int, dict[int, Cell]],
    contestants: Mapping[int, Mapping[int, Cell]],
) -> dict[int, Column]:
    """Return the columns of a block with its mean, whose cells are added to the table.

    The mean comes first, and so sorts the block, unless most of its models have none and would have no place.
    """
    models = [model for model, row in contestants.items() if any(b.id in row for b in own)]
    for row in table.values():
        cells = [row.get(b.id or 0) for b in meant]
        values = [cell.value for cell in cells if cell and not cell.limited]
        if 1 < len(values) == len(meant):
            row[key] = Cell(value=math.fsum(values) / len(values), n=0)
    have = sum(key in table[model] for model in models)
    over = ", ".join(b.name for b in meant)
    mean = {key: Column(title=MEAN, about=f"over {over}; only for models measured on all of them")} if have else {}
    return mean | _benchmark_columns(own) if 2 * have >= len(models) else _benchmark_columns(own) | mean


def _separate_blocks(
    benchmarks: Sequence[Benchmark], contestants: Mapping[int, Mapping[int, Cell]]
) -> list[list[Benchmark]]:
    """Return benchmarks in order, apart if no model and no family joins them; those of most models first."""
    names = [b.name for b in benchmarks]
    families = {b.id: family_of(b.name, names) for b in benchmarks}
    groups: list[tuple[set[str], int]] = [({family}, 0) for family in dict.fromkeys(families.values())]
    for own in contestants.values():
        met = [group for group in groups if group[0] & {families[id_] for id_ in own}]
        groups = [group for group in groups if group not in met]
        groups.append((set().union(*(group[0] for group in met)), 1 + sum(group[1] for group in met)))
    full = Counter(id_ for contestant in contestants.values() for id_, cell in contestant.items() if not cell.limited)
    ordered = _in_order(benchmarks, full)
    blocks = [([b for b in ordered if families[b.id] in group], models) for group, models in groups]
    return [own for own, _ in sorted(blocks, key=lambda pair: (-pair[1], ordered.index(pair[0][0])))] if ordered else []


def _is_shown(benchmark: int, parts: Mapping[int, Part]) -> bool:
    """Return whether a benchmark has a column: a part of one has none if all of it was measured."""
    part = parts.get(benchmark)
    return part is None or part.shown_on == benchmark


def _read_table(session: Session, benchmarks: Sequence[Benchmark]) -> dict[int, dict[int, Cell]]:
    """Return model -> benchmark -> the number that ranks it there."""
    mains = {b.id: main_metric(b.headline) for b in benchmarks}
    table: dict[int, dict[int, Cell]] = {}
    for score in read_scores(session, benchmarks, "", sorted(set(mains.values()))):
        if mains[score.benchmark] == score.metric:
            table.setdefault(score.model, {})[score.benchmark] = score.cell
    return table


def _in_order(benchmarks: Sequence[Benchmark], measured: Counter[int]) -> list[Benchmark]:
    largest: dict[str, int] = {}
    for b in benchmarks:
        largest[b.name] = max(largest.get(b.name, 0), measured[b.id or 0])
    places = {name: k for k, (_, name) in enumerate(arrange_benchmarks(largest))}
    return sorted(benchmarks, key=lambda b: (places[b.name], -measured[b.id or 0], b.id))


def _benchmark_columns(benchmarks: Sequence[Benchmark]) -> dict[int, Column]:
    """Return a column for each benchmark, by its id; those of a family of several are grouped under its name."""
    names = [b.name for b in benchmarks]
    families = [family_of(name, names) for name in names]
    return {
        b.id or 0: Column(
            title=b.name,
            about=f"{main_metric(b.headline)}; {b.title}",
            link=_benchmark_link(b),
            group=family if families.count(family) > 1 else "",
        )
        for b, family in zip(benchmarks, families, strict=True)
    }


def _benchmark_link(benchmark: Benchmark) -> Link:
    return Link(text=benchmark.name, page="benchmark", args={"slug": benchmark.slug})


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
