"""BiVLC as published: its four result tables measure to its paper's numbers, and its files are read as they are."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import raises
from tellapart.auditing.origin import detector_outcomes
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.scores import Scores
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.metrics.tabulate import Tabulated
from tellapart.models.scoring.score import Scored
from tellapart.tasks.pairs import ListedPairs, measure_pairs

At = Callable[..., Benchmark]
Published = Callable[[str], Path]
COLUMNS = ("text_score_i0", "text_score_i1", "image_score_c0", "image_score_c1")
DIRECTIONS = ("ipos_2t", "ineg_2t", "tpos_2i", "tneg_2i")
PAPER = {  # per cent: I2T, T2I, Group
    "ViT-B-32": (75.83, 52.40, 49.06),
    "CLIP_COCO": (82.75, 63.89, 60.96),
    "CLIP_TROHN-Text": (78.18, 62.19, 57.48),
    "CLIP_TROHN-Img": (88.54, 71.84, 69.25),
}
DIRECTIONAL = {"ViT-B-32": (84.32, 89.50, 69.21, 82.82), "CLIP_TROHN-Img": (92.12, 95.33, 81.45, 90.15)}


def rows_of(folder: Path, model: str) -> list[dict[str, str]]:
    with (folder / f"BiVLC_{model}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def scores_with(outcomes: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Make scores whose four comparisons come out as given: (item, 4) -> (item, image, text)."""
    found = np.full((len(outcomes), 2, 2), np.nan, np.float32)
    grid = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T.reshape(-1, 2, 2).astype(np.float32)
    right = np.stack(
        [
            grid[:, 0, 0] > grid[:, 0, 1],
            grid[:, 1, 1] > grid[:, 1, 0],
            grid[:, 0, 0] > grid[:, 1, 0],
            grid[:, 1, 1] > grid[:, 0, 1],
        ],
        axis=1,
    )
    distinct = np.array([len(set(matrix.ravel())) == 4 for matrix in grid])
    for wanted in np.unique(outcomes, axis=0):
        found[(outcomes == wanted).all(axis=1)] = grid[distinct & (right == wanted).all(axis=1)][0]
    return found


def scored(at: At, folder: Path, model: str) -> tuple[ListedPairs, Scored]:
    outcomes = np.array([[row[column] == "True" for column in COLUMNS] for row in rows_of(folder, model)])
    outline = at("bivlc", folder).outline()
    return ListedPairs(outline), Scored(Scores(outline.ids, scores_with(outcomes), "similarity"))


def measured(at: At, folder: Path, model: str) -> Tabulated:
    return tabulate_units(measure_pairs(*scored(at, folder, model)))


@pytest.mark.slow
@pytest.mark.parametrize("model", PAPER)
def test_the_published_outcomes_give_the_papers_table(at: At, published: Published, model: str) -> None:
    found = measured(at, published("bivlc"), model).metrics
    assert tuple(round(100 * found[name].value, 2) for name in ("i2t", "t2i", "group_score")) == PAPER[model]
    assert found["i2t"].value == found["text_score"].value
    assert found["t2i"].value == found["image_score"].value
    if model in DIRECTIONAL:
        assert tuple(round(100 * found[name].value, 2) for name in DIRECTIONS) == DIRECTIONAL[model]


@pytest.mark.slow
def test_the_command_prints_the_papers_table_from_a_file_of_scores(
    command: Callable[..., Any], published: Published
) -> None:
    outcomes = np.array(
        [[row[column] == "True" for column in COLUMNS] for row in rows_of(published("bivlc"), "ViT-B-32")]
    )
    np.savez("clip.npz", ids=np.arange(2933).astype(str), scores=scores_with(outcomes))
    command("score", "bivlc", "--scores", "clip.npz", "--out", "r")
    printed = command("show", "r", "--all").out
    assert re.search(r"^clip +75\.83 \[.*\] +52\.40 \[.*\] +49\.06 \[", printed, re.MULTILINE)
    assert re.search(r"^type = swap +359 .* 13\.65 \[", printed, re.MULTILINE)
    assert "text_score" in printed


