"""Benchmarks of the hub, read from a cache that is laid out as the hub's own, without a network."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from annotation_formats import groove

from facts import raises
from pictures import draw
from sets import write_file
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark, load_pairs
from tellapart.benchmarks.minimal_pairs import BLOCKS
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.errors import DataError, MissingDependencyError


@pytest.fixture
def parquet() -> Callable[[Path, list[dict[str, Any]], int], None]:
    """Write rows as `datasets` does: images as struct<bytes, path>, in row groups."""
    arrow = pytest.importorskip("pyarrow", reason="parquet files are read with pyarrow, of the extra 'hub'")
    files = importlib.import_module("pyarrow.parquet")

    def write(path: Path, rows: list[dict[str, Any]], group: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_table(arrow.Table.from_pylist(rows), path, row_group_size=group)

    return write


def snapshot(tmp_path: Path, name: str) -> Path:
    """Name the folder in which the hub's client keeps a benchmark's dataset at its revision."""
    hub = find_benchmark(name).hub
    return tmp_path / "hub" / f"datasets--{hub.repo.replace('/', '--')}" / "snapshots" / hub.revision


def cell(data: bytes) -> dict[str, Any]:
    return {"bytes": data, "path": None}


def winoground_rows(n: int) -> list[dict[str, Any]]:
    return [groove(k) | {f"image_{side}": cell(draw(2 * k + side)) for side in (0, 1)} for k in range(n)]


@pytest.fixture
def winoground(tmp_path, parquet) -> Benchmark:
    parquet(snapshot(tmp_path, "winoground") / "data" / "test-00000-of-00001.parquet", winoground_rows(400), 100)
    return find_benchmark("winoground")


@pytest.mark.slow
def test_questions_and_their_images_are_read_from_the_hubs_cache(tmp_path):
    folder = snapshot(tmp_path, "mmvp")
    write_file(folder / "MMVP Images" / "2.jpg", draw(2))
    rows = [f"{k},Where is {(k + 1) // 2}?,(a) Left (b) Right,({'ab'[k % 2]})" for k in range(1, 301)]
    write_file(folder / "Questions.csv", "\n".join(["Index,Question,Options,Correct Answer", *rows]))
    mmvp = find_benchmark("mmvp")
    questions = mmvp.records()
    assert len(questions.rows) == 300
    assert mmvp.read_image(questions)(questions.rows[1].images[0]) == draw(2)


def test_winoground_is_read_from_the_hubs_cache_at_its_revision_and_needs_no_token(winoground, monkeypatch):
    monkeypatch.setattr("tellapart.benchmarks.benchmark._find_token", lambda: None)
    winoground.expect()
    pairs = winoground.records()
    assert (len(pairs), pairs.shape, pairs.items[399].id) == (400, (2, 2), "399")
    assert pairs.items[7].texts == ("dog 7 bites man", "man bites dog 7")
    tags = {"tag": "Noun", "secondary_tag": "Pragmatics", "num_main_preds": "2", "collapsed_tag": "Object"}
    assert pairs.items[5].tags == tags
    assert "secondary_tag" not in pairs.items[31].tags
    for k in (0, 99, 100, 399, 5):  # in several row groups, and back
        assert pairs.read_bytes(pairs.items[k].images[1]) == draw(2 * k + 1)
    assert winoground.outline() == pairs.outline


def test_a_set_that_the_cache_lacks_or_without_a_token_or_the_hubs_package_is_an_error(monkeypatch):
    with raises(DataError, "facebook/winoground", "https://huggingface.co/datasets/facebook/winoground", "token"):
        find_benchmark("winoground").expect()
    benchmark = find_benchmark("bivlc")
    benchmark.expect()  # it could be fetched
    assert benchmark.records_here() is None
    with raises(DataError, "imirandam/BiVLC", "6c99042f10a8", "data="):
        benchmark.records()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with raises(MissingDependencyError, 'pip install "tellapart[hub]"', "install"):
        load_pairs("bivlc")


@pytest.mark.parametrize("shards", [1, 2])
def test_bivlc_is_read_from_its_shards_and_clusters_are_its_images(tmp_path, parquet, shards):
    kinds = [{"type": kind, "subtype": subtype} for kind, subtype, count in BLOCKS for _ in range(count)]
    rows = [
        {"image": cell(draw(k // 3)), "caption": f"A dog {k}.", "negative_caption": f"A cat {k}."}
        | {"negative_image": cell(b"not read"), **kind}
        for k, kind in enumerate(kinds)
    ]
    size, data = -(-len(rows) // shards), snapshot(tmp_path, "bivlc") / "data"
    for shard in range(shards):
        path = data / f"test-0000{shard}-of-0000{shards}-23fe2e02660e9182.parquet"
        parquet(path, rows[shard * size : (shard + 1) * size], 1000)
    pairs = load_pairs("bivlc")
    assert (len(pairs), pairs.items[2932].tags) == (2933, {"type": "swap", "subtype": "swap att"})
    assert pairs.read_bytes(pairs.items[2932].images[0]) == draw(2932 // 3)
    assert len(set(pairs.outline.clusters)) == 978
    assert pairs.items[0].cluster == pairs.items[2].cluster != pairs.items[3].cluster


def test_a_run_from_the_hubs_cache_measures_and_reports(winoground, command):
    ran = command("run", "-m", "oracle", "-b", "winoground", "--limit", "8", "--out", "r", "--json")
    found = ran.json["runs"][0]["benchmarks"]["winoground"]
    value = found["metrics"]["group_score"]["value"]
    assert (value, found["limited_from"], found["images"]) == (1.0, 400, 16)
    assert set(found["by"]) == {"collapsed_tag", "num_main_preds", "secondary_tag", "tag"}
    assert Path("r/report.html").read_text(encoding="utf-8").count("data:image/png") >= 16


def test_damaged_parquet_is_an_error_of_the_data(tmp_path, parquet):
    whole, lacks, cut = (tmp_path / f"{name}.parquet" for name in ("whole", "lacks", "cut"))
    rows, images = winoground_rows(3), ("image_0", "image_1")
    parquet(whole, rows, 1)
    rows[2]["image_0"] = None
    parquet(lacks, rows, 2)
    cut.write_bytes(whole.read_bytes()[:-100])
    with raises(DataError, "cut.parquet", "parquet", "complete"):
        ParquetTable([cut], images=images)
    with raises(DataError, "'picture'", "id", "image_0"):
        ParquetTable([whole], images=("picture",))
    for reference in ("3/image_0", "0/caption_0", "0", "x/image_0"):
        with raises(DataError, "image_0", "image_1", path=whole):
            ParquetTable([whole], images=images)(reference)
    with raises(DataError, "lacks.parquet: row 2", "'image_0'"):  # as the rows of its file are counted
        ParquetTable([whole, lacks], images=images)("5/image_0")


def test_winoground_is_read_from_its_older_files(tmp_path, at):
    write_file(tmp_path / "examples.jsonl", [groove(k) for k in range(400)])
    write_file(tmp_path / "images" / "ex_0_img_1.png", draw(9))
    pairs = at("winoground", tmp_path).records()
    assert pairs.items[0].images == ("ex_0_img_0.png", "ex_0_img_1.png")
    assert pairs.read_bytes("ex_0_img_1.png") == draw(9)


def test_a_token_without_access_is_an_error_with_the_page(monkeypatch):
    errors = importlib.import_module("huggingface_hub.errors")

    class Gated(errors.GatedRepoError):
        def __init__(self) -> None:
            Exception.__init__(self, "403")

    def refuse(*_args: object, local_files_only: bool, **_options: object) -> str:
        raise errors.LocalEntryNotFoundError("not here") if local_files_only else Gated()

    monkeypatch.setattr("tellapart.benchmarks.benchmark._find_token", lambda: "hf_token")
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with raises(DataError, "https://", "/facebook/winoground", "token"):
        load_pairs("winoground")


def test_a_cache_that_lacks_a_file_is_not_taken_for_the_set(tmp_path):
    hub, folder = find_benchmark("coco-counterfactuals").hub, snapshot(tmp_path, "coco-counterfactuals")
    write_file(folder / "data" / "examples.jsonl", "{}")
    assert hub.cached_folder() is None
    write_file(folder / "data" / "images.zip", b"")
    assert hub.cached_folder() == folder


@pytest.mark.slow
def test_whatever_byte_of_a_parquet_file_is_damaged_the_error_names_the_file(tmp_path, parquet):
    """Damaged types, sizes and texts end in exceptions of several kinds: NotImplementedError and IndexError, too."""
    path = tmp_path / "a.parquet"
    parquet(path, [{"id": k, "caption_0": "a", "image_0": cell(b"x")} for k in range(2)], 2)
    whole, errors = path.read_bytes(), 0
    for place in range(len(whole)):
        for value in (1, 66, 128):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                table = ParquetTable([path], images=["image_0"])
                list(table.rows())
                table("0/image_0")
            except DataError as error:
                assert str(path) in str(error)
                errors += 1
    assert errors > 100
