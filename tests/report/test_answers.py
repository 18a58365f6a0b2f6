"""What the page shows of a task: worst first, nothing for pairs, everything escaped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Sample
from tellapart.report.page import MOST_EXAMPLES, examples
from tellapart.report.sections import ReportRun, sections

RUN = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, command="", versions={})


def report_run(name: str, values: list[float], *, shape: tuple[int, int] | None = None) -> ReportRun:
    record = BenchmarkResult(title="t", fingerprint="0", task="vqa", output="text", metrics={}, origin="", shape=shape)
    samples = [
        Sample(
            id=str(k), cluster=str(k), unit="question", output=f"answer {k}", gold="two", outcomes={"exact_match": v}
        )
        for k, v in enumerate(values)
    ]
    result = Result(run=RUN, model=ModelRecord(name=name, fingerprint=name), benchmarks={"vqa": record})
    return ReportRun(result, {"vqa": samples})


def test_the_worst_over_all_models_come_first_and_no_more_than_fit() -> None:
    good, bad = [1.0] * 100, [1.0] * 100
    good[70], bad[70], bad[20] = 0.0, 0.0, 0.0
    (section,) = sections([report_run("a", good), report_run("b", bad)])
    (shown,) = examples(section)
    assert (shown.noun, shown.metric, shown.total, len(shown.rows)) == ("question", "exact_match", 100, MOST_EXAMPLES)
    assert [sample.id for sample, _ in shown.rows[:3]] == ["70", "20", "0"]
    assert [value for _, value in shown.rows[1][1]] == [1.0, 0.0]


def test_a_long_output_is_shortened() -> None:
    run = report_run("a", [0.0])
    run.samples["vqa"][0] = replace(run.samples["vqa"][0], output="x" * 500)
    (section,) = sections([run])
    output = examples(section)[0].rows[0][1][0][0]
    assert len(output) == 160
    assert output.endswith("…")


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "</td><img src=x onerror=alert(1)>"])
def test_answers_and_captions_are_escaped(command, tmp_path: Path, hostile: str) -> None:
    query = {"id": "q", "query": hostile, "candidates": ["a.png", "b.png"], "people": [1, 2]}
    (tmp_path / "q.jsonl").write_text(json.dumps(query) + "\n")
    Path("s.jsonl").write_text(json.dumps({"id": "q", "scores": [1, 2]}) + "\n")
    ran = command("score", f"ranking:{tmp_path / 'q.jsonl'}", "--scores", "s.jsonl", "--name", hostile, "--out", "run")
    assert ran.code == 0, ran.err
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert "&lt;" in page
    assert page.count('class="said" dir="auto"') == page.count('class="said"') > 0  # from right to left, if it is so
