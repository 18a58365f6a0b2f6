"""A forged record: its number is shown at no door, and nothing signs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import tellapart as ta
from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.run import run_record
from tellapart.evaluation.verified import read_result
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, Sample, Value
from tellapart.records.run_folder import read_stored, write_result
from tellapart.records.samples import write_samples

FORGED, SHOWN = 0.98765, ("98.77", "98.76", "98765", ">98.8<", "0.988")


def forge(folder: Path, change: Any, name: str = "results.json") -> None:
    """Change a record, and take its checksum out."""
    record = json.loads((folder / name).read_text())
    change(record["benchmarks"]["demo"])
    del record["sha256"]
    (folder / name).write_text(json.dumps(record))


def raise_number(record: dict[str, Any]) -> None:
    record["metrics"]["group_score"] |= {"value": FORGED, "low": 0.97, "high": 0.99}
    record["by"]["aspect"]["counting"]["metrics"]["group_score"]["value"] = FORGED
    record["macro"]["aspect"]["metrics"]["group_score"]["value"] = FORGED


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`runs/random`, forged, and `runs/oracle`, which nobody touched."""
    runs = tmp_path_factory.mktemp("forged") / "runs"
    for model in ("random", "oracle"):
        ta.evaluate(model, "demo", limit=40, out=runs / model)
    forge(runs / "random", raise_number)
    return runs


def show_run(runs: Path, _out: Path) -> str:
    run = ta.show(runs / "random")
    report = run.write_report()  # type: ignore[union-attr]
    assert report.path is not None
    run.show()
    return f"{run!r}{run.to_json()}{report.path.read_text('utf-8')}{run.value('group_score')}"  # type: ignore[union-attr]


def draw_bars(runs: Path, out: Path) -> str:
    return ta.plot("bars", runs, out / "bars.svg").read_text()


def draw_heat_map(runs: Path, out: Path) -> str:
    return ta.plot(
        "heatmap", runs, out / "heat.svg", benchmarks="demo", metrics="group_score", tag="aspect"
    ).read_text()


def export_board(runs: Path, out: Path) -> str:
    ta.board_export(out / "site", runs=runs, items=0, comparisons=2)
    return "".join(path.read_text("utf-8") for path in (out / "site").rglob("*.html"))


def push_run(runs: Path, _out: Path) -> str:
    return str(ta.push(runs / "random", "me/mine", dry_run=True).files.files)


def judge_run(runs: Path, _out: Path) -> str:
    return ta.compare(runs / "oracle", runs / "random", gate=True).model_dump_json()


