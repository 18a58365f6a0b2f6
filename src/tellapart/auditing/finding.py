"""Findings of an audit: a number, its interval, the threshold that it must keep; and checks that were not made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_toml
from tellapart.records.result import Record
from tellapart.stats.clusters import is_binary
from tellapart.stats.intervals import interval_for

#: Ids of items that a finding names.
MOST_EXAMPLES = 20

#: How far from chance an accuracy may lie, if its interval leaves chance out.
MARGIN = 0.05

Unit = Literal["share", "words", "characters", "nats", "deviations", "items"]


class Finding(Record):
    """One number that an audit measured.

    Attributes:
        name: a stable name.
        title: the measured quantity, in a few words.
        value: the number, in `unit`; a share lies in [0, 1].
        low, high, method: its interval over clusters, if the data give one.
        reason: why there is no interval.
        n: how many items it was measured on.
        threshold: the bound of a pass.
        says: its meaning for this set.
        items: ids of items that it concerns, at most 20.
    """

    name: str
    title: str
    value: float
    unit: Unit
    low: float | None = None
    high: float | None = None
    method: str = ""
    reason: str = ""
    n: int
    threshold: str
    verdict: Literal["pass", "warn"]
    says: str
    items: tuple[str, ...] = ()


class NotDone(Record):
    """A check that was not made, and why."""

    name: str
    reason: str


def split_texts(item: Item) -> tuple[set[str], list[str]]:
    """Return the true texts, of several images the first, and the other texts."""
    true = item.truths if len(item.images) == 1 else (0,)
    return {item.texts[k] for k in true}, [text for k, text in enumerate(item.texts) if k not in true]


def mean_with_interval(
    values: NDArray[np.float64], pairs: PairSet, *, bounds: tuple[float, float] | None = (0.0, 1.0), seed: int = 0
) -> dict[str, Any]:
    """Return the fields of a finding of a mean over items: `value`, `n`, `low`, `high`, `method` and `reason`."""
    clusters, binary = [item.cluster for item in pairs.items], bounds == (0.0, 1.0) and is_binary(values)
    interval = interval_for(values, clusters, binary=binary, bounds=bounds, seed=seed)
    parts = {"low": interval.low, "high": interval.high, "method": interval.method, "reason": interval.reason}
    return {"value": float(values.mean()), "n": len(values), **parts}


def excludes(mean: dict[str, Any], expected: float) -> bool:
    """Return whether the interval leaves the expected value out; without an interval, it does."""
    return mean["low"] is None or mean["high"] is None or not mean["low"] <= expected <= mean["high"]


def judge(
    name: str,
    title: str,
    mean: dict[str, Any],
    threshold: str,
    warns: bool,
    says: str,
    *,
    unit: Unit = "share",
    items: Iterable[str] = (),
) -> Finding:
    """Return the finding of a mean that warns or passes, with the first of the items that it concerns."""
    verdict = "warn" if warns else "pass"
    facts = {"name": name, "title": title, "unit": unit, "threshold": threshold, "verdict": verdict, "says": says}
    return Finding.model_validate({**facts, "items": tuple(items)[:MOST_EXAMPLES], **mean})


_CHECKS = read_toml(Path(__file__).with_name("checks.toml"))


def at_most(name: str, concerned: Iterable[bool], pairs: PairSet, **details: object) -> Finding:
    """Return the share of items that a check of `checks.toml` concerns, which passes up to its limit."""
    hits = np.array([*concerned], dtype=np.float64)
    mean, ids = mean_with_interval(hits, pairs), [pairs.items[k].id for k in np.flatnonzero(hits)]
    limit, title, says = (_CHECKS[name][key] for key in ("limit", "title", "says"))
    threshold, warns = f"at most {100 * limit:g} %", mean["value"] > limit
    meaning = says.format(**details) if ids else "none"
    return judge(name, title.format(**details), mean, threshold, warns, meaning, items=ids)


def format_value(finding: Finding) -> str:
    """Write a finding's number with its unit, the same in the terminal and on the card."""
    if finding.unit == "items":
        return f"{finding.value:,.0f} items"
    return _format_number(finding, finding.value) + (" %" if finding.unit == "share" else f" {finding.unit}")


def format_interval(finding: Finding) -> str:
    """Write a finding's interval, or the reason why it has none."""
    if finding.low is None or finding.high is None:
        return finding.reason
    return f"[{_format_number(finding, finding.low)}, {_format_number(finding, finding.high)}]"


def _format_number(finding: Finding, number: float) -> str:
    # Without the sign of a zero that was rounded down to.
    return f"{100 * number if finding.unit == 'share' else number:.2f}".replace("-0.00", "0.00")
