"""People's rankings and ratings: TIFA's and SeeTRUE's published numbers, and the user's files."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tellapart as ta
from facts import check_facts, raises
from published import published
from sets import write_file
from tellapart.benchmarks.find import find_benchmark, read_rankings
from tellapart.benchmarks.locations import Locations
from tellapart.data.scores import Scores
from tellapart.data.task_records import RatingSet, Record
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.models.scoring.score import Scored
from tellapart.stats.bootstrap import yield_times
from tellapart.tasks.ratings import measure_rankings, measure_ratings, read_candidate_scores

# Imported when tests are collected: it changes the environment.
metrics = pytest.importorskip("sklearn.metrics")

SET = """
name = "rated"
title = "ratings"
source = "here"
files = ["rows.jsonl"]
[[rating]]
id = "{id}"
image = "{image}"
text = "{text}"
ratings = "{ratings}"
cluster = "{text}"
tags = { generator = "{by}" }
"""


def declare(folder: Path, rows: list[dict[str, Any]], text: str = SET) -> str:
    """Write a set of these rows; return its file's name."""
    write_file(folder / "rows.jsonl", rows)
    return str(write_file(folder / "set.toml", text))


@pytest.fixture(scope="module")
def tifa() -> dict:
    path = published("tifa", "human_annotations", "human_annotations_with_scores.json")
    return json.loads(path.read_text(encoding="utf-8"))


def records(n: int, seed: int = 0, *, labels: bool = False) -> tuple[RatingSet, Scored]:
    rng = np.random.default_rng(seed)
    better = rng.normal(size=n // 4)[np.arange(n) // 4] + rng.normal(size=n)
    ratings = (better > 0) if labels else np.clip(np.round(better * 2), -2, 2) + 3
    rated = (
        Record(f"{k}", (f"{k}.png",), (f"text {k // 4}",), (float(ratings[k]),), tags={"generator": f"g{k % 4}"})
        for k in range(n)
    )
    scores = (better + rng.normal(size=n)).astype("f4").reshape(n, 1, 1)
    return RatingSet("made", tuple(rated)), Scored(Scores([str(k) for k in range(n)], scores, "similarity"))


SIMILAR = ("--kind", "similarity", "--name", "scorer")


#: Facts of TIFA's file: pairwise accuracy and its epsilon by the authors' code, scipy's tau-b, the paper's Pearson.
#: Facts of TIFA's file: pairwise accuracy and its epsilon by the authors' code, scipy's tau-b, the paper's Pearson.
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("scorer", "accuracy", "epsilon", "tau", "pearson"),
    [
        ("clipscore_vitb32", 0.5209, "0", 0.2314, 0.332),
        ("tifa_blip2-flant5xl", 0.6015, "0", 0.4360, 0.559),
        ("tifa_mplug-large", 0.6094, "0.006061", 0.4717, 0.597),
    ],
)
def test_tifas_scorers_get_what_was_published(score_file, tmp_path, tifa, scorer, accuracy, epsilon, tau, pearson):
    scores = [{"id": name, "image": 0, "text": 0, "score": row[scorer]} for name, row in tifa.items()]
    path = write_file(tmp_path / "scores.csv", scores)
    record = score_file("tifa", path, *SIMILAR, "--data", published("tifa"))
    metrics = record["metrics"]
    for name, expected, near in (("pairwise_accuracy", accuracy, 5e-5), ("kendall_tau_b", tau, 5e-5)):
        assert metrics[name]["value"] == pytest.approx(expected, abs=near)
    assert metrics["pearson_r"]["value"] == pytest.approx(pearson, abs=5e-4)
    value = metrics["pairwise_accuracy"]
    assert (value["n"], value["clusters"], value["chance"]) == (800, 160, pytest.approx((1 - 0.1692) / 2, abs=5e-5))
    assert value["low"] < value["value"] < value["high"]
    check_facts(record["notes"][0], "pairwise_accuracy", epsilon)
    assert record["notes"][1].startswith("generators by people: Stable Diffusion 2.1 4.263")
    assert {*record["by"]["generator"]} > {"minDALL-E", "VQ-Diffusion"}


