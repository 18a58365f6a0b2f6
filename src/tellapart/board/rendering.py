"""Pages: their addresses; their content as HTML, whose templates escape everything, CSV and LaTeX; a static site."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tellapart.board.records import Tables
from tellapart.board.views import items, leaderboard, ranks
from tellapart.board.views.leaderboard import Cell, Content, Leaderboard, Rows, View
from tellapart.data.rows import spreadsheet_cell
from tellapart.errors import UnknownNameError
from tellapart.evaluation.compare import judge_pair
from tellapart.records.run_folder import write_blocks
from tellapart.report.charts import inline_svg, score_bar
from tellapart.report.numbers import deviation, percent, thousands
from tellapart.report.paper_tables.table import fit_width, latex_packages, latex_text
from tellapart.report.templates import make_environment
from tellapart.stats.paired import at_floor, write_p
from tellapart.tasks.registry import METRICS

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Page:
    """One kind of page."""

    name: str
    pattern: str  # its address; every value is a number or a slug of letters, digits, `.`, `_` and `-`
    gather: Callable[..., View]  # (tables, arguments of the address) -> its content
    template: str  # its file in `pages/`, without the ending


#: In the order in which addresses are matched.
PAGES = {
    page.name: page
    for page in (
        Page("home", "/", leaderboard.all_benchmarks, "leaderboard"),
        Page("home_page", "/pages/{page}", leaderboard.all_benchmarks, "leaderboard"),
        Page("ranks", "/ranks", ranks.ranks_page, "ranks"),
        Page("pareto", "/pareto/{cost}", ranks.pareto_page, "pareto"),
        Page("pareto_over", "/pareto/{cost}/{over}", ranks.pareto_page, "pareto"),
        Page("choose", "/compare", ranks.choose_page, "choose"),
        Page("compare", "/compare/{a}/{b}", ranks.comparison_page, "comparison"),
        Page("compare_many", "/compare/{models}", ranks.compare_many, "many"),
        Page("model", "/models/{slug}", items.model_page, "model"),
        Page("agreement", "/benchmarks/agree", ranks.agreement_page, "agreement"),
        Page("benchmark", "/benchmarks/{slug}", leaderboard.leaderboard, "leaderboard"),
        Page("by", "/benchmarks/{slug}/by/{tag}/{metric}", leaderboard.by_tag, "leaderboard"),
        Page("map", "/benchmarks/{slug}/map/{tag}/{metric}", leaderboard.heat_map, "heat_map"),
        Page("benchmark_ranks", "/benchmarks/{slug}/ranks", ranks.ranks_page, "ranks"),
        Page("items", "/benchmarks/{slug}/items/pages/{page}", items.items_page, "items"),
        Page("item", "/benchmarks/{slug}/items/{position}", items.item_page, "item"),
        Page("gallery", "/benchmarks/{slug}/gallery/{model}", items.gallery_page, "gallery"),
        Page("gallery_page", "/benchmarks/{slug}/gallery/{model}/{side}/pages/{page}", items.gallery_page, "gallery"),
    )
}

#: Page -> its address; also of pages without a view, such as hidden benchmarks and files.
PATTERNS = {name: page.pattern for name, page in PAGES.items()} | {
    "hidden": "/hidden",
    "hidden_benchmark": "/hidden/{name}",
    "task_file": "/hidden/{name}/task.zip",
    "send": "/hidden/{name}/submissions",
    "sent": "/submissions",
    "submission": "/submissions/{id}",
    "sign_in": "/sign-in",
    "sign_out": "/sign-out",
    "picture": "/benchmarks/{slug}/items/{position}/pictures/{number}",
    "static": "/static/{name}",
}


def path_of(page: str, /, **args: str | int) -> str:
    """Return a page's address on a server."""
    return PATTERNS[page].format(**args)


class ServerLinks:
    """Links of a page on a server; `root` is the path below which a proxy shows the board."""

    is_static = False

    def __init__(self, root: str = "") -> None:
        self._root = root

    def to(self, page: str, /, **args: str | int) -> str:
        """Return a page's address."""
        return self._root + path_of(page, **args)

    def data(self, kind: str) -> str:
        """Return the address of this page's data."""
        return f"?format={kind}"


def signs_of(cells: Sequence[Cell | None]) -> set[str]:
    """Return the names of the signs in a column's cells, which the page's legend explains; numbers' marks, too."""
    measured = [cell for cell in cells if cell is not None]
    occurs = {
        "gap": len(measured) < len(cells),
        "interval": any(cell.low is not None and cell.high is not None for cell in measured),
        "chance": any(cell.chance is not None for cell in measured),
        "tier": any(cell.tier is not None for cell in measured),
        "limited": any(cell.limited for cell in measured),
        "ties": any(cell.ties > 0 for cell in measured),
    }
    return {sign for sign, present in occurs.items() if present} | {cell.mark for cell in measured if cell.mark}


