"""How numbers that another tool measured are told from our own."""

from __future__ import annotations

from tellapart.records.result import IMPORTED, BenchmarkResult

__all__ = ["is_imported"]


def is_imported(record: BenchmarkResult) -> bool:
    """Return whether another tool measured this: no outcomes of items, and a tie may count as right."""
    return record.fingerprint.startswith(IMPORTED)
