"""COLA's single objects, from its file to the number of its authors: equal to scikit-learn's, label by label."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from pictures import plain
from sets import write_file
from tellapart.benchmarks.published_tasks import read_image_labels
from tellapart.errors import DataError, ScoreError
from tellapart.metrics.average_precision import average_precision
from tellapart.tasks.retrieval import read_label_scores

# Imported when tests are collected: it changes the environment.
metrics = pytest.importorskip("sklearn.metrics")

NAME = "cola-objects-gqa"
FILE = "COLA_singleobjects_benchmark_GQA.json"
RNG = np.random.default_rng(30)
TRUE, HARD = RNG.random((40, 6)) < 0.4, RNG.random((40, 6)) < 0.6
TRUE[:, 2] = False  # in a part of the images a label may be true of none
HARD[:, 4] = False
SCORES = RNG.integers(0, 5, (40, 6)) / 5
LABELS = [f"square {colour} plate" for colour in ("red", "blue", "green", "white", "black", "grey")]
KEPT = ["0", "1", "3", "5"]


@pytest.fixture
def content() -> dict[str, Any]:
    marks = zip(TRUE.astype(int).tolist(), HARD.astype(int).tolist(), strict=True)
    return {"labels": LABELS, "data": [[f"vg_gqa_images/{k}.jpg", {}, *both] for k, both in enumerate(marks)]}


@pytest.fixture
def folder(tmp_path, content) -> Path:
    write_file(tmp_path / FILE, content)
    return tmp_path


def test_the_official_number_is_scikit_learns_on_scores_with_ties(command, score_file, folder):
    order, scores = RNG.permutation(40), folder / "scores.npz"
    places = [*map(int, KEPT)]
    np.savez(scores, image_ids=order.astype(str), label_ids=KEPT, scores=SCORES[order][:, places])
    value = score_file(NAME, scores, "--data", folder)["metrics"]["label_ap"]
    shown = [(TRUE[HARD[:, k], k], SCORES[HARD[:, k], k].astype("f4")) for k in places]
    theirs = np.mean([metrics.average_precision_score(true, score) for true, score in shown])
    assert value["official"] == pytest.approx(theirs, abs=1e-12)
    assert value["value"] < value["official"]
    assert value["n"] == value["ties"] == 4
    table = command("show", "run")
    assert f"{100 * theirs:.2f}" in table.out, table.err


def test_a_model_scores_the_images_that_count(command, folder):
    for k in range(40):
        write_file(folder / "images" / f"{k}.jpg", plain((k, 0, 0), (4, 4), "JPEG"))
    ran = command("run", "-b", NAME, "-m", "constant", "--data", str(folder), "--out", "run", "--json", code=0)
    value = ran.json["runs"][0]["benchmarks"][NAME]["metrics"]["label_ap"]
    assert value["tie_neutral"] == pytest.approx(value["chance"])
    shares = [TRUE[HARD[:, k], k].mean() for k in map(int, KEPT)]
    assert value["official"] == pytest.approx(np.mean(shares))


def test_neutral_is_the_mean_over_all_orders_of_ties_and_strict_the_lowest():
    scores, right = np.array([3, 2, 2, 2, 1, 1, 0]), np.array([0, 1, 1, 0, 1, 0, 1], dtype=bool)
    orders = [[0, *first, *second, 6] for first in permutations((1, 2, 3)) for second in permutations((4, 5))]
    broken = [metrics.average_precision_score(right[order], -np.arange(7)) for order in orders]
    found = average_precision(scores, right)
    assert (found.neutral, found.strict) == (pytest.approx(np.mean(broken)), pytest.approx(min(broken)))


def test_both_forms_of_the_file_are_one(folder, content):
    records = read_image_labels(folder / FILE, NAME)
    assert ([label.id for label in records.rows], records.images[3]) == (KEPT, "3.jpg")
    write_file(folder / FILE, [content["labels"], content["data"]])
    assert read_image_labels(folder / FILE, NAME) == records


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (["a.jpg", {}, [1] * 6], ("row 1",)),
        (["a.jpg", {}, [1] * 5, [1] * 6], ("row 1", "'label'", "6 marks")),
        (["a.jpg", {}, [1] * 6, [2] * 6], ("row 1", "'hard_list'")),
        ([7, {}, [1] * 6, [1] * 6], ("row 1", "'image_file'")),
    ],
)
def test_a_row_in_another_form_is_named(tmp_path, content, row, facts):
    content["data"][1] = row
    with raises(DataError, *facts):
        read_image_labels(write_file(tmp_path / FILE, content), NAME)


def test_a_score_that_counts_must_be_finite_and_others_need_not(folder):
    records, path = read_image_labels(folder / FILE, NAME), folder / "a.npz"

    def read(scores: np.ndarray) -> list[np.ndarray]:
        np.savez(path, image_ids=np.arange(40).astype(str), label_ids=KEPT, scores=scores)
        return read_label_scores(path, records)

    scores = np.where(HARD, SCORES, np.nan)[:, list(map(int, KEPT))]
    assert np.array_equal(read(scores)[0], SCORES[HARD[:, 0], 0].astype("f4"))
    with raises(ScoreError, "(40, 4)", "(4, 40)"):
        read(scores.T)
    scores[np.flatnonzero(HARD[:, 1])[0], 1] = np.nan
    with raises(ScoreError, "finite", "1 labels: 1"):
        read(scores)
