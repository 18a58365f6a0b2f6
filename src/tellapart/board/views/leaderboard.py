"""Content of leaderboards: all benchmarks; one benchmark by its metrics, a tag's values or domain; its heat map."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from tellapart.board.records import Benchmark, Entry, Model, Tables
from tellapart.errors import UnknownNameError
from tellapart.records.result import HIDDEN_NUMBERS, Value
from tellapart.records.run_folder import file_name
from tellapart.tasks.registry import is_higher_better

#: The rows of a table for CSV and LaTeX; the first one has the columns' names.
Rows = Sequence[Sequence[str | int | float | None]]


def with_reasons(rows: Rows, reasons: Sequence[str | None]) -> Rows:
    """Return the rows with a last column `no interval`, the reason; unchanged if every row has an interval."""
    column = ["no interval", *(reason or None for reason in reasons)]
    return [(*row, why) for row, why in zip(rows, column, strict=True)] if any(reasons) else rows


class View(BaseModel, frozen=True):
    """A page's content, or a part of it."""

    title: str
    table_rows: Rows = Field(default=(), exclude=True)

    def table(self) -> Rows:
        """Return the page as a table for CSV and LaTeX; nothing if it has none."""
        return self.table_rows


class Content(View, frozen=True, extra="allow"):
    """A page's content as plain data, which programs get as JSON at the page's address; rows are its table, if any."""

    if TYPE_CHECKING:

        def __init__(self, *, title: str, table_rows: Rows = (), **data: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


class Link(BaseModel, frozen=True):
    """A link to another page."""

    text: str
    page: str  # a key of `rendering.PATTERNS`
    args: dict[str, str | int]  # the arguments of its address
    current: bool = False  # the link is on the page that it leads to


def choice_links(
    page: str, args: Mapping[str, str | int], key: str, texts: Mapping[str, str], current: str = ""
) -> tuple[Link, ...]:
    """Return links to a page with the arguments `args` and `key`: one for each value in `texts` (value -> text)."""
    return tuple(
        Link(text=text, page=page, args={**args, key: value}, current=value == current) for value, text in texts.items()
    )


class Cell(BaseModel, frozen=True):
    """One number of a table, with its interval, chance and ties: a fraction, or a deviation in the unit of scores."""

    value: float
    low: float | None = None
    high: float | None = None
    reason: str | None = None  # why there is no interval, if that is known
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    official: float | None = None  # the value as the benchmark's authors count ties; None if that is equal, or unknown
    tier: int | None = None  # shared by models that the items cannot separate; None if they were not tested
    mark: str = ""  # `imported` for a number published elsewhere, `on trust` for scores computed elsewhere
    limited: str = ""  # `20 of 300 items` if the number is over a part of the benchmark; it is then not ranked
    rounded: bool = False  # labels are hidden, and the number is rounded to a step

    def percent(self, decimals: int = 2, sign: str = "") -> str:
        """Write the value in percent; a rounded one without digits that are not known."""
        return f"{100 * self.value:{sign}{'.4g' if self.rounded else f'.{decimals}f'}}"


#: Model -> column -> the model's number in this column.
CellTable = dict[str, dict[str, Cell]]


def find_parts(tables: Tables) -> Mapping[str, tuple[str, int]]:
    """Return each benchmark that is a part of another -> the benchmark that shows its numbers, and its number of items.

    The complete benchmark shows them, or the largest part if no model was measured on all items.
    """
    parts = [benchmark for benchmark in tables.benchmarks.values() if benchmark.limited_from is not None]
    limited = {}
    for part in parts:
        complete = [whole for whole in tables.benchmarks.values() if whole.name == part.name and whole not in parts]
        of_size = [whole for whole in complete if whole.n == part.limited_from]
        largest = max((other for other in parts if other.name == part.name), key=lambda other: other.n)
        shown_on = next(iter((*of_size, *complete)), largest)
        limited[part.slug] = (shown_on.slug, part.n)
    return limited


def describe_hidden(tables: Tables, benchmark: Benchmark) -> str:
    """Return `150 of 300 items, rounded to 1 point` for a benchmark whose labels are hidden; else an empty text."""
    entries = tables.entries_of(benchmark=benchmark.slug) if benchmark.is_hidden else []
    notes = [note for entry in entries for note in entry.record.notes if HIDDEN_NUMBERS in note]
    return notes[-1].partition(HIDDEN_NUMBERS)[2] if notes else ""


#: Models on one page of the overview's table.
PAGE = 50


class Column(View, frozen=True):
    """One column."""

    unit: str = "percent"  # `percent`, or `points` for a difference of percentages
    about: str = ""
    note: str = ""  # about all of its numbers: `150 of 300 items, rounded to 1 point`
    group: str = ""  # the family of benchmarks that it shares with its neighbours; empty if it shares none
    link: Link | None = None  # the link of its head
    ranked: bool = Field(default=True, exclude=True)  # models are ranked by its numbers: the largest is the best


class LeaderboardRow(View, frozen=True):
    """One model; a cell for each column, None if it was not measured."""

    model: Model
    cells: tuple[Cell | None, ...]
    rank: int | None = None


class Block(View, frozen=True):
    """A table of a leaderboard: some of its columns, and the models that have numbers in them."""

    first: int  # its columns are `columns[first:last]` of the leaderboard, and its rows `rows[first_row:last_row]`
    last: int
    first_row: int = 0
    last_row: int = 0
    sorted_by: int = 0  # the column by which its rows are sorted, counted from the leaderboard's first

    def has(self, row: LeaderboardRow) -> bool:
        """Return whether a row has a number in its columns."""
        return any(cell is not None for cell in row.cells[self.first : self.last])


class Leaderboard(View, frozen=True):
    """A leaderboard."""

    benchmark: Benchmark | None = None
    about: str = ""
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]  # its tables; several if some benchmarks share no model
    rows: tuple[LeaderboardRow, ...]  # those of each block, the best model first
    references: tuple[LeaderboardRow, ...]  # people, then reference models; they have no rank
    chance: tuple[float | None, ...]  # of each column
    maps: tuple[Link, ...] = ()  # links to its heat maps, one for each tag
    folded: tuple[Link, ...] = ()  # benchmarks that have no column, since no ranked model was measured on them
    unread: tuple[dict[str, str], ...] = ()  # names of files that could not be read, with reasons; on the first page
    choices: tuple[Link, ...] = ()  # links to other columns for the same benchmark
    metrics: tuple[Link, ...] = ()  # links to the same columns by other metrics
    tested: bool = False  # the models of at least one column were tested against each other
    page: int = 1  # which part of the rows is shown as HTML, and of how many parts
    pages: int = 1

    def rows_of(self, block: Block) -> tuple[LeaderboardRow, ...]:
        """Return the rows of a block that are on this page."""
        first, last = (0, len(self.rows)) if self.pages == 1 else (PAGE * (self.page - 1), PAGE * self.page)
        return self.rows[max(block.first_row, first) : min(block.last_row, last)]

    def table(self) -> Rows:
        """Return a row for each model: every number with interval and tier, and which are on a part of the items."""
        all_rows = (*self.rows, *self.references)
        titles = [column.title for column in self.columns]  # each block may have a mean
        names = [
            title if titles.count(title) == 1 else f"{title} {titles[:k].count(title) + 1}"
            for k, title in enumerate(titles)
        ]

        def join(row: LeaderboardRow, field: str, heads: Sequence[str]) -> str:
            """Return a field of the row's cells, each after its column's name: `aro: 20 of 300 items; vqa: ...`."""
            texts = ((head, getattr(cell, field)) for head, cell in zip(heads, row.cells, strict=True) if cell)
            return "; ".join(f"{head}: {text}" for head, text in texts if text)

        limits = [join(row, "limited", titles) for row in all_rows]
        head = [f"{name}{suffix}" for name in names for suffix in ("", " low", " high", " tier")]
        rows: list[tuple[str | float | None, ...]] = [("model", "kind", *(["limited"] if any(limits) else []), *head)]
        for row, limit in zip(all_rows, limits, strict=True):
            cells = [(c.value, c.low, c.high, c.tier) if c else (None,) * 4 for c in row.cells]
            limited = [limit] if any(limits) else []
            rows.append((row.model.label, row.model.kind, *limited, *(number for cell in cells for number in cell)))
        return with_reasons(rows, [join(row, "reason", names) for row in all_rows])


