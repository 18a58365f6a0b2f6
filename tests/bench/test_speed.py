"""Benches at a tiny size, and the comparison of tools: its sets, what is recorded, and the page on speed."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import growth
import pytest
import rivals
import shapes
import speed

from scripts import import_document, run_python
from tellapart.catalog import LOSSES
from tellapart.data.folder import read_pair_set


def write_annotations(folder: Path) -> None:
    """Write three files as their authors publish them: three captions of each of four images."""
    crepe, valse = {}, {}
    for k in range(12):
        crepe[str(k)] = {
            "filename": f"{k // 3}.jpg",
            "caption": f"{k} red dogs run",
            "negative_caption": f"{k} cats run",
        }
        valse[str(k)] = {
            "image_file": f"{k // 3}.jpg",
            "caption": f"There are {k} dogs.",
            "foil": f"There are {k} cats.",
        }
    pairs = [{"original_caption": f"a dog {k}", "counterfactual_caption": f"a cat {k}"} for k in range(12)]
    for file, rows in (("sugarcrepe/data/add_att.json", crepe), ("valse/plurals.json", valse)):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(json.dumps(rows))
    (folder / "coco_counterfactuals").mkdir()
    lines = "\n".join(map(json.dumps, pairs))
    (folder / "coco_counterfactuals" / "coco_counterfactuals_captions.jsonl").write_text(lines)


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> tuple[Path, dict[str, list[shapes.Pair]]]:
    """Six items of each shape, and their folder, beside the folder of the annotations."""
    folder = tmp_path_factory.mktemp("bench")
    write_annotations(folder / "data")
    return folder / "sets", shapes.make_sets(folder / "sets", 6, folder / "data")


def test_sets_keep_the_captions_of_an_image_together(sets):
    folder, pairs = sets
    counts = {name: [len(side) for side in shapes.distinct(pairs, (name,))] for name in pairs}
    assert counts["winoground"] == [12, 12] and counts["sugarcrepe"] == [2, 12] and counts["valse"] == [2, 12]
    for pair in pairs["aro"]:
        assert len(pair.texts) == 5 and len({tuple(sorted(text.split())) for text in pair.texts}) == 1
    data = folder.with_name("data")
    published = json.loads((data / "valse" / "plurals.json").read_text()).values()
    assert {pair.texts for pair in pairs["valse"]} < {(row["caption"], row["foil"]) for row in published}
    with pytest.raises(SystemExit, match="13"):
        shapes.make_sets(folder.with_name("more"), 13, data)


def test_every_tool_reads_the_same_items(sets):
    """tellapart its pair sets, CLIP_benchmark files of SugarCrepe's format; others' tables are made of the first."""
    folder, pairs = sets
    for name, shape in {"winoground": (2, 2), "sugarcrepe": (1, 2), "aro": (1, 5), "valse": (1, 2)}.items():
        written = read_pair_set(folder / name)
        assert written.shape == shape and [item.texts for item in written.items] == [pair.texts for pair in pairs[name]]
        assert written.pixels(written.items[-1].images[-1]).shape == (480, 640, 3)
    for name, file in (("sugarcrepe", "add_att.json"), ("aro", "swap_obj.json"), ("valse", "replace_att.json")):
        rows = json.loads((folder / "crepe" / file).read_text()).values()
        for row, pair in zip(rows, pairs[name], strict=True):
            negatives = row["negative_caption"] if name == "aro" else [row["negative_caption"]]
            assert (row["caption"], *negatives) == pair.texts
            original = folder / name / "images" / pair.images[0]
            assert (folder / "crepe" / "val2017" / row["filename"]).read_bytes() == original.read_bytes()


def test_the_same_sets_come_again_and_every_picture_is_another(sets):
    folder, pairs = sets
    again = folder.with_name("again")
    assert shapes.make_sets(again, 6, folder.with_name("data")) == pairs
    files = [file.relative_to(folder) for file in folder.rglob("*.jpg")]
    made = {file: (again / file).read_bytes() for file in files}
    assert made == {file: (folder / file).read_bytes() for file in files}
    pictures = [data for file, data in made.items() if "images" in file.parts]
    assert len(set(pictures)) == len(pictures) == 18
    before = (again / "stamp.json").stat().st_mtime_ns
    shapes.make_sets(again, 6, folder.with_name("data"))
    assert (again / "stamp.json").stat().st_mtime_ns == before


def test_what_is_recorded_of_several_rounds_is_the_median_of_each_number():
    rounds = [
        (rivals.Run(wall, processor, {"aro": 0.5}), rivals.Run(1.0, 0.5, {"aro": 0.5}))
        for wall, processor in ((50.0, 20.0), (23.0, 22.0), (25.0, 21.0))
    ]
    assert speed.median_of(rounds) == {
        "cold": 25.0, "cold_processor": 21.0, "warm": 1.0, "warm_processor": 0.5, "accuracy": {"aro": 0.5}
    }  # fmt: skip


@pytest.fixture
def records(tmp_path, monkeypatch) -> tuple[Any, Path]:
    """Return docs/speed_tables.py, which reads an empty folder of records."""
    tables = import_document("speed_tables")
    monkeypatch.setattr(tables, "RECORDS", tmp_path)
    monkeypatch.setattr(tables, "PICTURE", tmp_path / "speed.svg")
    return tables, tmp_path


SPEED = {
    "runs": [
        {
            "model": "ViT-B-32", "group": "valse", "images": 9, "texts": 18, "rounds": 1, "forward_processor": 3.0,
            "tools": {
                "tellapart": {"cold": 3.0, "cold_processor": 4.0, "warm": 1.0},
                "mteb": {"cold": 9.0, "cold_processor": 16.0, "warm": 5.0},
            },
            "flips": {"valse": {"items": 9, "flips": {"choice_score": 2}, "largest_difference": 0.01}},
        }
    ],
    "items": 9, "machine": {"processor": "p", "cores": 2}, "versions": {"torch": "2"}, "command": "c",
    "left_out": {"unibench": "no wheel"},
}  # fmt: skip


def test_each_table_names_its_bench_until_a_record_is_kept(records):
    tables, folder = records
    for table, bench in (
        ("real-captions", "speed.py"),
        ("all-shapes", "speed.py"),
        ("growth", "growth.py"),
        ("screened", "screened.py"),
    ):
        assert f"bench/{bench}" in tables.record_table(table)
    (folder / "speed.json").write_text(json.dumps(SPEED))
    shown = tables.record_table("real-captions")
    assert "| MTEB | 16.0 | 4.0 | 9.0 | 5.0 |" in shown and "| tellapart | 4.0 | 1.0 | 3.0 | 1.0 |" in shown
    assert "choice_score 2" in shown and "9" in shown and "UniBench, because no wheel" in shown and "svg" not in shown
    assert "| 4.0 | - | - | - | - | - | 4.0 |" in tables.record_table("all-shapes") and "2 of 9" in tables.record_table(
        "all-shapes"
    )
    sizes = {"100": {"processor_seconds": 1.5, "mb": 90}}
    kind = {"sizes": sizes, "exponents": {"processor_seconds": 1.02, "mb": 0.9}}
    growth = {"command": "c", "scores": kind, "vectors": kind | {"sizes": {}}}
    (folder / "growth.json").write_text(json.dumps(growth))
    assert "| 100 | 1.5 | 90 | - | - |" in tables.record_table("growth") and "1.02" in tables.record_table("growth")


@pytest.mark.parametrize(("price", "missed", "pays"), [(0.3, 0, True), (0.7, 0, False), (0.3, 1, False)])
def test_screening_pays_below_half_the_price_and_without_a_flip(records, price, missed, *, pays):
    tables, folder = records
    found = {"flipped": 3, "items": 50, "near_a_tie": 0.25, "missed_flips": missed, "price_of_many": price}
    record = {"towers": {"bfloat16": {"image": 0.25, "text": 1.5}}, "sets": {"valse": {"bfloat16": found}}}
    (folder / "screened.json").write_text(json.dumps(record))
    shown = tables.record_table("screened")
    assert ("does not pay" not in shown) == pays and f"| {missed} | {price:.2f} |" in shown


def test_the_exponent_is_of_the_cost_beyond_the_start():
    assert growth.fit_exponent({size: 2 + size / 100 for size in (100, 1000, 10_000)}) == pytest.approx(1, abs=0.01)
    assert growth.fit_exponent({size: 2 + (size / 100) ** 2 for size in (100, 10_000, 100_000)}) == pytest.approx(
        2, abs=0.02
    )
    assert growth.fit_exponent({100: 2.0, 1000: 2.0}) is None


if any(find_spec(package) is None for package in ("torch", "transformers", "open_clip")):
    pytest.skip("the models extra is not installed", allow_module_level=True)


BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
def test_every_part_runs_on_a_cpu_and_float32_there_moves_nothing(tmp_path):
    out = tmp_path / "gpu.json"
    run_python(BENCH / "gpu.py", "--device", "cpu", "--tiny", "--out", out, timeout=550)
    record = json.loads(out.read_text())
    assert record["left_out"] == {}
    assert list(record["parts"]) == ["decoding", "tiny", "blip-itm", "writer-tiny"]
    for name in ("tiny", "blip-itm"):
        part = record["parts"][name]
        same, rounded = part["float32_against_cpu"], part["bfloat16_against_cpu"]
        assert (same["largest_difference"], same["flips"], same["items"]) == (0.0, 0, 4)
        assert 0 < rounded["largest_difference"] < 0.1
    tiny = record["parts"]["tiny"]
    assert tiny["prepared"] > 0 and 0 < tiny["float16_against_cpu"]["largest_difference"] < 0.1
    assert tiny["texts"]["shared"] and all(tiny["texts"][key] > 0 for key in ("from_texts", "apart", "bare"))
    assert record["parts"]["writer-tiny"]["cost_of_four_over_one"] > 0
    assert record["seconds"] < 480


@pytest.mark.slow
def test_a_run_and_a_gallery_are_measured(tmp_path):
    record = tmp_path / "large.json"
    run_python(BENCH / "large.py", "--items", 20, "--images", 40, "--record", record)
    found = json.loads(record.read_text())
    assert (found["run"]["items"], found["gallery"]["captions"]) == (20, 200)
    assert found["gallery"]["mean_recall"] == 1.0  # a caption is nearest to its own picture, whatever else there is
    assert 50 < found["run"]["mb"] < 2_000
    assert found["gallery"]["rank_seconds"] < found["gallery"]["seconds"]


@pytest.mark.slow
def test_a_step_with_every_loss_is_measured(tmp_path):
    out = tmp_path / "losses.json"
    batch = ["--batches", "4", "--rounds", "1", "--warm-up", "0"]
    encoders = ["--width", "64", "--depth", "2", "--pixels", "32", "--negatives", "2"]
    run_python(BENCH / "losses.py", *batch, *encoders, "--out", out, timeout=300)
    rows = {row["loss"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) >= set(LOSSES)
    assert rows["clic"]["against"] == rows["fsc-clip"]["against"] == "itc"
    assert rows["clic"]["forward_and_backward"][0] > 0
