"""Hidden results beside others': a site of files, and the example."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient

from boards import open_board
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.records import read_settings
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.service import Submissions
from tellapart.data.folder import read_pair_set


def marks(made) -> list[str]:
    """Return the digests of the secret and the labels, by which a guess at them could be checked."""
    rows = made.service.database.all("SELECT name, value FROM mark WHERE name NOT LIKE '%task.zip'")
    return [row["value"] for row in rows]


def numbers(made, sent: dict[str, Any]) -> list[str]:
    """Return the private numbers of a file as a page or a record would print them."""
    row = made.service.database.one("SELECT private FROM submission WHERE id = ?", sent["id"])
    value = json.loads(row["private"])["values"]["group_score"]
    assert value not in (sent["public"]["values"]["group_score"], 0.0, 1.0)
    return [f'"value":{value}', f'"value": {value}', f'"group_score": {value}', f">{100 * value:.4g}<"]


@pytest.mark.slow
def test_a_site_has_the_hidden_leaderboard_as_published_and_no_label(board, command, tmp_path):
    made = board()
    sent = made.measured(made.npz(made.right(0.8, private=0.6)))
    (made.folder / "runs").mkdir()
    site = tmp_path / "site"
    for _ in range(2):
        command("board", "export", "--runs", made.folder / "runs", "--board", made.file(), "--out", site, code=0)
    assert json.loads((site / "hidden/clocks/data.json").read_text()) == made.client.get("/hidden/clocks").json()
    page = (site / "hidden/clocks/index.html").read_text()
    assert f"{100 * sent['public']['values']['group_score']:.4g}" in page and "<form" not in page
    assert " items, rounded to 1 point" in (site / "index.html").read_text()  # beside the number of the first page, too
    assert "/sign-in" not in page and "/sign-in" not in (site / "index.html").read_text()
    assert '"../hidden/index.html"' in page.replace("../../hidden", "../hidden")
    assert 'href="hidden/index.html"' in (site / "index.html").read_text()
    assert (site / "benchmarks/clocks/index.html").is_file()
    truth = json.loads(made.service.prepared["clocks"].truth.read_text())
    told = b"".join(path.read_bytes() for path in site.rglob("*") if path.is_file())
    assert b"private_rank" in told
    texts = [text for item in read_pair_set(made.pairs).items for text in (item.id, *item.images, *item.texts)]
    kept = [*texts, *(item["id"] for item in truth["items"]), *truth["sources"], *truth["pixels"].values()]
    kept += [*made.tokens.values(), "scores.npz", "truth.json", *marks(made), *numbers(made, sent)]
    assert len(kept) > 200
    assert not [text for text in kept if text.encode() in told]


def test_a_site_of_a_board_that_was_never_served_makes_no_state(command, made_set, tmp_path):
    file = tmp_path / "board.toml"
    (tmp_path / "runs").mkdir()
    file.write_text(f'[board]\nruns = ["runs"]\n[[hidden]]\nname = "clocks"\npairs = "{made_set("clocks", n=4)}"\n')
    command("board", "export", "--board", file, "--out", tmp_path / "site", code=0)
    assert not (tmp_path / "state").exists()
    assert "hidden" not in (tmp_path / "site" / "index.html").read_text()


EXAMPLE = Path(__file__).parents[2] / "examples" / "hidden_board"


class Opened(NamedTuple):
    """A board that is served: what is behind it, its addresses, and what reads new records in."""

    service: Submissions
    client: TestClient
    read: Callable[[], object]


@pytest.fixture
def opened(tmp_path) -> Opened:
    """The example with its state elsewhere than in the repository."""
    declared, settings = read_hidden(EXAMPLE / "board.toml"), read_settings(EXAMPLE / "board.toml")
    elsewhere = declared.submissions.model_copy(update={"state": tmp_path / "state"})
    service = Submissions(declared.model_copy(update={"submissions": elsewhere}))
    settings = settings.model_copy(update={"runs": ()})
    client, shown = open_board(settings, submissions=service)
    for name, role in (("root", "admin"), ("ada", "submitter")):
        service.accounts.add(name, role, by="test")
    return Opened(service, client, lambda: shown.read_in(pytest.fail))


def statements() -> list[dict[str, Any]]:
    """Each counting item of the demo as two statements."""
    rows = []
    for item in find_benchmark("demo").records().items:
        if item.tags["aspect"] == "counting":
            sentence = f"Left: {item.texts[0]} Right: {item.texts[1]}"
            for images, label in ((item.images, "True"), (item.images[::-1], "False")):
                rows.append({"sentence": sentence, "images": list(images), "label": label})
    return rows


def test_the_statements_are_what_the_demos_counting_items_say():
    assert json.loads((EXAMPLE / "statements" / "nlvr2_vlue_test.json").read_text()) == statements()


@pytest.mark.slow
def test_the_example_takes_a_filled_in_task_file_and_shows_its_number(opened):
    service, client, read = opened
    listed = client.get("/hidden").json()["benchmarks"]
    assert [(one["name"], one["items"]) for one in listed] == [("demo-pairs", 400), ("demo-statements", 200)]
    # Whole clusters (here of up to four records) are made public in a secret order: half, to within half a cluster.
    assert all(abs(one["public_items"] - one["items"] / 2) <= 2 for one in listed)
    assert all(one["told_bits_at_most"] <= one["labels_bits"] / 2 for one in listed)
    head = {"Authorization": f"Bearer {service.accounts.issue('ada', days=1, by='test')[1]}"}
    archive = client.get("/hidden/demo-statements/task.zip", headers=head).content
    with zipfile.ZipFile(io.BytesIO(archive)) as task:
        rows = [json.loads(line) for line in task.read("items.jsonl").decode().splitlines()]
        assert {row[side] for row in rows for side in ("left", "right")} < set(task.namelist())
    filled = "".join(json.dumps({**row, "prediction": True}) + "\n" for row in rows)
    params = {"model": "better than none", "file": "items.jsonl"}
    sent = client.post("/hidden/demo-statements/submissions", params=params, content=filled, headers=head)
    assert sent.status_code == 202, sent.text
    with service.queue.lock() as mine:
        assert mine and service.queue.work_one()
    seen = client.get(sent.json()["at"], headers=head).json()["submission"]
    assert (seen["state"], seen["public"]["values"]) == ("done", {"accuracy": 0.5})  # every sentence is true once
    read()
    assert "better than none" in client.get("/benchmarks/demo-statements", headers={"Accept": "text/html"}).text
