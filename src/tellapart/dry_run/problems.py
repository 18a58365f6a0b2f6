"""Problems of a command, each a line, and the seconds of many items by those of a few."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tellapart.data.scores import join_names
from tellapart.errors import TellapartError, plain

#: A line on a row or a file that cannot be read; and the values in it, which differ from row to row.
_FAULT = re.compile(r"(?P<place>.+?)(?::(?P<line>\d+))?: (?P<fault>.*)", re.DOTALL)
_VALUE = re.compile(r"((?:field|key) '[^']*')|'[^']*'|\"[^\"]*\"")

#: Items of each set on which the evaluation is tried, and then those by which its time is measured; seconds after which
#: no more are tried.
TRIED_ITEMS = (8, 32)
_PATIENCE = 5.0


@dataclass
class Problems:
    """The problems found so far, each a line that names its place and the next step."""

    found: list[str] = field(default_factory=list)

    def add(self, problem: object) -> None:
        """Keep a problem, once."""
        if (text := plain(str(problem))) not in self.found:
            self.found.append(text)

    @contextmanager
    def collect(self, before: str = "") -> Iterator[None]:
        """Keep an error of the block as a problem, with a text before it, and go on after the block."""
        try:
            yield
        except (TellapartError, OSError) as error:
            self.add(f"{before}{error}")


def join_faults(lines: Iterable[str]) -> list[str]:
    """Return the first line of each fault, with the other rows or files that have it."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in lines:
        match = _FAULT.fullmatch(line)
        place, number, fault = match.groups() if match else (line, None, line)
        key = (place if number else "", _VALUE.sub(r"\1", fault))
        alike.setdefault(key, []).append((line, f"line {number}" if number else place))
    return [
        first + (f"; likewise {join_names([place for _, place in others], limit=3)}" if others else "")
        for (first, _), *others in alike.values()
    ]


def fit_seconds(measure_some: Callable[[int], None], items: int) -> float:
    """Call with 8 items, then with 32, and return the seconds that all items would take, on a line through both.

    If 8 took long they are not followed by 32: the seconds are in proportion to theirs.
    """
    points = [(0, 0.0)]
    for count in sorted({min(items, item) for item in TRIED_ITEMS}):
        began = time.perf_counter()
        measure_some(count)
        points.append((count, time.perf_counter() - began))
        if points[-1][1] > _PATIENCE:
            break
    (few, short), (many, long) = points[-2:]
    return long + max(0.0, long - short) / (many - few) * (items - many)