def place_rows(rows: Sequence[LeaderboardRow], by: int, *, ranked: bool = True) -> tuple[LeaderboardRow, ...]:
    """Return models in their order by the column with index `by`, with their ranks if the column is `ranked`.

    Models without a number in this column, or with a number on a part of the items, come last and have no rank; those
    with most numbers come first among them. Equal numbers share a rank, and so do models of one tier. Models without a
    tier whose numbers are higher than the tier's best rank before the tier.
    """
    contestants = sorted((row for row in rows if row.model.kind == "model"), key=lambda row: _sort_key(row, by))
    cells = [row.cells[by] if row.cells and ranked else None for row in contestants]
    full = [cell for cell in cells if cell and not cell.limited]
    values, tiers = [cell.value for cell in full], [cell.tier for cell in full]
    untested = [cell.value for cell in full if cell.tier is None]

    def rank(cell: Cell) -> int:
        if cell.tier is None:
            return 1 + values.index(cell.value)
        best = values[tiers.index(cell.tier)]  # of this tier
        return cell.tier + sum(value > best for value in untested)

    ranks = [rank(cell) if cell and not cell.limited else None for cell in cells]
    return tuple(row.model_copy(update={"rank": rank}) for row, rank in zip(contestants, ranks, strict=True))


def _sort_key(row: LeaderboardRow, by: int) -> tuple[bool, int, int, float, str]:
    """Sort by the column's numbers; rows without one by how many numbers they have, then by their first number."""
    measured = [k for k, cell in enumerate(row.cells) if cell is not None]
    full = [k for k in measured if not row.cells[k].limited]  # type: ignore[union-attr]
    column = by if by in full else next(iter((*full, *measured)), 0)
    cell = row.cells[column] if row.cells else None
    order = (0, 0) if by in full else (-len(full), column)
    return (by not in full, *order, -cell.value if cell else 0.0, row.model.label)


