"""docs/levels.md: its table is what the record's levels and outcomes give."""

import importlib
import json
from pathlib import Path

import pytest

from tellapart_render.captions.grammar import GRADED

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.slow
def test_the_table_is_made_again_from_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    page = (DOCS / "levels.md").read_text(encoding="utf-8")
    record = json.loads((DOCS / "levels.json").read_text(encoding="utf-8"))
    levels = importlib.import_module("levels")
    assert levels.write_page(page, levels.fit(record)) == page


def test_the_record_has_every_aspect_and_an_outcome_for_each_item():
    record = json.loads((DOCS / "levels.json").read_text(encoding="utf-8"))
    assert list(record["aspects"]) == list(GRADED)
    counts = {aspect: len(row["levels"].split()) for aspect, row in record["aspects"].items()}
    assert sum(counts.values()) == record["items"]
    for aspect, row in record["aspects"].items():
        assert [len(right) for right in row["right"].values()] == [counts[aspect]] * 3
        assert {outcome for right in row["right"].values() for outcome in right} <= {"0", "1"}
        assert all(float(level) >= 0 for level in row["levels"].split())
