"""Benchmarks: what a declaration says, where files are looked for, and probes."""

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellapart as ta
from facts import check_facts, raises
from pictures import draw, film
from sets import write_file
from tellapart import Item, PairSet, read_samples
from tellapart.benchmarks.find import find_benchmark, set_name
from tellapart.benchmarks.locations import FolderImages, Locations, ZipImages, crop_images, find_files
from tellapart.benchmarks.probes import PROBES, foreign, shuffle_words
from tellapart.catalog import BENCHMARKS
from tellapart.diagnosis.probes import probe_rows
from tellapart.errors import DataError, TellapartError, UnknownNameError
from tellapart.stats.paired import paired_difference

FIRST = [name for name in BENCHMARKS if find_benchmark(name).task == "pairs"]


@pytest.mark.parametrize("name", FIRST)
def test_a_built_in_benchmark_declares_itself_and_what_is_known_without_files_agrees(name):
    benchmark = find_benchmark(name)
    assert benchmark.name == name
    assert min(map(len, (benchmark.title, benchmark.source, benchmark.licence, benchmark.citation))) > 5
    assert benchmark.shape != (1, 2) or find_benchmark(f"choice:{name}").task == "choice"
    if benchmark.files and benchmark.known is None:
        with raises(DataError, name, "data="):
            benchmark.outline()
        return
    outline = benchmark.outline()
    assert (outline.shape, len(outline.ids)) == (benchmark.shape, benchmark.items)
    assert len(outline.clusters) == len(outline.tags) == len(set(outline.ids)) == benchmark.items
    assert name != "winoground" or outline.ids == tuple(str(k) for k in range(400))  # as in its score files
    if not benchmark.files:
        assert benchmark.records().outline == outline


def test_a_folder_says_of_itself_what_its_card_says_or_is_called_by_its_name(made_set, tmp_path, monkeypatch):
    folder = made_set("mine", n=5, shape=(1, 3))
    benchmark = find_benchmark(f"folder:{folder}")
    assert (benchmark.name, benchmark.title, benchmark.licence) == ("folder:mine", "Set mine", "CC0")
    assert (benchmark.items, benchmark.shape, benchmark.citation) == (5, (1, 3), "not stated")
    assert benchmark.records().name == "folder:mine"
    (folder / "card.json").unlink()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_benchmark("folder:~/mine").title == "mine"


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("folder:", DataError, ("folder:PATH", "folder")),
        ("folder:no such", DataError, ("'no such'", "folder")),
        ("Winoground", UnknownNameError, ("benchmark", "'Winoground'", "'winoground'")),
        ("v" * 5_000, UnknownNameError, "benchmark"),  # longer than any path
        ("blank:", DataError, ("blank:", "-b blank:demo")),
        ("blank:pope-random", DataError, ("blank:pope-random", "yes-no")),
        ("shuffled:demos", TellapartError, "demos"),
        ("classes:", DataError, ("classes:DIR", "folder")),
        ("classes:gone", DataError, ("0", "folders")),
        ("choice:", DataError, ("choice:NAME", "choice:sugarcrepe")),
        ("choice:demo", DataError, ("choice:demo", "1x2", "pairing:demo")),
        ("pairing:", DataError, ("pairing", "pairing:NAME", "pairs")),
        ("pairing:valse", DataError, ("pairing:valse", "2x2", "caption", "image", "choice:valse")),
        ("set:no.toml", DataError, ("set:no.toml", "'no.toml'", "set:FILE.toml")),
        ("sugarcrepe-p", UnknownNameError, ("benchmark", "'sugarcrepe-p'", "'sugarcrepe-pp'")),
    ],
)
def test_a_name_that_is_none_or_of_another_task_is_refused(name, error, said):
    with raises(error, said):
        find_benchmark(name)


