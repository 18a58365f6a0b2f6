"""The page in a real browser: the matrix, the filters, links to items, both colour schemes."""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tellapart.report.benchmark_runs import ReportRun
from tellapart.report.items import margins
from tellapart.report.page import make_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = pytest.mark.slow

HOSTILE = """</script><img src=x onerror="window.hacked=1"><b>'"&"""


@pytest.fixture
def visit(chromium, tmp_path) -> Iterator[Callable[..., Any]]:
    """Write a report of runs and open it; any message on the console or request for a file fails the test."""
    problems: list[str] = []
    requests: list[str] = []
    pages, path = [], tmp_path / "report.html"

    def open_page(runs: list[ReportRun], fragment: str = "", scheme: str = "light", **options):
        path.write_text(make_page(runs).html, encoding="utf-8")
        page = chromium.new_page(color_scheme=scheme, viewport={"width": 1200, "height": 900}, **options)
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{path.as_uri()}{fragment}")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert (problems, [url for url in requests if not url.startswith(("data:", path.as_uri()))]) == ([], [])


def cards(page) -> list[str]:
    return page.eval_on_selector_all(".card", "all => all.map(card => card.dataset.item)")


def count(page) -> int:
    return int(page.inner_text(".count").split(" of ")[0].replace(",", ""))


def test_the_matrix_shows_scores_shades_and_marks_of_true_pairs(make_run, visit):
    scores = np.tile(np.float32([[0.9, 0.1], [0.2, 0.8]]), (30, 1, 1))
    scores[0] = [[0.2500001, 0.25], [0.1, 0.3]]  # they differ, and so do their texts
    scores[7] = [[0.30, 0.55], [0.30, 0.60]]  # text 0 is beaten in its row; text 1 wins
    scores[8] = [[0.50, 0.50], [0.25, 0.75]]  # image 0 ties
    page = visit([make_run(scores=scores)])
    assert cards(page)[:3] == ["shapes-0007", "shapes-0008", "shapes-0000"]
    cells, tied, close = (page.locator(".card").nth(k).locator("tbody td") for k in range(3))
    assert cells.all_inner_texts() == ["0.300\n✕ true", "0.550", "0.300", "0.600\n✓ true"]
    assert tied.all_inner_texts() == ["0.500\n= true", "0.500", "0.250", "0.750\n✓ true"]
    assert close.all_inner_texts()[:2] == ["0.2500001\n✓ true", "0.2500000"]
    colours = [cell.evaluate("cell => getComputedStyle(cell).backgroundColor") for cell in cells.all()]
    light = [sum(map(int, colour[4:-1].split(","))) for colour in colours]
    assert light[3] < light[1] < light[0] == light[2]  # darker is higher
    verdicts = page.locator(".card").nth(1).locator(".verdicts li").all_inner_texts()
    assert verdicts == ["= text_score", "✓ image_score", "= group_score", "✓ match_score"]


def test_items_come_worst_first_and_filters_change_what_is_shown(make_run, visit):
    run = make_run(skill=0.8)
    samples = run.samples["shapes"]
    margin = margins(np.array([sample.scores for sample in samples], np.float32))
    page = visit([run])
    assert cards(page) == [samples[k].id for k in np.argsort(margin, kind="stable")[:12]]
    assert count(page) == 30

    wrong = [sample for sample in samples if sample.outcomes["text_score"] == 0]
    page.select_option("[name=metric]", "text_score")
    page.select_option("[name=outcome]", "wrong")
    assert 0 < count(page) == len(wrong) < 30
    page.select_option("[data-tag=type]", label="colour (10)")
    both = [sample for sample in wrong if sample.tags.get("type") == "colour"]
    assert count(page) == len(both) < len(wrong)
    assert set(cards(page)) == {sample.id for sample in both}
    page.fill("[name=text]", both[0].id)
    assert cards(page) == [both[0].id]
    page.fill("[name=text]", "no such words")
    assert cards(page) == [] and count(page) == 0
    page.click("button[type=reset]")
    sync_api.expect(page.locator(".card")).to_have_count(12)
    assert count(page) == 30


