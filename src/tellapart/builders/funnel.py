"""A funnel: how many candidates came in, what was redrawn or rejected at which step and why, how many items came out."""

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
    """Counts of a build's outcomes.

    >>> funnel = Funnel()
    >>> funnel.count(Rejected("swap", "one object only"))
    >>> funnel.to_record()
    {'candidates': 1, 'redrawn': {}, 'rejected': {'swap: one object only': 1}, 'failed': 0, 'items': 0}
    """

    candidates: int = 0
    items: int = 0
    failed: int = 0
    redrawn: Counter[str] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, outcome: Outcome) -> None:
        """Count one candidate's outcome.

        >>> funnel = Funnel()
        >>> funnel.count(Rejected("words", "a caption of more than 9 words"))
        >>> funnel.candidates
        1
        """
        self.candidates += 1
        if isinstance(outcome, Made):
            self.items += 1
            self.redrawn.update(outcome.redrawn)
        elif isinstance(outcome, Rejected):
            self.rejected[outcome.step, outcome.reason] += 1
        else:
            self.failed += 1

    def rows(self) -> list[tuple[str, str, int]]:
        """Return the funnel as a table: step, reason, number; the most frequent reasons of a step first.

        >>> funnel = Funnel()
        >>> funnel.count(Rejected("swap", "one object only"))
        >>> funnel.rows()
        [('candidates', '', 1), ('rejected by swap', 'one object only', 1), ('items', '', 0)]
        """
        found = [("candidates", "", self.candidates)]
        found += [("drawn again", reason, n) for reason, n in sorted(self.redrawn.items(), key=lambda p: (-p[1], p[0]))]
        found += [
            (f"rejected by {step}", reason, n)
            for (step, reason), n in sorted(self.rejected.items(), key=lambda p: (p[0][0], -p[1], p[0][1]))
        ]
        if self.failed:
            found.append(("failed", "", self.failed))
        return [*found, ("items", "", self.items)]

    def to_record(self) -> dict[str, JsonValue]:
        """Return the funnel as JSON types, for the set's card.

        >>> Funnel().to_record()["items"]
        0
        """
        return {
            "candidates": self.candidates,
            "redrawn": dict(sorted(self.redrawn.items())),
            "rejected": {f"{step}: {reason}": n for (step, reason), n in sorted(self.rejected.items())},
            "failed": self.failed,
            "items": self.items,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the funnel of a card, as `to_record` wrote it.

        >>> funnel = Funnel()
        >>> funnel.count(Rejected("swap", "one object only"))
        >>> Funnel.from_record(funnel.to_record()) == funnel
        True
        """
        rejected = Counter({_split(key): n for key, n in record["rejected"].items()})
        return cls(record["candidates"], record["items"], record["failed"], Counter(record["redrawn"]), rejected)


def _split(key: str) -> tuple[str, str]:
    step, _, reason = key.partition(": ")
    return step, reason