def arrange_rows(
    tables: Tables, table: CellTable, columns: Mapping[str, Column], blocks: Sequence[Block], **content: Any
) -> Leaderboard:
    """Make a leaderboard: each block's models in their places, then people and reference models."""
    rows = _make_rows(tables, table, columns)
    ranked = [column.ranked for column in columns.values()]
    all_rows: list[LeaderboardRow] = []
    placed = []
    for block in blocks:
        by, members = block.sorted_by, [row for row in rows if block.has(row) or len(blocks) == 1]
        block_rows = place_rows(members, by, ranked=not ranked or ranked[by])
        start = len(all_rows)
        all_rows += block_rows
        placed.append(block.model_copy(update={"first_row": start, "last_row": len(all_rows)}))
    others = [row for row in rows if row.model.kind != "model"]
    others.sort(key=lambda row: (row.model.kind, _sort_key(row, blocks[0].sorted_by if blocks else 0)))
    return Leaderboard(
        columns=tuple(columns.values()),
        blocks=tuple(placed),
        rows=tuple(all_rows),
        references=tuple(others),
        chance=tuple(
            next((cell.chance for row in rows if (cell := row.cells[k]) and cell.chance is not None), None)
            for k in range(len(columns))
        ),
        tested=any(cell is not None and cell.tier is not None for row in rows for cell in row.cells),
        **content,
    )


#: The fields that a cell has of a record's number.
_CELL_FIELDS = ("value", "low", "high", "reason", "chance", "n", "ties", "tie_neutral", "official")


def make_cell(
    tables: Tables, entry: Entry, metric: str, number: Value, *, over_all: bool = True, mark: str = ""
) -> Cell:
    """Return a number of an entry as a table shows it, with the model's tier if it is over all items."""
    benchmark = tables.benchmarks[entry.benchmark]
    return Cell(
        **{name: getattr(number, name) for name in _CELL_FIELDS},
        tier=tables.tiers.get((benchmark.slug, metric), {}).get(entry.model) if over_all else None,
        mark=mark,
        limited=benchmark.part,
        rounded=benchmark.is_hidden,
    )


