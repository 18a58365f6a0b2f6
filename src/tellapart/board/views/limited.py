"""Records of a part of a benchmark's items (`--limit`): shown in its place, without competing with the complete one.

Numbers of hidden labels cover one split and are rounded; a page shows both facts next to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from tellapart.board.entries import HIDDEN_NUMBERS, is_hidden
from tellapart.board.tables import Benchmark, Entry


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a benchmark's items.

    Attributes:
        shown_on: the benchmark on whose page it is: the complete one, or the largest part if no model has all.
        n: its items.
        text: as on a page: `20 of 300 items`.
    """

    shown_on: int
    n: int
    text: str


def find_parts(session: Session) -> Mapping[int, Part]:
    """Return every benchmark that is a part of one, by its id."""
    parts = session.exec(select(Benchmark).where(col(Benchmark.limited_from).is_not(None))).all()
    names = {part.name for part in parts}
    of_name = (col(Benchmark.limited_from).is_(None), col(Benchmark.name).in_(names))
    wholes = session.exec(select(Benchmark).where(*of_name).order_by(col(Benchmark.id))).all() if names else []
    limited = {}
    for part in parts:
        same = [entry for entry in wholes if entry.name == part.name]
        rivals = [entry for entry in same if entry.n == part.limited_from] or same
        largest = max((each for each in parts if each.name == part.name), key=lambda each: (each.n, -(each.id or 0)))
        limited[part.id or 0] = Part((rivals[0] if rivals else largest).id or 0, part.n, part.part)
    return limited


def describe_hidden(session: Session, benchmarks: Sequence[Benchmark]) -> Mapping[int, str]:
    """Return `150 of 300 items, rounded to 1 point` for each of these benchmarks whose labels are hidden, by its id."""
    hidden = [benchmark.id for benchmark in benchmarks if is_hidden(benchmark)]
    if not hidden:
        return {}
    entries = session.exec(select(Entry.benchmark_id, Entry.record).where(col(Entry.benchmark_id).in_(hidden))).all()
    notes = {number: note for number, record in entries for note in record.get("notes", ())}
    return {number: note.partition(HIDDEN_NUMBERS)[2] for number, note in notes.items() if HIDDEN_NUMBERS in note}
