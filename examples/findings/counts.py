"""Winoground's published scores, and counts of published outcomes.

Tests read the counts without the published files, which are their authors' (decision 26). Of two systems on the same
items there are four: both are right, the first alone, the second alone, neither.
"""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.findings.frame import SOURCES, read_fields

#: Files of 1,600 lines, one for each caption and image of 400 items.
SCORES = SOURCES["winoground"]
#: The file of people's ratings.
PEOPLE = "human"

COUNTS = Path(__file__).with_name("counts.json")

#: Both right, the first alone, the second alone, neither.
FourCounts = list[int]


def read_systems(data: Path) -> dict[str, NDArray[np.float64]]:
    """Return the scores of each file: name -> float64 `(item, image, text)`."""
    found = {}
    for path in SCORES.files(data):
        scores = np.full((400, 2, 2), np.nan)
        for row in read_fields(path):
            item, text, image = row["label"].split("_")
            scores[int(item), int(image[1]), int(text[1])] = row["score"]
        assert np.isfinite(scores).all(), path
        found[path.stem] = scores
    return found


def count_two(first: NDArray[np.float64], second: NDArray[np.float64]) -> FourCounts:
    """Count the items that both get, the first alone, the second alone, neither.

    >>> count_two(np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    [1, 1, 0, 1]
    """
    a, b = first == 1, second == 1
    return [int(one.sum()) for one in (a & b, a & ~b, ~a & b, ~a & ~b)]


def count_pairs(systems: Mapping[str, NDArray[np.float64]]) -> dict[str, FourCounts]:
    """Count each two systems: `first, second` -> four counts."""
    return {f"{a}, {b}": count_two(systems[a], systems[b]) for a, b in itertools.combinations(systems, 2)}


def read_counts() -> dict[str, Any]:
    """Read the file: its sources' SHA-256; items right of Winoground's systems; pairs of systems, by four counts."""
    return dict(json.loads(COUNTS.read_text(encoding="utf-8")))


def write_counts(counts: Mapping[str, Any]) -> None:
    """Write the file, a line for each system or pair."""
    blocks = []
    for name, rows in counts.items():
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
        blocks.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    COUNTS.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
