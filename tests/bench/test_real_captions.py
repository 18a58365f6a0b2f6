"""Published captions in the bench's shapes, and the page on speed made of whichever records are kept."""

import json
from pathlib import Path
from typing import Any

import growth
import pytest
import shapes

from scripts import import_document


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


def test_real_sets_keep_the_captions_of_an_image_together(tmp_path):
    write_annotations(tmp_path / "data")
    sets = shapes.make_sets(tmp_path / "sets", 6, annotations=tmp_path / "data")
    counts = {name: [len(side) for side in shapes.distinct(sets, (name,))] for name in sets}
    assert counts["winoground"] == [12, 12] and counts["sugarcrepe"] == [2, 12] and counts["valse"] == [2, 12]
    for pair in sets["aro"]:
        assert len(pair.texts) == 5 and len({tuple(sorted(text.split())) for text in pair.texts}) == 1
    published = json.loads((tmp_path / "data" / "valse" / "plurals.json").read_text()).values()
    assert {pair.texts for pair in sets["valse"]} < {(row["caption"], row["foil"]) for row in published}
    assert (tmp_path / "sets" / "crepe" / "replace_att.json").is_file()
    with pytest.raises(SystemExit, match="13"):
        shapes.make_sets(tmp_path / "more", 13, annotations=tmp_path / "data")


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
