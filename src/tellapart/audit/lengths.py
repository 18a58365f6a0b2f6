"""Whether true and false captions differ in length."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tellapart.audit.blind import first_caption
from tellapart.audit.finding import Finding, measured
from tellapart.data.pairset import PairSet

__all__ = ["SHARE_OF_LENGTH", "length_gaps"]

#: How far the means may lie apart, as a share of the mean length.
SHARE_OF_LENGTH = 0.05

_LENGTHS: Mapping[str, Callable[[str], int]] = {"words": lambda text: len(text.split()), "characters": len}


def length_gaps(pairs: PairSet) -> list[Finding]:
    """Return by how many words and characters caption 0 is longer than the mean of the item's others.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("a big cat", "a cat")) for k in range(40))
    >>> [(found.name, found.value, found.verdict) for found in length_gaps(PairSet("s", items, Path(".")))]
    [('length: words', 1.0, 'warn'), ('length: characters', 4.0, 'warn')]
    """
    return [_gap(unit, pairs) for unit in _LENGTHS]


def _gap(unit: str, pairs: PairSet) -> Finding:
    lengths = np.array([[_LENGTHS[unit](text) for text in item.texts] for item in pairs.items], np.float64)
    others = lengths[:, 1:].mean(axis=1)
    value, interval = measured(lengths[:, 0] - others, pairs)
    limit = SHARE_OF_LENGTH * float(lengths.mean())
    low, high = interval["low"], interval["high"]
    beside = not (isinstance(low, float) and isinstance(high, float) and low <= 0 <= high)
    return Finding.model_validate(
        {
            "name": f"length: {unit}",
            "title": f"{unit} of {first_caption(pairs)}, less those of the others",
            "value": value,
            "unit": unit,
            "n": len(pairs),
            "threshold": f"within {limit:.2f} of 0 ({100 * SHARE_OF_LENGTH:g} % of the mean), or an interval that holds 0",
            "verdict": "warn" if beside and abs(value) > limit else "pass",
            "says": f"{lengths[:, 0].mean():.2f} against {others.mean():.2f} on average",
            **interval,
        }
    )