#: State of a submission -> the class in the style sheet by which its badge is coloured.
_BADGES = {
    **dict.fromkeys(("received", "validated", "measuring"), "even"),
    "done": "won",
    **dict.fromkeys(("refused", "surplus", "failed", "stopped"), "lost"),
}

#: In a table with more columns than this, numbers have no bars: a browser would be slow.
MOST_DRAWN = 12


def render(template: str, links: ServerLinks | StaticSite, **content: object) -> str:
    """Return a page of `pages/` or of `submissions/templates/`; everything in its content is escaped."""
    about_page = {"link": links.to, "data": links.data, "static": links.is_static, "here": template}
    return _environment().get_template(f"{template}.html.j2").render(**about_page, **content)


def asset(name: str) -> bytes:
    """Return a file of `static/`. The style sheet begins with that of a run's report."""
    for path in files("tellapart.board").joinpath("static").iterdir():
        if path.name == name:
            start = files("tellapart.report").joinpath("page.css").read_bytes() if name == "board.css" else b""
            return start + path.read_bytes()
    raise FileNotFoundError(name)


@lru_cache
def _environment() -> Environment:
    from jinja2 import FileSystemLoader

    folder = Path(__file__).parent
    folders = [folder / "pages", folder / "submissions" / "templates"]
    templates = make_environment(FileSystemLoader(folders), auto_reload=False)
    templates.filters |= {
        "percent": lambda value: f"{100 * value:.4g}",
        "bound": lambda value: f"{100 * value:.1f}",
        "number": Cell.percent,
        "score_bar": score_bar,
        "moment": _format_moment,
    }
    # Defaults, for pages whose content does not have these.
    templates.globals |= {"badges": _BADGES, "hidden": True, "has_table": ""}
    templates.globals |= {"account": None, "key": "", "again": False}
    templates.globals |= {
        "about_metric": lambda name: METRICS[name].title if name in METRICS else name,
        "decimals": _column_decimals,
        "groups_of": lambda columns: [(name, len(list(run))) for name, run in groupby(columns, attrgetter("group"))],
        "deviation": deviation,
        "labels_of": _labels_of,
        "lines": inline_svg,
        "most_drawn": MOST_DRAWN,
        "legend_of": _legend_of,
        "p_holm_text": lambda test: write_p(test.p_holm, at_most=at_floor(test.p, test.flips)),
        "percent": percent,
        "references_of": lambda view, block: [row for row in view.references if block.has(row)],
        "shorten": _shorten_name,
        "test_of": lambda on, better, other: next(
            (test for test in on["tests"] if (test.b, test.a) == (better["title"], other["title"])), None
        ),
        "thousands": thousands,
        "verdicts_of": lambda view: judge_pair(view.a.label, view.b.label, view.tests, len(view.tests)),
        "zip": zip,
    }
    return templates


def _format_moment(at: float | str) -> str:
    """Format seconds since 1970, or a moment in ISO 8601, for people."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    at_utc = moment.astimezone(UTC)
    return f"{at_utc.day} {at_utc:%B %Y, %H:%M} UTC"


def _legend_of(view: Leaderboard | Content) -> dict[str, Any]:
    """Return the signs of a page's tables: `marks` of all columns, and `rooms`, those of each column.

    `marks` also has the kinds of models without a rank. `rooms` also has `points`, the unit of a column, and `by` for a
    column by which a table is sorted. `common` is the mark that all numbers share; empty if there is none.
    """
    kinds, more = set[str](), {}
    if isinstance(view, Leaderboard):
        rows = (*view.rows, *view.references)
        columns = [[row.cells[k] for row in rows] for k in range(len(view.columns))]
        kinds = {row.model.kind for row in rows} - {"model"}
        more = {"points": {k for k, column in enumerate(view.columns) if column.unit == "points"}}
        more["by"] = {block.sorted_by for block in view.blocks}
    else:
        columns = [list(on["metrics"].values()) for on in view.on]  # of a model's page
    signs = [signs_of(cells) for cells in columns]
    # A mean and a gap (`n` is 0) have no mark of their own.
    marks = {cell.mark for cells in columns for cell in cells if cell is not None and (cell.mark or cell.n)}
    return {
        "marks": kinds.union(*signs),
        "rooms": [of_column.union(name for name in more if k in more[name]) for k, of_column in enumerate(signs)],
        "common": marks.pop() if len(marks) == 1 else "",
    }


def _column_decimals(numbers: Sequence[float]) -> int:
    """Return how many decimals a column has, so that its largest number has four digits."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return max(0, 3 - math.floor(math.log10(largest))) if largest else 0


