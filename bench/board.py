"""How long the board's pages take: 200 models, 10 benchmarks, 8,000 items each, every outcome stored.

    python bench/board.py        # some four minutes

Rows go in by the functions that read run folders, without the folders' JSON, in the number and size that such folders
have. The record says how long a page takes that is made anew (`made`: gathered, rendered, packed), and what readers
wait: one, a hundred at once, and a hundred while files of scores are sent and measured, each of which makes the board
show a new record. The server is `tellapart serve` with one hidden benchmark, in a process of its own; the readers share
the machine with it and with its measuring process.
"""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import httpx
import numpy as np
from board_readers import read
from fastapi.testclient import TestClient
from PIL import Image
from sqlalchemy import insert
from sqlmodel import Session, select

from tellapart.board.app import create_app
from tellapart.board.records import add_benchmark, add_model, rank
from tellapart.board.settings import BoardSettings
from tellapart.board.store import RAW, Benchmark, Entry, Item, Model, Score, Source, Store, Vector, pack
from tellapart.board.submissions.accounts import Database
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item as Pair
from tellapart.metrics.pairs import PAIR_METRICS
from tellapart.records.machine import this_machine
from tellapart.records.result import BenchmarkResult
from tellapart.stats.intervals import wilson

RECORD = Path(__file__).parent / "records" / "board.json"
MODELS, BENCHMARKS, ITEMS = 200, 10, 8_000
NAMES = ("text_score", "image_score", "group_score")
#: Tag -> its values; and the bytes of a record: an entry of `make demo` has 324 numbers and 6.5 kB.
TAGS, RECORD_BYTES = {"type": 10, "source": 30, "scene": 60}, 6_500
PAGES = ("/", "/benchmarks/b0", "/benchmarks/b0/by/type/group_score", "/benchmarks/b0/items/17", "/models/m0", "/ranks")
MIXED = (*PAGES, "/pareto/latency", "/compare", "/?format=json", "/benchmarks/b1?format=csv", "/static/board.css")
REPEATS, READERS, SECONDS = 15, 100, 30.0
FILES = 1_000  # that one user may send in a day

BOARD = f"""
[board]
runs = ["runs"]
[submissions]
state = "state"
requests_a_minute = 100000
[[hidden]]
name = "clocks"
pairs = "pairs"
daily = {FILES}
total = {FILES}
largest_share = 1000.0
"""


def fill(store: Store, folder: Path) -> None:
    """Write the rows of every model on every benchmark."""
    rng = np.random.default_rng(0)
    skills = np.sort(rng.normal(1.5, 0.5, MODELS))[::-1]
    record = BenchmarkResult(title="", fingerprint="", shape=(2, 2), kind="similarity", metrics={}, origin="")
    with store.session() as session:
        source = _source(session, folder)
        models = [
            add_model(session, Model(slug=f"m{k}", name=f"m{k}", label=f"m{k}", kind="model", identity=f"m{k}"))
            for k in range(MODELS)
        ]
        for number in range(BENCHMARKS):
            own = record.model_copy(update={"title": f"Benchmark {number}", "fingerprint": f"{number}"})
            benchmark = add_benchmark(session, f"b{number}", own, [])
            benchmark.n, benchmark.headline, benchmark.items_digest = ITEMS, list(NAMES), "bench"
            session.execute(insert(Item), [{"benchmark_id": benchmark.id, **_item(k)} for k in range(ITEMS)])
            for model, skill in zip(models, skills, strict=True):
                entry = Entry(
                    model_id=model.id or 0,
                    benchmark_id=benchmark.id or 0,
                    source_id=source.id or 0,
                    started="",
                    folder="x",
                    record={"bytes": "x" * RECORD_BYTES},
                )
                session.add(entry)
                session.flush()
                scores = rng.normal(size=(ITEMS, 2, 2)).astype(np.float32) + np.float32(skill) * np.eye(2)
                _numbers(session, entry, scores.astype(np.float32))


