"""A board of many models: its first page in parts, numbers without bars, and a drawing that an eye can follow."""

import csv
import io
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from boards import open_board, serve
from browsers import look_through
from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings
from tellapart.board.rendering import StaticSite
from tellapart.board.views.leaderboard import PAGE
from tellapart.board.views.ranks import MOST_LINES

MODELS, BENCHMARKS = PAGE + 2, 13


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Board:
    """Published numbers: model k has k percent everywhere; model 0 has two numbers, and the highest of the last."""
    lines = ['source = "a paper"', 'tie_rule = "not said"']
    for k in range(MODELS):
        shares = dict.fromkeys(range(BENCHMARKS), k / 100) if k else {0: 0.0, BENCHMARKS - 1: 0.99}
        scores = [f"set{b:02} = {{ choice_score = {share} }}" for b, share in shares.items()]
        lines += ["[[models]]", f'name = "m{k:02}"', "[models.scores]", *scores]
    path = tmp_path_factory.mktemp("many") / "records.toml"
    path.write_text("\n".join(lines))
    return open_board(BoardSettings(imported=(path,)))[1]


@pytest.fixture(scope="module")
def client(board) -> TestClient:
    return TestClient(create_app(board))


def rows(html: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]*">(m\d\d)</a>', html)


@pytest.mark.slow
def test_the_first_page_shows_fifty_models_and_links_to_the_others(client):
    first, second = client.get("/").text, client.get("/pages/2").text
    assert rows(first) + rows(second) == [f"m{k:02}" for k in reversed(range(MODELS))]
    assert len(rows(first)) == PAGE
    assert '<a href="/pages/2">2</a>' in first
    assert '<a href="/">1</a>' in second  # the first page has one address
    assert "All models as" in first
    assert "format=csv" not in second
    assert "has pages 1 to 2 of models; there is no page 3" in client.get("/pages/3").text


def test_every_number_is_in_the_data_and_models_without_a_cost_are_folded(client):
    assert [row["rank"] for row in client.get("/?format=json").json()["rows"]] == [*range(1, MODELS), None]
    assert len(client.get("/?format=csv").text.splitlines()) == 1 + MODELS
    page = client.get("/pareto/latency").text
    assert f"<summary>{MODELS} models are left out, since the cost or a benchmark is missing</summary>" in page


def test_a_table_of_many_columns_has_numbers_alone_and_says_once_where_they_are_from(client):
    wide, narrow = client.get("/").text, client.get("/benchmarks/set03").text
    assert '<table class="headline dense">' in wide and '<svg class="bar"' not in wide
    assert '<td class="score"><span class="value">51.00</span></td>' in wide
    assert narrow.count('<svg class="bar"') == MODELS - 1
    for page in (wide, narrow):
        assert "Percent, all imported; the best by" in page
        assert page.count("imported</span>") == 1  # in the key
    assert "<b>set03</b>. Numbers are percent" in narrow and "0 items" not in narrow  # nobody knows of how many


def test_a_drawing_of_ranks_has_the_best_models_by_their_places_among_themselves(client):
    page = client.get("/ranks?format=json").json()
    drawn = {line["title"]: line["ends"][-1][1] for line in page["lines"] if line["segments"]}
    assert list(drawn) == [f"m{k:02}" for k in range(MODELS - 1, MODELS - 1 - MOST_LINES, -1)]
    assert list(drawn.values()) == [26.0 * k for k in range(1, MOST_LINES + 1)]
    assert page["undrawn"] == MODELS - MOST_LINES
    table = list(csv.reader(io.StringIO(client.get("/ranks?format=csv").text)))
    assert dict(zip(table[0], table[1], strict=True))["set12"] == "2"  # the table has all places
    text = client.get("/ranks").text
    assert f"Drawn are the first {MOST_LINES} of the leaderboard" in text
    assert f"the other {MODELS - MOST_LINES} are in the table" in text


@pytest.mark.slow
def test_a_static_site_has_the_pages_and_all_data_once(board: Board, tmp_path: Path) -> None:
    StaticSite(board.tables, tmp_path).write()
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("index.html", "pages/2/index.html")]
    assert [int(name[1:]) for page in pages for name in rows(page)] == list(reversed(range(MODELS)))
    assert not (tmp_path / "pages" / "1").exists()
    assert (tmp_path / "data.json").exists()
    assert not (tmp_path / "pages" / "2" / "data.json").exists()


@pytest.mark.slow
def test_axe_finds_no_violation_and_the_page_is_not_wider_than_the_screen(board, chromium):
    page = chromium.new_page(color_scheme="dark", viewport={"width": 390, "height": 900})
    with serve(create_app(board)) as address:
        assert look_through(page, address, ("/", "/pages/2", "/ranks", "/pareto/latency")) == []
    page.close()
