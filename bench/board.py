"""How long the board's leaderboards take: 200 models, 10 benchmarks, 8,000 items each, every outcome stored.

Rows go in by the functions that read run folders, without the folders' JSON. The record says how long a page takes that is
made anew (`made`), one that was made before (`again`), and each of 100 readers at once, over HTTP from another process.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from sqlalchemy import insert

from tellapart.board.app import create_app
from tellapart.board.entries import add_benchmark, add_model
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.board.tables import RAW, Entry, Item, Model, Score, Source, Vector
from tellapart.board.tiering import rank
from tellapart.board.vectors import packed
from tellapart.machine import this_machine
from tellapart.metrics.pairs import PAIR_METRICS
from tellapart.result import BenchmarkResult
from tellapart.stats.intervals import wilson

RECORD = Path(__file__).parent / "records" / "board.json"
MODELS, BENCHMARKS, ITEMS = 200, 10, 8_000
NAMES = ("text_score", "image_score", "group_score")
PAGES = ("/", "/benchmarks/b0", "/benchmarks/b0/items/17", "/models/m0", "/ranks")
REPEATS, READERS, EACH = 15, 100, 5


def fill(store: Store) -> float:
    """Write the rows, and return how many seconds ranking one benchmark took."""
    rng = np.random.default_rng(0)
    skills = np.sort(rng.normal(1.5, 0.5, MODELS))[::-1]
    record = BenchmarkResult(title="", fingerprint="", shape=(2, 2), kind="similarity", metrics={}, origin="")
    with store.session() as session:
        source = Source(path="bench", digest="", kind="run")
        session.add(source)
        models = [
            add_model(session, Model(slug=f"m{k}", name=f"m{k}", label=f"m{k}", kind="model", identity=f"m{k}"))
            for k in range(MODELS)
        ]
        for number in range(BENCHMARKS):
            own = record.model_copy(update={"title": f"Benchmark {number}", "fingerprint": f"{number}"})
            benchmark = add_benchmark(session, f"b{number}", own, [])
            benchmark.n, benchmark.headline, benchmark.items_digest = ITEMS, list(NAMES), "bench"
            items = [{"benchmark_id": benchmark.id, **_item(k)} for k in range(ITEMS)]
            session.execute(insert(Item), items)
            for model, skill in zip(models, skills, strict=True):
                entry = Entry(
                    model_id=model.id or 0,
                    benchmark_id=benchmark.id or 0,
                    source_id=source.id or 0,
                    started="",
                    folder="x",
                )
                session.add(entry)
                session.flush()
                _numbers(
                    session, entry, rng.normal(size=(ITEMS, 2, 2)).astype(np.float32) + np.float32(skill) * np.eye(2)
                )
        started = time.perf_counter()
        first = benchmark.model_copy(update={"headline": ["group_score"]})
        rank(session, first)
        return time.perf_counter() - started


def _item(k: int) -> dict[str, object]:
    return {
        "position": k,
        "name": f"i{k}",
        "unit": "item",
        "cluster": f"i{k}",
        "gold": "",
        "tags": {},
        "images": [],
        "texts": ["a", "b"],
    }


def _numbers(session, entry: Entry, scores) -> None:
    scores = scores.astype(np.float32)
    rows = [{"entry_id": entry.id, "metric": RAW, "data": packed(scores), "tied": b""}]
    numbers = []
    for metric in PAIR_METRICS:
        if metric.name in NAMES:
            right = metric.per_item(scores)
            rows.append({"entry_id": entry.id, "metric": metric.name, "data": packed(right), "tied": b""})
            interval = wilson(int(right.sum()), ITEMS)
            numbers.append(
                {
                    "entry_id": entry.id,
                    "benchmark_id": entry.benchmark_id,
                    "metric": metric.name,
                    "value": float(right.mean()),
                    "low": interval.low,
                    "high": interval.high,
                    "chance": metric.chance((2, 2)),
                    "n": ITEMS,
                    "tag": "",
                    "value_of": "",
                    "ties": 0,
                    "deviation": False,
                }
            )
    session.execute(insert(Vector), rows)
    session.execute(insert(Score), numbers)


def made_anew(store: Store) -> dict[str, dict[str, float]]:
    """Median milliseconds of a page that is not in memory: gathered, rendered, sent; wall time, and processor time."""
    from fastapi.testclient import TestClient

    found = {}
    for path in PAGES:
        times = []
        for _ in range(REPEATS):
            client = TestClient(create_app(BoardSettings(), store))  # an application that has made nothing yet
            client.get("/static/icon.svg")
            started = time.perf_counter(), time.process_time()
            assert client.get(path).status_code == 200
            times.append((time.perf_counter() - started[0], time.process_time() - started[1]))
        wall, processor = (round(1000 * statistics.median(each), 1) for each in zip(*times, strict=True))
        found[path] = {"wall": wall, "processor": processor}
    return found


async def read_together(url: str) -> dict[str, dict[str, float]]:
    """Milliseconds of one reader, and of many at once, over HTTP."""
    found = {}
    limits = httpx.Limits(max_connections=READERS)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:

        async def one(path: str) -> float:
            started = time.perf_counter()
            (await client.get(path)).raise_for_status()
            return 1000 * (time.perf_counter() - started)

        for path in PAGES[:2]:
            await one(path)
            alone = [await one(path) for _ in range(50)]
            many = await asyncio.gather(*(one(path) for _ in range(READERS * EACH)))
            found[path] = {
                "one_reader_median": round(statistics.median(alone), 2),
                "readers": READERS,
                "median": round(statistics.median(many), 1),
                "slowest": round(max(many), 1),
            }
    return found


SERVE = """
import sys, uvicorn
from tellapart.board.app import create_app
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
uvicorn.run(create_app(BoardSettings(), Store(sys.argv[1])), port=int(sys.argv[2]), log_level="error")
"""


def over_http(url: str) -> dict[str, dict[str, float]]:
    """Serve the store from another process, and read from it."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    here = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([sys.executable, "-c", SERVE, url, str(port)])
    try:
        while server.poll() is None:
            try:
                httpx.get(f"{here}/static/icon.svg")
                return asyncio.run(read_together(here))
            except httpx.ConnectError:
                time.sleep(0.1)
        raise SystemExit("the server did not start")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/board.sqlite"
        with Store(url) as store:
            ranking = fill(store)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
            found = {
                "command": "python bench/board.py",
                "date": time.strftime("%Y-%m-%d"),
                "machine": this_machine("cpu").model_dump(exclude_none=True),
                "load_at_the_end": round(os.getloadavg()[0], 1),
                "models": MODELS,
                "benchmarks": BENCHMARKS,
                "items_each": ITEMS,
                "database_megabytes": round(size / 1e6),
                "ranking_one_metric_of_one_benchmark_seconds": round(ranking, 1),
                "made_milliseconds": made_anew(store),
            }
        found["again_milliseconds"] = over_http(url)
    found["load_at_the_end"] = round(os.getloadavg()[0], 1)
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
