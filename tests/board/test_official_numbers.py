"""The number of a benchmark's authors stands beside ours on the board where ties occurred, as in the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from boards import open_board
from tellapart.evaluation.verified import read_result
from tellapart.records.run_folder import write_result


def test_a_benchmarks_page_has_the_authors_number_where_ties_occurred(write_run: Any, tmp_path: Path) -> None:
    for model in ("tied", "plain"):
        write_run(tmp_path / model, model, skill=1.0)
    result = read_result(tmp_path / "tied")
    shapes = result.benchmarks["shapes"]
    tied = shapes.metrics["group_score"].model_copy(update={"ties": 3, "official": 0.4321})
    shapes = shapes.model_copy(update={"metrics": {**shapes.metrics, "group_score": tied}})
    write_result(tmp_path / "tied", result.model_copy(update={"benchmarks": {"shapes": shapes}}))
    client, _ = open_board(tmp_path)
    found = client.get("/benchmarks/shapes", headers={"accept": "application/json"}).json()
    page = client.get("/benchmarks/shapes", headers={"accept": "text/html"}).text
    by = found["blocks"][0]["sorted_by"]
    assert {row["title"]: row["cells"][by]["official"] for row in found["rows"]} == {"tied": 0.4321, "plain": None}
    assert "43.21" in page
