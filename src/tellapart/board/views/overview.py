"""The first page: all benchmarks side by side, by family, those that most models were measured on first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Source
from tellapart.board.views.limited import Part, describe_hidden, find_parts
from tellapart.board.views.rows import (
    PAGE,
    Block,
    Column,
    Leaderboard,
    Unread,
    arrange_rows,
    make_row,
    read_heads,
    read_scores,
)
from tellapart.board.views.view import Cell, Link
from tellapart.errors import UnknownNameError
from tellapart.tasks.registry import main_metric


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