def test_a_set_is_named_after_its_folder_however_that_is_written(tmp_path, monkeypatch):
    (tmp_path / "mine" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine" / "inner")
    assert set_name("folder:.") == "folder:inner"
    assert set_name("pairing:folder:..") == "pairing:folder:mine"
    assert set_name("folder:inner#1f0c9a2e") == "folder:inner#1f0c9a2e"


# Where files are found, whichever of the usual ways they are kept.


def touch(*paths: Path) -> None:
    for path in paths:
        write_file(path, b"x")


def test_a_folder_of_the_benchmarks_name_comes_first_and_images_lie_where_it_is_said(
    tmp_path,
):
    place = Locations(tmp_path)
    assert (place.folder("valse"), place.pictures("sugarcrepe", "val2017", "images")) == (tmp_path, tmp_path)
    touch(tmp_path / "images" / "1.jpg", tmp_path / "val2017" / "1.jpg", tmp_path / "other" / "sugarcrepe" / "1.jpg")
    (tmp_path / "valse").mkdir()
    assert [place.folder(name) for name in ("valse", "eqben")] == [tmp_path / "valse", tmp_path]
    assert place.pictures("sugarcrepe", "val2017", "images") == tmp_path / "val2017"
    assert Locations(tmp_path, tmp_path / "images").pictures("sugarcrepe", "val2017") == tmp_path / "images"
    assert Locations(tmp_path, tmp_path / "other").pictures("sugarcrepe") == tmp_path / "other" / "sugarcrepe"


@pytest.mark.parametrize("option", ["data", "images"])
def test_a_folder_that_is_not_there_is_named(tmp_path, option):
    with raises(DataError, f"{option}", "folder"):
        Locations(**{option: tmp_path / "gone"})


def test_the_first_alternative_that_is_there_is_taken_and_what_is_missing_is_named(tmp_path):
    touch(*(tmp_path / name for name in ("data/b-1.json", "data/b-0.json", "c.json", "add_att.json")))
    assert [path.name for path in find_files(tmp_path, "a.json|b-*.json|c.json")] == ["b-0.json", "b-1.json"]
    assert find_files(tmp_path, "d.json") == []
    benchmark = find_benchmark("sugarcrepe", Locations(tmp_path))
    assert "add_att.json" not in benchmark.missing()
    with raises(DataError, "sugarcrepe", "add_obj.json", "https://github"):
        benchmark.records()


def test_of_two_pictures_of_one_name_none_is_guessed(tmp_path):
    for folder, content in (("train", b"x"), ("val", b"y"), ("copy", b"x")):
        write_file(tmp_path / folder / "1.jpg", content)
    for also in (None, tmp_path / "copy"):
        with raises(DataError, "1.jpg", "images=", "copy", "val"):
            FolderImages(tmp_path, also=also)("1.jpg")
    (tmp_path / "val" / "1.jpg").rename(tmp_path / "val" / "1.png")
    images = FolderImages(tmp_path)
    assert images("1.jpg") == b"x"  # copies are no choice
    with raises(DataError, "1.jpg", "1.png", "images="):
        FolderImages(tmp_path, suffixes=(".png",))("1.jpg")
    (tmp_path / "val" / "2.jpg").write_bytes(b"y")
    assert images("2.jpg") == b"y"  # saved after the names were listed
    (tmp_path / "1.jpg").write_bytes(b"z")
    assert FolderImages(tmp_path)("1.jpg") == b"z"  # nor is there one where the named folder has it


def test_an_image_is_found_one_folder_deeper_under_another_suffix_and_not_asked_for_in_each_folder(
    tmp_path, monkeypatch
):
    touch(*(tmp_path / str(k) / f"{k}.jpg" for k in range(30)), tmp_path / "31.png")
    assert FolderImages(tmp_path, suffixes=(".jpg",))("1.png") == b"x"
    with raises(DataError, "'1.png'", "image"):
        FolderImages(tmp_path)("1.png")
    asked, is_file = [], Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: asked.append(path) or is_file(path))
    images = FolderImages(tmp_path)
    assert [images.find(f"{k}.jpg").parent.name for k in range(30)] == [str(k) for k in range(30)]
    assert len(asked) <= 2 * 30


def test_an_archives_image_that_unpacks_to_too_much_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(64_000_001))
    with raises(DataError, "a.png", "images.zip", "64,000,000", "bytes"):
        ZipImages(tmp_path / "images.zip")("a.png")


@pytest.mark.parametrize("size", [(0, 5), (100_000, 100_000)])
def test_a_crop_of_no_sensible_size_is_refused(size):
    read = crop_images(lambda _reference: draw(0))
    with raises(DataError, "a.png#0,0,", "pixels"):
        read("a.png#0,0,{},{}".format(*size))


def test_the_folder_may_be_named_by_the_environment(command, tmp_path, monkeypatch):
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
def test_a_path_without_its_prefix_is_answered_with_the_name_to_write(command, tmp_path, files, name, said):
    for file in files:
        write_file(tmp_path / "mine" / file, '{"candidates": []}')
    touch(tmp_path / "demo" / "pairs.jsonl")
    assert find_benchmark("demo").items == 400  # a name of the catalogue comes before a folder of that name
    ran = command("run", "-m", "random", "-b", name)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    check_facts(ran.err, "error", said)


# Probes: a set without its pictures or its word order, and what is left of a score.


@pytest.mark.parametrize("probe", ["blank", "foreign", "shuffled"])
def test_a_probe_keeps_ids_clusters_and_tags(probe):
    pairs, probed = (find_benchmark(name).records() for name in ("demo", f"{probe}:demo"))
    for name in ("id", "cluster", "tags"):
        assert [getattr(item, name) for item in pairs.items] == [getattr(item, name) for item in probed.items]
    same = zip(pairs.items, probed.items, strict=True)
    kept = (probe == "shuffled", probe != "shuffled")
    assert {(one.images == other.images, one.texts == other.texts) for one, other in same} == {kept}
    if probe == "blank":
        (reference,) = {image for item in probed.items for image in item.images}
        assert np.unique(probed.pixels(reference).reshape(-1, 3), axis=0).tolist() == [[124, 116, 104]]


