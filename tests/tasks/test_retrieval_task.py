"""Galleries: ranks both ways, an entry a row and an entry a distinct caption, and files that do not fit."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from pictures import plain
from published import published
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.task_records import RetrievalSet
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.verified import read_result
from tellapart.metrics.retrieval import scores_both_ways
from tellapart.metrics.tabulate import tabulate
from tellapart.records.samples import read_samples
from tellapart.tasks.registry import headline
from tellapart.tasks.retrieval import (
    DEPTHS,
    DISTINCT_RETRIEVAL,
    RETRIEVAL,
    GalleryScores,
    RankedTwice,
    measure_distinct,
    measure_retrieval,
)

GALLERY = [{"image": f"{k}.png", "caption": [f"caption {k} a", f"caption {k} b"]} for k in range(12)]


@pytest.fixture
def gallery(tmp_path) -> RetrievalSet:
    write_file(tmp_path / "data" / "coco_test.json", GALLERY)
    return RetrievalSet.of("g", [row["image"] for row in GALLERY], [row["caption"] for row in GALLERY])


def ids(gallery: RetrievalSet) -> dict[str, list[str]]:
    return {f"{side}_ids": [*map(str, range(len(getattr(gallery, f"{side}s"))))] for side in ("image", "caption")}


def noise(gallery: RetrievalSet, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(gallery.images), len(gallery.captions))).astype(np.float32)


def values(gallery: RetrievalSet, scores: np.ndarray) -> dict[str, float]:
    found: dict[str, float] = {}
    for units in measure_retrieval(gallery, scores_both_ways(scores, gallery.pairs)):
        table = tabulate(units.values, [u.cluster for u in units.units], [u.tags for u in units.units])
        found |= {name: value.value for name, value in table.metrics.items()}
    return found


def test_a_template_filled_in_is_measured_and_compared(command, score_file, gallery, tmp_path):
    ran = command("export", "coco-retrieval", "--to", "g.jsonl", "--data", tmp_path / "data", code=0)
    assert "36 gallery rows in g.jsonl" in ran.out
    rows = [json.loads(line) for line in Path("g.jsonl").read_text().splitlines()]
    own = {f"{side}_ids": [row["id"] for row in rows if row["side"] == side] for side in ("image", "caption")}
    for name, seed in (("a", 0), ("b", 1)):
        scores = noise(gallery, seed)
        np.savez(f"{name}.npz", **own, scores=scores)
        metrics = score_file("coco-retrieval", f"{name}.npz", "--data", tmp_path / "data", out=name)["metrics"]
        assert {key: value["value"] for key, value in metrics.items()} == pytest.approx(values(gallery, scores))
        assert (metrics["i2t_recall@1"]["n"], metrics["t2i_recall@1"]["n"]) == (12, 24)
        assert metrics["t2i_recall@1"]["clusters"] == 12
    ran = command("compare", "a", "b", "--json")
    assert [row["metric"] for row in ran.json["rows"]][:2] == ["i2t_recall@1", "i2t_recall@5"]


def test_the_order_of_the_file_changes_nothing_and_embeddings_are_ranked_by_their_cosine(gallery, tmp_path):
    scores, path = noise(gallery), tmp_path / "a.npz"
    rows, columns = np.random.default_rng(1).permutation(12), np.random.default_rng(2).permutation(24)
    shuffled = {"image_ids": rows.astype(str), "caption_ids": columns.astype(str)}
    np.savez(path, **shuffled, scores=scores[np.ix_(rows, columns)])
    found, straight = RETRIEVAL.read(path, gallery), scores_both_ways(scores, gallery.pairs)
    assert found.image_to_text.rank.tolist() == straight.image_to_text.rank.tolist()
    assert found.text_to_image.rank.tolist() == straight.text_to_image.rank.tolist()
    images, captions = (np.random.default_rng(seed).normal(size=(n, 8)) for seed, n in ((0, 12), (1, 24)))
    np.savez(path, **ids(gallery), images=images, captions=captions)
    units = [vectors / np.linalg.norm(vectors, axis=1)[:, None] for vectors in (images, captions)]
    cosines = scores_both_ways(units[0] @ units[1].T, gallery.pairs)
    assert RETRIEVAL.read(path, gallery).image_to_text.rank.tolist() == cosines.image_to_text.rank.tolist()


@pytest.mark.parametrize("side", ["images", "captions"])
def test_a_file_of_one_sides_embeddings_alone_is_refused(gallery, tmp_path, side):
    path = tmp_path / "half.npz"
    np.savez(path, **ids(gallery), **{side: np.ones((len(getattr(gallery, side)), 8))})
    with raises(ScoreError, str(path), "`scores`", "`images`", "`captions`"):
        RETRIEVAL.read(path, gallery)


def test_the_mean_recall_is_of_the_six_and_a_limit_keeps_images_with_their_captions(gallery):
    found = values(gallery, noise(gallery))
    six = [found[f"{side}_recall@{k}"] for side in ("i2t", "t2i") for k in DEPTHS]
    assert found["mean_recall"] == pytest.approx(np.mean(six))
    small = RETRIEVAL.select(gallery, [3, 7])
    assert small.images == ("3.png", "7.png")
    assert small.captions == ("caption 3 a", "caption 3 b", "caption 7 a", "caption 7 b")
    assert small.pairs == ((0, 0), (0, 1), (1, 2), (1, 3))


@pytest.mark.slow
def test_what_no_model_can_win_is_said(command):
    rng, own = np.random.default_rng(0), {}
    for side, n in (("image", 5_450), ("caption", 27_796)):
        own |= {f"{side}_ids": np.arange(n).astype(str), f"{side}s": rng.normal(size=(n, 16)).astype(np.float32)}
    np.savez("noise.npz", **own)
    ran = command("score", "vlue-retrieval", "--scores", "noise.npz", "--data", published("vlue"), "--out", "run")
    assert "at least 37 of 5,450 image queries cannot be won at 1 by any model" in ran.out


def test_an_image_in_neither_folder_of_the_split_is_refused(tmp_path):
    (tmp_path / "test-coco-cfs.csv").write_text("image_path,caption\nelsewhere/1_0.jpg,a cat\n")
    with raises(DataError, "test-coco-cfs.csv:2", "'image_path'", "'elsewhere/1_0.jpg'"):
        find_benchmark("coco-counterfactuals-test", Locations(tmp_path)).records()


def test_a_query_keeps_its_rank_and_the_first_five_of_the_gallery_through_the_run_folder(score_file, gallery, tmp_path):
    scores = np.round(noise(gallery), 1).astype(np.float32)
    np.savez("a.npz", **ids(gallery), scores=scores)
    score_file("coco-retrieval", "a.npz", "--data", tmp_path / "data", out="a")
    found = scores_both_ways(scores, gallery.pairs)
    kept = {(sample.unit, sample.id): sample.output for sample in read_samples(tmp_path / "a", "coco-retrieval")}
    for unit, ranks, own, true in (
        ("image query", found.image_to_text, scores, set(gallery.pairs)),
        ("caption query", found.text_to_image, scores.T, {(caption, image) for image, caption in gallery.pairs}),
    ):
        for query, order in enumerate(np.argsort(-own, axis=1, kind="stable")[:, :5].tolist()):
            first = [
                {"id": str(entry), "score": float(own[query, entry]), "true": (query, entry) in true} for entry in order
            ]
            assert kept[unit, str(query)] == {"rank": ranks.rank[query], "first": first}


# COCO-Counterfactuals' test split as its authors measure it, equal captions as one entry, beside an entry a row.

CAPTIONS = ("a cat", "a dog", "a cat", "a cup", "a dog", "a cat", "a bowl", "a hat")

#: Recalls of `coco-cfs-evaluation/evaluate_coco_cfs_{clip,BT,flava}.csv`, by model.
PUBLISHED = list(csv.DictReader(Path(__file__).with_name("coco_counterfactuals.csv").read_text("utf-8").splitlines()))


def captioned(captions: tuple[str, ...] = CAPTIONS) -> RetrievalSet:
    return RetrievalSet.of("g", [f"{k}.jpg" for k in range(len(captions))], [[caption] for caption in captions])


def untied_noise(captions: tuple[str, ...], seed: int) -> np.ndarray:
    """Scores without ties, but of equal captions, which have the same."""
    drawn = np.random.default_rng(seed).normal(size=(len(captions), len(captions))).astype(np.float32)
    return drawn[:, [captions.index(caption) for caption in captions]]


def means(records: RetrievalSet, scores: np.ndarray) -> dict[str, float]:
    measured = measure_distinct(records, RankedTwice.of(records, GalleryScores(scores)))
    return {one.name: one.over(one.strict) for units in measured for one in units.values}


def authors(captions: tuple[str, ...], scores: np.ndarray, k: int) -> tuple[float, float]:
    """Their loops, image to text and text to image: captions as keys; a hit where a row of the table holds both."""
    table = {(caption, row) for row, caption in enumerate(captions)}
    column = {caption: scores[:, captions.index(caption)] for caption in dict.fromkeys(captions)}
    images = [
        any((caption, image) in table for caption in sorted(column, key=lambda text: -column[text][image])[:k])
        for image in range(len(captions))
    ]
    texts = [
        any((caption, image) in table for image in np.argsort(-own, kind="stable")[:k].tolist())
        for caption, own in column.items()
    ]
    return float(np.mean(images)), float(np.mean(texts))


@given(st.lists(st.sampled_from("abcde"), min_size=2, max_size=14), st.integers(0, 99))
def test_the_recalls_are_those_of_the_authors_loops_and_an_entry_a_row_is_never_above_them(letters, seed):
    captions = tuple(letters)
    records, scores = captioned(captions), untied_noise(captions, seed)
    found = means(records, scores)
    rows = measure_retrieval(records, GalleryScores(scores).rank(records.pairs))
    assert {one.name: one.over(one.strict) for units in rows for one in units.values}.items() <= found.items()
    for k in (1, 5, 10):
        both = found[f"i2t_distinct_recall@{k}"], found[f"t2i_distinct_recall@{k}"]
        assert both == pytest.approx(authors(captions, scores, k))
        assert found[f"i2t_recall@{k}"] <= both[0]
    if len(set(letters)) == len(letters):
        assert all(found[name] == found[name.replace("_distinct", "")] for name in found if "_distinct" in name)


def test_the_first_look_is_the_authors_and_that_of_other_galleries_stays():
    names = {metric.name for metric in DISTINCT_RETRIEVAL.metrics}
    assert headline(names) == tuple(f"{side}_distinct_recall@{k}" for side in ("i2t", "t2i") for k in (1, 5, 10))
    assert headline({metric.name for metric in RETRIEVAL.metrics})[0] == "i2t_recall@1"
    assert find_benchmark("coco-counterfactuals-retrieval").task == "retrieval"


def test_a_constant_model_gets_nothing_and_chance_with_ties_broken_at_random(gallery):
    records = captioned()
    rows = measure_retrieval(gallery, scores_both_ways(np.zeros((12, 24)), gallery.pairs))
    distinct = measure_distinct(records, RankedTwice.of(records, GalleryScores(np.zeros((8, 8)))))
    for one in (one for units in (*rows, *distinct) for one in units.values):
        if one.reduce is None:
            assert one.over(one.strict) == 0 or one.chance == 1
            assert one.over(one.neutral) == pytest.approx(one.chance)


@pytest.fixture
def split(tmp_path) -> Path:
    """The split of eight rows, with its pictures."""
    folder = tmp_path / "split"
    for k in range(8):
        write_file(folder / "images" / f"{k}_0_img_0.jpg", plain((20 * k, 100, 200 - 20 * k), (16, 16), "JPEG"))
    paths = (f"../synthetic-images-for-original-captions/{k}_0.jpg" for k in range(8))
    rows = [{"image_path": path, "caption": caption} for path, caption in zip(paths, CAPTIONS, strict=True)]
    write_file(folder / "test-coco-cfs.csv", rows)
    return folder


@pytest.mark.parametrize("form", ["scores", "embeddings"])
def test_a_file_of_scores_is_measured_by_both_rules_and_the_authors_stands_first(command, split, form):
    rng = np.random.default_rng(0)
    images, captions = rng.normal(size=(8, 4)), rng.normal(size=(8, 4))
    captions = captions[[CAPTIONS.index(caption) for caption in CAPTIONS]]
    norms = np.linalg.norm(images, axis=1)[:, None] * np.linalg.norm(captions, axis=1)
    scores = (images @ captions.T / norms).astype(np.float32)
    held = {"scores": scores} if form == "scores" else {"images": images, "captions": captions}
    np.savez("s.npz", **ids(captioned()), **held)
    name = "coco-counterfactuals-test"
    ran = command("score", name, "--scores", "s.npz", "--data", split, "--out", "run", code=0)
    assert "i2t_distinct_recall@1" in ran.out and "i2t_recall@1" not in ran.out
    assert "3 of 8 captions repeat another: one entry in *_distinct_recall" in " ".join(ran.out.split())
    metrics = read_result(Path("run")).benchmarks[name].metrics
    found = {key: value.value for key, value in metrics.items() if "recall@" in key}
    expected = {key: value for key, value in means(captioned(), scores).items() if "@" in key}
    assert found == pytest.approx(expected)
    assert (metrics["t2i_distinct_recall@1"].n, metrics["t2i_recall@1"].n) == (5, 8)
    heads = [f"{side} retrieval (distinct captions) R@{k}" for side in ("Text", "Image") for k in (1, 5, 10)]
    assert command("table", "run", "--csv").out.splitlines()[0] == ",".join(["model", *heads])


def test_a_dual_encoder_is_ranked_by_both_rules(command, split):
    name = "coco-counterfactuals-test"
    ran = command("run", "-b", name, "-m", "demo-encoder", "--data", split, "--out", "run", "--json", code=0)
    metrics = ran.json["runs"][0]["benchmarks"][name]["metrics"]
    assert (metrics["i2t_distinct_recall@1"]["n"], metrics["t2i_distinct_recall@1"]["n"]) == (8, 5)
    assert metrics["i2t_distinct_recall@1"]["value"] >= metrics["i2t_recall@1"]["value"]


def test_the_published_recalls_are_whole_hits_of_the_splits_distinct_captions_and_of_its_images():
    records = find_benchmark("coco-counterfactuals-test", Locations(published("coco_counterfactuals"))).records()
    distinct, first = records.distinct_captions()
    assert (len(records.images), len(set(records.images)), len(records.captions)) == (10_446, 10_446, 10_446)
    assert (len(distinct.captions), len(first), len(distinct.pairs)) == (10_403, 10_403, 10_446)
    sizes = {"t2i": (10_403, 10_446), "i2t": (10_446, 10_403)}  # the queries, and what they are not
    for row in PUBLISHED:
        for name, recall in ((name, float(value)) for name, value in row.items() if name != "model"):
            hits, others = (recall * size / 100 for size in sizes[name[:3]])
            assert hits == pytest.approx(round(hits), abs=1e-8)
            assert others != pytest.approx(round(others), abs=1e-8)