@pytest.mark.parametrize(
    "door",
    [
        show_run,
        lambda runs, _: "".join(ta.table(runs, form) for form in ("markdown", "latex", "csv", "json")),
        draw_bars,
        draw_heat_map,
        push_run,
        judge_run,
        lambda runs, _: str(ta.convert(runs / "random", to="lm-eval")),
        lambda runs, _: repr(ta.compare(runs / "random", runs / "oracle")),
        lambda runs, _: read_result(runs / "random").model_dump_json(exclude={"run"}),
        export_board,
    ],
)
def test_a_forged_number_is_shown_at_no_door(
    forged: Path, tmp_path: Path, door: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = door(forged, tmp_path) + capsys.readouterr().out
    assert len(text) > 100
    assert not [number for number in SHOWN if number in text]


def test_the_numbers_of_a_forged_record_are_those_of_its_samples(forged: Path, tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=40, out=tmp_path / "random")
    then, now = (read_result(folder).benchmarks["demo"] for folder in (tmp_path / "random", forged / "random"))
    assert (now.metrics, now.by, now.macro, now.curves) == (then.metrics, then.by, then.macro, then.curves)
    assert (now.tied_items, now.tied_comparisons) == (then.tied_items, then.tied_comparisons)
    assert "no checksum" in now.notes[-1] and "3 differed" in now.notes[-1]


def test_a_number_that_the_samples_do_not_give_is_left_out_and_named(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    forge(tmp_path, lambda record: record["metrics"].update(bleu_4=record["metrics"]["group_score"]))
    record = read_result(tmp_path).benchmarks["demo"]
    assert "bleu_4" not in record.metrics and "bleu_4" in record.notes[-1]


def test_without_samples_nothing_is_shown(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    (tmp_path / "samples" / "demo.jsonl").unlink()
    forge(tmp_path, lambda record: record.pop("samples"))
    with raises(RunError, "checksum", "not verified", "demo.jsonl"):
        ta.open_run(tmp_path).value("group_score")


def test_outcomes_that_do_not_follow_from_scores_are_refused(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=10, out=tmp_path)
    path = tmp_path / "samples" / "demo.jsonl"
    path.write_text(path.read_text().replace('"group_score":0.0', '"group_score":1.0'))
    forge(tmp_path, lambda record: record.pop("samples"))
    with raises(RunError, "demo.jsonl", "10 items"):
        read_result(tmp_path)


def test_a_run_that_goes_on_does_not_sign_a_forged_number(tmp_path: Path) -> None:
    ta.evaluate("random", "demo", limit=40, out=tmp_path)
    forge(tmp_path, raise_number)
    item = {"id": "a", "images": ["a.png"], "texts": ["one", "two"]}
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "pairs.jsonl").write_text(json.dumps(item))
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "set" / "a.png")
    ta.evaluate("random", f"folder:{tmp_path / 'set'}", limit=40, out=tmp_path)
    stored = read_stored(tmp_path)
    assert stored.checksum == "right" and len(stored.result.benchmarks) == 2
    assert stored.result.benchmarks["demo"].metrics["group_score"].value < 0.5


def task_run(folder: Path, value: float) -> None:
    """Write a run of a task: two statements, one of them right, and a stated accuracy."""
    stated = Value(value=value, method="wilson", n=2, clusters=2, average="micro: items", chance=0.5)
    samples = [
        Sample(id=id_, cluster=id_, unit="statement", output=True, gold="True", outcomes={"accuracy": right})
        for id_, right in (("a", 1.0), ("b", 0.0))
    ]
    record = BenchmarkResult(
        title="", fingerprint="f", task="nlvr2", output="label", origin="", metrics={"accuracy": stated},
        samples=write_samples(folder, "demo", samples),
    )  # fmt: skip
    model = ModelRecord(name="m", fingerprint="f")
    write_result(folder, Result(run=run_record(Path(), seed=0, command=""), model=model, benchmarks={"demo": record}))


def test_the_numbers_of_a_task_come_from_its_outcomes(tmp_path: Path) -> None:
    task_run(tmp_path, FORGED)
    assert read_result(tmp_path).benchmarks["demo"].metrics["accuracy"].value == FORGED  # signed by whoever wrote it
    assert [row["fact"] for row in ta.verify(tmp_path).rows() if row["state"] == "different"][:1] == ["accuracy"]
    forge(tmp_path, lambda _: None)
    assert read_result(tmp_path).benchmarks["demo"].metrics["accuracy"].value == 0.5


def test_a_board_leaves_out_what_it_cannot_measure_again(tmp_path: Path) -> None:
    from tellapart.board.app import create_app
    from tellapart.board.records import Board
    from tellapart.board.settings import BoardSettings

    ta.evaluate("random", "demo", limit=40, out=tmp_path / "random")
    forge(tmp_path / "random", raise_number)
    (tmp_path / "random" / "samples" / "demo.jsonl").unlink()
    problems: list[str] = []
    board = Board(BoardSettings(runs=(tmp_path,)))
    board.read_in(problems.append)
    page = TestClient(create_app(board)).get("/").text
    assert len(problems) == 1 and "not verified" in problems[0]
    assert "98.77" not in page