@pytest.mark.slow
def test_seetrues_sources_have_an_area_each(score_file, tmp_path):
    folder = published("seetrue")
    with (folder / "datasets" / "SeeTRUE.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = np.array([int(row["label"]) for row in rows])
    sources = np.array([row["dataset_source"] for row in rows])
    scores = np.random.default_rng(5).integers(0, 4, len(rows)) + labels  # with ties
    ids = [f"{row['dataset_source']}/{row['image'].rpartition('/')[2]}" for row in rows]
    np.savez(tmp_path / "scores.npz", ids=ids, scores=scores.astype("f4").reshape(-1, 1, 1))
    record = score_file("seetrue", tmp_path / "scores.npz", *SIMILAR, "--data", folder)
    value = record["metrics"]["roc_auc"]
    assert (value["n"], value["clusters"]) == (6930, 602)
    for part, mask in (("", np.ones(len(rows), bool)), *((one, sources == one) for one in np.unique(sources))):
        own = record["by"]["source"][part]["metrics"]["roc_auc"] if part else value
        assert own["official"] == own["tie_neutral"] == pytest.approx(metrics.roc_auc_score(labels[mask], scores[mask]))
        assert own["value"] < own["official"]


def test_a_part_is_measured_among_itself_and_one_rated_alike_has_no_number():
    rated, scored = records(80)
    table = tabulate_units(measure_ratings(rated, scored))
    parts = [table.by["generator"][f"g{k}"].metrics for k in range(4)]
    for k, part in enumerate(parts):
        own = tabulate_units(measure_ratings(RatingSet("alone", rated.rows[k::4]), scored)).metrics
        assert {name: value.value for name, value in part.items()} == {name: one.value for name, one in own.items()}
    macro = table.macro["generator"].metrics["kendall_tau_b"].value
    assert macro == pytest.approx(np.mean([part["kendall_tau_b"].value for part in parts]), abs=1e-12)
    rated, scored = records(40)
    flat = tuple(replace(one, gold=(3.0,) if one.tags["generator"] == "g1" else one.gold) for one in rated.rows)
    table = tabulate_units(measure_ratings(RatingSet("made", flat), scored))
    assert not table.by["generator"]["g1"].metrics
    assert table.by["generator"]["g0"].metrics and "pearson_r" not in table.macro["generator"].metrics


@pytest.mark.slow
@pytest.mark.parametrize("labels", [False, True])
def test_intervals_are_as_wide_as_the_draws_of_prompts_spread(labels):
    rated, scored = records(240, 3, labels=labels)
    draws = np.concatenate([*yield_times(60, 400, 1)])
    rows = np.arange(240)
    found: dict[str, list[float]] = {}
    for times in draws:
        chosen = np.repeat(rows, np.repeat(times, 4).astype(int))
        drawn = tuple(replace(rated.rows[row], id=str(k)) for k, row in enumerate(chosen))
        values = Scored(Scores([one.id for one in drawn], scored.scores.values[chosen], "similarity"))
        (units,) = measure_ratings(RatingSet("drawn", drawn), values)
        for one in units.values:
            found.setdefault(one.name, []).append(one.over(one.strict))
    for name, value in tabulate_units(measure_ratings(rated, scored)).metrics.items():
        spread = 2 * 1.96 * np.std(found[name])
        assert 0.8 < (value.high - value.low) / spread < 1.25, name


def test_runs_are_compared_on_all_images_and_not_by_part(command, score_file, tmp_path):
    rated, scored = records(120)
    rows = [
        {"id": one.id, "image": one.images[0], "text": one.texts[0], "by": one.tags["generator"]}
        | {"ratings": [int(one.gold[0])]}
        for one in rated.rows
    ]
    name = declare(tmp_path, rows)
    noise = np.random.default_rng(1).normal(size=120).astype("f4")
    for run, values in (("good", scored.scores.values[:, 0, 0]), ("noise", noise)):
        scores = [{"label": f"{k}_c0_i0", "score": float(x)} for k, x in enumerate(values)]
        score_file(name, write_file(tmp_path / f"{run}.jsonl", scores), *SIMILAR[:3], run, out=run)
    of_numbers = ta.score(name, scored.scores.values, kind="similarity")
    assert of_numbers.value("kendall_tau_b") == ta.open_run(tmp_path / "good").value("kendall_tau_b")
    tests = command("compare", "good", "noise", "--by", "generator", "--json", code=0).json["rows"]
    expected = [(name, None) for name in ("pairwise_accuracy", "kendall_tau_b", "spearman_rho")]
    assert [(row["metric"], row["subset"]) for row in tests] == expected
    assert all(row["p_holm"] < 0.05 and row["difference"] < 0 for row in tests)
    verified = command("verify", "good", "--json")
    facts = {(one["fact"], one["state"]) for one in verified.json["runs"][0]["checks"]}
    assert ("kendall_tau_b", "equal") in facts, verified.out[:500]
    assert not [fact for fact, state in facts if state == "different"]


def test_the_report_names_no_weak_generator_by_values_among_all_images(tmp_path):
    rng = np.random.default_rng(3)
    people = rng.integers(1, 6, 200)
    rows = [
        {"id": f"{k}", "image": f"{k}.png", "text": f"t{k // 4}", "ratings": [int(rating)], "by": "ab"[k % 2]}
        for k, rating in enumerate(people)
    ]
    noise = np.where(np.arange(200) % 2, 0.3, 8) * rng.normal(size=200)
    run = ta.score(declare(tmp_path, rows), (people + noise)[:, None, None], kind="similarity")
    assert "fails most" not in str(run.to_json()["answer"])


def test_ties_of_preferences_are_calibrated_again_in_a_part_which_verify_knows(tmp_path):
    rows = [
        {"id": f"{k}", "images": [f"{k}.png", f"{k}b.png"], "ranking": ("A>B", "B>A", "A=B")[k % 3]}
        | {"kind": "xy"[k // 3 % 2]}
        for k in range(60)
    ]
    preference = 'images = ["{images.0}", "{images.1}"]\ntext = "{id}"\nranking = "{ranking}"\n'
    head = SET.partition("[[rating]]")[0]
    text = f'{head}[[preference]]\nid = "{{id}}"\n{preference}tags = {{ kind = "{{kind}}" }}\n'
    name, scores = declare(tmp_path, rows, text), np.random.default_rng(0).normal(size=(2, 60, 2, 1)).astype("f4")
    runs = [ta.score(name, of, name=model) for model, of in zip("ab", scores, strict=True)]
    assert ta.verify(runs[0]).passed
    compared = ta.compare(*runs, by="kind")
    assert {*zip(compared["metric"], compared["subset"], strict=True)} == {("preference_accuracy", None)}


def test_a_set_that_agrees_with_nobody_and_ratings_that_are_no_numbers_are_refused(tmp_path):
    for ratings, facts in (
        ({"0": (1.0,), "1": ()}, ("image 1", "rating")),
        ({"0": (1.0,), "1": (float("nan"),)}, ("finite", "1")),
        ({"0": (3.0,), "1": (2.0, 4.0)}, ("3", "differently")),
    ):
        rows = tuple(Record(id_, ("a.png",), ("a cup",), rated) for id_, rated in ratings.items())
        with raises(DataError, "made", *facts):
            RatingSet("made", rows)
    with raises(DataError, "made", "'0'"):
        RatingSet("made", rows[:1] * 2)
    name = declare(tmp_path, [{"id": "0", "image": "a.png", "text": "a cup", "ratings": ["good"], "by": "g"}])
    with raises(DataError, "rows.jsonl:1", "ratings", "good"):
        find_benchmark(name, Locations(tmp_path)).records()


QUERIES = [
    {"id": "house", "query": "the house on the right", "edited": "the house on the left"}
    | {"candidates": ["a.png", "b.png", "c.png", "d.png"], "people": [1, 2, 3.5, 3.5]},
    {"id": "dog", "query": "a dog that runs", "candidates": ["a.png", "b.png", "c.png"], "people": [2, 1, 3]},
]
SCORES = [
    {"id": "dog", "scores": [0.1, 0.2, 0.05]},
    {"id": "house", "scores": [0.9, 0.3, 0.5, 0.1], "edited": [0.1, 0.5, 0.3, 0.9]},
]


@pytest.fixture
def queries(tmp_path) -> Path:
    return write_file(tmp_path / "houses.jsonl", QUERIES)


def test_agreement_and_movement_are_those_of_scipy_and_the_template_lists_queries_and_edits(
    command, score_file, queries
):
    metrics = score_file(f"ranking:{queries}", write_file(Path("scores.jsonl"), SCORES))["metrics"]
    house = [-0.9, -0.3, -0.5, -0.1], [1, 2, 3.5, 3.5]
    for name, theirs in (("kendall", stats.kendalltau), ("spearman", stats.spearmanr)):
        assert metrics[name]["value"] == pytest.approx((theirs(*house).statistic + 1) / 2)
    assert (metrics["moved_by_edit"]["value"], metrics["kendall_with_edit"]["value"]) == (1.0, -1.0)
    assert metrics["moved_by_edit"]["n"] == 1
    command("export", f"ranking:{queries}", "--to", "t.jsonl", code=0)
    first, second = map(json.loads, Path("t.jsonl").read_text().splitlines())
    assert (first["edited_query"], first["scores"]) == ("the house on the left", None)
    assert "edited" not in second


def test_a_model_that_ties_all_agrees_with_no_order(queries, tmp_path):
    flat = [{"id": "dog", "scores": [1, 1, 1]}, {"id": "house", "scores": [1] * 4, "edited": [1] * 4}]
    path = write_file(tmp_path / "flat.jsonl", flat)
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
def test_scores_and_rankings_that_do_not_fit_are_refused(rows, said, queries, tmp_path):
    path = write_file(tmp_path / "scores.jsonl", rows)
    with raises(ScoreError, said):
        read_candidate_scores(path, read_rankings(queries))
    for row, facts in (
        ({"people": [1]}, ("ranking", "4", "(1.0,)")),
        ({"people": [1, 2, 3, "x"]}, ("'people[3]'",)),
        ({"query": ""}, ("'query'",)),
    ):
        with raises(DataError, facts):
            read_rankings(write_file(tmp_path / "bad.jsonl", [QUERIES[0] | row]))
