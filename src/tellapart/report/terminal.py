"""Tables on the terminal: wide enough when piped, numbers set to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "table"]


def console() -> Console:
    """Return where tables are printed.

    >>> console().width >= 80
    True
    """
    from rich.console import Console

    # Without a terminal rich assumes 80 columns, and would fold a table that someone pipes into a file.
    own = Console()
    return own if own.is_terminal else Console(width=120)


def table(*headings: str, numbers_from: int | None = None) -> Table:
    """Make an empty table; columns from `numbers_from` on are set to the right.

    >>> len(table("model", "score", numbers_from=1).columns)
    2
    """
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, heading in enumerate(headings):
        right = numbers_from is not None and place >= numbers_from
        made.add_column(heading, justify="right" if right else "left", no_wrap=right or place == 0)
    return made
