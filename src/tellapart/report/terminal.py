"""Tables and lines on the terminal: wide enough when piped, numbers aligned to the right; and pages in a browser."""

from __future__ import annotations

import codecs
import io
import os
import sys
import webbrowser
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import plain
from tellapart.report.tables import MODEL_COLUMNS, Column, Table, name_model, text_row, text_table
from tellapart.report.templates import TABLE, render_text, show_marks

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from tellapart.records.result import Result


def open_in_browser(page: Path) -> bool:
    """Open a local page in the user's browser, and return whether one took it; none without a terminal or a display."""
    display = sys.platform in {"darwin", "win32"} or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (sys.stdout.isatty() and display):
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


#: Characters that lines and pages of text have beside letters.
_KEPT = "\n\t"

#: What stands for tellapart's marks where an encoding lacks them.
_PLAIN_MARKS = {"\u2013": "-", "\u2014": "-", "\u2026": "...", "\u2020": "+", "\u2500": "-", "\u2501": "-"}


def _spell_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN_MARKS.get(letter) or ascii(letter)[1:-1] for letter in letters), error.end


codecs.register_error("tellapart", _spell_letters)


def spell_out(stream: object) -> None:
    """Let a stream spell out the characters that its encoding lacks (ascii, cp1252, cp932), in place of an error."""
    if getattr(stream, "errors", None) == "strict" and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="tellapart")


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return the console that tables and progress are printed on; every text passes through `errors.plain`."""
    from rich.console import Console
    from rich.segment import Segment

    class PlainConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(plain(part.text, _KEPT), part.style)

    if stderr:
        return PlainConsole(stderr=True)
    spell_out(sys.stdout)
    if width is not None or isinstance(sys.stdout, io.StringIO):  # an object's text: no colours though notebooks ask
        return PlainConsole(width=width or 120, color_system=None, force_terminal=False, force_jupyter=False)
    # Without a terminal rich assumes 80 columns, and would fold a table that someone pipes into a file.
    # In a notebook it would draw boxes in place of printing.
    plain_console = PlainConsole(force_jupyter=False)
    terminal = sys.stdout.isatty() or os.environ.get("TTY_COMPATIBLE") == "1"  # FORCE_COLOR asks for colours alone
    return plain_console if terminal else PlainConsole(width=120, force_jupyter=False)


def print_text(text: object, *, end: str = "\n", error: bool = False) -> None:
    """Print a text at once, with what would steer the terminal spelled out; to standard error with `error`."""
    stream = sys.stderr if error else sys.stdout
    spell_out(stream)
    print(plain(str(text), _KEPT), end=end, file=stream, flush=True)


def print_lines(*lines: str) -> None:
    """Print lines as they are: no markup, no colours, never folded."""
    console().print("\n".join(lines), markup=False, emoji=False, highlight=False, soft_wrap=True)


def parts_of(template: str, **facts: Any) -> list[Table | str]:
    """Return the tables and the lines between them of a text's template.

    There `call table(HEADS...)` makes a table: a line a row, `|` between cells. A line `~section~` is a rule, `~dim~`
    and `~alarm~` before the first cell a style. A table of `models`, labels with runs' records, has `MODEL_COLUMNS`.
    """
    tables: list[Table] = []
    styles = {"dim": "dim", "alarm": "bold red"}

    def draw(
        *heads: str | Column, caller: Callable[[], str], title: str = "", numbers_from: int | None = None,
        models: Sequence[tuple[str, Result]] | None = None, **options: Any,
    ) -> str:  # fmt: skip
        labels, at = len(heads) if numbers_from is None else numbers_from, 0
        if models is not None:
            columns = [head if isinstance(head, Column) else Column("", head) for head in heads]
            at = [column.name for column in columns].index("model")
            columns[at : at + 1] = [replace(columns[at], name=name) for name in MODEL_COLUMNS]
            heads, labels = (*columns,), labels + (len(MODEL_COLUMNS) - 1) * (at < labels)
        rows, ruled, waiting = [], False, [*(models or ())]
        for line in filter(None, caller().split("\n")):
            _, mark, cells = line.split("~", 2) if line.startswith("~") else ("", "", line)
            if mark != "section":
                texts = [*map(show_marks, cells.split("|"))]
                if models is not None:
                    is_next = bool(waiting) and waiting[0][0] == texts[at]
                    texts[at : at + 1] = name_model(texts[at], waiting.pop(0)[1] if is_next else None)
                rows.append(text_row(texts, labels, styles.get(mark, ""), ruled=ruled))
            ruled = mark == "section"
        tables.append(text_table(*heads, numbers_from=labels, rows=rows, title=show_marks(title), **options))
        return f"{TABLE}{len(tables) - 1}\n"

    lines = render_text(template, table=draw, column=Column, **facts)
    return [tables[int(line[1:])] if line.startswith(TABLE) else plain(show_marks(line)) for line in lines[:-1]]


def print_template(template: str, **facts: Any) -> None:
    """Print a text's template: its tables, and its lines."""
    for part in parts_of(template, **facts):
        if isinstance(part, str):
            print_lines(part)
        else:
            console().print(part)


def tables_of(template: str, **facts: Any) -> list[Table]:
    """Return the tables of a text's template."""
    return [part for part in parts_of(template, **facts) if not isinstance(part, str)]


def print_tables(*tables: Table | rich.table.Table | None, gap: bool = True) -> None:
    """Print tables that are there; each is followed by an empty line if there is a `gap`."""
    for shown in tables:
        if shown is not None:
            console().print(shown)
            if gap:
                print_lines("")
