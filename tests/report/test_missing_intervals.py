"""The reason stands where an interval would be: in tables, papers' tables, sentences and differences."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
from rich.console import Console

from tellapart.records.result import Value
from tellapart.report.conclusions import conclude, rivals_of
from tellapart.report.paper_tables.table import (
    PaperTable,
    TableCell,
    TableColumn,
    TableRow,
    write_csv,
    write_json,
    write_latex,
    write_markdown,
)
from tellapart.report.sections import ReportRun, sections
from tellapart.report.tables import result_table
from tellapart.training.seeds import SeedRow

REASON = "too few for an interval: 3 items in the group 'a_b'"
MISSING = Value(value=0.5, method="none: 3 items", reason=REASON, n=3, clusters=3, average="macro")


def paper_table() -> PaperTable:
    cells = (TableCell.with_interval(50.0, MISSING), TableCell(60.0, 40.0, 70.0))
    return PaperTable("t", ("model",), (TableColumn("", "x"), TableColumn("", "y")), (TableRow("m", cells),))


def test_a_papers_table_marks_the_number_and_has_the_reason_below() -> None:
    latex, markdown = (write(paper_table(), intervals=True) for write in (write_latex, write_markdown))
    assert r"50.00 {\scriptsize [-]} & 60.00 {\scriptsize [40.0, 70.0]}" in latex
    assert r"{[}-]: too few for an interval: 3 items in the group 'a\_b'." in latex
    assert "| m | 50.00 [-] | 60.00 [40.0, 70.0] |" in markdown
    assert r"[-\]: too few for an interval: 3 items in the group 'a\_b'." in markdown


def test_a_papers_table_without_intervals_has_no_reasons() -> None:
    for write in (write_latex, write_markdown, write_csv):
        assert "too few" not in write(paper_table()) and "[" not in write(paper_table()).split("m ")[-1].split("\n")[0]


def test_csv_and_json_have_the_reason() -> None:
    (row,) = csv.DictReader(io.StringIO(write_csv(paper_table(), intervals=True)))
    assert (row["x low"], row["x no interval"], row["y no interval"]) == ("", REASON, "")
    cells = json.loads(write_json(paper_table()))["rows"][0]["cells"]
    assert [cell["reason"] for cell in cells] == [REASON, ""]


def without_interval(run: ReportRun) -> ReportRun:
    record = run.result.benchmarks["shapes"]
    bare = {"low": None, "high": None, "reason": REASON}
    metrics = {name: value.model_copy(update=bare) for name, value in record.metrics.items()}
    benchmarks = {"shapes": record.model_copy(update={"metrics": metrics})}
    return ReportRun(run.result.model_copy(update={"benchmarks": benchmarks}), run.samples)


def test_the_table_and_the_sentence_of_a_run_have_the_reason(make_run: Any) -> None:
    scores = np.tile(np.float32([[0.9, 0.1], [0.1, 0.9]]), (8, 1, 1))
    run = without_interval(make_run(scores=scores, n=8, tags=(), with_images=False, model="m"))
    console = Console(file=io.StringIO(), width=300)
    console.print(result_table([run.result], "shapes"))
    assert f"100.00 ({REASON})" in console.file.getvalue()
    (section,) = sections([run])
    assert f"({REASON})" in conclude(section, rivals_of(section)).sentences[0]


def test_a_difference_over_seeds_has_the_reason() -> None:
    numbers = {"mean": 0.5, "sd": None, "other": 0.4, "difference": 0.1, "p": None, "p_holm": None, "p_ranks": None}
    one, alike, known = (
        SeedRow("b", "m", seeds, low=low, high=low, **numbers) for seeds, low in ((1, None), (3, None), (3, 0.0))
    )
    assert "1 seed" in one.reason and "same" in alike.reason and known.reason == ""


def test_a_record_of_an_earlier_version_has_no_reason() -> None:
    value = Value.model_validate({"value": 0.5, "method": "none: 1 cluster", "n": 3, "clusters": 1, "average": "micro"})
    assert value.reason is None and TableCell.with_interval(50.0, value) == TableCell(50.0)
