"""How long the board's pages take: 30 models, 5 benchmarks, 1,000 items each (some four minutes).

`made` is a page made anew; `waited` is what readers of `tellapart serve` wait: one, a hundred, and a hundred while
files are measured. The readers share the machine with the server and its measuring process.
"""

import asyncio
import gc
import io
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from threading import Event, Thread

import httpx
import numpy as np
from fastapi.testclient import TestClient
from PIL import Image
from psutil import Process
from record import circumstances, run_bench, run_python, time_call

from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings, rank
from tellapart.board.submissions.accounts import Database
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item as Pair
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.evaluation.evaluate import tabulate_units, yield_samples
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.tasks.pairs import ListedPairs, measure_pairs

#: A page's address, or something that gives a new one at each call.
Address = str | Callable[[], str]


def read(
    port: int, populations: Sequence[tuple[int, Sequence[Address]]], seconds: float, pause: float | None = None
) -> dict[str, object]:
    """Let several populations of readers read at once, and return what each address's readers waited."""
    waits: dict[str, list[float]] = defaultdict(list)
    failed: dict[str, int] = defaultdict(int)
    end, cut = time.perf_counter() + seconds, 0

    async def follow(addresses: Iterator[Address]) -> None:
        """Read one page after another; with a pause also across connections that the server cuts."""
        nonlocal cut
        while time.perf_counter() < end:
            try:
                await follow_connection(addresses)
            except (OSError, asyncio.IncompleteReadError):
                if pause is None:
                    raise
                cut += 1
                await asyncio.sleep(0.2)

    async def follow_connection(addresses: Iterator[Address]) -> None:
        receiver, sender = await asyncio.open_connection("127.0.0.1", port, limit=1 << 21)
        while time.perf_counter() < end:
            address = next(addresses)
            path, kind = (address, address) if isinstance(address, str) else (address(), "pages not read before")
            started = time.perf_counter()
            sender.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept-Encoding: gzip\r\n\r\n".encode())
            head = (await receiver.readuntil(b"\r\n\r\n")).lower()
            await receiver.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r")[0]))
            waits[kind].append(1000 * (time.perf_counter() - started))
            failed[kind] += not head.startswith(b"http/1.1 200")
            if pause is not None:
                await asyncio.sleep(pause)
        sender.close()

    async def read_all() -> None:
        places = [(addresses, k) for count, addresses in populations for k in range(count)]
        await asyncio.gather(*(follow(islice(cycle(addresses), k % len(addresses), None)) for addresses, k in places))

    asyncio.run(read_all())
    every = [wait for waited in waits.values() for wait in waited]
    return {
        "readers": sum(count for count, _ in populations),
        "seconds": seconds,
        **({} if pause is None else {"pause": pause, "connections_cut": cut}),
        "answers_a_second": round(len(every) / seconds),
        **_told(every, sum(failed.values())),
        "of_each": {kind: _told(waited, failed[kind]) for kind, waited in sorted(waits.items())},
    }


def _told(waits: list[float], failed: int) -> dict[str, float]:
    ordered = sorted(waits)
    return {
        "answers": len(ordered),
        "failed": failed,
        "median": round(statistics.median(ordered), 1),
        "p95": round(ordered[int(0.95 * len(ordered))], 1),
        "slowest": round(ordered[-1], 1),
    }


MODELS, BENCHMARKS, ITEMS = 30, 5, 1_000
NAMES = ("text_score", "image_score", "group_score")
#: Tag -> its values.
TAGS = {"type": 10, "source": 20}
IDS = tuple(f"i{k}" for k in range(ITEMS))
TAGGED = tuple({tag: f"{tag} {k % count}" for tag, count in TAGS.items()} for k in range(ITEMS))
PAGES = ("/", "/benchmarks/b0", "/benchmarks/b0/by/type/group_score", "/benchmarks/b0/items/17", "/models/m0", "/ranks")
MIXED = (*PAGES, "/pareto/latency", "/compare", "/?format=json", "/benchmarks/b1?format=csv", "/static/board.css")
REPEATS, READERS, SECONDS = 15, 100, 30.0


def fill(folder: Path) -> None:
    """Write the run folders of every model, each with all benchmarks."""
    rng = np.random.default_rng(0)
    machine = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, versions={}, command="python bench/board.py")
    for model, skill in enumerate(np.sort(rng.normal(1.5, 0.5, MODELS))[::-1]):
        path, records = folder / "runs" / f"m{model}", {}
        for number in range(BENCHMARKS):
            values = (rng.normal(size=(ITEMS, 2, 2)) + skill * np.eye(2)).astype(np.float32)
            outline = Outline(IDS, (2, 2), IDS, TAGGED)
            scores = Scores(IDS, values, "similarity")
            (units,) = measure_pairs(ListedPairs(outline), Scored(scores))
            table = tabulate_units([units])
            records[f"b{number}"] = BenchmarkResult(
                title=f"Benchmark {number}",
                fingerprint=f"{number}",
                shape=(2, 2),
                kind="similarity",
                origin="made",
                samples=write_samples(path, f"b{number}", yield_samples(units)),
                **{name: getattr(table, name) for name in ("metrics", "by", "macro", "curves")},
            )
        write_result(path, Result(run=machine, model=ModelRecord(name=f"m{model}"), benchmarks=records))


