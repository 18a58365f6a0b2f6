"""A board with one hidden benchmark, its users, and files to send to it."""

import asyncio
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from boards import Forker
from browsers import chromium  # noqa: F401
from tellapart.board.submissions import worker
from tellapart.board.submissions.accounts import COOKIE
from tellapart.board.submissions.hidden import HiddenBenchmark, HiddenSettings, SubmissionSettings
from tellapart.board.submissions.prepared import read_truth
from tellapart.board.submissions.routes import add_routes
from tellapart.board.submissions.service import Submissions
from tellapart.data.folder import read_pair_set

DAY = 86_400.0


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now: float = 20_000 * DAY

    def __call__(self) -> float:
        return self.now


class Board:
    """A board in this process: its service, its clock, a client, and what is needed to send scores."""

    def __init__(self, folder: Path, pairs: Path, *, limits: dict[str, Any], settings: dict[str, Any]) -> None:
        self.folder, self.pairs, self.clock = folder, pairs, Clock()
        wanted = {"name": "clocks", "metrics": ("group_score",), "total": 5, "largest_share": 1000.0, **limits}
        self.settings = HiddenSettings(
            submissions=SubmissionSettings(state=folder / "state", **{"spare_bytes": 0, **settings}),
            hidden=(HiddenBenchmark(pairs=pairs, **wanted),),
        )
        self.open()
        self.tokens: dict[str, str] = {}
        for name, role in (("ann", "submitter"), ("bob", "submitter"), ("rita", "reader"), ("root", "admin")):
            self.service.accounts.add(name, role, by="test")
            self.tokens[name] = self.service.accounts.issue(name, days=365, by="test")[1]

    def open(self) -> None:
        self.service = Submissions(self.settings, clock=self.clock)
        app = FastAPI()
        add_routes(app, self.service)
        self.client = TestClient(app, follow_redirects=False)

    @property
    def queue(self):
        return self.service.queue

    def of(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[user]}"}

    def task(self) -> list[dict[str, Any]]:
        """The items as anybody gets them."""
        answer = self.client.get("/hidden/clocks/task.zip", headers=self.of("rita"))
        assert answer.status_code == 200
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            return [json.loads(row) for row in archive.read("items.jsonl").decode().splitlines()]

    def npz(self, values, **more) -> bytes:
        """A file of scores of the published items."""
        stream = io.BytesIO()
        ids = more.pop("ids", None) or [item["id"] for item in self.task()]
        np.savez(stream, ids=np.array(ids), scores=values, **more)
        return stream.getvalue()

    def send(self, data: bytes, *, user: str = "ann", model: str = "mine", file: str = "scores.npz"):
        params = {"model": model, "file": file}
        return self.client.post("/hidden/clocks/submissions", params=params, content=data, headers=self.of(user))

    def form(self, *parts: tuple[str, bytes], boundary: str = "b", kind: str = "") -> tuple[bytes, dict[str, str]]:
        """Return a form of parts that are written by hand, each its head and its content, and ann's headers."""
        cookie = self.service.accounts.sign_in(self.tokens["ann"], hours=1)
        key = ('name="key"', self.service.accounts.form_key(cookie).encode())
        start = b"--b\r\nContent-Disposition: form-data; "
        body = b"".join(start + head.encode() + b"\r\n\r\n" + data + b"\r\n" for head, data in (key, *parts))
        headers = {"Cookie": f"{COOKIE}={cookie}", "Content-Type": kind or f"multipart/form-data; boundary={boundary}"}
        return body + b"--b--\r\n", headers

    def see(self, answer, user: str = "ann") -> dict[str, Any]:
        """Return the state and numbers of a file."""
        assert answer.status_code == 202, answer.text
        return dict(self.client.get(answer.json()["at"], headers=self.of(user)).json()["submission"])

    def measured(self, data: bytes, **how) -> dict[str, Any]:
        answer = self.send(data, **how)
        self.work()
        return self.see(answer, how.get("user", "ann"))

    def work(self) -> None:
        """Measure all files that wait."""
        with self.queue.lock() as mine:
            assert mine
            while self.queue.work_one():
                pass

    def state(self, id_: str) -> str:
        return str(self.service.database.one("SELECT state FROM submission WHERE id = ?", id_)["state"])

    def file(self, limits: str = "total = 5\nlargest_share = 1000.0\n", server: str = "spare_bytes = 0\n") -> Path:
        """Write this board's file, for commands."""
        path = self.folder / "board.toml"
        path.write_text(
            f'[submissions]\nstate = "state"\n{server}[[hidden]]\nname = "clocks"\npairs = "{self.pairs}"\n'
            f'metrics = ["group_score"]\n{limits}'
        )
        return path

    def post(self, path: str, headers: dict[str, str], receive) -> tuple[int, bytes]:
        """Send a request whose body comes as `receive` gives it; return the answer's status and its last part."""
        said: dict[str, Any] = {}

        async def send(message: dict[str, Any]) -> None:
            said.update(message)

        where, _, query = path.partition("?")
        scope = {"type": "http", "method": "POST", "path": where, "query_string": query.encode(), "root_path": ""}
        scope |= {"client": ("test", 1), "server": ("test", 80), "scheme": "http", "http_version": "1.1"}
        scope["headers"] = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
        asyncio.run(self.client.app(scope, receive, send))
        return int(said["status"]), said["body"]

    def right(self, share: float = 1.0, *, private: float | None = None) -> NDArray[np.float64]:
        """Scores of the published items of which such a share of either split is right; they use the truth."""
        truth = read_truth(self.service.prepared["clocks"].truth)
        own = np.broadcast_to(np.eye(*truth.records[0].shape), (len(truth.records), *truth.records[0].shape)).copy()
        for split, right in ((True, share), (False, share if private is None else private)):
            rows = np.flatnonzero(np.array(truth.public) == split)
            own[rows[round(right * len(rows)) :]] *= -1
        rows = np.arange(len(own))[:, None, None]
        return own[rows, np.array(truth.images)[:, :, None], np.array(truth.texts)[:, None, :]]


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    forker = Forker()
    yield forker
    forker.close()


@pytest.fixture(autouse=True)
def quick_workers(request, monkeypatch, forker) -> None:
    """Files are read and measured in forks, unless a test's file is about these processes."""
    if request.path.stem not in {"test_confined", "test_timing"}:
        monkeypatch.setattr(worker, "subprocess", forker)


@pytest.fixture
def board(tmp_path, made_set) -> Iterator[Callable[..., Board]]:
    """Make a board of 24 items; `limits` are the benchmark's, `settings` the server's, the others the set's."""
    made: list[Board] = []

    def make(n: int = 24, *, limits: Any = None, settings: Any = None, **how: Any) -> Board:
        pairs = made_set("clocks", n=n, **how)
        assert len(read_pair_set(pairs)) == n
        made.append(Board(tmp_path, pairs, limits=limits or {}, settings=settings or {}))
        return made[-1]

    yield make
    for one in made:
        one.client.close()
        one.service.stop()


@pytest.fixture
def made(board) -> Board:
    """A board of four items, unless a test file makes another."""
    return board(4)
