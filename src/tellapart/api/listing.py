"""What there is to name: what `tellapart ls` calls."""

from __future__ import annotations

from typing import Any

from tellapart.api.arguments import locations
from tellapart.report.listing import listing as rows_of

__all__ = ["listing"]


def listing(what: str, *, data: Any = None) -> list[dict[str, Any]]:
    """Return one row a benchmark, model, loss or builder, those of plugins that are loaded too.

    Args:
        what: `benchmarks`, `models`, `losses` or `builders`.
        data: the folder of benchmarks' files.

    Raises:
        UnknownNameError: `what` is none of these.

    >>> listing("benchmarks")[0]["name"]
    'demo'
    """
    return rows_of(what, locations(data))