def read_cells(
    tables: Tables, benchmarks: Sequence[Benchmark], by: str, metrics: Collection[str] | None = None, *, tag: str = ""
) -> CellTable:
    """Return models' numbers; `by` says what the columns are: `benchmark`, `metric` or `value` (of the tag).

    The metrics are the main one of each benchmark if None. A number on all items replaces one on a part of them.
    """
    parts, wanted = find_parts(tables), {benchmark.slug for benchmark in benchmarks}
    table: CellTable = {}
    for entry in sorted(
        tables.entries.values(), key=lambda e: parts[e.benchmark][1] if e.benchmark in parts else math.inf
    ):
        shown_on = parts.get(entry.benchmark, ("", 0))[0]
        benchmark = shown_on if shown_on in wanted else entry.benchmark
        if benchmark not in wanted:
            continue
        named = [tables.benchmarks[benchmark].metric] if metrics is None else metrics
        # Value of the tag -> the numbers over its items, and their macro averages; without a tag, all.
        groups = {value: group.metrics for value, group in entry.record.by.get(tag, {}).items()}
        if not tag:
            groups = {"": entry.record.metrics}
        elif tag in entry.record.macro:
            groups[_MACRO] = entry.record.macro[tag].metrics
        for value, numbers in groups.items():
            for metric in named:
                if metric in numbers:
                    cell = make_cell(tables, entry, metric, numbers[metric], over_all=not tag, mark=entry.mark)
                    key = {"benchmark": benchmark, "metric": metric, "value": value}[by]
                    table.setdefault(entry.model, {})[key] = cell
    return table