def _shorten_name(name: str, most: int) -> str:
    """Leave out a name's middle: models of one family differ at the end."""
    tail = (most - 1) * 3 // 5
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def _labels_of(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[tuple[float, float], list[str]]]]:
    """Return the points (x, y) at which lines start and end, each with the names of the lines that share it."""
    starts: dict[tuple[float, float], list[str]] = {}
    ends: dict[tuple[float, float], list[str]] = {}
    for line in lines:
        for point in line["starts"]:
            starts.setdefault(point, []).append(line["title"])
        if len(line["ends"]) > 1:
            ends.setdefault(line["ends"][-1], []).append(line["title"])
    return {"starts": list(starts.items()), "ends": list(ends.items())}


#: A LaTeX column with a longer text has lines of a fixed width.
_LONG = 40


def as_csv(rows: Rows) -> str:
    """Return a table as CSV; numbers with all their digits, an empty field for None.

    Text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    target = io.StringIO()
    csv.writer(target).writerows(map(spreadsheet_cell, row) for row in rows)
    return target.getvalue()


def as_latex(title: str, table: Rows) -> str:
    """Return a table in the style of booktabs; fractions with four decimals, a small interval after each number.

    Columns `low` and `high` after a number, or `NAME low` and `NAME high` after the column `NAME`, are its interval.
    """
    head, *rows = table
    has_interval = [
        list(head[k + 1 : k + 3]) in (["low", "high"], [f"{name} low", f"{name} high"]) for k, name in enumerate(head)
    ]
    columns = [k for k in range(len(head)) if not any(has_interval[max(0, k - 2) : k])]

    def write_cell(row: Sequence[str | float | None], k: int) -> str:
        number = _latex_cell(row[k])
        if not has_interval[k] or row[k + 1] is None:
            return number
        return f"{number} {{\\scriptsize [{_latex_cell(row[k + 1])}, {_latex_cell(row[k + 2])}]}}"

    def align(k: int) -> str:
        lengths = [len(text) for row in rows if isinstance(text := row[k], str)]
        if not lengths:
            return "r"
        return "p{0.4\\linewidth}" if max(lengths) > _LONG else "l"

    lines = [[_latex_cell(head[k]) for k in columns], *([write_cell(row, k) for k in columns] for row in rows)]
    names, *written = (f"{' & '.join(cells)} \\\\" for cells in lines)
    tabular = [f"\\begin{{tabular}}{{{''.join(map(align, columns))}}}", "\\toprule", names, "\\midrule"]
    tabular += [*written, "\\bottomrule", "\\end{tabular}"]
    text = "\n".join([f"% {latex_text(title)}", *fit_width(tabular), ""])
    return "\n".join([*latex_packages(text), text])


def _latex_cell(cell: str | float | None) -> str:
    if cell is None:
        return "--"
    if isinstance(cell, str):
        return latex_text(cell)
    if isinstance(cell, int):
        return str(cell)
    if 0 < abs(cell) < 0.00005:  # a p-value
        digits, _, power = f"{cell:.1e}".partition("e")
        return rf"${digits} \cdot 10^{{{int(power)}}}$"
    return f"{cell:.4f}" if abs(cell) < 1000 else f"{cell:.0f}"


#: Pages that a small site leaves out: a benchmark by a tag, its heat maps, and how its ranking changes.
_LARGE_PAGES = frozenset({"by", "map", "benchmark_ranks"})

#: A bar, or blanks at the start of a line: a small site has neither.
_BAR = re.compile(r'<svg class="bar".*?</svg>|(?<=\n)[ \t\n]+')

#: A page's name, and its arguments in the order of their names.
PageKey = tuple[str, tuple[tuple[str, str | int], ...]]


class StaticSite:
    """The board as a static site: every page that a link leads to from the first one, its data and its pictures.

    Links of the page that is written lead from it to the others, so that they work from `file://`.

    Args:
        tables: the records.
        out: the folder.
        hidden: hidden benchmark -> the content of its page; an empty name -> that of their list; None without any.
        most_items: how many items of a benchmark get a page: those that most models fail.
        most_compared: how many models are compared.
        small: without data files, pages of a benchmark's parts, and bars.
    """

    is_static = True

    def __init__(
        self,
        tables: Tables,
        out: Path,
        *,
        hidden: Callable[[str], Mapping[str, Any]] | None = None,
        most_items: int = 500,
        most_compared: int = ranks.MOST,
        small: bool = False,
    ) -> None:
        self._tables, self._out, self._hidden = tables, out, hidden
        self._most_items, self._small = most_items, small
        self._choice = ranks.choose_page(tables, most=most_compared)
        self._compared = {link.args[side] for row in self._choice.pairs for link in row for side in "ab"}
        self._added: dict[PageKey, bool] = {}  # whether an address that was met is in the site
        self._queue: deque[PageKey] = deque()
        self._items: dict[str, set[int]] = {}  # benchmark -> positions of the items that have a page
        self._up = ""  # the way from the page that is written to the site's folder, such as `../../`

    def to(self, page: str, /, **args: str | int) -> str | None:
        """Return a page's file, relative to the page that is written; None for a page that is left out."""
        if not self._add_page(page, args):
            return None
        path = path_of(page, **args).lstrip("/")
        if page in {"static", "picture"}:
            return self._up + path
        return self._up + (f"{path}/index.html" if path else "index.html")

    def data(self, kind: str) -> str:
        """Return the file of this page's data, in the same folder; empty if the site has none."""
        return "" if self._small else f"data.{'tex' if kind == 'latex' else kind}"

    def write(self) -> int:
        """Write the site, and return the number of its pages."""
        self._add_page("home", {})
        pages = 0
        while self._queue:
            name, args = self._queue.popleft()
            self._write_page(name, dict(args))
            pages += 1
        return pages

    def _add_page(self, page: str, args: dict[str, str | int]) -> bool:
        """Return whether a page is in the site; a new one is written later, a file at once."""
        key = (page, tuple(sorted(args.items())))
        if key not in self._added:
            is_file = page in ("static", "picture")
            self._added[key] = self._write_file(page, args) if is_file else self._is_in(page, args)
            if self._added[key] and not is_file:
                self._queue.append(key)
        return self._added[key]

    def _write_file(self, page: str, args: dict[str, Any]) -> bool:
        with suppress(UnknownNameError):
            content = asset(**args) if page == "static" else items.picture(self._tables, **args)[1]
            self._write(path_of(page, **args), content)
            return True
        return False

    def _is_in(self, page: str, args: dict[str, str | int]) -> bool:
        if self._small and page in _LARGE_PAGES:
            return False
        if page in ("compare", "compare_many"):
            return self._compared.issuperset(args.values() if page == "compare" else str(args["models"]).split("+"))
        if page in ("items", "gallery_page"):
            size = items.PAGE if page == "items" else items.QUERIES
            return (int(args["page"]) - 1) * size < max(1, self._most_items)
        if page == "item":
            slug = str(args["slug"])
            if slug not in self._items:
                failures = (items.collect_outcomes(self._tables, self._tables.benchmarks[slug]) < 1).sum(axis=1)
                self._items[slug] = set((-failures).argsort(kind="stable")[: self._most_items].tolist())
            return args["position"] in self._items[slug]
        return True

    def _write_page(self, name: str, args: dict[str, Any]) -> None:
        page_path = path_of(name, **args)
        self._up = "../" * (len(PurePosixPath(page_path).parts) - 1)
        if name not in PAGES:
            self._write_hidden(page_path, **args)
            return
        page, hidden = PAGES[name], self._hidden is not None
        view = self._choice if name == "choose" else page.gather(self._tables, **args)
        content = render(page.template, self, view=view, board=self._tables.settings, hidden=hidden)
        self._write(f"{page_path}/index.html", _BAR.sub("", content) if self._small else content)
        if name != "home_page" and not self._small:  # the first page's data has all models
            self._write(f"{page_path}/data.json", view.model_dump_json(indent=1) + "\n")
            if table := view.table():
                self._write(f"{page_path}/data.csv", as_csv(table))
                self._write(f"{page_path}/data.tex", as_latex(view.title, table))

    def _write_hidden(self, page_path: str, name: str = "") -> None:
        """Write the leaderboard of a hidden benchmark, or the list of them."""
        assert self._hidden is not None  # noqa: S101  (no other page links to them)
        content = self._hidden(name)
        self._write(f"{page_path}/index.html", render("standings" if name else "hidden", self, **content))
        self._write(f"{page_path}/data.json", json.dumps(content, indent=1) + "\n")

    def _write(self, path: str, content: str | bytes) -> None:
        """Write a file; after a power cut, the same command makes it again."""
        data = content.encode() if isinstance(content, str) else content
        write_blocks(self._out / path.lstrip("/"), [data], synced=False)
