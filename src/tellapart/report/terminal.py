"""Tables and lines on the terminal: wide enough when piped, numbers aligned to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "print_lines", "table"]


def console() -> Console:
    """Return the console that tables are printed on."""
    from rich.console import Console

    # Without a terminal rich assumes 80 columns, and would fold a table that someone pipes into a file.
    # In a notebook it would draw boxes in place of printing.
    own = Console(force_jupyter=False)
    return own if own.is_terminal else Console(width=120, force_jupyter=False)


def print_lines(*lines: str) -> None:
    """Print lines as they are: no markup, no colours, never folded.

    >>> print_lines("[b]", "0.5")
    [b]
    0.5
    """
    console().print("\n".join(lines), markup=False, emoji=False, highlight=False, soft_wrap=True)


def table(*headings: str, numbers_from: int | None = None, title: str | None = None) -> Table:
    """Make an empty table; columns from `numbers_from` on are aligned to the right.

    >>> len(table("model", "score", numbers_from=1).columns)
    2
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    new = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, heading in enumerate(headings):
        right = numbers_from is not None and position >= numbers_from
        new.add_column(Text(heading), justify="right" if right else "left", no_wrap=right or position == 0)
    return new
