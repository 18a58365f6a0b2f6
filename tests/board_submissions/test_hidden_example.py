"""The example board with hidden labels opens, and measures what a user makes of its task files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient

from tellapart.benchmarks.demo import DEMO
from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import read_settings
from tellapart.board.store import Store
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.service import Submissions

EXAMPLE = Path(__file__).parents[2] / "examples" / "hidden_board"


class Opened(NamedTuple):
    """A board that is served: what is behind it, its addresses, and what reads new records in."""

    service: Submissions
    client: TestClient
    read: Callable[[], object]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """The example with its state elsewhere than in the repository."""
    declared, settings = read_hidden(EXAMPLE / "board.toml"), read_settings(EXAMPLE / "board.toml")
    assert declared is not None
    assert settings.database == "sqlite://"
    elsewhere = declared.submissions.model_copy(update={"state": tmp_path / "state"})
    service = Submissions(declared.model_copy(update={"submissions": elsewhere}))
    settings = settings.model_copy(update={"runs": (service.records,)})
    with Store(settings.database) as store, TestClient(create_app(settings, store, service)) as client:
        for name, role in (("root", "admin"), ("ada", "submitter")):
            service.accounts.add(name, role, by="test")  # type: ignore[arg-type]
        yield Opened(service, client, lambda: read_in(store, settings, pytest.fail))


def statements() -> list[dict[str, Any]]:
    """Each counting item of the demo as two statements."""
    rows = []
    for item in DEMO.load(DEMO.place).items:
        if item.tags["aspect"] == "counting":
            sentence = f"Left: {item.texts[0]} Right: {item.texts[1]}"
            for images, label in ((item.images, "True"), (item.images[::-1], "False")):
                rows.append({"sentence": sentence, "images": list(images), "label": label})
    return rows


def test_the_statements_are_what_the_demos_counting_items_say() -> None:
    assert json.loads((EXAMPLE / "statements" / "nlvr2_vlue_test.json").read_text()) == statements()


@pytest.mark.slow
def test_the_example_takes_a_filled_in_task_file_and_shows_its_number(opened: Opened) -> None:
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
        assert mine
        assert service.queue.work_one()
    seen = client.get(sent.json()["at"], headers=head).json()["submission"]
    assert (seen["state"], seen["public"]["values"]) == ("done", {"accuracy": 0.5})  # every sentence is true once
    service.write_records()
    read()
    assert "better than none" in client.get("/benchmarks/demo-statements", headers={"Accept": "text/html"}).text
