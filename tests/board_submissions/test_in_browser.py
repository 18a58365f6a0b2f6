"""Hidden benchmarks in a real browser, with the board's own security headers: a user's steps, and axe-core's checks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from boards import open_board, serve
from browsers import look_through
from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings


@pytest.fixture
def served(board) -> Iterator[tuple[Any, str]]:
    """A board with pages and hidden benchmarks at an address of this machine."""
    made = board(limits={"daily": 5})
    with serve(create_app(Board(BoardSettings(title="Ours")), made.service)) as at:
        yield made, at


def signed_in(chromium, made, at: str, **options):
    page = chromium.new_page(**options)
    page.goto(f"{at}/sign-in")
    page.get_by_label("Your token").fill(made.tokens["ann"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{at}/submissions")
    return page


@pytest.mark.slow
def test_a_user_signs_in_sends_a_file_and_sees_its_number(served, chromium, tmp_path):
    made, at = served
    (tmp_path / "scores.npz").write_bytes(made.npz(made.right()))
    problems: list[str] = []
    page = signed_in(chromium, made, at)
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.get_by_role("link", name="Hidden benchmarks").click()
    page.get_by_role("link", name="clocks").click()
    page.get_by_label("The model's name").fill("<b>mine</b>")
    page.get_by_label("The file").set_input_files(tmp_path / "scores.npz")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(f"{at}/submissions/*")
    page.get_by_role("status").get_by_text("received").wait_for()
    page.evaluate("window.stayed = true")
    made.service.start()
    page.get_by_text("group score: 100 %").wait_for()  # the page looks again by itself until then
    assert page.evaluate("window.stayed")
    page.get_by_role("link", name="Look again").wait_for(state="detached")
    assert page.get_by_role("heading", level=1).inner_text() == "<b>mine</b>"
    page.get_by_role("button", name="Sign out ann").click()
    page.wait_for_url(f"{at}/hidden")
    page.close()
    assert problems == []


@pytest.mark.slow
def test_without_scripts_a_user_looks_again_by_a_link(served, chromium):
    made, at = served
    made.send(made.npz(made.right()))
    page = signed_in(chromium, made, at, java_script_enabled=False)
    page.locator("tbody a[href^='/submissions/']").click()
    page.get_by_role("status").get_by_text("received").wait_for()  # a count would not wait for the page behind a link
    made.work()
    page.get_by_role("link", name="Look again").click()
    page.get_by_text("group score: 100 %").wait_for()
    page.close()


@pytest.mark.slow
def test_what_was_sent_has_its_score_or_the_reason_and_a_file_sent_again_is_answered(served, chromium, tmp_path):
    made, at = served
    (tmp_path / "scores.npz").write_bytes(made.npz(made.right(0.5)))
    done = made.measured((tmp_path / "scores.npz").read_bytes(), model="half")
    refused = made.measured(b"id,a", file="scores.csv", model="broken")
    page = signed_in(chromium, made, at)
    rows = {row.split("\t")[0]: row for row in page.locator("tbody tr").all_inner_texts()}
    assert f"group score {100 * done['public']['values']['group_score']:.4g} %" in rows["half"]
    assert refused["error"][:40] in rows["broken"]
    page.goto(f"{at}/hidden/clocks")
    page.get_by_label("The model's name").fill("another name")
    page.get_by_label("The file").set_input_files(tmp_path / "scores.npz")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(f"{at}/submissions/{done['id']}?again=1")
    assert "did not count again" in page.inner_text(".missing")
    assert page.get_by_role("heading", level=1).inner_text() == "half"
    page.close()


@pytest.mark.slow
def test_on_a_phone_the_numbers_of_hidden_items_and_of_files_are_in_sight(board, chromium, tmp_path):
    made = board(60, limits={"step": 0.05})
    assert made.measured(made.npz(made.right(0.5)), model="half")["state"] == "done"
    _, shown = open_board(BoardSettings(title="Ours"), submissions=made.service)
    with serve(create_app(shown, made.service)) as at:
        page = signed_in(chromium, made, at, viewport={"width": 390, "height": 844})
        for path, number in (("/", ".score .value"), ("/submissions", ".told b"), ("/hidden/clocks", ".value")):
            page.goto(f"{at}{path}")
            box = page.locator(number).first.bounding_box()
            assert box is not None and box["x"] + box["width"] <= 360, path
        page.close()


@pytest.fixture
def sent(served) -> dict[str, list[str]]:
    """A board with a file in every state; the paths of its pages for a user, and those of everybody."""
    made, _ = served
    good, fewer = made.npz(made.right()), [item["id"] for item in made.task()][:-1]
    assert made.measured(good)["state"] == "done"
    assert made.measured(made.npz(np.zeros((23, 2, 2)), ids=fewer))["state"] == "refused"
    files = {state: made.npz(made.right() + k) for k, state in enumerate(("received", "measuring", "failed"), start=1)}
    seen = [made.see(made.send(data, user="ann", model=state)) for state, data in files.items()]
    with made.service.database.change() as rows:
        for one in seen:
            rows.execute("UPDATE submission SET state = ? WHERE id = ?", (one["model"], one["id"]))
    mine = made.client.get("/submissions", headers=made.of("ann")).json()["submissions"]
    assert {one["state"] for one in mine} == {"done", "refused", "received", "measuring", "failed"}
    everybody = ["/hidden", "/hidden/clocks"]
    own = ["/submissions", *(f"/submissions/{one['id']}" for one in mine), "/submissions/none", "/hidden/none"]
    own.append(f"/submissions/{made.send(good).json()['id']}?again=1")
    return {"ann": everybody + own, "": [*everybody, "/sign-in", "/submissions"]}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_open_closed_signed_in_or_refused(served, sent, chromium, scheme):
    made, at = served
    problems = []
    for user, paths in sent.items():
        look = {"color_scheme": scheme, "viewport": {"width": 390 if scheme == "dark" else 1200, "height": 900}}
        page = signed_in(chromium, made, at, **look) if user else chromium.new_page(**look)
        problems += look_through(page, at, paths)
        page.close()
    made.service.close("clocks", by="root")
    page = chromium.new_page(color_scheme=scheme)
    problems += look_through(page, at, ("/hidden", "/hidden/clocks"))
    assert "closed" in page.inner_text(".lead")
    assert page.locator("thead").get_by_text("private %").count() == 1
    page.close()
    assert problems == []


@pytest.mark.slow
def test_the_form_is_filled_in_by_keyboard_alone(served, chromium):
    made, at = served
    page = signed_in(chromium, made, at)
    page.goto(f"{at}/hidden/clocks")
    reached, name = [], "document.activeElement.labels?.[0]?.innerText ?? document.activeElement.innerText"
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(name))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached
        if reached[-1] == "Send":
            break
    wanted = ["Skip to the content", "Sign out ann", "Download the task file", "The model's name", "The file", "Send"]
    assert [one for one in reached if one in wanted] == wanted
    page.close()
