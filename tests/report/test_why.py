"""The report's picture of items by match and larger prior."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest

import tellapart as ta
from tellapart.evaluation.why import Reasons
from tellapart.metrics.matching import Reason, reasons
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Sample
from tellapart.report import why
from tellapart.report.sections import ReportRun, sections
from tellapart.report.why import explain_section, place_items, reason_rows

POINT = re.compile(r'<a href="#([^"]*)"( class="wrong")?><circle cx="([\d.]+)" cy="([\d.]+)" r="4"><title>([^<]*)')


def test_every_item_is_a_point_that_links_to_it(made_set: Callable[..., Path], tmp_path: Path) -> None:
    folder = made_set("a & b")
    (folder / "pairs.jsonl").write_text((folder / "pairs.jsonl").read_text().replace("item-", "items=+&"))
    scores = np.random.default_rng(0).normal(size=(12, 2, 2)) + np.eye(2)
    run = ta.score(f"folder:{folder}", scores, out=tmp_path / "run")
    page = run.write_report().path
    assert page is not None
    points = POINT.findall(page.read_text())
    outcome = reasons(scores)
    assert len(points) == 12 and {Reason.RIGHT, Reason.NO_MATCH} < {*outcome}
    for number, (link, wrong, x, y, title) in enumerate(points):
        assert parse_qs(unescape(link)) == {"benchmark": ["folder:a & b"], "item": [f"items=+&{number}"]}
        assert unescape(title) == f"items=+&{number}: {outcome[number].label}"
        assert bool(wrong) == (outcome[number] != Reason.RIGHT)
        across, up = (float(x) - 46) / 366, (195 - float(y)) / 187
        if max(across, up) < 1 and up > -0.5:  # on no edge
            assert (up > across) == (not wrong) and (up > 0) == (outcome[number] != Reason.NO_MATCH)


def test_many_items_are_spread_and_those_that_the_page_lacks_have_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "MOST_POINTS", 4)
    items = tuple((str(k), 0.0, 0.0, "no_match") for k in range(12))
    reach, points = place_items(Reasons.model_construct(items=items), range(6))
    assert reach == "1"  # of equal scores
    assert [(id_, here) for *_, id_, _, here in points] == [("0", True), ("3", True), ("6", False), ("9", False)]


def test_outcomes_alone_are_bounded_on_the_page() -> None:
    sides = [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]  # right, lost to the picture's prior, no match or both priors
    outcomes = [{"text_score": text, "image_score": image} for text, image in sides]
    samples = [Sample(id=str(k), cluster=str(k), outcomes=values) for k, values in enumerate(outcomes)]
    record = BenchmarkResult(title="t", fingerprint="0", task="pairs", output="scores", metrics={}, origin="")
    run = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, command="", versions={})
    result = Result(run=run, model=ModelRecord(name="m", fingerprint="m"), benchmarks={"sides": record})
    (section,) = sections([ReportRun(result, {"sides": samples})])
    (row,) = explain_section(section)
    cells = {head: cell for head, (cell,) in reason_rows([row])}
    assert row.at_most is not None
    assert cells[Reason.RIGHT.label].startswith("33.33 [")  # of the first item
    assert " to " in cells["match score"]
