"""The form of a page of findings: question, answer, picture, numbers, sources, limits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: a picture of this width is not made smaller on a phone of 390 pixels, so that its names stay readable.
PHONE = 3.7
#: The folder of the pages.
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "findings"


@dataclass(frozen=True, slots=True)
class Source:
    """Published data: files below the data folder that match a pattern, their licence and address."""

    pattern: str
    licence: str
    address: str

    def files(self, data: Path) -> list[Path]:
        """Return the files, sorted."""
        return sorted(path for path in data.glob(self.pattern) if path.is_file())

    def digest(self, data: Path) -> str:
        """Return the SHA-256 of the one file, or of the lines `SHA-256, two blanks, name` of several."""
        found = self.files(data)
        sums = [(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(data)) for path in found]
        if len(sums) == 1:
            return sums[0][0]
        return hashlib.sha256("".join(f"{digest}  {name.as_posix()}\n" for digest, name in sums).encode()).hexdigest()


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        name: of its file and its picture.
        answer: plain sentences with their intervals; the README quotes the first two.
        picture: draws it; `alt` describes it.
        numbers: blocks of markdown: prose and tables.
        method: how the numbers were computed, in prose.
        sources: the data; files of this repository among them are named in `method`.
        limits: sentences on the page's reach.
    """

    name: str
    title: str
    question: str
    answer: str
    picture: Callable[[], Figure]
    alt: str
    numbers: Sequence[str]
    method: str
    sources: Sequence[Source]
    limits: Sequence[str]
    data: Path = field(default_factory=Path)

    def markdown(self) -> str:
        """Return the page."""
        rows = [
            [f"`{one.pattern}`", f"{len(one.files(self.data))}", one.licence, one.address, f"`{one.digest(self.data)}`"]
            for one in self.sources
        ]
        blocks = [
            f"# {self.title}",
            f"<!-- Made by `python -m examples.findings {self.name}`; edit the script. -->",
            f"**Question.** {self.question}",
            f"**Answer.** {self.answer}",
            f"![{self.alt}]({self.name}.svg)",
            "## Numbers",
            *self.numbers,
            "## Method",
            f"```console\n$ python -m examples.findings {self.name} --data DIR\n```",
            self.method,
            make_table(["files in DIR", "n", "licence", "from", "SHA-256"], "l|r|l|l|l", rows)
            + "\n\nOf several files it is the SHA-256 of the lines of `sha256sum`.",
            "## Limits",
            "\n".join(f"- {limit}" for limit in self.limits),
            "**Next:** [All findings](../findings.md)",
        ]
        return write_pages_text(blocks)


def write_pages_text(blocks: Iterable[str]) -> str:
    """Return blocks as markdown of at most 120 columns; tables, code, pictures and comments stay as they are."""
    return "\n\n".join(_wrap_block(block) for part in blocks for block in part.split("\n\n")) + "\n"


def _wrap_block(block: str) -> str:
    if block.startswith(("|", "```", "!", "<", "#")):
        return block
    lines = block.split("\n- ") if block.startswith("- ") else [block]
    if len(lines) == 1 and not block.startswith("- "):
        return fill(" ".join(block.split()), 120, break_long_words=False, break_on_hyphens=False)
    items = [" ".join(line.removeprefix("- ").split()) for line in lines]
    return "\n".join(
        fill(item, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for item in items
    )


def make_table(heads: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `align` has l or r for each column, with bars between."""
    marks = "|".join("--:" if side == "r" else "---" for side in align.split("|"))
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([lines[0], f"|{marks}|", *lines[1:]])


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, without the sign."""
    return f"{100 * share:.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """Return a difference in points with its sign; what rounds to nothing has none."""
    shown = f"{100 * difference:+.{digits}f}"
    return shown if float(shown) else shown[1:]


def bounds(low: float | None, high: float | None, write: Callable[[float], str] = percent) -> str:
    """Return an interval, `[1.0, 2.0]`."""
    assert low is not None
    assert high is not None
    return f"[{write(low)}, {write(high)}]"


def join_words(words: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