def test_foreign_pictures_are_none_of_the_item_s_where_clusters_do_not_tell():
    """Two false captions of each image, listed as two blocks: half of the set away is the image itself."""
    items = [Item(id=f"{k}", images=(f"{k % 3}.png",), texts=("true", f"false {k}")) for k in range(6)]
    changed = foreign(PairSet("s", tuple(items), Path())).items
    assert all(ours.images != theirs.images for ours, theirs in zip(items, changed, strict=True))
    same = [item.model_copy(update={"cluster": "c"}) for item in items]
    for alone, facts in (((items[0], items[3]), ("'0'", "pictures")), (same, ("one cluster",))):
        with raises(DataError, "foreign:s", *facts):
            foreign(PairSet("s", tuple(alone), Path()))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30).filter(lambda names: len({*names}) > 1))
def test_foreign_pictures_are_of_another_cluster(clusters):
    items = tuple(
        Item(id=str(k), images=(f"{k}.png",), texts=("a", "b"), cluster=str(name)) for k, name in enumerate(clusters)
    )
    of_image = {item.images[0]: item.cluster for item in items}
    assert all(of_image[item.images[0]] != item.cluster for item in foreign(PairSet("s", items, Path())).items)


@given(st.text())
def test_shuffled_words_are_the_same_words(text):
    assert sorted(shuffle_words(text).split()) == sorted(text.split())
    assert shuffle_words(text) == shuffle_words(text)


def test_what_is_left_is_paired_with_the_real_run(tmp_path):
    run = ta.evaluate("demo-encoder", "demo", probe=["shuffled", "blank"], limit=80, out=tmp_path)
    assert run.benchmarks == ["demo", "shuffled:demo", "blank:demo"]
    assert {row["probe"] for row in run.to_json()["probes"]} == {"blank", "shuffled"}
    rows = {(row.probe, row.metric): row for row in probe_rows(run.systems)}
    real, left = (
        [sample.outcomes["group_score"] for sample in read_samples(tmp_path, name)]
        for name in ("demo", "shuffled:demo")
    )
    row = rows["shuffled", "group_score"]
    expected = paired_difference(left, real, None, binary=True)
    assert (row.n, row.real, row.left, row.difference) == (80, np.mean(real), np.mean(left), expected.value)
    assert (row.low, row.high) == (expected.low, expected.high)
    # One picture in the place of two ties.
    assert row.difference < 0 and rows["blank", "image_score"].left == 0
    run.write_report()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (table,) = re.findall(r"<h3>What is left without a side.*?</section>", page, re.DOTALL)  # of the set, not of probes
    assert all(probe in table for probe in ("shuffled", "blank"))
    assert f"{100 * row.difference:+.2f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]" in table
    assert ta.verify(tmp_path).passed


def test_probes_of_videos_have_the_same_frames_in_another_order(tmp_path):
    for name in ("0.mp4", "1.mp4"):  # frames that grow darker, with three seconds of time
        film(tmp_path / name, (np.full((32, 32, 3), 240 - 8 * k, np.uint8) for k in range(30)))
    items = tuple(Item(id=str(k), images=(f"{k}.mp4",), texts=("brighter", "darker")) for k in range(2))
    films = PairSet("films", items, tmp_path)
    orders = {probe: PROBES[probe][0](films) for probe in ("reversed", "jumbled", "still")}
    shown = films.pixels("0.mp4").mean(axis=(1, 2, 3))
    means = {probe: pairs.pixels("0.mp4").mean(axis=(1, 2, 3)) for probe, pairs in orders.items()}
    assert (np.diff(shown) < 0).all()
    assert means["reversed"].tolist() == shown[::-1].tolist()
    assert sorted(means["jumbled"]) == sorted(shown) and means["jumbled"].tolist() != shown.tolist()
    assert set(means["still"]) == {shown[0]}
    # Vectors are stored by content, and frames in another order are other content.
    assert len({pairs.content_key("0.mp4", b"") for pairs in (films, *orders.values())}) == 4
    assert len({pairs.fingerprint() for pairs in (films, *orders.values())}) == 4


def test_what_is_no_probe_and_no_set_of_videos_is_refused():
    with raises(TellapartError, "probe='blanc'", "'blank'"):
        ta.evaluate("demo-encoder", "demo", probe="blanc")
    with raises(DataError, "reversed:demo", "no videos"):
        find_benchmark("reversed:demo").records()
