"""The form of a page of findings: question, answer, picture, numbers, sources, limits."""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tellapart.benchmarks.set_file import read_rows
from tellapart.stats.paired import write_p

#: Inches: a picture of this width is not made smaller on a phone of 390 pixels, so that its names stay readable.
PHONE = 3.7
#: The folder of the pages.
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "findings"
TEMPLATES = Path(__file__).with_name("templates")


def read_fields(path: Path) -> list[dict[str, Any]]:
    """Return the fields of each row of a file, with those of `read_rows`: `file` is its name without the suffix."""
    return [row for _, row in read_rows(path)]


@dataclass(frozen=True, slots=True)
class Source:
    """Published data: files below the data folder that match a pattern, their licence and address."""

    pattern: str
    licence: str
    address: str

    def files(self, data: Path) -> list[Path]:
        """Return the files, sorted."""
        return sorted(path for path in data.glob(self.pattern) if path.is_file())

    def rows(self, data: Path) -> list[dict[str, Any]]:
        """Return the fields of each row of the files."""
        return [row for path in self.files(data) for row in read_fields(path)]

    def digest(self, data: Path) -> str:
        """Return the SHA-256 of the one file, or of the lines `SHA-256, two blanks, name` of several."""
        found = self.files(data)
        sums = [(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(data)) for path in found]
        if len(sums) == 1:
            return sums[0][0]
        return hashlib.sha256("".join(f"{digest}  {name.as_posix()}\n" for digest, name in sums).encode()).hexdigest()


#: Name of a file or files of `sources.toml` -> the data.
SOURCES = {
    name: Source(**row)
    for name, row in tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")).items()
}


@dataclass(frozen=True)
class Page:
    """One page: the template of its name in `templates`, filled with `values`, the picture, and the sources."""

    name: str
    picture: Callable[[], Any]
    sources: Sequence[Source]
    values: Mapping[str, Any]
    data: Path

    def markdown(self) -> str:
        """Return the page."""
        rows = [
            [f"`{one.pattern}`", f"{len(one.files(self.data))}", one.licence, one.address, f"`{one.digest(self.data)}`"]
            for one in self.sources
        ]
        files = make_table(["files in DIR", "n", "licence", "from", "SHA-256"], "l|r|l|l|l", rows)
        return write_pages_text([render_page(TEMPLATES, self.name, {**self.values, "name": self.name, "files": files})])


def render_page(folder: Path, name: str, values: Mapping[str, Any]) -> str:
    """Fill the template of a name in a folder; each value that it asks for must be there."""
    loader = FileSystemLoader(folder)
    environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True)  # noqa: S701  (Markdown)
    functions = (len, sum, min, max, int, np.median, percent, points, bounds, ends, join_words, write_p)
    environment.globals |= {function.__name__: function for function in functions} | {"two": "{:.2f}".format}
    environment.filters["table_rows"] = lambda rows: "\n".join(f"| {' | '.join(row)} |" for row in rows)
    environment.filters["names"] = lambda names: join_words([f"`{name}`" for name in names])
    return environment.get_template(f"{name}.md.j2").render(values)


def write_pages_text(blocks: Iterable[str]) -> str:
    """Return blocks as markdown of at most 120 columns; tables, code, pictures and comments stay as they are."""
    return "\n\n".join(_wrap_block(block) for part in blocks for block in re.split(r"\n{2,}", part.strip("\n"))) + "\n"


def _wrap_block(block: str) -> str:
    if block.startswith(("|", "```", "!", "<", "#")):
        return block
    first, rest = ("- ", "  ") if block.startswith("- ") else ("", "")
    paragraphs = block.removeprefix("- ").split("\n- ") if first else [block]
    return "\n".join(
        fill(" ".join(text.split()), 120, initial_indent=first, subsequent_indent=rest, break_long_words=False,
             break_on_hyphens=False) for text in paragraphs
    )  # fmt: skip


def make_table(heads: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `align` has l or r for each column, with bars between."""
    marks = "|".join("--:" if side == "r" else "---" for side in align.split("|"))
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([lines[0], f"|{marks}|", *lines[1:]])


def name_rows(figure: Any, axes: Any, names: Sequence[str], label: str, columns: int = 0) -> None:
    """Name the rows of a picture, the first on top, its axis, and above it what so many columns of a legend hold."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(axis="x")
    if columns:
        figure.legend(loc="outside upper left", ncols=columns, handletextpad=0.2, columnspacing=1)


def draw_intervals(axes: Any, rows: Sequence[int], intervals: Sequence[Any], colour: str, unit: float = 100) -> None:
    """Draw a line from low to high of each interval, in its row."""
    lines = [[unit * interval.low for interval in intervals], [unit * interval.high for interval in intervals]]
    axes.plot(lines, [rows, rows], color=colour, linewidth=1)


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, without the sign; a half is rounded away from zero, whatever a sum's last bits are."""
    return f"{100 * share * (1 + 1e-12):.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """Return a difference in points with its sign; what rounds to nothing has none."""
    shown = f"{100 * difference * (1 + 1e-12):+.{digits}f}"
    return shown if float(shown) else shown[1:]


def bounds(low: float, high: float, write: Callable[[float], str] = percent) -> str:
    """Return an interval, `[1.0, 2.0]`."""
    return f"[{write(low)}, {write(high)}]"


def ends(found: Any, write: Callable[[float], str] = percent) -> str:
    """Return the ends of anything with `low` and `high`."""
    return bounds(found.low, found.high, write)


def join_words(words: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
