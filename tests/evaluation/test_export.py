"""Exports of every kind of benchmark, and a file that is not as long as the published one."""

from __future__ import annotations

import json
from pathlib import Path

from facts import check_facts, raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import prepare
from tellapart.evaluation.export import export
from tellapart.models.store.embedding_store import EmbeddingStore


def test_pairs_and_tasks_are_written_alike(command, tmp_path: Path) -> None:
    ran = command("export", "demo", "--to", "pairs.csv")
    assert "1,600 pairs in pairs.csv; fill in `score`, then: tellapart score demo --scores pairs.csv" in ran.out
    rows = [{"sentence": "Both show a dog.", "images": ["a.png", "b.png"], "label": "True"}]
    (tmp_path / "nlvr2_test.json").write_text(json.dumps(rows))
    ran = command("export", "nlvr2", "--to", "s.csv", "--data", tmp_path)
    assert "1 statements in s.csv; fill in `prediction`, then: tellapart score nlvr2 --scores s.csv" in ran.out
    assert Path("s.csv").read_text().splitlines()[0] == "id,prediction,sentence,left,right"


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("mine")
    with raises(DataError, "scores", "exists"):
        export(find_benchmark("demo"), path)
    assert path.read_text() == "mine"


def test_another_suffix_is_refused_for_tasks_too() -> None:
    with raises(DataError, "'.npz'"):
        export(find_benchmark("vlue-nlvr2"), Path("a.npz"))


def test_numbers_of_a_shorter_file_are_said_not_to_compare(command, tmp_path: Path) -> None:
    rows = [{"sentence": "Both show a dog.", "images": ["a.png", "b.png"], "label": "True"}]
    (tmp_path / "nlvr2_test.json").write_text(json.dumps(rows))
    Path("p.json").write_text(json.dumps([{"id": 0, "prediction": True}]))
    ran = command("score", "nlvr2", "--scores", "p.json", "--data", tmp_path, "--out", "run")
    assert "these files hold 1 records; nlvr2 as published holds 6,967" in ran.out
    assert json.loads(Path("run/results.json").read_text())["benchmarks"]["nlvr2"]["published_items"] == 6_967
    assert "not the published files of nlvr2, which hold 6,967 records: p (does not compare)" in (
        " ".join(command("table", "run").out.split())
    )
    assert "these files hold 1 records; nlvr2 as published holds 6,967" in Path("run/report.html").read_text()


def test_a_shorter_file_can_be_asked_to_be_an_error(command, tmp_path: Path) -> None:
    rows = [{"sentence": "Both show a dog.", "images": ["a.png", "b.png"], "label": "True"}]
    (tmp_path / "nlvr2_test.json").write_text(json.dumps(rows))
    Path("p.json").write_text(json.dumps([{"id": 0, "prediction": True}]))
    facts = ("1", "nlvr2", "6,967", "--strict")
    given = ("--data", str(tmp_path), "--out", "run", "--strict")
    ran = command("score", "nlvr2", "--scores", "p.json", *given)
    assert ran.code == 2
    check_facts(ran.err, facts)
    with raises(DataError, (*facts[:-1], "strict=True")):
        prepare(find_benchmark("nlvr2", Locations(tmp_path)), store=EmbeddingStore(None), strict=True)
    assert not Path("run").exists()
