"""A table of named columns: printed in notebooks and terminals, converted to pandas, Arrow or numpy arrays."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MissingDependencyError, UnknownNameError, nearest, quote, require
from tellapart.report.tables import Table, text_table
from tellapart.report.terminal import parts_of, print_tables, print_template, tables_of

#: Rows that are printed at most; conversions have all rows.
_SHOWN = 40


def capture_text(show: Callable[[], None]) -> str:
    """Return what a function prints, as without a terminal."""
    with redirect_stdout(io.StringIO()) as text:
        show()
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")


def html_lines(lines: Iterable[str]) -> str:
    """Return lines as paragraphs of HTML."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines if line.strip())


class Shown(ABC):
    """A result whose text is what its `show` prints."""

    @abstractmethod
    def show(self) -> None:
        """Print it as its command does."""

    def __repr__(self) -> str:
        return capture_text(self.show).lstrip()


class Tabled(ABC):
    """What is shown as tables: in a terminal, in a notebook, and as text."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables to print."""

    def __repr__(self) -> str:
        return capture_text(lambda: print_tables(*self.tables(), gap=False)).replace("\u2500", "-")

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from self.tables()

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


class Frame(Tabled):
    """A table of named columns; a column is a list with a value for each row.

    Args:
        columns: name -> values, all of one length.
        title: printed above the table.
        shown: tables to print instead of the columns, if they are easier to read.

    >>> frame = Frame({"metric": ["text_score", "group_score"], "value": [0.5, 0.25]})
    >>> len(frame), frame["value"], list(frame.to_dict())
    (2, [0.5, 0.25], ['metric', 'value'])
    >>> frame
    metric        value
    -------------------
    text_score      0.5
    group_score    0.25
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]], title: str = "", shown: Sequence[Table] = ()) -> None:
        self.columns = {name: list(values) for name, values in columns.items()}
        self.title, self._shown = title, tuple(shown)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> list[Any]:
        if column not in self.columns:
            meant = nearest(str(column), self.columns) or ";"
            raise UnknownNameError(f"no column {quote(column)}{meant} there are {', '.join(self.columns)}")
        return self.columns[column]

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row: column -> value."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return an array for each column; a missing number is NaN."""
        return {
            name: np.array([np.nan if value is None else value for value in values])
            if _are_numbers(values)
            else np.array(values, dtype=object)
            for name, values in self.columns.items()
        }

    def to_pandas(self) -> Any:
        """Return a pandas data frame; `to_dict` does not need pandas."""
        try:
            import pandas  # optional
        except ModuleNotFoundError as missing:
            raise MissingDependencyError(
                "to_pandas needs pandas, which is not installed; run: pip install pandas, or take to_dict()"
            ) from missing
        return pandas.DataFrame(self.columns)

    def to_arrow(self) -> Any:
        """Return an Arrow table; `to_dict` does not need pyarrow."""
        return require("pyarrow", extra="hub").table(self.columns)

    def tables(self) -> list[Table]:
        """Return the tables to print."""
        if self._shown:
            return list(self._shown)
        first = next((k for k, values in enumerate(self.columns.values()) if _are_numbers(values)), None)
        rows = [
            [f"{cell:.4g}" if isinstance(cell, float) else "" if cell is None else str(cell) for cell in row]
            for row in list(zip(*self.columns.values(), strict=True))[:_SHOWN]
        ]
        rows += [[f"... {len(self):,} rows in all"]] if len(self) > _SHOWN else []
        return [text_table(*self.columns, numbers_from=first, title=self.title, rows=rows)]


class Printed(Shown, Frame):
    """Rows of a result that is printed by the template of a text, with its facts."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], template: str, **facts: Any) -> None:
        super().__init__(columns)
        self._template, self._facts = template, facts

    def show(self) -> None:
        """Print it as its command does."""
        print_template(self._template, **self._facts)

    def tables(self) -> list[Table]:
        """Return the tables of its text."""
        return tables_of(self._template, **self._facts)

    def _repr_html_(self) -> str:
        parts = parts_of(self._template, **self._facts)
        return "".join(html_lines([part]) if isinstance(part, str) else part.html() for part in parts)


def columns_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of rows that have the same names."""
    listed = list(rows)
    return {name: [row[name] for row in listed] for name in (listed[0] if listed else ())}


def _are_numbers(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values) and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values
    )
