"""Probes: a set without its pictures or its word order, and what is left of a score."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellapart as ta
from facts import raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.probes import PROBES, foreign, shuffle_words
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.diagnosis.probes import probe_rows
from tellapart.errors import DataError, TellapartError
from tellapart.records.samples import read_samples
from tellapart.stats.paired import paired_difference


@pytest.mark.parametrize("probe", ["blank", "foreign", "shuffled"])
def test_a_probe_keeps_ids_clusters_and_tags(probe: str) -> None:
    pairs, probed = (find_benchmark(name).records() for name in ("demo", f"{probe}:demo"))
    for name in ("id", "cluster", "tags"):
        assert [getattr(item, name) for item in pairs.items] == [getattr(item, name) for item in probed.items]
    kept = {"blank": (False, True), "foreign": (False, True), "shuffled": (True, False)}[probe]
    same = zip(pairs.items, probed.items, strict=True)
    assert {(one.images == other.images, one.texts == other.texts) for one, other in same} == {kept}


def test_blank_pictures_are_one_grey_picture() -> None:
    probed = find_benchmark("blank:demo").records()
    (reference,) = {image for item in probed.items for image in item.images}
    assert np.unique(probed.pixels(reference).reshape(-1, 3), axis=0).tolist() == [[124, 116, 104]]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30).filter(lambda names: len({*names}) > 1))
def test_foreign_pictures_are_of_another_cluster(clusters: list[int]) -> None:
    items = tuple(
        Item(id=str(k), images=(f"{k}.png",), texts=("a", "b"), cluster=str(name)) for k, name in enumerate(clusters)
    )
    of_image = {item.images[0]: item.cluster for item in items}
    assert all(of_image[item.images[0]] != item.cluster for item in foreign(PairSet("s", items, Path())).items)


@given(st.text())
def test_shuffled_words_are_the_same_words(text: str) -> None:
    assert sorted(shuffle_words(text).split()) == sorted(text.split())
    assert shuffle_words(text) == shuffle_words(text)


def test_what_is_left_is_paired_with_the_real_run(tmp_path: Path) -> None:
    run = ta.evaluate("demo-encoder", ["demo", "shuffled:demo", "blank:demo"], limit=80, out=tmp_path)
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


def _films(folder: Path) -> PairSet:
    """Two items of a film each: frames that grow darker, with three seconds of time."""
    for name in ("0.mp4", "1.mp4"):
        with av.open(str(folder / name), "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.width = stream.height = 32
            for k in range(30):
                picture = np.full((32, 32, 3), 240 - 8 * k, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())
    items = tuple(Item(id=str(k), images=(f"{k}.mp4",), texts=("brighter", "darker")) for k in range(2))
    return PairSet("films", items, folder)


def test_probes_of_videos_have_the_same_frames_in_another_order(tmp_path: Path) -> None:
    films = _films(tmp_path)
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


def test_what_is_no_set_of_pairs_is_refused() -> None:
    with raises(DataError, "blank:", "-b blank:demo"):
        find_benchmark("blank:")
    with raises(DataError, "blank:pope-random", "yes-no"):
        find_benchmark("blank:pope-random")
    with raises(TellapartError, "demos"):
        find_benchmark("shuffled:demos")
    with raises(DataError, "reversed:demo", "no videos"):
        find_benchmark("reversed:demo").records()
    alone = PairSet("s", (Item(id="a", images=("0.png",), texts=("a", "b"), cluster="c"),), Path())
    with raises(DataError, "foreign:s", "one cluster"):
        foreign(alone)


def test_a_run_measures_probes_and_what_is_left(tmp_path: Path) -> None:
    run = ta.evaluate("demo-encoder", "demo", limit=40, probe=["blank", "shuffled"], out=tmp_path)
    assert run.benchmarks == ["demo", "blank:demo", "shuffled:demo"]
    rows = run.to_json()["probes"]
    assert {row["probe"] for row in rows} == {"blank", "shuffled"}
    assert "what is left" in repr(run) or rows
    with raises(TellapartError, "probe='blanc'", "'blank'"):
        ta.evaluate("demo-encoder", "demo", probe="blanc")
