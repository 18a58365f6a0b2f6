"""Rankings by people: the user's own file, scores of candidates, agreement and movement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from facts import raises
from tellapart.benchmarks.find import read_rankings
from tellapart.errors import DataError, ScoreError
from tellapart.tasks.ratings import measure_rankings, read_candidate_scores

QUERIES = [
    {
        "id": "house",
        "query": "the house on the right",
        "edited": "the house on the left",
        "candidates": ["a.png", "b.png", "c.png", "d.png"],
        "people": [1, 2, 3.5, 3.5],
    },
    {"id": "dog", "query": "a dog that runs", "candidates": ["a.png", "b.png", "c.png"], "people": [2, 1, 3]},
]
SCORES = [
    {"id": "dog", "scores": [0.1, 0.2, 0.05]},
    {"id": "house", "scores": [0.9, 0.3, 0.5, 0.1], "edited": [0.1, 0.5, 0.3, 0.9]},
]


def lines(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "houses.jsonl"
    path.write_text(lines(QUERIES))
    return path


def test_agreement_and_movement_are_those_of_scipy(command, queries: Path) -> None:
    Path("scores.jsonl").write_text(lines(SCORES))
    ran = command("score", f"ranking:{queries}", "--scores", "scores.jsonl", "--out", "run", "--json")
    assert ran.code == 0, ran.err
    metrics = next(iter(ran.json["runs"][0]["benchmarks"].values()))["metrics"]
    house = stats.kendalltau([-0.9, -0.3, -0.5, -0.1], [1, 2, 3.5, 3.5]).statistic
    assert metrics["kendall"]["value"] == pytest.approx((house + 1) / 2)
    rho = stats.spearmanr([-0.9, -0.3, -0.5, -0.1], [1, 2, 3.5, 3.5]).statistic
    assert metrics["spearman"]["value"] == pytest.approx((rho + 1) / 2)
    assert metrics["moved_by_edit"]["value"] == 1.0
    assert metrics["kendall_with_edit"]["value"] == -1.0
    assert metrics["moved_by_edit"]["n"] == 1


def test_the_template_lists_queries_and_edits(command, queries: Path) -> None:
    ran = command("export", f"ranking:{queries}", "--to", "t.jsonl")
    assert ran.code == 0, ran.err
    first, second = map(json.loads, Path("t.jsonl").read_text().splitlines())
    assert first["edited_query"] == "the house on the left"
    assert first["scores"] is None
    assert "edited" not in second


def test_a_model_that_ties_all_agrees_with_no_order(queries: Path, tmp_path: Path) -> None:
    path = tmp_path / "flat.jsonl"
    path.write_text(lines([{"id": "dog", "scores": [1, 1, 1]}, {"id": "house", "scores": [1] * 4, "edited": [1] * 4}]))
    records = read_rankings(queries)
    first, edited = measure_rankings(records, read_candidate_scores(path, records))
    assert [one.strict.tolist() for one in first.values] == [[0, 0], [0, 0]]
    assert [one.strict.tolist() for one in edited.values] == [[0], [1]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([SCORES[0]], ("id", "1", "2", "house")),
        ([*SCORES, {"id": "cat", "scores": [1]}], ("1", "cat", "ids")),
        ([*SCORES, SCORES[0]], ("scores.jsonl:3", "id", "row")),
        ([{"id": "dog", "scores": [1, 2]}], ("'scores'", "3")),
        ([{"id": "dog", "scores": [1, 2, "3"]}], ("'scores'", "3")),
        ([{"id": "house", "scores": [1, 2, 3, 4]}], ("'edited'", "4")),
    ],
)
def test_scores_that_do_not_fit_are_refused(
    rows: list[dict], said: str | tuple[str, ...], queries: Path, tmp_path: Path
) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(lines(rows))
    with raises(ScoreError, said):
        read_candidate_scores(path, read_rankings(queries))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"people": [1]}, ("ranking", "4", "(1.0,)")),
        ({"people": [1, 2, 3, "x"]}, "'people[3]'"),
        ({"query": ""}, "'query'"),
    ],
)
def test_rankings_that_are_not_what_they_must_be_are_refused(
    row: dict, said: str | tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(lines([{**QUERIES[0], **row}]))
    with raises(DataError, said):
        read_rankings(path)