def test_a_tied_item_is_among_the_wrong_and_can_be_had_alone(make_run, visit):
    scores = np.tile(np.float32([[0.9, 0.1], [0.2, 0.8]]), (30, 1, 1))
    scores[3, 0, 0] = 0.05  # beaten
    scores[4, 0, 1] = 0.9  # tied in its row, and text 1 loses image 1
    scores[5] = 0.5
    page = visit([make_run(scores=scores)])
    page.select_option("[name=metric]", "text_score")
    for outcome, items in (("wrong", [3, 4, 5]), ("tied", [4, 5]), ("right", {*range(30)} - {3, 4, 5})):
        page.select_option("[name=outcome]", outcome)
        assert count(page) == len(items) and {*cards(page)} <= {f"shapes-{item:04}" for item in items}


def test_the_search_reads_captions_ids_and_tags_in_any_case_and_pages_turn_and_stop_at_both_ends(make_run, visit):
    page = visit([make_run()])
    # Six colours, two a caption pair; every third item is on the right.
    for words, items in {"TEAL circle": 10, "shapes-0017": 1, "side: right": 10, "": 30}.items():
        page.fill("[name=text]", words)
        assert count(page) == items, words
    seen = cards(page)
    assert page.is_disabled("[data-turn='-1']")
    for _ in range(2):
        page.click("[data-turn='1']")
        seen += cards(page)
    assert page.is_disabled("[data-turn='1']") and page.inner_text(".page") == "page 3 of 3"
    assert len(seen) == len(set(seen)) == 30


def test_a_link_opens_its_item_with_every_model_and_closing_forgets_it(make_run, visit):
    runs = [make_run(model="one", seed=1), make_run(model="two", seed=2)]
    page = visit(runs, "#item=shapes-0013")
    assert page.inner_text("#item-title") == "shapes: shapes-0013"
    assert [text.split()[0] for text in page.locator("dialog h3").all_inner_texts()] == ["one", "two"]
    sizes = page.eval_on_selector_all("dialog img", "all => all.map(image => [image.complete, image.naturalWidth])")
    assert sizes == [[True, 120]] * 4
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#item")).to_be_hidden()
    sync_api.expect(page).not_to_have_url(re.compile("#"))  # the event of closing comes a moment later
    page.click(".card h4 a >> nth=2")
    sync_api.expect(page.locator("#item")).to_be_visible()
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("#item-title")).to_have_text(f"shapes: {cards(page)[3]}")
    assert visit(runs, "#item=nobody").inner_text("[role=alert]") == "This report has no item nobody."


def test_the_model_switch_changes_tables_order_and_count(make_run, visit):
    runs = [make_run(model="good", skill=3.0, seed=1), make_run(model="poor", skill=0.0, seed=2)]
    page = visit(runs)
    page.select_option("[name=outcome]", "wrong")
    good, first = count(page), cards(page)
    assert page.is_visible("text=good by tag") and not page.is_visible("text=poor by tag")
    page.select_option("#model", label="poor")
    assert page.is_visible("text=poor by tag") and not page.is_visible("text=good by tag")
    assert count(page) > good and cards(page) != first
    page.select_option("[name=outcome]", "")
    page.select_option("[name=rival]", label="good")
    right = [[s.outcomes["group_score"] for s in run.samples["shapes"]] for run in runs]
    assert count(page) == sum(a != b for a, b in zip(*right, strict=True)) > 0


@pytest.mark.parametrize(("shape", "rows", "columns"), [((1, 4), 4, 1), ((3, 1), 3, 1), ((2, 2), 2, 2)])
def test_every_shape_has_its_matrix(make_run, visit, shape, rows, columns):
    card = visit([make_run(shape=shape, n=5)]).locator(".card").first
    assert (card.locator("tbody tr").count(), card.locator("tbody td").count()) == (rows, rows * columns)
    assert (card.locator("tbody td.true").count(), card.locator("img").count()) == (min(shape), shape[0])


@pytest.mark.parametrize(
    ("texts", "marks"),
    [
        (("The cat sits on the mat.", "the mat sits on the cat"), ["cat", "mat", "mat", "cat"]),
        (("A dog, left of a man", "a dog left of the tall man!"), ["a", "the tall"]),
        (
            ("Two cups and one old plate", "One cup and two old plates"),
            ["Two cups", "one", "plate", "One cup", "two", "plates"],
        ),
        (("a man's hat", "a woman’s hat"), ["man's", "woman’s"]),
        (("Let's eat, grandma", "Let's eat grandma"), ["eat,", "eat"]),
        (("红色的球", "蓝色的球"), ["红", "蓝"]),
        (("the same words", "the same words"), []),
    ],
)
def test_only_the_words_that_really_differ_are_marked(make_run, visit, texts, marks):
    run = make_run(n=3)
    samples = [replace(sample, texts=texts) for sample in run.samples["shapes"]]
    page = visit([ReportRun(run.result, {"shapes": samples})], "#item=shapes-0002")
    assert page.locator("dialog mark").all_inner_texts() == marks
    assert page.locator("dialog th.caption").all_inner_texts() == list(texts)


