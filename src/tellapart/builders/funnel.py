"""Counts of a build: candidates, draws thrown away, rejections by step and reason, failures, items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import JsonValue

from tellapart.builders.builder import Made, Outcome, Rejected

__all__ = ["Funnel"]


@dataclass
class Funnel:
    """The number of candidates that each step of a build let through or rejected.

    >>> funnel = Funnel()
    >>> funnel.count(Rejected("swap", "one object only"))
    >>> funnel.rows()
    [('candidates', '', 1), ('rejected by swap', 'one object only', 1), ('items', '', 0)]
    """

    candidates: int = 0
    items: int = 0
    failed: int = 0
    redrawn: Counter[str] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, outcome: Outcome) -> None:
        """Count one candidate's outcome."""
        self.candidates += 1
        if isinstance(outcome, Made):
            self.items += 1
            self.redrawn.update(outcome.redrawn)
        elif isinstance(outcome, Rejected):
            self.rejected[outcome.step, outcome.reason] += 1
        else:
            self.failed += 1

    def rows(self) -> list[tuple[str, str, int]]:
        """Return the funnel as a table: step, reason, number; the most frequent reasons of a step first."""
        redrawn = sorted(self.redrawn.items(), key=lambda pair: (-pair[1], pair[0]))
        rejected = sorted(self.rejected.items(), key=lambda pair: (pair[0][0], -pair[1], pair[0][1]))
        rows = [("candidates", "", self.candidates)]
        rows += [("drawn again", reason, number) for reason, number in redrawn]
        rows += [(f"rejected by {step}", reason, number) for (step, reason), number in rejected]
        if self.failed:
            rows.append(("failed", "", self.failed))
        return [*rows, ("items", "", self.items)]

    def to_record(self) -> dict[str, JsonValue]:
        """Return the funnel as JSON types, for the set's card."""
        return {
            "candidates": self.candidates,
            "redrawn": dict(sorted(self.redrawn.items())),
            "rejected": {f"{step}: {reason}": n for (step, reason), n in sorted(self.rejected.items())},
            "failed": self.failed,
            "items": self.items,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the funnel of a card, as `to_record` wrote it."""
        keys = [(key.partition(": "), number) for key, number in record["rejected"].items()]
        rejected = Counter({(step, reason): number for (step, _, reason), number in keys})
        return cls(record["candidates"], record["items"], record["failed"], Counter(record["redrawn"]), rejected)
