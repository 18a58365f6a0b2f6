"""A board that hides one task, and predictions made from its labels."""

import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tiny_tasks import CASES, Row, hidden_task, lines, made, picture

from scripts import install
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings
from tellapart.board.submissions.hidden import HiddenSettings, SubmissionSettings
from tellapart.board.submissions.prepared import HiddenRows, read_truth
from tellapart.board.submissions.service import Submissions

#: A file, or predictions by their ids.
Sent = Mapping[str, Any] | bytes
INSTALLED = '''"""Benchmarks of forced choice and of questions with two answers that a group has written for itself."""
import json
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import first_file
from tellapart.data.task_records import BinaryQuestionSet, ChoiceSet, Record

FACTS = {"title": "Tiny", "items": 48, "source": "us", "licence": "CC0", "citation": "none", "images": "ours"}

def one_file(name, file, read, **facts):
    return Benchmark(name=name, files=(file,), load=lambda place: read(first_file(place, name, file)), **facts)


TINY = one_file(
    "tiny-choice", "choices.json",
    lambda path: ChoiceSet("tiny", tuple(
        Record(id_, (image,), tuple(texts), tags={"kind": id_}) for id_, image, *texts in json.loads(path.read_text())
    )),
    task="choice", **FACTS,
)
ASKED = one_file(
    "tiny-yes-no", "asked.json",
    lambda path: BinaryQuestionSet("tiny", tuple(
        Record(id_, tuple(images), (question,), *rest, tags={"kind": f"tagged {rest[0]}"})
        for id_, images, question, *rest in json.loads(path.read_text())
    )),
    task="yes-no", **FACTS,
)
'''


@pytest.fixture(autouse=True)
def tiny_choice(tmp_path, monkeypatch) -> None:
    """Install benchmarks of a group's own, as another package would."""
    points = "[tellapart.benchmarks]\ntiny-choice = tiny_choice:TINY\ntiny-yes-no = tiny_choice:ASKED\n"
    install(tmp_path / "site", "tiny_choice", points, INSTALLED)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "tiny_choice", raising=False)


class Hosted:
    """A board with one hidden task, and predictions made from its labels."""

    def __init__(self, task: str, folder: Path, **limits) -> None:
        self.case, self.folder, self.place = CASES[task], folder, made(task, folder / "data")
        self.records = find_benchmark(self.case.benchmark, self.place).records()
        self.settings = HiddenSettings(
            submissions=SubmissionSettings(state=folder / "state", spare_bytes=0),
            hidden=(hidden_task(task, self.place, **{"total": 9, "daily": 9, **limits}),),
        )
        self.service = Submissions(self.settings)
        self.shown = Board(BoardSettings(title="Ours"), self.service.results)
        self.client = TestClient(create_app(self.shown, self.service), follow_redirects=False)
        self.service.accounts.add("ann", "submitter", by="test")
        self.token = self.service.accounts.issue("ann", days=1, by="test")[1]

    def close(self) -> None:
        self.client.close()
        self.service.stop()

    @property
    def head(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def truth(self) -> HiddenRows:
        found = read_truth(self.service.prepared["mine"].truth)
        assert found.task
        return found

    def archive(self) -> zipfile.ZipFile:
        answer = self.client.get("/hidden/mine/task.zip", headers=self.head)
        assert answer.status_code == 200
        return zipfile.ZipFile(io.BytesIO(answer.content))

    def known(self) -> list[tuple[Row, Any]]:
        """Published rows with the benchmark's own records, found by texts and by the looks of images."""
        with self.archive() as archive:
            rows = [json.loads(line) for line in archive.read("items.jsonl").decode().splitlines()]
            shown = {name: picture(archive.read(name)) for name in archive.namelist() if name.startswith("images/")}
        root = self.place.images
        own = {path.relative_to(root).as_posix(): picture(path.read_bytes()) for path in root.rglob("*.*")}
        far = {name: {path: float(np.abs(own[path] - pixels).mean()) for path in own} for name, pixels in shown.items()}
        looks, found = {name: min(own, key=far[name].__getitem__) for name in shown}, []
        for row in rows:
            seen = {key: looks[value] for key, value in row.items() if value in looks}
            (record,) = [record for record in self.records.rows if self.case.find(record, seen, row)]
            found.append((row, record))
        return found

    def send(self, predictions: Sent, *, model: str = "mine", file: str = "p.jsonl") -> dict[str, Any]:
        """Send a file, let the worker's own process measure it, and see what became of it."""
        data = predictions if isinstance(predictions, bytes) else lines(predictions)
        params = {"model": model, "file": file}
        answer = self.client.post("/hidden/mine/submissions", params=params, content=data, headers=self.head)
        assert answer.status_code == 202, answer.text
        with self.service.queue.lock() as mine:
            assert mine
            while self.service.queue.work_one():
                pass
        return self.see(answer.json()["at"])

    def see(self, at: str) -> dict[str, Any]:
        return dict(self.client.get(at, headers=self.head).json()["submission"])


@pytest.fixture
def hosted(tmp_path) -> Iterator[Callable[..., Hosted]]:
    boards: list[Hosted] = []

    def host(task: str, **limits) -> Hosted:
        boards.append(Hosted(task, tmp_path, **limits))
        return boards[-1]

    yield host
    for board in boards:
        board.close()
