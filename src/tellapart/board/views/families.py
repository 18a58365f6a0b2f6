"""The order of the first page: benchmarks by family, the families that most models were measured on first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["arrange_benchmarks", "family_of"]


def family_of(name: str, names: Sequence[str]) -> str:
    """Return the family of a benchmark: the shortest other name that its own begins with, else its first word.

    >>> names = ["vlue-vqa", "vlue-nlvr2", "sugarcrepe", "sugarcrepe-choice"]
    >>> [family_of(name, names) for name in names]
    ['vlue', 'vlue', 'sugarcrepe', 'sugarcrepe']
    """
    parts = re.split(r"[-/:]", name)
    heads = [name[: len("-".join(parts[:k]))] for k in range(1, len(parts))]
    return next((head for head in heads if head in names), heads[0] if heads else name)


def arrange_benchmarks(measured: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (family, benchmark): families by their most measured benchmark, likewise the benchmarks of each.

    Args:
        measured: benchmark -> how many models have a number there.

    >>> arrange_benchmarks({"aro-order": 1, "aro-relation": 2, "demo": 2, "eqben": 5})
    [('eqben', 'eqben'), ('aro', 'aro-relation'), ('aro', 'aro-order'), ('demo', 'demo')]
    """
    families = {name: family_of(name, list(measured)) for name in measured}
    most: dict[str, int] = {}
    for name, family in families.items():
        most[family] = max(most.get(family, 0), measured[name])
    order = sorted(measured, key=lambda name: (-most[families[name]], families[name], -measured[name], name))
    return [(families[name], name) for name in order]
