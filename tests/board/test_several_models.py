"""Several models together: every pair tested, corrected for all of the page, and their tiers; and heat maps."""

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from boards import open_board, tables_of, write_run
from sets import biased_runs
from tellapart.board.records import BoardSettings
from tellapart.board.rendering import StaticSite, _environment
from tellapart.board.views.leaderboard import by_tag, heat_map
from tellapart.board.views.ranks import choose_benchmarks
from tellapart.evaluation.compare import compare
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Metrics
from tellapart.records.samples import read_samples
from tellapart.stats.multiple import holm
from tellapart.stats.paired import tiers


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [None, 12])
def test_the_tests_are_those_of_compare_corrected_over_all_of_the_page(tmp_path, clusters):
    names = ("a", "b", "c")
    for benchmark, fingerprint in (("shapes", "1" * 64), ("second", "2" * 64)):
        for seed, name in enumerate(names[: 3 if benchmark == "shapes" else 2]):
            how = {"benchmark": benchmark, "fingerprint": fingerprint, "clusters": clusters, "seed": seed}
            write_run(tmp_path / f"{benchmark}-{name}", name, skill=2.0 - seed, **how)
    expected = {}
    for benchmark, pairs in (("shapes", combinations(names, 2)), ("second", [("a", "b")])):
        for pair in pairs:
            rows = compare(*(tmp_path / f"{benchmark}-{name}" for name in pair)).rows
            expected[benchmark, frozenset(pair)] = next(row for row in rows if row.metric == "group_score")
    adjusted = dict(zip(expected, holm([row.p for row in expected.values()]), strict=True))
    client, _ = open_board(tmp_path)
    found = client.get("/compare/a+b+c?format=json").json()
    assert client.get("/compare/a+nobody").status_code == 404
    assert "choose 2 to 8" in client.get("/compare/a+a?format=json").json()["detail"]
    assert [on["benchmark"]["name"] for on in found["on"]] == ["shapes", "second"]
    seen = {}
    for on in found["on"]:
        for test in on["tests"]:
            key = (on["benchmark"]["name"], frozenset((test["a"], test["b"])))
            row = expected[key]
            seen[key] = test
            assert test["test"] == row.test
            assert abs(test["difference"]) == pytest.approx(abs(row.difference), abs=1e-12)
            near = 0.02 if clusters else 1e-12  # sign flips are drawn anew
            assert test["p"] == pytest.approx(row.p, abs=near)
            assert test["p_holm"] == pytest.approx(adjusted[key], abs=4 * near)
    assert seen.keys() == expected.keys()
    samples = {name: read_samples(tmp_path / f"shapes-{name}", "shapes") for name in names}
    outcomes = {name: [s.outcomes["group_score"] for s in own] for name, own in samples.items()}
    own = tiers(outcomes, [s.cluster for s in samples["a"]] if clusters else None)
    assert {one["title"]: one["tier"] for one in found["on"][0]["models"]} == {n: t.rank for t in own for n in t.names}


@pytest.mark.slow
def test_long_names_make_no_folder_that_a_static_site_cannot_have(tmp_path):
    for seed in range(5):
        write_run(tmp_path / "runs" / f"{seed}", f"{seed}" * 75, skill=1.0, seed=seed, n=20)
    _, shown = open_board(BoardSettings(runs=(tmp_path / "runs",)))
    StaticSite(shown.tables, tmp_path / "site", most_items=0).write()
    assert [path.name.count("+") for path in (tmp_path / "site" / "compare").glob("*+*")] == [2]


def test_a_heat_map_has_the_records_numbers_by_the_values_of_a_tag(client, runs):
    found = client.get("/benchmarks/shapes/map/type/group_score?format=json").json()
    assert [row["title"] for row in found["rows"]] == ["colour", "place", "all items"]
    assert [row["n"] for row in found["rows"]] == [30, 30, 60]
    labels = [model["label"] for model in found["models"]]
    assert (labels[-1], sorted(labels)) == ("random", ["good", "near", "poor", "random"])
    for k, name in enumerate(labels):
        record = read_result(runs / name).benchmarks["shapes"]
        numbers = [record.by["type"][each].metrics["group_score"] for each in ("colour", "place")]
        numbers.append(record.metrics["group_score"])
        cells = [row["cells"][k] for row in found["rows"]]
        assert [cell["value"] for cell in cells] == [number.value for number in numbers]
        assert [cell["shade"] for cell in cells] == [round(10 * number.value) for number in numbers]
        assert [cell["above_chance"] for cell in cells] == [number.low > number.chance for number in numbers]
    assert "not above chance" in client.get("/benchmarks/shapes/map/type/group_score").text
    assert 'href="/benchmarks/shapes/map/type/group_score"' in client.get("/benchmarks/shapes").text
    assert client.get("/benchmarks/shapes/map/colour/group_score").status_code == 404
    assert client.get("/benchmarks/shapes/map/type/score").status_code == 404