def _source(session: Session, folder: Path) -> Source:
    """The file that all rows are said to be from; it is there, so the server keeps them."""
    path = folder.resolve() / "runs" / "results.json"
    path.parent.mkdir()
    path.write_text("{}")
    source = Source(path=str(path), digest=hashlib.sha256(path.read_bytes()).hexdigest(), kind="run")
    session.add(source)
    return source


def _item(k: int) -> dict[str, object]:
    return {
        "position": k,
        "name": f"i{k}",
        "unit": "item",
        "cluster": f"i{k}",
        "gold": "",
        "tags": {tag: f"{tag} {k % count}" for tag, count in TAGS.items()},
        "images": [],
        "texts": ["a", "b"],
    }


def _numbers(session: Session, entry: Entry, scores: np.ndarray) -> None:
    rows = [{"entry_id": entry.id, "metric": RAW, "data": pack(scores), "tied": b""}]
    numbers = []
    for metric in PAIR_METRICS:
        if metric.name not in NAMES:
            continue
        right = metric.per_item(scores)
        rows.append({"entry_id": entry.id, "metric": metric.name, "data": pack(right), "tied": b""})
        interval = wilson(int(right.sum()), ITEMS)
        same = {
            "entry_id": entry.id,
            "benchmark_id": entry.benchmark_id,
            "metric": metric.name,
            "low": interval.low,
            "high": interval.high,
            "chance": metric.chance((2, 2)),
            "ties": 0,
            "deviation": False,
        }
        numbers.append({**same, "tag": "", "value_of": "", "value": float(right.mean()), "n": ITEMS})
        for tag, count in TAGS.items():
            means = [float(right[k::count].mean()) for k in range(count)]
            numbers += [
                {**same, "tag": tag, "value_of": f"{tag} {k}", "value": mean, "n": ITEMS // count}
                for k, mean in enumerate(means)
            ]
            numbers.append({**same, "tag": tag, "value_of": "", "value": float(np.mean(means)), "n": ITEMS})
    session.execute(insert(Vector), rows)
    session.execute(insert(Score), numbers)


def ranked(store: Store) -> float:
    """Seconds that the tiers of a benchmark's three metrics take; what was written is kept."""
    with store.session() as session:
        benchmark = session.exec(select(Benchmark).where(Benchmark.slug == "b0")).one()
        started = time.perf_counter()
        rank(session, benchmark)
        return time.perf_counter() - started


def made_anew(store: Store) -> dict[str, dict[str, float]]:
    """Median milliseconds of a page that is not in memory: gathered, rendered, sent; wall time, and processor time."""
    found = {}
    for path in PAGES:
        times = []
        for _ in range(REPEATS):
            client = TestClient(create_app(BoardSettings(), store))  # an application that has made nothing yet
            client.get("/static/icon.svg")
            gc.collect()  # what making the application left behind is no page's cost
            started = time.perf_counter(), time.process_time()
            assert client.get(path).status_code == 200
            times.append((time.perf_counter() - started[0], time.process_time() - started[1]))
        wall, processor = (round(1000 * statistics.median(each), 1) for each in zip(*times, strict=True))
        found[path] = {"wall": wall, "processor": processor}
    return found


def make_hidden(folder: Path, count: int = ITEMS) -> str:
    """Make a hidden benchmark of so many items, and a user who may send to it; return the user's token."""
    stream = io.BytesIO()
    Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(stream, "PNG")
    items = [
        Pair(id=f"i{k}", images=(f"images/{k}_0.png", f"images/{k}_1.png"), texts=(f"red {k}", f"blue {k}"))
        for k in range(count)
    ]
    images = {reference: stream.getvalue() + reference.encode() for item in items for reference in item.images}
    write_pair_set(folder / "pairs", items, images, {"title": "Clocks", "licence": "CC0"})
    (folder / "board.toml").write_text(BOARD)
    command = ["board", "user", "ada", "--role", "submitter", "--board", str(folder / "board.toml")]
    told = subprocess.run([sys.executable, "-m", "tellapart", *command], check=True, capture_output=True, text=True)
    return told.stdout.split()[-1]


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def start_server(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Serve the board from another process, and return it when it answers."""
    database = f"sqlite:///{folder}/board.sqlite"
    command = ["serve", "--board", str(folder / "board.toml"), "--database", database, "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "tellapart", *command], stdout=subprocess.DEVNULL)
    while server.poll() is None:
        with suppress(httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
            httpx.get(f"http://127.0.0.1:{port}/static/icon.svg", timeout=60)
            return server
        time.sleep(0.1)
    raise SystemExit("the server did not start")


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve the board from another process; give its port."""
    port = free_port()
    server = start_server(folder, port)
    try:
        yield port
    finally:
        server.terminate()
        server.wait()


class Sender(Thread):
    """Sends a file of scores, waits until it is measured, and sends the next, under a few models' names."""

    def __init__(self, port: int, token: str) -> None:
        super().__init__(name="sender")
        self.over, self.sent = Event(), 0
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        with zipfile.ZipFile(io.BytesIO(self._client.get("/hidden/clocks/task.zip").content)) as archive:
            self._ids = np.array([json.loads(row)["id"] for row in archive.read("items.jsonl").decode().splitlines()])

    def run(self) -> None:
        """Send until told to stop."""
        rng = np.random.default_rng()  # the same bytes again would be answered, and not measured
        while not self.over.is_set():
            stream = io.BytesIO()
            np.savez(stream, ids=self._ids, scores=rng.normal(size=(ITEMS, 2, 2)).astype(np.float32))
            params = {"model": f"sent {self.sent % 20}", "file": "scores.npz"}
            self._client.post("/hidden/clocks/submissions", params=params, content=stream.getvalue()).raise_for_status()
            self.sent += 1
            state = "received"
            while state in ("received", "validated", "measuring") and not self.over.is_set():
                time.sleep(0.1)
                state = self._client.get("/submissions").json()["submissions"][0]["state"]


def over_http(folder: Path, token: str) -> dict[str, object]:
    """What readers wait: alone, together, and while files are measured."""
    items = random.Random(0)

    def unread() -> str:
        return f"/benchmarks/b{items.randrange(BENCHMARKS)}/items/{items.randrange(ITEMS)}"

    found: dict[str, object] = {}
    with served(folder) as port:
        if read(port, [(1, MIXED)], 3)["failed"]:
            raise SystemExit("a page is not answered")
        found["one_reader_of_the_first_page"] = read(port, [(1, ["/"])], 5)
        found["readers_of_the_first_page"] = read(port, [(READERS, ["/"])], 10)
        found["readers_of_mixed_pages"] = read(port, [(READERS, MIXED)], 10)
        for name, populations in (
            ("readers_of_the_first_page_while_files_are_measured", [(READERS, ["/"])]),
            ("readers_of_mixed_pages_while_files_are_measured", [(READERS, MIXED)]),
            ("and_five_more_who_read_pages_that_nobody_has_read", [(READERS, MIXED), (5, [unread])]),
        ):
            sender, before = Sender(port, token), _measured(folder)
            sender.start()
            waits = read(port, populations, SECONDS)
            after = _measured(folder)
            sender.over.set()
            sender.join()
            found[name] = {"files_measured_meanwhile": after - before, **waits}
    return found


def _measured(folder: Path) -> int:
    rows = Database(folder / "state" / "submissions.sqlite").all("SELECT id FROM submission WHERE state = 'done'")
    return len(rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with Store(f"sqlite:///{folder}/board.sqlite") as store:
            fill(store, folder)
            size = sum(path.stat().st_size for path in folder.glob("board.sqlite*"))
            found = {
                "command": "python bench/board.py",
                "date": time.strftime("%Y-%m-%d"),
                "machine": this_machine("cpu").model_dump(exclude_none=True),
                "models": MODELS,
                "benchmarks": BENCHMARKS,
                "items_each": ITEMS,
                "database_megabytes": round(size / 1e6),
                "ranking_three_metrics_of_one_benchmark_seconds": round(ranked(store), 2),
                "made_milliseconds": made_anew(store),
            }
        found["waited_milliseconds"] = over_http(folder, make_hidden(folder))
    found["load_at_the_end"] = round(os.getloadavg()[0], 1)
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
