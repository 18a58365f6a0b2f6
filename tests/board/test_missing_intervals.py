"""The board has the reason where an interval would be: in pages, their data, and tables to download."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

from boards import open_board

REASON = "too few for an interval: <3 items>"


def test_pages_data_and_tables_have_the_reason(write_run: Any, tmp_path: Path) -> None:
    for model in ("bare", "plain"):
        write_run(tmp_path / model, model, skill=1.0)
    path = tmp_path / "bare" / "results.json"
    record = json.loads(path.read_text())
    record["benchmarks"]["shapes"]["metrics"]["group_score"] |= {"low": None, "high": None, "reason": REASON}
    del record["sha256"]
    record["sha256"] = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(record))
    client, _ = open_board(tmp_path)
    found = client.get("/benchmarks/shapes", headers={"accept": "application/json"}).json()
    page = client.get("/benchmarks/shapes", headers={"accept": "text/html"}).text
    leaderboard = client.get("/benchmarks/shapes", params={"format": "csv"}).text
    model = client.get("/models/bare", params={"format": "csv"}).text
    plain = client.get("/models/plain", params={"format": "csv"}).text
    by = found["blocks"][0]["sorted_by"]
    assert {row["title"]: row["cells"][by]["reason"] for row in found["rows"]} == {"bare": REASON, "plain": None}
    assert "too few for an interval: &lt;3 items&gt;" in page
    rows = {row["model"]: row["no interval"] for row in csv.DictReader(io.StringIO(leaderboard))}
    assert REASON in rows["bare"] and rows["plain"] == ""
    reasons = {row["metric"]: row["no interval"] for row in csv.DictReader(io.StringIO(model))}
    assert reasons["group_score"] == REASON and reasons["text_score"] == ""
    assert "no interval" not in plain