def count_pages(items: int, size: int, page: int, *noun: str) -> int:
    """Return the number of pages for some items, `size` a page; another `page` is refused with the nouns in `noun`."""
    pages = max(1, -(-items // size))
    if not 1 <= page <= pages:
        raise UnknownNameError(f"{noun[0]} has pages 1 to {pages} of {noun[1]}; there is no page {page}")
    return pages


def _make_rows(tables: Tables, table: CellTable, columns: Iterable[str]) -> list[LeaderboardRow]:
    """Return models' rows, before they have places."""
    rows = [(tables.models[slug], tuple(row.get(column) for column in columns)) for slug, row in table.items()]
    return [LeaderboardRow(title=model.label, model=model, cells=cells) for model, cells in rows]


#: In place of a tag: columns for the benchmark, its rival of the other domain, and the gap between them.
BY_DOMAIN = "domain-of-benchmarks"

#: VLUE measures VQA by another rule in each domain.
_OTHER_RULE = {"soft_accuracy": "exact_match", "exact_match": "soft_accuracy"}

#: The head of the column of means; the keys of the columns of gaps and of macro averages, which are no values of a tag.
MEAN, _GAP, _MACRO = "mean", "\0gap", "\0macro"


def leaderboard(tables: Tables, slug: str) -> Leaderboard:
    """Show a benchmark by its headline metrics."""
    benchmark = tables.benchmark(slug)
    names, main = benchmark.headline, benchmark.metric
    table = read_cells(tables, [benchmark], "metric", names)
    columns = {name: Column(title=name, ranked=bool(is_higher_better(name))) for name in names}
    return _of_benchmark(tables, benchmark, columns, table, names.index(main) if names else 0, ("", main))


def by_tag(tables: Tables, slug: str, tag: str, metric: str) -> Leaderboard:
    """Show a benchmark by the values of a tag, with their mean and the gap of two; or next to its other domain."""
    benchmark = tables.benchmark(slug)
    name = find_name(benchmark, "metric", metric, metrics_of(tables, benchmark))
    if tag == BY_DOMAIN:
        return _by_domain(tables, benchmark, name)
    tag_name = find_name(benchmark, "tag", tag, tags_of(tables, benchmark))
    table = read_cells(tables, [benchmark], "value", [name], tag=tag_name)
    values = sorted({value for row in table.values() for value in row if value != _MACRO})
    ranked = bool(is_higher_better(name))
    columns = {value: Column(title=f"{tag_name}: {value}", ranked=ranked) for value in values}
    if len(values) > 1:
        columns[_MACRO] = Column(title="mean of the values", about="every value weighs the same")
    if len(values) == 2:
        columns |= _add_gap(table, values[0], values[1])
    return _of_benchmark(tables, benchmark, columns, table, 0, (tag_name, name))


def _add_gap(table: CellTable, first: str, second: str) -> dict[str, Column]:
    """Add the difference of two columns to the rows that have both; return its column."""
    for row in table.values():
        if (a := row.get(first)) and (b := row.get(second)):
            limited, rounded = a.limited or b.limited, a.rounded and b.rounded
            row[_GAP] = Cell(value=a.value - b.value, n=0, limited=limited, rounded=rounded)
    return {_GAP: Column(title="gap", unit="points", about=f"{first} less {second}")}


def _by_domain(tables: Tables, benchmark: Benchmark, metric: str) -> Leaderboard:
    rival = tables.benchmark_named(benchmark.rival)
    if rival is None:
        raise UnknownNameError(f"{benchmark.name} has no benchmark of the other domain on this board")
    rival_metrics = metrics_of(tables, rival)
    candidates = (name for name in (metric, _OTHER_RULE.get(metric, "")) if name in rival_metrics)
    sides = [(benchmark, metric), (rival, next(candidates, rival.metric))]
    if benchmark.domain != "in-domain":
        sides.reverse()
    table: CellTable = {}
    columns: dict[str, Column] = {}
    for title, (side, name) in zip(("in-domain", "out-of-domain"), sides, strict=True):
        ranked = bool(is_higher_better(name))
        columns[title] = Column(title=title, about=f"{side.name}: {name}", ranked=ranked)
        for model, row in read_cells(tables, [side], "metric", [name]).items():
            table.setdefault(model, {})[title] = row[name]
    columns |= _add_gap(table, *columns)
    return _of_benchmark(tables, benchmark, columns, table, 1, (BY_DOMAIN, metric))


def _of_benchmark(
    tables: Tables,
    benchmark: Benchmark,
    columns: Mapping[str, Column],
    table: CellTable,
    sorted_by: int,
    names: tuple[str, str],  # of the tag and of the metric
) -> Leaderboard:
    """Return the page of one benchmark's table."""
    tag, metric = names
    note = describe_hidden(tables, benchmark)
    head = benchmark.model_copy(update={"part": note}) if note else benchmark
    block = Block(title="", first=0, last=len(columns), sorted_by=sorted_by)
    tags, args = tags_of(tables, benchmark), {"slug": benchmark.slug, "metric": file_name(metric)}
    texts = {file_name(name): name for name in tags}
    if tables.benchmark_named(benchmark.rival) is not None:
        texts = {BY_DOMAIN: "domain", **texts}
    current = tag if tag == BY_DOMAIN else file_name(tag) if tag else ""
    plain_link = Link(text="metrics", page="benchmark", args={"slug": benchmark.slug}, current=not tag)
    metrics = {file_name(name): name for name in metrics_of(tables, benchmark)} if tag else {}
    by = {"slug": benchmark.slug, "tag": current}
    return arrange_rows(
        tables,
        table,
        columns,
        [block],
        title=head.title,
        benchmark=head,
        maps=choice_links("map", args, "tag", {file_name(name): name for name in tags}),
        choices=(plain_link, *choice_links("by", args, "tag", texts, current)),
        metrics=choice_links("by", by, "metric", metrics, file_name(metric)),
    )


def find_name(benchmark: Benchmark, kind: str, address: str, names: Iterable[str]) -> str:
    """Return the metric or the tag of a benchmark that has this name in addresses."""
    name = {file_name(each): each for each in names}.get(address)
    if name is None:
        raise UnknownNameError(f"{benchmark.name} has no {kind} {address[:200]!r} here")
    return name


def tags_of(tables: Tables, benchmark: Benchmark) -> list[str]:
    """Return the tags by which a benchmark has numbers."""
    records = [entry.record for entry in tables.entries_of(benchmark=benchmark.slug)]
    return sorted({tag for record in records for tag in (*record.by, *record.macro)})


def metrics_of(tables: Tables, benchmark: Benchmark) -> list[str]:
    """Return the shares of right answers that a benchmark has, its headline first."""
    entries = tables.entries_of(benchmark=benchmark.slug)
    names = {name for e in entries for name, value in e.record.metrics.items() if value.mean_absolute is None}
    return [*(name for name in benchmark.headline if name in names), *sorted(names - set(benchmark.headline))]


def family_of(name: str, names: Sequence[str]) -> str:
    """Return a benchmark's family: the shortest of `names` with which its own begins, else its first word."""
    heads = [name[: separator.start()] for separator in re.finditer(r"[-/:]", name)]
    return next((head for head in heads if head in names), heads[0] if heads else name)


def all_benchmarks(tables: Tables, page: int = 1) -> Leaderboard:
    """Show all benchmarks side by side, each by the metric that ranks it, and the mean of models measured on all.

    Benchmarks that no ranked model was measured on are folded into a list. Families of benchmarks that share no model
    are separate tables; the one of most models comes first. Every page has all rows, and shows a part of them.
    """
    settings, parts = tables.settings, find_parts(tables)  # a part has no column if all of it was measured
    benchmarks = [b for b in tables.benchmarks.values() if parts.get(b.slug, (b.slug,))[0] == b.slug]
    table = read_cells(tables, benchmarks, "benchmark")
    contestants = {model: cells for model, cells in table.items() if tables.models[model].kind == "model"}
    measured = {slug for contestant in contestants.values() for slug in contestant} or {b.slug for b in benchmarks}
    folded = sorted((b for b in benchmarks if b.slug not in measured), key=lambda b: b.name)
    columns: dict[str, Column] = {}
    blocks = []
    for number, block in enumerate(_separate_blocks([b for b in benchmarks if b.slug in measured], contestants)):
        meant = [b for b in benchmarks if b.name in settings.performance] or block
        mean = f"{MEAN} {number}"  # no slug has a blank
        with_mean = _with_mean(block, meant, mean, table, contestants) if any(b in block for b in meant) else None
        start = len(columns)
        columns |= with_mean or _benchmark_columns(block)
        notes = {b.slug: note for b in block if (note := describe_hidden(tables, b))}
        columns |= {key: columns[key].model_copy(update={"note": note}) for key, note in notes.items()}
        blocks.append(Block(title=block[0].name, first=start, last=len(columns), sorted_by=start))
    folders = [folder.resolve() for folder in tables.settings.runs]
    unread = []
    for path, reason in sorted(tables.unread.items()):
        folder = next((folder for folder in folders if path.is_relative_to(folder)), path.parent)
        unread.append({"title": path.relative_to(folder).as_posix(), "reason": reason})
    more = {"folded": tuple(map(_benchmark_link, folded)), "unread": tuple(unread), "page": page}
    about = {"title": settings.title, "about": settings.about}
    board = arrange_rows(tables, table, columns, blocks, **about, **more)
    return board.model_copy(update={"pages": count_pages(len(board.rows), PAGE, page, "this board", "models")})


def _with_mean(
    block: Sequence[Benchmark],
    meant: Sequence[Benchmark],
    key: str,
    table: CellTable,
    contestants: Mapping[str, Mapping[str, Cell]],
) -> dict[str, Column]:
    """Return the columns of a block with a column of means, whose cells are added to the table.

    The mean comes first, and so sorts the block, unless most of its models have none and would not be ranked.
    """
    models = [model for model, row in contestants.items() if any(b.slug in row for b in block)]
    for row in table.values():
        cells = [row.get(b.slug) for b in meant]
        values = [cell.value for cell in cells if cell and not cell.limited]
        if 1 < len(values) == len(meant):
            row[key] = Cell(value=math.fsum(values) / len(values), n=0)
    with_mean = sum(key in table[model] for model in models)
    over = ", ".join(b.name for b in meant)
    about = f"over {over}; only for models measured on all of them"
    ranked = all(is_higher_better(b.metric) for b in meant)
    mean = {key: Column(title=MEAN, about=about, ranked=ranked)} if with_mean else {}
    return mean | _benchmark_columns(block) if 2 * with_mean >= len(models) else _benchmark_columns(block) | mean


def _separate_blocks(
    benchmarks: Sequence[Benchmark], contestants: Mapping[str, Mapping[str, Cell]]
) -> list[list[Benchmark]]:
    """Return groups of benchmarks without a common model or family, in order, the group of most models first."""
    names = [b.name for b in benchmarks]
    families = {b.slug: family_of(b.name, names) for b in benchmarks}
    groups = [({family}, 0) for family in dict.fromkeys(families.values())]  # families, and how many models join them
    for row in contestants.values():
        joined = [group for group in groups if group[0] & {families[slug] for slug in row}]
        groups = [group for group in groups if group not in joined]
        groups.append((set().union(*(members for members, _ in joined)), 1 + sum(models for _, models in joined)))
    full = Counter(slug for row in contestants.values() for slug, cell in row.items() if not cell.limited)
    of_family, of_name = Counter[str](), Counter[str]()
    for b in benchmarks:  # `|` keeps the larger count
        of_family |= Counter({families[b.slug]: full[b.slug]})
        of_name |= Counter({b.name: full[b.slug]})

    def place(b: Benchmark) -> tuple[int, str, int, str, int]:
        family = families[b.slug]
        return -of_family[family], family, -of_name[b.name], b.name, -full[b.slug]

    ordered = sorted(benchmarks, key=place)
    blocks = [(-models, [b for b in ordered if families[b.slug] in group]) for group, models in groups]
    blocks.sort(key=lambda block: (block[0], ordered.index(block[1][0])))
    return [block for _, block in blocks]


def _benchmark_columns(benchmarks: Sequence[Benchmark]) -> dict[str, Column]:
    """Return a column for each benchmark, by its id; those of a family of several are grouped under its name."""
    names = [b.name for b in benchmarks]
    families = [family_of(name, names) for name in names]
    return {
        b.slug: Column(
            title=b.name,
            about=f"{b.metric}; {b.set_title}",
            link=_benchmark_link(b),
            group=family if families.count(family) > 1 else "",
            ranked=bool(is_higher_better(b.metric)),
        )
        for b, family in zip(benchmarks, families, strict=True)
    }


def _benchmark_link(benchmark: Benchmark) -> Link:
    return Link(text=benchmark.name, page="benchmark", args={"slug": benchmark.slug})


def heat_map(tables: Tables, slug: str, tag: str, metric: str) -> Content:
    """Show a benchmark's numbers by the values of a tag and by model, the best and the most frequent first."""
    benchmark = tables.benchmark(slug)
    metric_names, tag_names = metrics_of(tables, benchmark), tags_of(tables, benchmark)
    metric_name = find_name(benchmark, "metric", metric, metric_names)
    tag_name = find_name(benchmark, "tag", tag, tag_names)
    table = read_cells(tables, [benchmark], "value", [metric_name], tag=tag_name)
    complete = read_cells(tables, [benchmark], "metric", [metric_name])
    overall = {model: row[metric_name] for model, row in complete.items()}
    values = dict.fromkeys(value for row in table.values() for value in row if value != _MACRO)
    by_value = {value: {model: row[value] for model, row in table.items() if value in row} for value in values}
    shown = {model for row in by_value.values() for model in row}
    rows = _make_rows(tables, {model: complete.get(model, {}) for model in shown}, [metric_name])
    others = sorted((row for row in rows if row.model.kind != "model"), key=lambda row: (row.model.kind, row.title))
    models = [row.model for row in (*place_rows(rows, 0), *others)]
    order = sorted(by_value, key=lambda value: (-max(cell.n for cell in by_value[value].values()), value))
    all_items = describe_hidden(tables, benchmark) or "all items"  # the published part of hidden ones
    tags, metrics = ({file_name(name): name for name in names} for names in (tag_names, metric_names))
    lines: list[dict[str, Any]] = [
        {
            "title": name,
            "n": max((cell.n for cell in row.values()), default=0),
            "cells": tuple(_heat_cell(row.get(model.slug), f"{model.label}, {name}") for model in models),
        }
        for name, row in [*((value, by_value[value]) for value in order), (all_items, overall)]
    ]
    numbers = ((line["title"], line["n"], *(cell and cell["value"] for cell in line["cells"])) for line in lines)
    return Content(
        title=f"{benchmark.title}: {metric_name} by {tag_name}",
        table_rows=[(tag_name, "items", *(model.label for model in models)), *numbers],
        benchmark=benchmark,
        tag=tag_name,
        metric=metric_name,
        models=models,
        rows=lines,
        choices=choice_links("map", {"slug": slug, "metric": metric}, "tag", tags, tag),
        metrics=choice_links("map", {"slug": slug, "tag": tag}, "metric", metrics, metric),
    )


def _heat_cell(cell: Cell | None, place: str) -> dict[str, Any] | None:
    if cell is None:
        return None
    interval = f" ({cell.reason})" if cell.reason else ""
    if cell.low is not None and cell.high is not None:
        interval = f" [{100 * cell.low:.1f}, {100 * cell.high:.1f}]"
    bounded = cell.low is not None and cell.chance is not None
    part = f", {cell.limited}" if cell.limited else ""
    return {
        "title": f"{place}: {cell.percent()} %{interval}, {cell.n:,} {'item' if cell.n == 1 else 'items'}{part}",
        "value": cell.value,
        "text": cell.percent(1),
        "n": cell.n,
        "shade": round(10 * min(1.0, max(0.0, cell.value))),  # 0 (nothing right) to 10 (everything)
        "above_chance": (cell.low or 0.0) > (cell.chance or 0.0) if bounded else None,
        "limited": cell.limited,
    }
