"""Numbers that need a word: of a part of the items (`--limit`), without an interval, counted by the authors' rule."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from boards import change_run, open_board, write_run

PART = "20 of 60 items"


def limited(folder: Path, model: str, *, skill: float, n: int = 20) -> None:
    """Write a run of some of the 60 items of `shapes`."""
    write_run(folder, model, skill=skill, n=n, fingerprint=f"{n:02}" * 32)
    change_run(folder, limited_from=60)


@pytest.fixture(params=["whole first", "part first"])
def client(request, tmp_path):
    """`both` has a whole run and a part, `quick` a part alone, `slow` a whole one alone."""
    names = ("1", "2") if request.param == "whole first" else ("2", "1")
    write_run(tmp_path / names[0] / "both", "both", skill=1.0)
    write_run(tmp_path / names[0] / "slow", "slow", skill=0.5, seed=1)
    for model in ("both", "quick"):
        limited(tmp_path / names[1] / model, model, skill=9.0)
    client, _ = open_board(tmp_path)
    yield client


def cells(found: dict[str, Any]) -> dict[str, tuple[int | None, str]]:
    by = found["blocks"][0]["sorted_by"]
    return {row["title"]: (row["rank"], row["cells"][by]["limited"]) for row in found["rows"]}


@pytest.mark.few(2)
@pytest.mark.parametrize("path", ["/", "/benchmarks/shapes", "/benchmarks/shapes/by/type/group_score"])
def test_the_whole_one_is_the_models_entry_and_a_part_is_marked_and_has_no_place(client, path):
    found = client.get(f"{path}?format=json").json()
    assert {name: said for name, (_, said) in cells(found).items()} == {"both": "", "slow": "", "quick": PART}
    assert [row["title"] for row in found["rows"]][-1] == "quick"  # though it is right on all of its items
    assert cells(found)["quick"][0] is None
    assert len(found["columns"]) == {"/": 1}.get(path, 4)
    page = client.get(path).text
    assert '<td class="score by limited">' in page or '<td class="score limited">' in page
    assert f'<span class="mark-trust">{PART}</span>' in page
    assert PART in client.get(f"{path}?format=csv").text


def test_a_part_has_a_page_and_a_name_of_its_own_and_no_tiers_nor_a_place_in_rankings(client):
    found = client.get("/benchmarks/shapes-20-of-60?format=json").json()
    assert found["title"] == f"Title of shapes ({PART})"
    assert cells(found) == {"both": (None, PART), "quick": (None, PART)}
    assert all(cell["tier"] is None for row in found["rows"] for cell in row["cells"])
    assert client.get("/benchmarks/shapes-2").status_code == 404
    assert {line["title"] for line in client.get("/ranks?format=json").json()["lines"]} == {"both", "slow"}


@pytest.mark.slow
def test_a_models_page_and_its_heat_map_say_which_numbers_are_of_a_part_and_it_is_tested_against_parts_alone(client):
    found = client.get("/models/both?format=json").json()
    assert {on["benchmark"]["part"] for on in found["on"]} == {"", PART}
    for on in found["on"]:
        assert {cell["limited"] for cell in on["metrics"].values()} == {on["benchmark"]["part"]}
    assert PART in client.get("/models/quick").text
    page = client.get("/benchmarks/shapes/map/type/group_score?format=json").json()
    assert [model["label"] for model in page["models"]][-1] == "quick"
    assert {cell["limited"] for row in page["rows"] for cell in row["cells"][:2]} == {""}
    assert {row["cells"][2]["limited"] for row in page["rows"]} == {PART}
    assert client.get("/compare/slow/quick?format=json").json()["tests"] == []
    tests = client.get("/compare/both/quick?format=json").json()["tests"]
    assert {test["benchmark"] for test in tests} == {f"shapes ({PART})"}


def test_where_no_model_has_all_items_the_largest_part_has_the_column(tmp_path):
    limited(tmp_path / "small", "one", skill=1.0)
    limited(tmp_path / "large", "one", skill=1.0, n=40)
    limited(tmp_path / "other", "two", skill=1.0)
    client, _ = open_board(tmp_path)
    found = client.get("/?format=json").json()
    assert cells(found) == {"one": (None, "40 of 60 items"), "two": (None, PART)}
    assert [column["link"]["args"]["slug"] for column in found["columns"]] == ["shapes-40-of-60"]


REASON = "too few for an interval: <3 items>"


@pytest.mark.parametrize(
    ("field", "facts", "said"),
    [
        ("reason", {"low": None, "high": None, "reason": REASON}, "too few for an interval: &lt;3 items&gt;"),
        ("official", {"ties": 3, "official": 0.4321}, "43.21"),
    ],
)
def test_a_number_that_needs_a_word_has_it_on_pages_and_in_tables(tmp_path, field, facts, said):
    for model in ("bare", "plain"):
        write_run(tmp_path / model, model, skill=1.0)
    change_run(tmp_path / "bare", facts)
    client, _ = open_board(tmp_path)
    found = client.get("/benchmarks/shapes", headers={"accept": "application/json"}).json()
    by = found["blocks"][0]["sorted_by"]
    assert {row["title"]: row["cells"][by][field] for row in found["rows"]} == {"bare": facts[field], "plain": None}
    assert said in client.get("/benchmarks/shapes", headers={"accept": "text/html"}).text
    leaderboard, model, plain = (
        client.get(path, params={"format": "csv"}).text
        for path in ("/benchmarks/shapes", "/models/bare", "/models/plain")
    )
    assert "no interval" not in plain and ("no interval" in leaderboard) is (field == "reason")
    if field == "reason":
        rows = {row["model"]: row["no interval"] for row in csv.DictReader(io.StringIO(leaderboard))}
        assert REASON in rows["bare"] and rows["plain"] == ""
        reasons = {row["metric"]: row["no interval"] for row in csv.DictReader(io.StringIO(model))}
        assert reasons["group_score"] == REASON and reasons["text_score"] == ""
