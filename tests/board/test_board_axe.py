"""axe-core finds nothing on the board's pages, in a real browser, in both colour schemes, on a desk and on a phone."""

from collections.abc import Iterator

import pytest

from boards import PAGES, serve
from browsers import find_violations, look_through
from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings

OTHERS = ("/benchmarks/agree", "/models/nobody", "/benchmarks/shapes/items/first")
SET = "/benchmarks/coco-retrieval"
GALLERY = (f"{SET}/gallery/mine", f"{SET}/gallery/mine/i2t/pages/2", f"{SET}/items/24", "/", "/models/mine", "/ranks")
EMPTY = ("/", "/compare", "/pareto/parameters", "/ranks", "/benchmarks/agree")


@pytest.fixture(scope="module")
def addresses(shown, gallery_board) -> Iterator[dict[str, tuple[str, ...]]]:
    """Boards at their addresses: one of pairs, one of retrieval, an empty one."""
    with (
        serve(create_app(shown)) as pairs,
        serve(create_app(gallery_board)) as found,
        serve(create_app(Board(BoardSettings()))) as empty,
    ):
        yield {pairs: (*PAGES, *OTHERS), found: GALLERY, empty: EMPTY}


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_axe_finds_no_violation(addresses, chromium, scheme, width):
    page = chromium.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    problems = [look_through(page, address, paths) for address, paths in addresses.items()]
    page.close()
    assert problems == [[], [], []]


def test_axe_would_have_found_a_picture_without_words_and_a_pale_text(chromium):
    page = chromium.new_page()
    page.set_content("<html lang=en><title>a</title><main><h1>a</h1><img src='/b.png'><p style='color: #ccc'>pale</p>")
    found = "\n".join(find_violations(page))
    page.close()
    assert "image-alt" in found and "color-contrast" in found
