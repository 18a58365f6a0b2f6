"""Further tags of items, from a file: results are broken down by them, and the set stays the set."""

import json
from pathlib import Path
from typing import Any

import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import DataError, RunError
from tellapart.records.samples import read_samples


def _tags(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_results_are_broken_down_by_them(tmp_path):
    plain = ta.evaluate("demo-encoder", "demo", limit=40, out=tmp_path / "plain")
    names = [sample.id for sample in read_samples(tmp_path / "plain", "demo")]
    file = _tags(tmp_path / "tags.jsonl", *({"id": name, "half": "ab"[k % 2]} for k, name in enumerate(names)))
    tagged = ta.evaluate("demo-encoder", "demo", limit=40, tags=file, out=tmp_path / "tagged")
    before, after = (run.result().benchmarks["demo"] for run in (plain, tagged))
    assert (after.fingerprint, after.metrics) == (before.fingerprint, before.metrics)
    assert after.by.keys() - before.by.keys() == {"half"}
    assert [group.metrics["group_score"].n for group in after.by["half"].values()] == [20, 20]
    assert ta.verify(tagged).passed


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ([{"id": "nowhere", "kind": "a"}], ("demo", "nowhere")),
        ([{"id": 3, "kind": "a"}], ("tags.jsonl:1", "texts")),
        ([{"id": "attribute-000", "kind": 3}], ("tags.jsonl:1", "texts")),
        ([{"id": "attribute-000", "kind": "a"}] * 2, ("tags.jsonl:2", "attribute-000", "twice")),
    ],
)
def test_tags_that_do_not_fit_are_refused(rows, facts, tmp_path):
    with raises((RunError, DataError), *facts):
        ta.evaluate("oracle", "demo", limit=4, tags=_tags(tmp_path / "tags.jsonl", *rows))


def test_a_task_has_no_items_of_pairs(tmp_path):
    with raises(RunError, "tags=", "pairing"):
        ta.evaluate("oracle", "pairing:demo", tags=_tags(tmp_path / "tags.jsonl", {"id": "a", "kind": "b"}))
