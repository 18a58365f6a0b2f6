"""The first page of a mixed board (families, tables apart, folded columns, what sorts), and places of models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boards import open_board, serve, tables_of, write_run
from browsers import look_through
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.board.views.ranks import ranks_page

#: Benchmark -> the models that were measured on it; "random" is a reference model.
MIXED = {"aro-order": "a", "aro-relation": "abc", "winoground": "ab"}
MIXED |= {"vlue-nlvr2": "xy", "vlue-vqa": "x", "zebra": ("random",)}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("mixed")
    for number, (benchmark, models) in enumerate(MIXED.items()):
        for seed, model in enumerate(models):
            how = {"benchmark": benchmark, "fingerprint": f"{number}" * 64, "n": 40, "seed": seed}
            write_run(folder / f"{benchmark}-{model}", model, skill=4.0 - ord(model[0]) % 7, **how)
    client, _ = open_board(folder)
    yield client


@pytest.mark.slow
def test_benchmarks_stand_with_their_family_and_the_most_measured_first(mixed):
    found = mixed.get("/?format=json").json()
    assert [(column["group"], column["title"]) for column in found["columns"]] == [
        ("aro", "aro-relation"),
        ("aro", "aro-order"),
        ("", "winoground"),
        ("", "mean"),  # of one of three models: it does not sort
        ("", "mean"),  # of x, half of the second table's models
        ("vlue", "vlue-nlvr2"),
        ("vlue", "vlue-vqa"),
    ]
    assert [link["text"] for link in found["folded"]] == ["zebra"]


def test_benchmarks_that_share_no_model_are_tables_of_their_own_without_rows_of_dashes(mixed):
    found = mixed.get("/?format=json").json()
    first, second = found["blocks"]
    for block, models in ((first, ["a", "b", "c"]), (second, ["x", "y"])):
        rows = found["rows"][block["first_row"] : block["last_row"]]
        assert sorted(row["title"] for row in rows) == models
        assert all(any(row["cells"][block["first"] : block["last"]]) for row in rows)
    assert [found["columns"][block["sorted_by"]]["title"] for block in (first, second)] == ["aro-relation", "mean"]
    assert [row["rank"] is not None for row in found["rows"]] == [True, True, True, True, False]
    text = mixed.get("/").text
    assert '<th scope="colgroup" colspan="2"><span>aro</span></th>' in text
    assert text.count('<table class="headline">') == 2
    assert "1 more benchmark, with reference models alone" in text
    assert "zebra" in text.partition("<details")[2]
    heads = mixed.get("/?format=csv").text.splitlines()[0].split(",")
    assert len(set(heads)) == len(heads)


def test_only_models_of_two_places_are_drawn_and_only_columns_of_two_such_models(mixed):
    found = mixed.get("/ranks?format=json").json()
    assert found["drawn"] == ["aro-relation", "winoground"]
    assert {line["title"] for line in found["lines"] if line["segments"]} == {"a", "b"}
    assert {line["title"] for line in found["lines"]} == set("abcxy")
    assert [line["title"] for line in found["lines"]][:2] in (["a", "b"], ["b", "a"])
    drawing = mixed.get("/ranks").text.partition("<svg")[2].partition("</svg>")[0]
    assert ">vlue-nlvr2<" not in drawing and "<title>c</title>" not in drawing


def test_a_board_of_reference_models_alone_shows_them(tmp_path):
    write_run(tmp_path / "random", "random", skill=0.0)
    client, _ = open_board(tmp_path)
    found = client.get("/?format=json").json()
    assert [column["title"] for column in found["columns"]] == ["shapes"]
    assert [row["title"] for row in found["references"]] == ["random"]


@pytest.mark.slow
def test_axe_finds_no_violation_and_the_page_is_not_wider_than_the_screen(mixed, chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 900})
    with serve(mixed.app) as at:
        assert look_through(page, at, ("/", "/ranks", "/compare", "/pareto/latency")) == []
    page.close()


VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=12)


@settings(max_examples=25)
@given(VALUES)
def test_a_place_is_one_more_than_how_many_are_better(values):
    tables = tables_of("accuracy", [np.array([value]) for value in values])
    places = {f"m{k}": 1 + int((np.array(values) > value).sum()) for k, value in enumerate(values)}
    assert {line["title"]: line["ranks"][0] for line in ranks_page(tables).lines} == places
    assert {row.model.label: row.rank for row in all_benchmarks(tables).rows} == places


def test_models_without_a_tier_count_in_the_ranks_of_those_with_one():
    tables = tables_of("accuracy", [np.array([value]) for value in (0.9, 0.85, 0.84, 0.7, 0.3)])
    tables.tiers["b", "accuracy"] = {"m1": 1, "m2": 1, "m4": 3}
    assert [row.rank for row in all_benchmarks(tables).rows] == [1, 2, 2, 4, 5]
