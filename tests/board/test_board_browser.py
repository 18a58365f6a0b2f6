"""The board in a real browser: read with and without scripts, by keyboard, in both colour schemes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tellapart as ta
from boards import open_board, serve
from tellapart.board.app import create_app

pytestmark = pytest.mark.slow
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def address(shown) -> Iterator[str]:
    """Serve the board for real."""
    with serve(create_app(shown)) as at:
        yield at


@pytest.fixture
def visit(chromium, address) -> Iterator[Visit]:
    """Open a page; any message on the console, and any request elsewhere, fails the test."""
    problems: list[str] = []
    pages = []

    def open_page(path: str, **options):
        page = chromium.new_page(**{"viewport": {"width": 1200, "height": 900}} | options)
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(f"console: {message.text} {message.location}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: request.url.startswith(address) or problems.append(request.url))
        page.goto(f"{address}{path}")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    # The pictures of made-up pairs are not on this machine, which is told so.
    assert [one for one in problems if "/pictures/" not in one] == []


def test_from_the_leaderboard_to_a_model_an_item_and_a_comparison(visit):
    page = visit("/")
    page.click("thead >> text=shapes")
    page.wait_for_url("**/benchmarks/shapes")  # counts and lists of texts do not wait for the page behind a link
    best = page.locator("tbody").first.locator("th").all_inner_texts()
    assert (sorted(best[:2]), best[2:]) == (["good", "near"], ["poor"])
    page.click(".links >> text=Items")
    page.wait_for_url("**/items/pages/1")
    page.locator("tbody th a").first.click()
    page.wait_for_url("**/benchmarks/shapes/items/*")
    assert (page.locator(".matrix").count(), page.locator(".matrix td.true").count()) == (4, 8)
    page.locator(".card h3 a", has_text="poor").click()
    page.get_by_role("heading", level=1, name="poor", exact=True).wait_for()
    page.locator("svg.plot polyline").first.wait_for(state="attached")
    page.click("header >> text=Compare")
    page.select_option("select[name=a]", label="good")
    page.select_option("select[name=b]", label="poor")
    page.click("button")
    page.wait_for_url("**/compare/good/poor")
    assert (page.inner_text("h1"), page.locator("table.every tbody tr").count()) == ("good and poor", 4)


def test_other_columns_come_without_a_new_page_or_without_scripts(visit, address):
    page = visit("/benchmarks/shapes")
    page.evaluate("window.stayed = true")
    page.click(".choices >> text=type")
    page.wait_for_selector("thead >> text=type: colour")
    page.wait_for_url(f"{address}/benchmarks/shapes/by/type/group_score")
    assert (page.evaluate("window.stayed"), page.locator("main").count()) == (True, 1)
    page = visit("/benchmarks/shapes", java_script_enabled=False)
    page.click(".choices >> text=type")
    page.wait_for_url(f"{address}/benchmarks/shapes/by/type/group_score")
    assert page.inner_text("thead >> text=type: colour")
    assert page.locator("tbody tr").count() == 4


def test_the_keyboard_skips_to_the_content_and_chooses_columns(visit, address):
    page = visit("/benchmarks/shapes")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    page = visit("/benchmarks/shapes")
    page.get_by_role("navigation", name="Columns").get_by_role("link", name="type").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("thead >> text=type: colour")
    page.wait_for_url(f"{address}/benchmarks/shapes/by/type/group_score")
    page.get_by_role("navigation", name="Metric").get_by_role("link", name="text_score").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/by/type/text_score")


CONTROLS = "a[href], button, select, input:not([type=hidden]), summary, [tabindex='0']"
READ = ("/", "/benchmarks/shapes", "/benchmarks/shapes/items/0", "/models/good", "/ranks")


@pytest.mark.parametrize("path", [*READ, "/compare"])
def test_the_tab_key_reaches_every_control_in_order_and_shows_where_it_is(visit, path):
    page = visit(path)
    there = page.eval_on_selector_all(CONTROLS, "all => all.forEach((one, k) => one.dataset.place = k) || all.length")
    reached = []
    for _ in range(there):
        page.keyboard.press("Tab")
        place, outline, width = page.evaluate(
            """() => {
                const one = document.activeElement, style = getComputedStyle(one);
                return [Number(one.dataset.place), style.outlineStyle, parseFloat(style.outlineWidth)];
            }"""
        )
        assert outline == "solid" and width >= 2, place
        reached.append(place)
    assert reached == list(range(there))


def test_every_head_says_what_it_heads_signs_are_explained_and_numbers_stand_under_each_other(visit, address):
    page = visit("/")
    for path in (*READ, "/compare/good/poor"):
        page.goto(f"{address}{path}")
        scopes = page.eval_on_selector_all("th", "all => all.map(one => one.getAttribute('scope'))")
        assert scopes and set(scopes) <= {"col", "row"}, path
        rows = page.locator("main tbody tr")
        assert rows.count() == page.locator("main tbody tr:has(> th[scope=row])").count(), path
    page, by_type = visit("/benchmarks/shapes"), visit("/benchmarks/shapes/by/type/group_score")
    signs = ["[88.8, 94.8]", "chance", "T1 T4", "reference"]
    assert page.locator(".key dt").all_inner_texts() == signs and "Holm" in page.inner_text(".key")
    assert by_type.locator(".key dt").all_inner_texts() == [sign for sign in signs if sign != "T1 T4"]
    page = visit("/benchmarks/shapes")
    for column in range(3, 6):
        ends = page.eval_on_selector_all(
            f"tr > :nth-child({column}) .value", "all => all.map(one => one.getBoundingClientRect().right)"
        )
        assert len(ends) == 5  # three models, a reference model, chance
        assert max(ends) - min(ends) < 1
    assert visit("/benchmarks/shapes/items/pages/1").locator(".thumbs").count() == 0


def wait_until(page, expression: str) -> None:
    """Ask again and again: playwright's own way evaluates text in the page, which the page forbids."""
    for _ in range(300):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"not within 15 seconds: {expression}")


