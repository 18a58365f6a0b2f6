"""The record of psychometric functions on simulated models: intervals cover, tests keep their level."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "bench" / "records" / "psychometric.json").read_text(encoding="utf-8"))
CELLS, SUMMARY = RECORD["cells"], RECORD["summary"]


def test_intervals_cover_and_tests_keep_their_level():
    assert len(CELLS) == 24 and {cell["setting"]["values"] for cell in CELLS} >= {3, 5, 10, 60, 400}
    assert min(min(cell["threshold"], cell["difference"]) for cell in CELLS) >= 0.92
    assert max(cell["alarms"] for cell in CELLS if "alarms" in cell) <= 0.05
    assert max(cell["fit"] for cell in CELLS) <= 0.065


def test_the_document_quotes_the_record():
    text = " ".join((ROOT / "docs" / "curve.md").read_text(encoding="utf-8").split())
    low, high, least, most = (
        100 * SUMMARY[f"{name}, {end}"] for name in ("threshold", "difference") for end in ("min", "max")
    )
    assert f"hold the truth in {low:.1f} to {high:.1f}% of cases" in text
    assert f"those of differences in {least:.1f} to {most:.1f}%" in text
    assert f"in at most {100 * SUMMARY['alarms, max']:.1f}% of cases" in text
    assert f"a fit p of 5% at most in up to {100 * SUMMARY['fit, max']:.1f}%" in text