def test_untrusted_text_is_shown_and_never_run(make_run, visit):
    run, about = make_run(model=HOSTILE, n=3), {"texts": (HOSTILE, "x"), "tags": {HOSTILE: HOSTILE}}
    samples = [replace(sample, id=f"{k}{HOSTILE}", **about) for k, sample in enumerate(run.samples["shapes"])]
    page = visit([ReportRun(run.result, {"shapes": samples}), make_run(n=4)])
    assert page.locator("th.caption", has_text=HOSTILE).count() >= 3
    page.select_option(".filters >> nth=0 >> select >> nth=0", "0")
    page.click(".card h4 a >> nth=0")
    sync_api.expect(page.locator("#item")).to_be_visible()
    assert HOSTILE in page.inner_text("#item-title")
    assert page.evaluate("window.hacked") is None
    assert page.locator("b", has_text="'\"&").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_screenshot_has_content_in_both_colour_schemes(make_run, visit, scheme):
    page = visit([make_run(model="one", seed=1), make_run(model="two", seed=2)], scheme=scheme)
    values = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"))
    assert values.std() > 15 and (np.median(values) > 200) == (scheme == "light")


@pytest.mark.parametrize("width", [360, 800])
def test_nothing_overflows_a_narrow_screen(make_run, visit, width):
    runs = [make_run(model="open_clip:ViT-B-32/laion2b_s34b_b79k" * 2), make_run(model="two", seed=2)]
    page = visit(runs)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_the_headline_is_in_sight_and_the_first_column_stays(make_run, visit):
    page = visit([make_run(model="a", seed=1), make_run(model="b", seed=2)])
    page.set_viewport_size({"width": 390, "height": 844})
    cells = page.locator(".headline tbody tr").first.locator("th, td")
    assert page.locator(".headline thead th").nth(1).inner_text() == "group_score"
    headline = cells.nth(1).bounding_box()
    assert headline["x"] >= 0 and headline["x"] + headline["width"] <= 390
    by_tag = page.locator(".breakdown").first.locator("thead th").nth(2)
    assert by_tag.inner_text() == "group_score"
    assert by_tag.bounding_box()["x"] + by_tag.bounding_box()["width"] <= 390
    assert page.eval_on_selector(".pinned", "one => one.scrollWidth > one.clientWidth")
    name = cells.nth(0).bounding_box()
    page.eval_on_selector(".pinned", "one => { one.scrollLeft = one.scrollWidth; }")
    assert cells.nth(0).bounding_box()["x"] == name["x"]
    last = cells.last.bounding_box()
    assert last["x"] >= name["x"] + name["width"] and last["x"] + last["width"] <= 390


def test_without_scripts_the_tables_of_every_model_are_there(make_run, visit):
    page = visit([make_run(model="one"), make_run(model="two", seed=2)], java_script_enabled=False)
    assert page.is_visible("text=one by tag") and page.is_visible("text=two by tag")
    assert page.is_visible("text=Browsing items needs JavaScript")
    assert not page.is_visible(".filters")


def test_a_page_that_awaits_checkpoints_comes_again_unless_somebody_is_at_work(make_run, chromium, tmp_path):
    path, page = tmp_path / "report.html", chromium.new_page()
    loads: list[Any] = []
    path.write_text(make_page([make_run()], reload=20.0).html, encoding="utf-8")
    page.on("load", lambda _page: loads.append(page.url))
    page.clock.install()
    page.goto(path.as_uri())
    with page.expect_navigation():
        page.clock.fast_forward(21_000)
    page.mouse.click(5, 5)
    page.clock.fast_forward(21_000)
    page.wait_for_timeout(200)
    assert len(loads) == 2
    with page.expect_navigation():
        page.clock.fast_forward(21_000)
    page.close()
