"""`tellapart verify`: every number against its samples, the samples against their digest and their file of scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellapart as ta
from facts import raises
from tellapart.api.verify import Verified
from tellapart.errors import RunError
from tellapart.evaluation.verified import read_result
from tellapart.models.memory.external import write_scores
from tellapart.records.run_folder import write_result


def states(verified: Verified, state: str) -> list[str]:
    return [row["fact"] for row in verified.rows() if row["state"] == state]


def sign(folder: Path, value: float) -> None:
    """Change a number, and write a checksum that fits."""
    result = read_result(folder)
    demo = result.benchmarks["demo"]
    changed = {**demo.metrics, "group_score": demo.metrics["group_score"].model_copy(update={"value": value})}
    write_result(
        folder, result.model_copy(update={"benchmarks": {"demo": demo.model_copy(update={"metrics": changed})}})
    )


def break_checksum(folder: Path) -> None:
    record = json.loads((folder / "results.json").read_text())
    record["model"]["name"] = "better"
    (folder / "results.json").write_text(json.dumps(record))


def change_sample(folder: Path) -> None:
    path = folder / "samples" / "demo.jsonl"
    path.write_text(path.read_text().replace('"group_score":1.0', '"group_score":0.0', 1))


@pytest.mark.parametrize(
    ("change", "different"),
    [
        (lambda _: None, []),
        (lambda folder: sign(folder, 0.25), ["group_score"]),
        (break_checksum, ["results.json"]),
        (change_sample, ["samples/demo.jsonl", "outcomes of items"]),
    ],
)
def test_what_differs_is_named(change: Callable[[Path], None], different: list[str], tmp_path: Path) -> None:
    ta.evaluate("oracle", "demo", limit=10, out=tmp_path)
    change(tmp_path)
    verified = ta.verify(tmp_path)
    assert states(verified, "different") == different
    assert verified.passed is (not different)
    assert states(verified, "cannot be checked") == []
    assert len(states(verified, "equal")) > 20


def test_both_values_are_given(tmp_path: Path) -> None:
    ta.evaluate("oracle", "demo", limit=10, out=tmp_path)
    sign(tmp_path, 0.25)
    (row,) = (row for row in ta.verify(tmp_path).rows() if row["state"] == "different")
    assert (row["recorded"], row["measured"], row["why"], row["model"]) == (0.25, 1.0, "value", "oracle")


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """A run of a file of scores of a folder of pairs, one of them published with the false text first."""
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"id": f"i{k}", "images": [f"{k}.png"], "texts": ["one", "two", "six"], "true": [k % 2]} for k in range(6)]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    from PIL import Image

    for k in range(6):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(folder / f"{k}.png")
    values = np.random.default_rng(0).random((6, 1, 3), np.float32)
    write_scores(ta.Scores([f"i{k}" for k in range(6)], values, "similarity"), tmp_path / "mine.npz")
    return ta.score(f"folder:{folder}", tmp_path / "mine.npz", out=tmp_path / "run").folder


@pytest.mark.parametrize("files", ["here", "gone"])
def test_samples_are_compared_with_the_file_of_scores(files: str, scored: Path) -> None:
    if files == "gone":
        (scored.parent / "set").rename(scored.parent / "elsewhere")
    verified = ta.verify(scored)
    assert "samples against mine.npz" in states(verified, "equal") and verified.passed
    path = next((scored / "samples").glob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["scores"][0][2] -= 0.001  # moves no outcome
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert "samples against mine.npz" in states(ta.verify(scored), "different")


def test_another_file_of_scores_and_none_are_told_apart(scored: Path) -> None:
    file = scored.parent / "mine.npz"
    moved = scored.parent / "moved.npz"
    file.rename(moved)
    assert states(ta.verify(scored), "cannot be checked") == ["samples against mine.npz"]
    write_scores(ta.Scores([f"i{k}" for k in range(6)], np.zeros((6, 1, 3)), "similarity"), file)
    assert states(ta.verify(scored), "different") == ["samples against mine.npz"]


def test_numbers_of_another_tool_cannot_be_checked(tmp_path: Path) -> None:
    ta.evaluate("oracle", "demo", limit=10, out=tmp_path)
    result = read_result(tmp_path)
    demo = result.benchmarks["demo"].model_copy(update={"fingerprint": "imported-1", "origin": "mteb"})
    write_result(tmp_path, result.model_copy(update={"benchmarks": {"demo": demo}}))
    verified = ta.verify(tmp_path)
    assert verified.passed and states(verified, "equal") == ["results.json"]
    assert len(states(verified, "cannot be checked")) == verified.unchecked > 20


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with raises(RunError, tmp_path):
        ta.verify(tmp_path)


def test_the_command_exits_with_one_if_a_number_differs(command: Any, tmp_path: Path) -> None:
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    done = command("verify", "a", "--json")
    assert done.json["passed"] and done.json["runs"][0]["run"] == "a"
    sign(Path("a"), 0.25)
    done = command("verify", "a")
    assert (done.code, command("verify", "a", "--json").code) == (1, 1)
    assert "0.25" in done.out and "1 different" in done.out


def test_a_number_that_cannot_be_checked_fails_a_strict_verification_alone(command: Any) -> None:
    command("run", "-m", "oracle", "--limit", "10", "--out", "a")
    record = json.loads(Path("a/results.json").read_text())
    del record["sha256"]
    Path("a/results.json").write_text(json.dumps(record))
    assert (command("verify", "a").code, command("verify", "a", "--strict").code) == (0, 1)
