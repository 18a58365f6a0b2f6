"""The static site: every link leads to a file that is there, and says what the server says."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from facts import raises
from tellapart.board.export import export_site
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.errors import RunError


class Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in {"href", "src", "action", "hx-get"} and value]


def addresses_of(page: Path) -> list[str]:
    addresses = Addresses()
    addresses.feed(page.read_text(encoding="utf-8"))
    return addresses.found


@pytest.fixture(scope="module")
def site(store, settings, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages = export_site(store, settings, folder, most_items=5)
    assert pages == len(list(folder.rglob("index.html")))
    return folder


@pytest.mark.slow
def test_every_address_is_a_file_of_the_site(site: Path) -> None:
    seen = 0
    for page in site.rglob("index.html"):
        for address in addresses_of(page):
            assert not address.startswith(("/", "http", "?")), f"{page}: {address}"
            if not address.startswith("#"):
                target = (page.parent / unquote(address)).resolve()
                assert target.is_file(), f"{page}: {address}"
                assert target.is_relative_to(site.resolve())
                seen += 1
    assert seen > 100


def test_its_data_is_what_the_server_sends(site: Path, client) -> None:
    for path in ("", "benchmarks/shapes", "models/good", "compare/good/near", "ranks"):
        for kind, name in (("json", "data.json"), ("csv", "data.csv"), ("latex", "data.tex")):
            sent = client.get(f"/{path}", params={"format": kind}).content.decode()
            assert (site / path / name).read_bytes().decode().rstrip("\n") == sent.rstrip("\n")


def test_only_the_items_that_most_models_fail_have_pages(site: Path, client) -> None:
    shown = {int(path.name) for path in (site / "benchmarks/shapes/items").iterdir() if path.name.isdigit()}
    worst = client.get("/benchmarks/shapes/items/pages/1?format=json").json()["items"][:5]
    assert shown == {item["position"] for item in worst}


@pytest.mark.parametrize("most", [1, 2])
def test_the_models_that_the_first_page_begins_with_are_compared_and_no_others(
    store, settings, tmp_path: Path, most: int
) -> None:
    export_site(store, settings, tmp_path, most_items=0, most_compared=most)
    with store.reading() as session:
        first = {row.model.slug for row in all_benchmarks(session, settings).rows[:most]}
    found = {frozenset(page.parts[-3:-1]) for page in tmp_path.glob("compare/*/*/index.html")}
    assert found == ({frozenset(first)} if most == 2 else set())
    for page in tmp_path.glob("models/*/index.html"):
        linked = {"/".join(a.split("/")[-3:-1]) for a in addresses_of(page) if "/compare/" in a}
        assert all(set(each.split("/")) <= first for each in linked - {"../compare"})


def test_it_holds_no_script(site: Path) -> None:
    for page in site.rglob("index.html"):
        assert "<script" not in page.read_text(encoding="utf-8")
    assert not list(site.rglob("*.js"))


def test_a_small_site_has_no_data_no_pages_of_parts_and_no_address_of_them(
    store, settings, site: Path, tmp_path: Path
) -> None:
    export_site(store, settings, tmp_path, most_items=5, small=True)
    kept = {path.relative_to(tmp_path) for path in tmp_path.rglob("index.html")}
    every = {path.relative_to(site) for path in site.rglob("index.html")}
    ranks = {path for path in every if path.parts[-2:-1] == ("ranks",) and path.parts[0] != "ranks"}
    left = ranks | {path for path in every if {"by", "map"} & set(path.parts)}
    assert left
    assert kept == every - left
    assert not list(tmp_path.rglob("data.*"))
    for page in tmp_path.rglob("index.html"):
        for address in addresses_of(page):
            assert address.startswith("#") or (page.parent / unquote(address)).is_file(), f"{page}: {address}"
        assert 'class="bar"' not in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_writing_it_again_changes_no_byte(store, settings, site: Path, tmp_path: Path) -> None:
    export_site(store, settings, tmp_path, most_items=5)
    files = {path.relative_to(site): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    again = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert again == files


def test_a_folder_that_cannot_be_written_is_an_error(store, settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(RunError, path=tmp_path / "file"):
        export_site(store, settings, tmp_path / "file")
