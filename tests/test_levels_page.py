"""The record of which docs/levels.md has its table."""

import json
from pathlib import Path

from tellapart_render.captions.grammar import GRADED

DOCS = Path(__file__).parent.parent / "docs"


def test_the_record_has_every_aspect_and_an_outcome_for_each_item():
    record = json.loads((DOCS / "levels.json").read_text(encoding="utf-8"))
    assert list(record["aspects"]) == list(GRADED)
    counts = {aspect: len(row["levels"].split()) for aspect, row in record["aspects"].items()}
    assert sum(counts.values()) == record["items"]
    for aspect, row in record["aspects"].items():
        assert [len(right) for right in row["right"].values()] == [counts[aspect]] * 3
        assert {outcome for right in row["right"].values() for outcome in right} <= {"0", "1"}
        assert all(float(level) >= 0 for level in row["levels"].split())
