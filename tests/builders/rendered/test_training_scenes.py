"""Training shards: whole or absent, resumable, the same for any worker count, and apart from the demo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")

from tellapart.builders.rendered.grammar import WORDS
from tellapart.builders.rendered.training_scenes import Plan, main, write_shard
from tellapart.errors import DataError

TINY = {"size": 40, "samples": 1, "depth": 2, "rows": 3}


def test_a_shard_holds_pixels_and_records_that_belong_together(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 4, **TINY)  # type: ignore[arg-type]
    funnel = write_shard(plan, 0)
    assert funnel["accepted"] == 3
    pixels = np.load(tmp_path / "shard-00000.npy")
    lines = [json.loads(line) for line in (tmp_path / "shard-00000.jsonl").read_text().splitlines()]
    assert pixels.shape == (3, 2, 40, 40, 3)
    assert pixels.dtype == np.uint8
    assert [line["row"] for line in lines] == [0, 1, 2]
    assert [line["aspect"] for line in lines] == ["attribute", "counting", "location"]
    for line in lines:
        for side in line["sides"]:
            assert side["foils"]
            assert not any(WORDS[name].held_out for name in side["objects"])
    assert not list(tmp_path.glob(".*")), "no draft is left"


def test_a_shard_that_is_there_is_not_rendered_again(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 1, **TINY)  # type: ignore[arg-type]
    write_shard(plan, 0)
    before = (tmp_path / "shard-00000.npy").stat().st_mtime_ns
    assert not write_shard(plan, 0)
    assert (tmp_path / "shard-00000.npy").stat().st_mtime_ns == before


def test_neither_order_nor_sharding_changes_a_quadruple(tmp_path: Path) -> None:
    size, samples = 40, 1
    single = Plan(tmp_path / "single", 2, size=size, samples=samples, depth=2, rows=1)
    double = Plan(tmp_path / "double", 2, size=size, samples=samples, depth=2, rows=2)
    for plan in (single, double):
        plan.out.mkdir()
    write_shard(single, 1)
    write_shard(single, 0)
    write_shard(double, 0)
    apart = np.concatenate([np.load(single.out / f"shard-0000{k}.npy") for k in (0, 1)])
    np.testing.assert_array_equal(apart, np.load(double.out / "shard-00000.npy"))


@pytest.mark.slow
def test_the_command_renders_with_worker_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--quadruples", "1", "--workers", "2", "--size", "40", "--samples", "1"]
    assert main(["--out", str(tmp_path / "new"), *options]) == 0
    assert "new: 1 shards; drawn in this call: {'accepted': 1" in capsys.readouterr().err
    assert (tmp_path / "new" / "shard-00000.jsonl").exists()


def test_an_unknown_aspect_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"--aspects colour: no such aspect \['colour'\]; use attribute, counting, location"
    ):
        main(["--out", str(tmp_path), "--quadruples", "1", "--aspects", "colour"])