def test_a_gallery_is_walked_through_and_its_pictures_are_shown(chromium, gallery_board):
    problems: list[str] = []
    with serve(create_app(gallery_board)) as at:
        page = chromium.new_page(color_scheme="dark")
        page.on("console", lambda message: problems.append(message.text))
        page.on("response", lambda answer: answer.status < 400 or problems.append(f"{answer.status} {answer.url}"))
        page.goto(f"{at}/models/mine")
        page.click("text=Retrieval gallery")
        page.wait_for_url("**/gallery/*")
        assert page.locator("article.query").count() == 20
        assert page.locator("article.query").first.locator(".badge").first.inner_text() == "✕ at rank 3"
        first = page.locator("article.query").first.locator("img")
        for picture in first.all():
            picture.scroll_into_view_if_needed()
        wait_until(page, "[...document.images].slice(0, 5).every(one => one.complete && one.naturalWidth === 24)")
        assert first.nth(2).get_attribute("alt") == "at rank 3, true"
        assert page.locator(".pager").first.locator("li").all_inner_texts() == ["1", "2", "3"]
        page.locator(".pager").first.get_by_role("link", name="3", exact=True).click()
        page.wait_for_url("**/t2i/pages/3")
        assert page.locator("article.query").count() == 8
        page.click(".choices >> text=images to captions")
        page.wait_for_url("**/i2t/pages/1")
        page.wait_for_selector(".found.texts .said >> nth=0")
        assert page.locator("h1").inner_text() == "Retrieval gallery: images to captions"
        page.close()
    assert problems == []


@pytest.mark.parametrize("path", ["/", "/benchmarks/shapes"])
def test_on_a_narrow_screen_the_column_that_sorts_and_the_name_stay_in_sight(visit, path):
    page = visit(path, viewport={"width": 390, "height": 800})
    for right in (0, 60, 10_000):
        page.evaluate("right => document.querySelectorAll('.scroll').forEach(one => one.scrollLeft = right)", right)
        boxes = page.eval_on_selector_all(
            ".headline tbody tr:first-child > :is(th, .by)",
            "all => all.map(one => { const b = one.getBoundingClientRect(); return [b.left, b.right]; })",
        )
        room = page.eval_on_selector(".scroll", "one => one.getBoundingClientRect().toJSON()")
        assert boxes
        assert all(room["left"] - 1 <= left and end <= room["right"] + 1 for left, end in boxes)
    if path != "/":  # and another column is seen between them
        name, by = boxes[0], boxes[1]
        assert by[0] - name[1] > 20


def test_on_a_phone_a_models_numbers_come_before_its_facts_and_wide_tables_lead_on(visit):
    page = visit("/models/good", viewport={"width": 390, "height": 800})
    top = {part: page.locator(part).first.bounding_box()["y"] for part in (".scroll", ".about")}
    assert top[".scroll"] < 800 and top[".scroll"] < top[".about"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert "gradient" in page.eval_on_selector(".scroll", "one => getComputedStyle(one).backgroundImage")


def test_a_list_of_items_shows_their_pictures_and_none_that_is_not_there(chromium, tmp_path):
    ta.evaluate("random", "demo", out=tmp_path / "runs" / "demo")
    _, shown = open_board(tmp_path / "runs")
    with serve(create_app(shown)) as at:
        page = chromium.new_page(viewport={"width": 390, "height": 800})
        page.goto(f"{at}/benchmarks/demo/items/pages/1")
        assert page.locator(".thumbs img").count() == 2 * page.locator("tbody tr").count() == 100
        wait_until(page, "document.querySelector('.thumbs img').naturalWidth > 0")
        assert page.locator(".thumbs img").first.bounding_box()["height"] == 56
        page.close()