def test_every_item_has_the_published_outcomes(at: At, published: Published) -> None:
    (units,) = measure_pairs(*scored(at, published("bivlc"), "ViT-B-32"))
    found = {one.name: one.strict for one in units.values}
    rows = rows_of(published("bivlc"), "ViT-B-32")
    for name in ("text_score", "image_score", "group_score"):
        assert found[name].tolist() == [float(row[name] == "True") for row in rows]


@pytest.mark.slow
def test_the_published_group_scores_by_type_are_the_papers(at: At, published: Published) -> None:
    groups = measured(at, published("bivlc"), "ViT-B-32").by["type"]
    by_type = {value: round(100 * group.metrics["group_score"].value, 2) for value, group in groups.items()}
    assert by_type == {"replace": 57.27, "swap": 13.65, "add": 39.58}
    assert {value: group.metrics["group_score"].n for value, group in groups.items()} == {
        "replace": 2099,
        "swap": 359,
        "add": 475,
    }


def test_what_is_known_without_files_is_what_the_files_say(at: At, published: Published) -> None:
    known, read = find_benchmark("bivlc").outline(), at("bivlc", published("bivlc")).outline()
    assert (known.ids, known.shape, known.tags) == (read.ids, read.shape, read.tags)
    assert len(set(read.clusters)) == 2390


def test_a_table_of_captions_has_no_images_and_says_so(at: At, published: Published) -> None:
    pairs = at("bivlc", published("bivlc")).records()
    with raises(DataError, "0", "'images[0]'"):
        pairs.read_bytes(pairs.items[0].images[0])


@pytest.mark.parametrize("change", ["shuffled", "cut"])
def test_a_table_in_another_order_or_cut_short_is_refused(
    at: At, published: Published, tmp_path: Path, change: str
) -> None:
    lines = (published("bivlc") / "BiVLC_ViT-B-32.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = list(np.random.default_rng(0).permutation(lines[1:])) if change == "shuffled" else lines[1:-7]
    (tmp_path / "BiVLC_x.csv").write_text("".join([lines[0], *rows]), encoding="utf-8")
    with raises(DataError, "published order" if change == "shuffled" else ("2,926", "2,933")):
        at("bivlc", tmp_path).records()


DETECTORS = {  # per cent: text, image, group, then the four directions
    "baseline": (66.69, 19.64, 19.64, 66.72, 66.72, 65.84, 48.76),
    "TROHN-Img": (75.04, 26.42, 26.42, 75.04, 75.04, 71.94, 50.73),
}


@pytest.mark.parametrize("model", DETECTORS)
def test_the_published_probabilities_of_the_detectors_give_their_table(published: Published, model: str) -> None:
    path = published("bivlc") / f"BiVLC_Classifier_CORRECT_CLIP_{model}.csv"
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [[float(row[column]) for column in ("text_pred", "img_pred", "label")] for row in csv.DictReader(stream)]
    text, image, label = np.array(rows).T
    # Batches of a thousand: natural entries, then their synthetic counterparts.
    pair = [np.stack([values[label == 0], values[label == 1]], axis=1) for values in (text, image)]
    found = detector_outcomes(*pair)
    names = ("text_score", "image_score", "group_score", *DIRECTIONS)
    assert tuple(round(100 * float(found[name].mean()), 2) for name in names) == DETECTORS[model]
    assert {len(column) for column in found.values()} == {2933}


def test_a_detector_at_exactly_one_half_calls_it_natural() -> None:
    found = detector_outcomes([[0.5, 0.9]], [[0.5, 0.5]])
    assert (found["ipos_2t"][0], found["ineg_2t"][0], found["tpos_2i"][0]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("text", "image", "said"),
    [
        ([[0.5]], [[0.5, 0.5]], ("(item, 2)", "(1, 1)")),
        ([[0.5, 1.5]], [[0.5, 0.5]], ("[0, 1]", "text")),
        ([[0.5, 0.5]], [[0.5, float("nan")]], ("[0, 1]", "image")),
        ([[0.5, 0.5]], [[0.5, 0.5]] * 2, ("1", "2", "items")),
    ],
)
def test_what_are_no_probabilities_of_pairs_is_refused(
    text: object, image: object, said: str | tuple[str, ...]
) -> None:
    with raises(ScoreError, said):
        detector_outcomes(text, image)  # type: ignore[arg-type]
