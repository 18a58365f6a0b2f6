"""The page in a real browser: answered by keyboard, kept, saved, and read back as what the annotator saw and chose."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

#: What is shown, by the names that sheets have; images by their content.
SEEN = """() => {
    const view = {};
    document.querySelectorAll('.pictures img').forEach((image, k) => view[`image_${k}`] = image.src);
    document.querySelectorAll('.quote').forEach((text, k) => view[`text_${k}`] = text.textContent);
    document.querySelectorAll('.option').forEach(option => {
        const letter = option.querySelector('input').value, shown = option.querySelector('img, .text');
        if (shown) view[`option_${letter.toLowerCase()}`] = shown.src ?? shown.textContent;
    });
    return view;
}"""

Opened = Callable[..., Any]


def seen(page: Any) -> dict[str, str]:
    view = page.evaluate(SEEN)
    for name, value in view.items():
        if value.startswith("data:"):
            view[name] = hashlib.sha256(base64.b64decode(value.partition(",")[2])).hexdigest()
    return view


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Opened]:
    """Open an annotator's page, each time in a browser of its own; a message on the console or a request fails."""
    problems: list[str] = []
    contexts = []

    def visit(at: Any, annotator: str = "ann", *, scheme: str = "light", width: int = 1180, before: str = "") -> Any:
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 860})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        address = (at.folder / "pages").as_uri()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda each: each.url.startswith(("data:", "blob:", address)) or problems.append(each.url))
        if before:
            page.add_init_script(before)
        page.goto(f"{address}/{annotator}.html")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert problems == []


