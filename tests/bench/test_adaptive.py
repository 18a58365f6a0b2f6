"""The record of items chosen one by one: what they save, as the document has it, and that intervals cover."""

import json
from pathlib import Path

import numpy as np

from tellapart.diagnosis.psychometric import ThresholdSearch

ROOT = Path(__file__).parents[2]
ROWS = json.loads((ROOT / "bench" / "records" / "adaptive.json").read_text(encoding="utf-8"))["rows"]


def test_the_document_quotes_the_record():
    text = " ".join((ROOT / "docs" / "curve.md").read_text(encoding="utf-8").split())
    for row in ROWS:
        if row["items"] == 150 and row["slope"] <= 100:
            assert f"{row['fixed']:,} ({row['ratio']:.1f} times) at {row['slope']:g}" in text
        if row["items"] == 60 and row["slope"] <= 40:
            assert row["ratio"] == 1
    covered = [100 * row["covered"] for row in ROWS]
    assert f"in {min(covered):.1f} to {max(covered):.1f}% of cases" in text


def test_chosen_levels_give_a_smaller_width_than_as_many_of_every_level():
    values, rng = np.linspace(0, 1, 32), np.random.default_rng(0)
    widths = {}
    for design in ("chosen", "fixed"):
        search = ThresholdSearch(values, guess=0.5)
        for k in range(100):
            level = search.choose(np.ones(32, np.bool_)) if design == "chosen" else 11 * k % 32
            search.add(level, float(values[level] > 0.6 or rng.random() < 0.5))
        interval = search.fitted().interval
        widths[design] = interval.high - interval.low
    assert widths["chosen"] < widths["fixed"]