def test_a_tags_empty_value_has_a_column_and_a_row():
    tables = tables_of("accuracy", [np.array([1.0, 0.0])])
    entry = tables.entries["b", "m0"]
    groups = {"type": {value: Metrics(metrics=entry.record.metrics) for value in ("", "x")}}
    record = entry.record.model_copy(update={"by": groups, "macro": {"type": Metrics(metrics=entry.record.metrics)}})
    tables.entries["b", "m0"] = replace(entry, record=record)
    titles = [column.title for column in by_tag(tables, "b", "type", "accuracy").columns]
    assert titles == ["type: ", "type: x", "mean of the values", "gap"]
    assert [row["title"] for row in heat_map(tables, "b", "type", "accuracy").rows] == ["", "x", "all items"]


def test_a_metric_that_is_not_best_high_has_no_tiers_no_places_and_no_ranks(tmp_path):
    biased_runs(tmp_path, fair=2, biased=28, near=3)
    client, shown = open_board(tmp_path / "runs")
    (slug,) = shown.tables.benchmarks
    board = client.get(f"/benchmarks/{slug}?format=json").json()
    assert [column["title"] for column in board["columns"]] == ["answer_match", "bias_rate"]
    assert [[cell["tier"] for cell in row["cells"]] for row in board["rows"]] == [[1, None]] * 3
    assert client.get(f"/benchmarks/{slug}/ranks?format=json").json()["columns"] == ["answer_match"]
    by_match, by_bias = (by_tag(shown.tables, slug, "topic", name) for name in ("answer_match", "bias_rate"))
    assert [row.rank for row in by_match.rows] == [1, 1, 1]
    assert [row.rank for row in by_bias.rows] == [None] * 3


def test_performance_is_taken_over_benchmarks_that_enough_models_have(tmp_path):
    costs = "".join(f'[[models]]\nname = "{name}"\nlatency = 0.{k + 1}\n' for k, name in enumerate("abcd"))
    scores = "".join(
        f'[[models]]\nname = "{name}"\n[models.scores.{benchmark}]\ngroup_score = 0.{k + 2}\n'
        for k, name in enumerate("abcd")
        for benchmark in ("first", "second")
    )
    rare = "[models.scores.rare]\ngroup_score = 0.5\n"
    (tmp_path / "costs.toml").write_text(f'source = "s"\n{costs}{rare}{scores}')
    client, _ = open_board(BoardSettings(imported=(tmp_path / "costs.toml",)))
    found = client.get("/pareto/latency?format=json").json()
    one = client.get("/pareto/latency/rare?format=json").json()
    assert client.get("/pareto/latency/nothing").status_code == 404
    page = client.get("/pareto/latency").text
    assert found["over"] == ["first: group_score", "second: group_score"]
    assert [point["title"] for point in found["points"]] == list("abcd")
    assert [choice["title"] for choice in found["benchmarks"]] == ["first", "second"]  # two models or more
    assert ([point["title"] for point in one["points"]], page.count('name="over"')) == (["d"], 2)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_choice_that_begins_the_same_has_more_numbers(seed):
    table = np.random.default_rng(seed).random((6, 5)) < 0.6
    chosen = choose_benchmarks([set(np.flatnonzero(row).tolist()) for row in table])
    area = int(table[:, chosen].all(axis=1).sum()) * len(chosen) if chosen else 0
    assert area >= int(table.sum(axis=0).max())  # at least the best benchmark alone
    others = [table[:, [*chosen, k]].all(axis=1).sum() * (len(chosen) + 1) for k in set(range(5)) - {*chosen}]
    assert max(others, default=0) <= area


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [None, 12])
def test_two_models_on_a_set_that_shares_its_name_with_another_are_tested(tmp_path, clusters):
    write_run(tmp_path / "0", "other", skill=1.0, fingerprint="0" * 64, n=30)
    for seed, name in enumerate("ab"):
        write_run(tmp_path / name, name, skill=2.0 - seed, fingerprint="a" * 64, seed=seed, clusters=clusters)
    expected = compare(tmp_path / "a", tmp_path / "b").rows
    client, _ = open_board(tmp_path)
    found = client.get("/compare/a/b?format=json").json()
    together = client.get("/compare/a+b?format=json").json()
    assert found["refused"] == [], found
    tests = [(row["benchmark"], row["metric"], row["p"]) for row in found["tests"]]
    assert tests == [("shapes#aaaaaaaa", row.metric, row.p) for row in expected]
    (test,) = together["on"][0]["tests"]
    assert test["flips"] == (10_000 if clusters else None)  # as `compare` draws them


@pytest.mark.parametrize("flips", [10_000, None])
def test_a_p_that_the_draws_cannot_tell_from_a_smaller_one_is_written_as_a_bound(flips):
    test = SimpleNamespace(p=1 / 10_001, p_holm=3 / 10_001, flips=flips)
    assert _environment().globals["p_holm_text"](test) == ("<= 0.0003" if flips else "0.0003")
