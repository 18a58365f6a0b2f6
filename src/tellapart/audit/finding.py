"""What an audit finds: one number each, its interval, the threshold it is held to, and what was not looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.data.pairset import PairSet
from tellapart.stats.clusters import is_binary
from tellapart.stats.intervals import interval_for

__all__ = ["MOST_EXAMPLES", "Finding", "NotDone", "at_most", "measured"]

#: Ids of items that a finding names.
MOST_EXAMPLES = 20

Unit = Literal["share", "words", "characters", "nats", "deviations", "items"]


class Finding(BaseModel):
    """One number that an audit measured.

    Attributes:
        name: a stable name.
        title: what was measured, in a few words.
        value: the number, in `unit`; a share lies in [0, 1].
        low, high, method: its interval over clusters, where one can be had.
        n: how many items it was measured on.
        threshold: what it must keep to pass.
        verdict: `pass` or `warn`.
        says: what it means for this set.
        items: ids of items that it concerns, at most 20.

    >>> finding = Finding(name="a", title="b", value=0.5, unit="share", n=2, threshold="at most 0", verdict="warn", says="c")
    >>> finding.verdict, finding.low
    ('warn', None)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    value: float
    unit: Unit
    low: float | None = None
    high: float | None = None
    method: str = ""
    n: int
    threshold: str
    verdict: Literal["pass", "warn"]
    says: str
    items: tuple[str, ...] = ()


class NotDone(BaseModel):
    """A check that was not made, and why.

    >>> NotDone(name="grammar", reason="no model was named").name
    'grammar'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reason: str


def measured(
    values: NDArray[np.float64], pairs: PairSet, *, seed: int = 0
) -> tuple[float, dict[str, float | str | None]]:
    """Return the mean over items, and its interval as a finding's fields.

    Args:
        values: float64 `(item,)`, one for each item of the set.
        pairs: whose clusters are resampled.
        seed: of the bootstrap.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("x", "y")) for k in range(40))
    >>> value, interval = measured(np.ones(40), PairSet("s", items, Path(".")))
    >>> value, round(interval["low"], 3), interval["method"]
    (1.0, 0.912, 'wilson')
    """
    clusters = [item.cluster for item in pairs.items]
    found = interval_for(values, clusters, binary=is_binary(values), seed=seed)
    return float(values.mean()), {"low": found.low, "high": found.high, "method": found.method}


def at_most(limit: float, name: str, title: str, concerned: Iterable[bool], pairs: PairSet, says: str) -> Finding:
    """Return the share of items that something concerns, which passes up to a limit.

    Args:
        limit: the largest share that passes.
        name: the finding's.
        title: what an item is counted for.
        concerned: one answer for each item.
        pairs: the items.
        says: what it means, where there is one.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=i, images=("0.png",), texts=("x", "y")) for i in "ab")
    >>> found = at_most(0, "odd", "odd items", [False, True], PairSet("s", items, Path(".")), "drop them")
    >>> found.value, found.threshold, found.verdict, found.items
    (0.5, 'at most 0 %', 'warn', ('b',))
    """
    hit = np.array([*concerned], dtype=np.float64)
    value, interval = measured(hit, pairs)
    ids = [pairs.items[k].id for k in np.flatnonzero(hit)[:MOST_EXAMPLES]]
    return Finding.model_validate(
        {
            "name": name,
            "title": title,
            "value": value,
            "unit": "share",
            "n": len(pairs),
            "threshold": f"at most {100 * limit:g} %",
            "verdict": "warn" if value > limit else "pass",
            "says": says if ids else "none",
            "items": tuple(ids),
            **interval,
        }
    )
