"""Where files are found, whichever of the usual ways they are kept."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts, raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, ZipImages, crop_images, find_files
from tellapart.errors import DataError


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_folder_of_the_benchmarks_name_comes_before_the_folder_itself(tmp_path: Path) -> None:
    assert Locations(tmp_path).folder("valse") == tmp_path
    (tmp_path / "valse").mkdir()
    assert Locations(tmp_path).folder("valse") == tmp_path / "valse"
    assert Locations(tmp_path).folder("eqben") == tmp_path


@pytest.mark.parametrize("option", ["data", "images"])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, option: str) -> None:
    with raises(DataError, f"{option}", "folder"):
        Locations(**{option: tmp_path / "gone"})


def test_images_are_looked_for_where_they_are_said_to_be_else_beside_the_annotations(tmp_path: Path) -> None:
    assert Locations(tmp_path).pictures("sugarcrepe", "val2017", "images") == tmp_path
    touch(tmp_path / "images" / "1.jpg", tmp_path / "val2017" / "1.jpg", tmp_path / "other" / "sugarcrepe" / "1.jpg")
    assert Locations(tmp_path).pictures("sugarcrepe", "val2017", "images") == tmp_path / "val2017"
    assert Locations(tmp_path, tmp_path / "images").pictures("sugarcrepe", "val2017") == tmp_path / "images"
    assert Locations(tmp_path, tmp_path / "other").pictures("sugarcrepe") == tmp_path / "other" / "sugarcrepe"


def test_the_first_alternative_that_is_there_is_taken_in_order_of_names(tmp_path: Path) -> None:
    touch(tmp_path / "data" / "b-1.json", tmp_path / "data" / "b-0.json", tmp_path / "c.json")
    assert [path.name for path in find_files(tmp_path, "a.json|b-*.json|c.json")] == ["b-0.json", "b-1.json"]
    assert find_files(tmp_path, "d.json") == []


def test_what_is_missing_is_named_and_where_it_was_looked_for(tmp_path: Path) -> None:
    touch(tmp_path / "add_att.json")
    benchmark = find_benchmark("sugarcrepe", Locations(tmp_path))
    assert "add_att.json" not in benchmark.missing()
    with raises(DataError, "sugarcrepe", "add_obj.json", "https://github"):
        benchmark.records()


def test_an_image_is_found_one_folder_deeper_and_under_another_suffix(
    tmp_path: Path, draw: Callable[..., bytes]
) -> None:
    touch(tmp_path / "coco" / "1.jpg", tmp_path / "2.png")
    assert FolderImages(tmp_path)("1.jpg") == b"x"
    assert FolderImages(tmp_path, suffixes=(".jpg",))("1.png") == b"x"
    with raises(DataError, "'1.png'", "image"):
        FolderImages(tmp_path)("1.png")


@pytest.mark.parametrize("reference", ["../secret.png", "/etc/x.png", "https://a/b.png", "a.txt"])
def test_a_hostile_reference_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(DataError):
        FolderImages(tmp_path / "set")(reference)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    touch(tmp_path / "secret.png")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.png").symlink_to(tmp_path / "secret.png")
    with raises(DataError, "pair", "folder"):
        FolderImages(tmp_path / "set")("a.png")


def test_an_archives_image_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(64_000_001))
    with raises(DataError, "a.png", "images.zip", "64,000,000", "bytes"):
        ZipImages(tmp_path / "images.zip")("a.png")


@pytest.mark.parametrize("size", [(0, 5), (100_000, 100_000)])
def test_a_crop_of_no_sensible_size_is_refused(draw: Callable[..., bytes], size: tuple[int, int]) -> None:
    read = crop_images(lambda _reference: draw(0))
    with raises(DataError, "a.png#0,0,", "pixels"):
        read("a.png#0,0,{},{}".format(*size))


def test_a_folder_that_is_none_is_one_error_of_every_command(command: Callable[..., Any]) -> None:
    for arguments in (("ls", "benchmarks"), ("run", "-b", "valse"), ("export", "valse", "--to", "a.csv")):
        ran = command(*arguments, "--data", "gone")
        assert ran.code == 2
        check_facts(ran.err, "error", "--data gone", "folder")


def test_the_folder_may_be_named_by_the_environment(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "aro-relation" / "visual_genome_relation.json")
    monkeypatch.setenv("TELLAPART_DATA", str(tmp_path))
    rows = {row["name"]: row for row in command("ls", "benchmarks", "--json").json}
    assert (rows["aro-relation"]["files"], rows["aro-attribution"]["files"]) == ("here", "with --data")


@pytest.mark.parametrize(
    ("files", "name", "said"),
    [
        (["pairs.jsonl"], "mine", ("mine", "folder:mine")),
        (["metadata.csv"], "mine", ("mine", "folder:mine")),
        (["train/pairs.jsonl"], "mine", ("mine", "folder:mine/train")),
        (["cat/1.png", "dog/2.JPG"], "mine", ("mine", "classes:mine")),
        (["cat/1.png"], "mine", ("mine", "folder:PATH", "pairs.jsonl")),
        (["cups.toml"], "mine", ("mine", "write mine/cups.toml")),
        (["pairs.csv", "readme.txt"], "mine", ("mine", "write mine/pairs.csv")),
        (["cups.csv", "cups.toml"], "mine", ("mine", "write mine/cups.toml")),
        (["set.py"], "mine/set.py", ("mine/set.py", "mine/set.py:NAME")),
        (["pairs.jsonl"], "pairing:mine", ("mine", "folder:mine", "after 'pairing:'")),
        (["pairs.jsonl"], "mine/pairs.jsonl", ("mine/pairs.jsonl", "folder:mine")),
        (["a.jsonl"], "mine/a.jsonl", ("mine/a.jsonl", "ranking:mine/a.jsonl")),
        (["a.csv"], "mine/a.csv", ("mine/a.csv", "no pairs")),
    ],
)
def test_a_path_without_its_prefix_is_answered_with_the_name_to_write(
    command: Callable[..., Any], tmp_path: Path, files: list[str], name: str, said: tuple[str, ...]
) -> None:
    for file in files:
        (tmp_path / "mine" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / file).write_text('{"candidates": []}')
    ran = command("run", "-m", "random", "-b", name)
    assert (ran.code, ran.out) == (2, "")
    check_facts(ran.err, "error", said)
    assert ran.err.count("\n") == 1


def test_a_name_of_the_catalogue_comes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path / "demo" / "pairs.jsonl")
    assert find_benchmark("demo").items == 400
