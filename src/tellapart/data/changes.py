"""The keys in which two tables of settings differ, for refusals that name them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tellapart.data.scores import join_names

#: Characters of a value that a message shows.
_SHOWN = 24


def describe_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the keys that differ, a table's after its name and a dot, with both values; empty if none do.

    >>> describe_changes({"optimiser": {"epochs": 4}, "seed": 0}, {"optimiser": {"epochs": 8}, "seed": 0})
    'optimiser.epochs 4 -> 8'
    >>> describe_changes({"limit": None}, {"limit": 8, "name": "b"})
    'limit unset -> 8, name unset -> "b"'
    """
    before, after = dict(_flatten(then)), dict(_flatten(now))
    keys = [key for key in before | after if before.get(key) != after.get(key)]
    return join_names([f"{key} {_show(before.get(key))} -> {_show(after.get(key))}" for key in keys])


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value


def _show(value: object) -> str:
    text = "unset" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