def save(page: Any, to: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save answers to a file").first.click()
    path = to / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.parametrize(
    ("survey", "shape"), [("coco-cf", (2, 2)), ("i2t", (1, 5)), ("t2i", (2, 2)), ("t2i", (4, 1)), ("match", (2, 2))]
)
def test_who_answers_by_keyboard_what_is_seen_is_read_as_meant(desk, knows, opened, tmp_path, survey, shape) -> None:
    at = desk(survey, shape=shape, n=3, annotators=("ann",))
    person, page = knows(at), opened(at)
    for number in range(1, len(at.study.tasks) + 1):
        assert page.inner_text("h2") == f"Task {number} of {len(at.study.tasks)}"
        (value,) = person("ann", seen(page)).values()
        page.keyboard.press(value.lower() if len(value) == 1 else {"Yes": "1", "No": "2"}[value])
        page.keyboard.press("Enter")
    assert page.inner_text("h2") == "Done"
    path = save(page, tmp_path)
    assert path.name == "ann.answers.json"
    answers = at.imported(path)
    assert answers == at.imported(at.export(person))
    assert all(value == at.study.unit_of[each.unit].truth for each in answers for value in each.values.values())


def test_a_closed_page_goes_on_where_it_was_and_says_what_is_open(desk, opened, tmp_path) -> None:
    at = desk("coco-cf", n=2, annotators=("ann", "bob"))
    page = opened(at)
    page.keyboard.press("3")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")
    assert page.inner_text("h2") == "Task 4 of 4"
    page.reload()
    assert (page.inner_text("h2"), page.inner_text("#count")) == ("Task 4 of 4", "2 of 4 answered")
    page.keyboard.press("Enter")
    assert page.inner_text("h2") == "Not quite done"
    assert page.locator(".open-tasks button").all_inner_texts() == ["Task 2", "Task 4"]
    answers = at.imported(save(page, tmp_path), partial=True)
    assert [(each.task, each.values, each.skipped) for each in answers] == [
        ("ann-00001", {"caption": "both"}, False),
        ("ann-00003", {}, True),
    ]
    assert "ann.answers.json has 2 of 4 answers; 2 still open." in page.inner_text("#said")
    # Another annotator's page in the same browser is another survey.
    page.goto((at.folder / "pages" / "bob.html").as_uri())
    assert page.inner_text("#count") == "0 of 4 answered"


def test_an_answer_can_be_changed_and_takes_back_a_skip(desk, opened, tmp_path) -> None:
    at = desk("i2t", shape=(1, 2), n=1, annotators=("ann",))
    page = opened(at)
    page.keyboard.press("s")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("a")
    page.locator("input[value=B]").check()
    page.keyboard.press("Enter")
    (row,) = json.loads(save(page, tmp_path).read_text())["answers"]
    assert row == {"task": "ann-00001", "values": {"caption": "B"}}


def test_a_saved_file_goes_on_in_another_browser_and_no_other_file_does(desk, opened, tmp_path) -> None:
    at = desk("i2t", n=2, annotators=("ann", "bob"))
    page = opened(at)
    page.keyboard.press("a")
    path = save(page, tmp_path)
    other = opened(at)
    assert other.inner_text("#count") == "0 of 4 answered"
    other.get_by_text("How this page works").click()
    other.set_input_files("#open", path)
    other.get_by_text("1 of 4 answered").wait_for()
    assert other.locator("input[value=A]").is_checked()
    other.set_input_files("#open", at.folder / "study.json")
    other.get_by_text("study.json holds no answers to this page's survey for ann.").wait_for()
    (tmp_path / "a.json").write_text("{")
    other.set_input_files("#open", tmp_path / "a.json")
    other.get_by_text("a.json is no file of answers.").wait_for()
    bob = opened(at, "bob")
    bob.get_by_text("How this page works").click()
    bob.set_input_files("#open", path)
    bob.get_by_text("holds no answers to this page's survey for bob").wait_for()


def test_a_browser_that_keeps_nothing_says_so(desk, opened) -> None:
    page = opened(desk("i2t", n=1), before="Storage.prototype.setItem = () => { throw new Error('full') }")
    page.keyboard.press("a")
    assert "This browser keeps no answers: save them to a file" in page.inner_text("#said")


def test_texts_are_written_by_keyboard_alone_and_letters_are_no_shortcuts_there(desk, opened, tmp_path) -> None:
    at = desk("question", n=1, annotators=("ann",))
    page = opened(at)
    for text in ("Is it a 1s cat?", "b"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.type("a dog")
    page.keyboard.press("Enter")
    assert page.inner_text("h2") == "Done"
    (answer,) = at.imported(save(page, tmp_path))
    order = at.study.tasks[0].order
    assert answer.values == {"question": "Is it a 1s cat?", f"answer_{order[0]}": "b", f"answer_{order[1]}": "a dog"}


def test_what_is_required_and_blank_is_still_open(desk, opened, tmp_path) -> None:
    at = desk("question", n=1, annotators=("ann",))
    page = opened(at)
    page.keyboard.type("What?")
    page.keyboard.press("Tab")
    page.keyboard.type("  ")
    page.keyboard.press("Enter")
    assert page.inner_text("h2") == "Not quite done"
    assert at.imported(save(page, tmp_path), partial=True) == []


def test_a_box_is_drawn_or_written_in_the_pixels_of_the_image(desk, opened, tmp_path) -> None:
    at = desk("box", shape=(1, 2), n=2, annotators=("ann",))
    page = opened(at)
    image = page.locator(".picture img")
    frame = image.bounding_box()
    corners = [
        (frame["x"] + share[0] * frame["width"], frame["y"] + share[1] * frame["height"])
        for share in ((0.75, 0.5), (0.25, 0.125))
    ]
    page.mouse.move(*corners[0])
    page.mouse.down()
    page.mouse.move(*corners[1])
    page.mouse.up()
    sides = [page.get_by_label(name, exact=True) for name in ("left", "top", "width", "height")]
    assert [side.input_value() for side in sides] == ["2", "1", "4", "3"]
    drawn = page.locator(".rectangle").bounding_box()
    assert [round(8 * (drawn[a] - frame[a]) / frame[b]) for a, b in (("x", "width"), ("y", "height"))] == [2, 1]
    page.keyboard.press("1")
    page.locator("textarea").fill("cup")
    page.get_by_role("button", name="Next").click()
    page.keyboard.press("1")
    page.locator("textarea").fill("cup")
    for side, value in zip(sides, ("1", "2", "9", "4"), strict=True):
        side.fill(value)
    assert "The box must lie inside the image, which has 8 × 8 pixels." in page.inner_text("#said")
    sides[2].fill("3")
    page.get_by_role("button", name="Next").click()
    answers = at.imported(save(page, tmp_path))
    assert [answer.values["box"] for answer in answers] == [[2, 1, 4, 3], [1, 2, 3, 4]]
    page.get_by_role("button", name="Back").click()
    page.get_by_role("button", name="Clear the box").click()
    rows = json.loads(save(page, tmp_path).read_text())["answers"]
    assert ["box" in row["values"] for row in rows] == [True, False]


def test_a_box_on_a_picture_that_was_scaled_down_is_in_its_own_pixels(desk, made_set, opened, tmp_path) -> None:
    folder = made_set("1x2-1", n=1, shape=(1, 2))
    pixels = np.random.default_rng(0).integers(0, 256, (1500, 3000, 3), np.uint8)
    Image.fromarray(pixels).save(next((folder / "images").iterdir()))
    at = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    page = opened(at)
    image = page.locator(".picture img")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1024
    frame = image.bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 4, frame["y"] + frame["height"] / 4)
    page.mouse.down()
    page.mouse.move(frame["x"] + frame["width"] * 2, frame["y"] + frame["height"] / 2)
    page.mouse.up()
    page.keyboard.press("1")
    page.locator("textarea").fill("cup")
    (answer,) = at.imported(save(page, tmp_path))
    assert answer.values["box"] == pytest.approx([750, 375, 2250, 375], abs=12)
    assert answer.values["box"][0] + answer.values["box"][2] == 3000


@pytest.mark.parametrize(("scheme", "width"), [("light", 1180), ("dark", 390)])
@pytest.mark.parametrize(
    ("survey", "shape"), [("coco-cf", (2, 2)), ("t2i", (2, 2)), ("box", (1, 2)), ("question", (2, 2))]
)
def test_axe_finds_no_violation_and_nothing_overflows(desk, opened, axe, survey, shape, scheme, width) -> None:
    page = opened(desk(survey, shape=shape, n=1, annotators=("ann",)), scheme=scheme, width=width)
    page.get_by_text("How this page works").click()
    problems = axe(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.select_option("#jump", label="end")
    assert problems + axe(page) == []
