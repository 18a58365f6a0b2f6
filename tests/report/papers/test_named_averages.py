"""Averages that papers take of a benchmark's parts: vl_compo's published ones are those of its published parts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.main import app
from tellapart.errors import RunError, UnknownNameError
from tellapart.records.result import BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import write_result
from tellapart.report.paper_tables.benchmarks import parts_of
from tellapart.report.paper_tables.layouts import AVERAGES, lay_out

SIX = {
    "whatsup-a": "whatsup::WhatsUp_A",
    "whatsup-b": "whatsup::WhatsUp_B",
    "whatsup-coco-one": "whatsup::COCO_QA_ONE",
    "whatsup-coco-two": "whatsup::COCO_QA_TWO",
    "whatsup-vg-one": "whatsup::VG_QA_ONE",
    "whatsup-vg-two": "whatsup::VG_QA_TWO",
}
SEVEN = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")


def value(number: float, chance: float | None = 0.5) -> Value:
    return Value(value=number, method="published", n=100, clusters=100, average="micro: items", chance=chance)


def record(folder: Path, model: str, numbers: dict[str, float], *, part: bool = False) -> Path:
    """Write a model's published numbers as a run: those of What'sUp's sets, and of SugarCrepe's subsets.

    Of a part of them, two sets and two subsets are left out.
    """
    benchmarks = {}
    for name, column in [*SIX.items()][2 * part :]:
        photographs = name in ("whatsup-a", "whatsup-b")
        metrics = {
            "individual_score" if photographs else "choice_score": value(
                numbers[column], 1 / 4 if photographs else 1 / 2
            )
        }
        if photographs:
            metrics |= {"pair_score": value(numbers["pairs"] + 0.1 * (name[-1] == "b")), "set_score": value(0.125)}
        benchmarks[name] = BenchmarkResult(title=name, fingerprint=name, metrics=metrics, origin=name)
    subsets = {subset: value(numbers[f"sugarcrepe::{subset}"]) for subset in SEVEN[2 * part :]}
    by = {subset: Metrics(metrics={"choice_score": one}) for subset, one in subsets.items()}
    benchmarks["sugarcrepe"] = BenchmarkResult(
        title="s", fingerprint="s", metrics={"choice_score": value(0.75)}, by={"subset": by}, origin="sugarcrepe"
    )
    run = RunRecord(started="2026-11-23T07:00:00+00:00", seed=0, versions={}, command="published")
    write_result(folder, Result(run=run, model=ModelRecord(name=model, fingerprint=model), benchmarks=benchmarks))
    return folder


@pytest.fixture(scope="module")
def published() -> dict[str, float]:
    path = Path(__file__).parents[4] / "shared" / "data" / "vl_compo" / "individual_results.csv"
    if not path.is_file():
        pytest.skip("vl_compo's results are not beside this checkout")
    with path.open(encoding="utf-8") as file:
        rows = {(row["arch"], row["pretrained"]): row for row in csv.DictReader(file)}
    row = rows["ViT-B-32", "openai"]
    return {name: float(row[name]) / 100 for name in row if name.startswith(("whatsup::", "sugarcrepe::"))} | {
        "pairs": 0.1
    }


@pytest.mark.slow
def test_the_averages_are_vl_compos_where_it_publishes_them(tmp_path: Path, published: dict[str, float]) -> None:
    folder = record(tmp_path / "clip", "clip", published)
    table = lay_out([folder], average_as=tuple(AVERAGES))
    (clip, chance), names = table.rows, [column.name for column in table.columns]
    found = {name: clip.cells[names.index(name)].value for name in AVERAGES}
    # Its `results.csv` has 41.46275226 for What'sUp and 73.02574342 for SugarCrepe.
    assert found["whatsup-six"] == pytest.approx(41.46275226) and found["sugarcrepe-three"] == pytest.approx(
        73.02574342
    )
    assert found["whatsup-all"] == pytest.approx(100 * 2121 / 4958, abs=1e-6)
    assert found["sugarcrepe-micro"] == pytest.approx(100 * 5750 / 7511, abs=1e-6)
    hits = {subset: published[f"sugarcrepe::{subset}"] for subset in SEVEN}
    assert found["sugarcrepe-macro"] == pytest.approx(100 * sum(hits.values()) / 7)
    pooled = ((published[SIX["whatsup-a"]] * 412 + published[SIX["whatsup-b"]] * 408) / 820,)
    pooled += tuple(
        sum(published[SIX[f"whatsup-{of}-{k}"]] * n for k, n in zip(("one", "two"), sizes, strict=True)) / sum(sizes)
        for of, sizes in {"coco": (2247, 440), "vg": (1160, 291)}.items()
    )
    assert found["whatsup-three"] == pytest.approx(100 * sum(pooled) / 3)
    assert (found["whatsup-pairs"], found["whatsup-sets"]) == (pytest.approx(15), pytest.approx(12.5))
    assert chance.cells[names.index("whatsup-six")].value == pytest.approx((2 * 25 + 4 * 50) / 6)
    assert f"whatsup-six: {AVERAGES['whatsup-six']}" in table.notes


def test_every_name_has_parts_and_every_part_a_size() -> None:
    sizes = {name: sum(part.size for group in parts_of(name) for part in group) for name in AVERAGES}
    assert sizes["whatsup-six"] == sizes["whatsup-three"] == sizes["whatsup-all"] == 4958
    assert {sizes[f"sugarcrepe-{name}"] for name in ("micro", "macro", "three")} == {7511}
    assert [len(parts_of(name)) for name in AVERAGES] == [6, 3, 1, 2, 2, 1, 7, 3]


def test_a_model_without_all_parts_has_no_average(tmp_path: Path) -> None:
    numbers = dict.fromkeys([*SIX.values(), *(f"sugarcrepe::{subset}" for subset in SEVEN), "pairs"], 0.5)
    folders = [record(tmp_path / "all", "all", numbers), record(tmp_path / "part", "part", numbers, part=True)]
    options = ["-b", "sugarcrepe", "--average-as", "sugarcrepe-three", "--no-tiers", "--json"]
    shown = CliRunner().invoke(app, ["table", *map(str, folders), *options])
    rows = {row["label"]: row["cells"][-1]["value"] for row in json.loads(shown.output)["rows"]}
    assert rows == {"all": 50.0, "part": None, "chance": 50.0}
    with raises(RunError, "average_as=", "all", "whatsup-a", "whatsup-b"):
        lay_out(folders[1:], average_as=("whatsup-six",))
    with raises(UnknownNameError, "'whatsup'", "average"):
        lay_out(folders, average_as=("whatsup",))
    with raises(RunError, "average_as=", "column"):
        lay_out(folders, "vlue", average_as=("whatsup-six",))
