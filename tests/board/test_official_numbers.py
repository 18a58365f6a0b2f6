"""The number of a benchmark's authors stands beside ours on the board where ties occurred, as in the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store


def test_a_benchmarks_page_has_the_authors_number_where_ties_occurred(write_run: Any, tmp_path: Path) -> None:
    for model in ("tied", "plain"):
        write_run(tmp_path / model, model, skill=1.0)
    path = tmp_path / "tied" / "results.json"
    record = json.loads(path.read_text())
    record["benchmarks"]["shapes"]["metrics"]["group_score"] |= {"ties": 3, "official": 0.4321}
    del record["sha256"]
    path.write_text(json.dumps(record))
    settings = BoardSettings(runs=(tmp_path,))
    with Store("sqlite://") as store:
        read_in(store, settings, pytest.fail)
        client = TestClient(create_app(settings, store))
        found = client.get("/benchmarks/shapes", headers={"accept": "application/json"}).json()
        page = client.get("/benchmarks/shapes", headers={"accept": "text/html"}).text
    by = found["blocks"][0]["sorted_by"]
    assert {row["title"]: row["cells"][by]["official"] for row in found["rows"]} == {"tied": 0.4321, "plain": None}
    assert "43.21" in page
