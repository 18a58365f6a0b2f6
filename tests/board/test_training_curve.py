"""The checkpoints that a run followed: each one's page on the board has the curve of all, and grows with them."""

import json
from pathlib import Path

import pytest

from boards import open_board, serve, write_run
from tellapart.board.app import create_app
from tellapart.records.run_folder import FOLLOWED

#: Checkpoint -> how far apart its true and false pairs are.
SKILLS = {"epoch_9": 1.0, "epoch_10": 3.0, "epoch_11": 0.3}


@pytest.fixture
def training(tmp_path) -> Path:
    out = tmp_path / "runs" / "training"
    for number, (name, skill) in enumerate(SKILLS.items()):
        write_run(out / "beside" / name if number else out, name, skill=skill, seed=number)
    (out / FOLLOWED).write_text(json.dumps({"checkpoints": str(tmp_path)}))
    write_run(tmp_path / "runs" / "other", "other", skill=1.0, seed=9)
    return out


def test_every_checkpoints_page_has_the_curve_of_all_and_fetches_it_again(training):
    client, board = open_board(training.parent)
    on = client.get("/models/epoch_11?format=json").json()["on"][0]["training"]
    steps = {step["title"]: step for step in on["steps"]}
    assert list(steps) == list(SKILLS)
    assert [step["best"] for step in steps.values()] == ["epoch_9", "epoch_10", "epoch_10"]
    lost = steps["epoch_11"]["forgotten"]
    assert lost["value"] == pytest.approx(steps["epoch_10"]["value"]["value"] - steps["epoch_11"]["value"]["value"])
    assert lost["low"] <= lost["value"] <= lost["high"] and steps["epoch_10"]["forgotten"] is None
    page = client.get("/models/epoch_9", headers={"accept": "text/html"}).text
    assert page.count('<svg class="lines"') == 1 and page.count('<circle class="point s0"') == 3
    assert 'hx-trigger="every 30s"' in page and 'href="/models/epoch_11"' in page
    other = client.get("/models/other", headers={"accept": "text/html"}).text
    assert 'class="lines"' not in other and "hx-trigger" not in other
    write_run(training / "beside" / "epoch_12", "epoch_12", skill=2.0, seed=12)
    board.read_in(pytest.fail)
    again = client.get("/models/epoch_9", headers={"accept": "text/html"}).text
    assert again.count('<circle class="point s0"') == 4
    (training / FOLLOWED).unlink()
    board.read_in(pytest.fail)


@pytest.mark.slow
def test_a_browser_shows_the_curve_grow(training, chromium):
    _, board = open_board(training.parent)
    with serve(create_app(board)) as address:
        page = chromium.new_page()
        page.clock.install()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.goto(f"{address}/models/epoch_9")
        points = page.locator("svg.lines circle.point.s0")
        assert points.count() == 3
        look = "one => [getComputedStyle(one).stroke, getComputedStyle(one).fill]"
        colours = page.eval_on_selector("svg.lines polyline.s0", look)
        assert colours[0].startswith("rgb(") and colours[1] == "none"
        write_run(training / "beside" / "epoch_12", "epoch_12", skill=2.0, seed=12)
        board.read_in(pytest.fail)
        page.clock.fast_forward(31_000)
        points.nth(3).wait_for(state="attached", timeout=30_000)
        page.close()
    assert problems == []
