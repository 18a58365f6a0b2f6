"""What the templates compute: which pages are linked, how names and numbers are written, which signs are explained."""

from __future__ import annotations

from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.rendering import environment, make_legend, score
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.board.views.leaderboard import Cell

around, decimals, shorten = (environment().globals[name] for name in ("around", "decimals", "shorten"))


@given(st.integers(1, 3000), st.data())
def test_a_pager_has_the_first_page_the_last_and_the_next_ones_and_says_where_some_are_left_out(
    pages: int, data: st.DataObject
) -> None:
    page = data.draw(st.integers(1, pages))
    found = around(page, pages)
    numbers = [one for one in found if one is not None]
    assert numbers == sorted(set(numbers))
    assert {1, pages, page, max(1, page - 1), min(pages, page + 1)} <= set(numbers) <= set(range(1, pages + 1))
    assert len(found) <= 9
    for before, one, after in zip(found, found[1:], found[2:], strict=False):
        if one is None:
            assert after - before > 1
        elif before is not None:
            assert one == before + 1


@given(st.text(st.characters(exclude_characters="…"), max_size=120), st.integers(5, 40))
def test_a_shortened_name_keeps_both_ends(name: str, most: int) -> None:
    short = shorten(name, most)
    assert len(short) <= most
    head, cut, tail = short.partition("…")
    assert bool(cut) is (len(name) > most)
    assert name.startswith(head)
    assert name.endswith(tail)


@given(st.lists(st.floats(-1e6, 1e6), max_size=5))
def test_a_columns_largest_number_has_four_digits(numbers: list[float]) -> None:
    digits = decimals(numbers)
    largest = max(map(abs, numbers), default=0.0)
    assert digits >= 0
    if 1e-9 < largest < 1000:
        assert 999 < largest * 10**digits < 10_000


def test_a_cell_keeps_the_room_that_its_column_needs() -> None:
    whole, bare = Cell(value=0.5, low=0.4, high=0.6, tier=1, n=9), Cell(value=0.25, n=9)
    found = make_legend([[whole, bare, None], [bare]])
    assert found.rooms == (("tier", "interval"), ())
    assert found.marks == {"tier", "interval", "gap"}
    assert '<span class="tier none"></span> <span class="interval"></span>' in score(bare, room=found.rooms[0])
    assert "interval" not in score(bare, room=found.rooms[1])
    assert score(Cell(value=0.5, n=9, mark="<i>")).endswith('<span class="mark-trust">&lt;i&gt;</span></td>')


def test_models_of_one_place_share_a_label_and_long_names_lose_their_middle(write_run, tmp_path) -> None:
    name = "open_clip:ViT-B-32/laion2b_s34b_b79k"
    for benchmark in ("shapes", "second"):
        for folder, model in (("a", name), ("b", "twin")):
            write_run(tmp_path / benchmark / folder, model, skill=2.0, benchmark=benchmark)
    with Store("sqlite://") as store:
        settings = BoardSettings(runs=(tmp_path,))
        read_in(store, settings, lambda problem: None)
        text = TestClient(create_app(settings, store)).get("/ranks").text
    drawing = text[text.index("<svg") : text.index("</svg>")]
    assert drawing.count("<text") == 2 + 2  # two columns, and one label at each end of two lines
    assert drawing.count(" +1</text>") == 2
    assert name not in drawing.split("<text", 1)[1].replace(f"<title>{name}</title>", "")
