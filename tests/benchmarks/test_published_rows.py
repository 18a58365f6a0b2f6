"""A benchmark's real files hold the rows that it declares; a file of as many others is said to be one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import check_facts, raises
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import names
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import prepare_listed
from tellapart.tasks.registry import find_task

#: The real files' folders below the published ones.
FOLDERS = {
    "valse": "valse",
    "sugarcrepe": "sugarcrepe/data",
    "sugarcrepe-choice": "sugarcrepe/data",
    "coco-counterfactuals": "coco_counterfactuals",
    "coco-counterfactuals-retrieval": "coco_counterfactuals",
    "coco-counterfactuals-test": "coco_counterfactuals",
    "vlue-retrieval": "vlue",
    "vlue-nlvr2": "vlue",
    "vlue-vqa": "vlue",
    "gebc-val": "gebplus",
    "gebc-test": "gebplus",
    "sugarcrepe-pp": "sugarcrepe_pp",
    "cola": "cola",
    "vsr-zeroshot": "vsr",
    "vsr-zeroshot-dev": "vsr",
    "vsr-random": "vsr",
    "naturalbench-test": "naturalbench",
    "camerabench": "camerabench/camerabench",
    "camerabench-motions": "camerabench/camerabench",
    "vitatecs": "vitatecs",
    **{f"vilma-{part}": "vilma" for part in ("counting", "change-of-state", "rare-actions", "relations", "actors")},
    "tifa": "tifa",
    "seetrue": "seetrue",
    **{f"marvl-{language}": "marvl/datasets/marvl/zero_shot" for language in ("id", "sw", "ta", "tr", "zh")},
}


def test_every_declared_digest_is_held_to_real_files_here() -> None:
    assert {name for name in names("benchmark") if find_benchmark(name).rows} == FOLDERS.keys()
    assert find_benchmark("pairing:demo").rows == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_the_real_files_are_the_published_ones(
    name: str, published: Callable[[str], Path], at: Callable[..., Benchmark]
) -> None:
    benchmark = at(name, published(FOLDERS[name]))
    task = find_task(benchmark.task, name)
    assert task.digest(task.listed(benchmark)) == benchmark.rows
    assert prepare_listed(benchmark, strict=True).unlike == ""


def test_a_file_of_as_many_other_rows_is_said_and_can_be_refused(
    published: Callable[[str], Path], at: Callable[..., Benchmark], tmp_path: Path
) -> None:
    rows = json.loads((published("vlue") / "nlvr2_vlue_test.json").read_text())
    rows[7]["label"] = "True" if rows[7]["label"] == "False" else "False"
    (tmp_path / "nlvr2_vlue_test.json").write_text(json.dumps(rows))
    benchmark = at("vlue-nlvr2", tmp_path)
    check_facts(prepare_listed(benchmark).unlike, "5,662", "vlue-nlvr2", "published")
    with raises(DataError, "5,662", "vlue-nlvr2", "strict=True"):
        prepare_listed(benchmark, strict=True)


@pytest.mark.slow
def test_pairs_of_other_texts_are_said_in_the_record(published: Callable[[str], Path], tmp_path: Path, command) -> None:
    shutil.copytree(published("sugarcrepe/data"), tmp_path / "data")
    path = tmp_path / "data" / "swap_obj.json"
    rows = json.loads(path.read_text())
    rows["0"]["caption"] = "Another caption."
    path.write_text(json.dumps(rows))
    benchmark = find_benchmark("sugarcrepe")
    ids = [
        f"{part.stem}/{row}"
        for part in sorted((tmp_path / "data").glob("*.json"))
        for row in json.loads(part.read_text())
    ]
    lines = [json.dumps({"label": f"{name}_c{text}_i0", "score": 1 - text}) for name in ids for text in (0, 1)]
    (tmp_path / "scores.jsonl").write_text("\n".join(lines))
    given = ("score", "sugarcrepe", "--scores", "scores.jsonl", "--kind", "similarity", "--name", "x", "--data", "data")
    ran = command(*given, "--out", "run", "--json")
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "run" / "results.json").read_text())["benchmarks"]["sugarcrepe"]
    assert record["published_items"] == benchmark.items
    assert "as many as sugarcrepe as published, but other ones: the numbers do not compare" in record["notes"][0]
    assert "(does not compare)" in command("table", "run").out