def read_anew(folder: Path) -> tuple[Board, dict[str, float]]:
    """Read all runs, as a start does; return the board, its seconds and its memory."""
    before = Process().memory_info().rss
    board = Board(BoardSettings(runs=(folder / "runs",)))
    seconds = time_call(lambda: (board.read_in(print), gc.collect()))[1]
    megabytes = round((Process().memory_info().rss - before) / 1e6)
    return board, {"seconds": round(seconds, 1), "megabytes": megabytes}


def ranked(board: Board) -> float:
    """Seconds that the tiers of a benchmark's three metrics take."""
    tables = board.tables
    benchmark, entries = tables.benchmarks["b0"], partial(tables.entries_of, benchmark="b0")
    return time_call(lambda: [rank(tables, benchmark, metric, entries()) for metric in NAMES])[1]


def made_anew(board: Board) -> dict[str, dict[str, float]]:
    """Median milliseconds of a page that is not in memory: gathered, rendered, sent; wall time, and processor time."""
    found = {}
    for path in PAGES:
        times = []
        for _ in range(REPEATS):
            client = TestClient(create_app(board))  # an application that has made nothing yet
            client.get("/static/icon.svg")
            gc.collect()  # what making the application left behind is no page's cost
            answer, *taken = time_call(partial(client.get, path))
            assert answer.status_code == 200
            times.append(taken)
        wall, processor = (round(1000 * statistics.median(each), 1) for each in zip(*times, strict=True))
        found[path] = {"wall": wall, "processor": processor}
    return found


def make_hidden(folder: Path, size: int = ITEMS) -> str:
    """Make a hidden benchmark of so many items, and a user who may send to it; return the user's token."""
    stream = io.BytesIO()
    Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(stream, "PNG")
    items = [
        Pair(id=f"i{k}", images=(f"images/{k}_0.png", f"images/{k}_1.png"), texts=(f"red {k}", f"blue {k}"))
        for k in range(size)
    ]
    images = {reference: stream.getvalue() + reference.encode() for item in items for reference in item.images}
    write_pair_set(folder / "pairs", items, images, {"title": "Clocks", "licence": "CC0"})
    shutil.copy(Path(__file__).with_name("board.toml"), folder)
    user = ["-m", "tellapart", "board", "user", "ada", "--role", "submitter", "--board", folder / "board.toml"]
    return run_python(*user)[1].split()[-1]


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def start_server(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Serve the board from another process, and return it when it answers."""
    command = ["serve", "--board", str(folder / "board.toml"), "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "tellapart", *command], stdout=subprocess.DEVNULL)
    while server.poll() is None:
        with suppress(httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
            httpx.get(f"http://127.0.0.1:{port}/static/icon.svg", timeout=60)
            return server
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def open_client(port: int, token: str) -> tuple[httpx.Client, np.ndarray]:
    """Return a client of a board's user, and the ids of the hidden benchmark's items."""
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, timeout=90)
    with zipfile.ZipFile(io.BytesIO(client.get("/hidden/clocks/task.zip").content)) as archive:
        return client, np.array([json.loads(row)["id"] for row in archive.read("items.jsonl").decode().splitlines()])


def send_scores(client: httpx.Client, ids: np.ndarray, model: str, rng: np.random.Generator) -> httpx.Response:
    """Send drawn scores under a model's name."""
    stream = io.BytesIO()
    np.savez(stream, ids=ids, scores=rng.normal(size=(len(ids), 2, 2)).astype(np.float32))
    params = {"model": model, "file": "scores.npz"}
    return client.post("/hidden/clocks/submissions", params=params, content=stream.getvalue()).raise_for_status()


def keep_sending(port: int, token: str, over: Event) -> None:
    """Send a file of scores, wait until it is measured, and send the next, under a few models' names."""
    client, ids = open_client(port, token)
    rng = np.random.default_rng()  # the same bytes again would be answered, and not measured
    for sent in count():
        if over.is_set():
            return
        send_scores(client, ids, f"sent {sent % 20}", rng)
        state = "received"
        while state in ("received", "validated", "measuring") and not over.is_set():
            time.sleep(0.1)
            state = client.get("/submissions").json()["submissions"][0]["state"]


def over_http(folder: Path, token: str) -> dict[str, object]:
    """What readers wait: alone, together, and while files are measured."""
    items = random.Random(0)

    def unread() -> str:
        return f"/benchmarks/b{items.randrange(BENCHMARKS)}/items/{items.randrange(ITEMS)}"

    def measured() -> int:
        rows = Database(folder / "state" / "submissions.sqlite").all("SELECT id FROM submission WHERE state = 'done'")
        return len(rows)

    found: dict[str, object] = {}
    port = free_port()
    server = start_server(folder, port)
    try:
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
            over, before = Event(), measured()
            sender = Thread(target=keep_sending, args=(port, token, over), name="sender")
            sender.start()
            waits = read(port, populations, SECONDS)
            after = measured()
            over.set()
            sender.join()
            found[name] = {"files_measured_meanwhile": after - before, **waits}
    finally:
        server.terminate()
        server.wait()
    return found


def measure() -> dict[str, object]:
    """Measure pages in this process, then over HTTP."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        fill(folder)
        board, reading = read_anew(folder)
        found = {
            **circumstances(),
            "models": MODELS,
            "benchmarks": BENCHMARKS,
            "items_each": ITEMS,
            "reading_at_the_start": reading,
            "ranking_three_metrics_of_one_benchmark_seconds": round(ranked(board), 2),
            "made_milliseconds": made_anew(board),
        }
        del board
        found["waited_milliseconds"] = over_http(folder, make_hidden(folder))
    return found | {"load_at_the_end": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    run_bench(measure, "board")
