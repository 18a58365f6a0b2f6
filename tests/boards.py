"""A board for tests: run folders, the board read into its tables, a client of its pages, and quick workers."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import Benchmark, Board, BoardSettings, Entry, ItemList, Model, Tables
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.evaluation.verified import read_result
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Sample, Value
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.tasks.pairs import ListedPairs, measure_pairs


def open_board(
    shown: Path | BoardSettings, report: Callable[[str], Any] = pytest.fail, submissions=None
) -> tuple[TestClient, Board]:
    """Open the board of a folder of runs, or of settings, with hidden benchmarks or without."""
    settings = shown if isinstance(shown, BoardSettings) else BoardSettings(runs=(shown,))
    board = Board(settings, submissions.results) if submissions else Board(settings)
    board.read_in(report)
    return TestClient(create_app(board, submissions)), board


#: The name of a model on the board of `tests/board/conftest.py`.
HOSTILE = """<script>alert(1)</script>"'&{{7*7}}"""
#: Addresses of that board.
PAGES = (
    "/", "/ranks", "/pareto/latency", "/pareto/parameters", "/pareto/training_images", "/pareto/latency/shapes",
    "/pareto/parameters/shapes+other", "/compare", "/compare/good/poor", "/compare/good+near+poor", "/models/good",
    "/models/random", "/benchmarks/shapes", "/benchmarks/shapes/ranks", "/benchmarks/shapes/by/type/group_score",
    "/benchmarks/shapes/map/type/group_score", "/benchmarks/shapes/items/pages/1", "/benchmarks/shapes/items/0",
)  # fmt: skip


def tables_of(metric: str, columns: Sequence[np.ndarray], items: ItemList | None = None) -> Tables:
    """Return a board's tables of one benchmark, `b`: a model `m0`, `m1`... for each column of items' outcomes."""
    tables = Tables(BoardSettings())
    ranked = {"metric": metric, "headline": (metric,), "items": items or ItemList(), "n": len(columns[0])}
    tables.benchmarks["b"] = Benchmark(slug="b", name="b", title="B", set_title="B", task="", fingerprint="f", **ranked)
    for slug, column in zip(map("m{}".format, range(len(columns))), columns, strict=True):
        number = Value(value=float(column.mean()), method="", n=len(column), clusters=len(column), average="")
        record = BenchmarkResult(title="B", fingerprint="f", metrics={metric: number}, origin="")
        tables.models[slug] = Model(slug=slug, label=slug, kind="model", name=slug, identity=slug)
        values = {metric: np.float32(column)} if items else {}
        tables.entries["b", slug] = Entry("b", record, ranked["items"], slug, "b", values=values)
    return tables


def labels(board: Board) -> list[str]:
    return sorted(model.label for model in board.tables.models.values())


def until(holds: Callable[[], bool], *, seconds: float = 60, every: float = 0.01) -> None:
    """Wait until something holds."""
    end = monotonic() + seconds
    while not holds():
        assert monotonic() < end, "waited in vain"
        sleep(every)


def files_of(page: Path) -> list[Path]:
    """Return the files to which a page of a site leads; none of its addresses leads elsewhere."""
    addresses = [address for address in addresses_of(page) if not address.startswith("#")]
    targets = [(page.parent / unquote(address)).resolve() for address in addresses]
    assert not [at for at, file in zip(addresses, targets, strict=True) if not file.is_file()], page
    return targets


def addresses_of(page: Path) -> list[str]:
    """Return the addresses that a page of a site names."""
    found: list[str] = []
    parser, names = HTMLParser(), {"href", "src", "action", "hx-get"}
    parser.handle_starttag = lambda _, attrs: found.extend(value for name, value in attrs if name in names and value)
    parser.feed(page.read_text(encoding="utf-8"))
    return found


#: A process that has imported what workers need, and forks one for each message: its folder, standard input and output.
_FORKER = """
import os, signal, socket, sys
import tellapart.board.submissions.prepared
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
asked = socket.socket(fileno=0)
asked.send(b"ready")
while (message := socket.recv_fds(asked, 4096, 2))[0]:
    folder, program = message[0].decode().split(chr(0))
    if child := os.fork():
        asked.send(str(child).encode())
        for descriptor in message[1]:
            os.close(descriptor)
        continue
    try:
        os.setsid()
        for number, descriptor in enumerate((*message[1], os.open(os.devnull, os.O_WRONLY))):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout = open(0), open(1, "w")
        os.chdir(folder)
        exec(program)
        sys.stdout.flush()
    finally:
        os._exit(0)
"""


class Forker:
    """In place of the module `subprocess`: a worker's program in a fork, since its imports take longer than its job."""

    PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

    def __init__(self) -> None:
        self.asked, theirs = socket.socketpair()
        # Each thread of a library takes address space, which workers have little of.
        single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-c", _FORKER], stdin=theirs, env=os.environ | single)
        assert self.asked.recv(20) == b"ready"
        self.lock = Lock()

    def Popen(self, arguments: Sequence[str], *, cwd: Path, **_: Any) -> Any:  # noqa: N802
        assert arguments[1] == "-c" and "tellapart.board.submissions" in arguments[2]
        (child_in, writing), (reading, child_out) = os.pipe(), os.pipe()
        with self.lock:
            socket.send_fds(self.asked, [f"{cwd}\0{arguments[2]}".encode()], [child_in, child_out])
            pid = int(self.asked.recv(20))
        for descriptor in (child_in, child_out):
            os.close(descriptor)

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        streams = {"stdin": os.fdopen(writing, "wb"), "stdout": os.fdopen(reading, "rb")}
        worker = SimpleNamespace(pid=pid, returncode=None, kill=kill, **streams)
        worker.wait = lambda: setattr(worker, "returncode", len(worker.stdout.read()))
        return worker

    def close(self) -> None:
        self.asked.close()
        self.process.wait()


@contextmanager
def serve(app, **options) -> Iterator[str]:
    """Serve an application for real while the block lasts, with uvicorn's options; its address."""
    uvicorn = pytest.importorskip("uvicorn", reason='the board needs: pip install "tellapart[board]"')
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        quiet = {"log_level": "error", "ws": "none", "lifespan": "off"}
        server = uvicorn.Server(uvicorn.Config(app, **quiet | options))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def write_run(
    folder: Path, model: str, *, skill: float, benchmark: str = "shapes", seed: int = 0, n: int = 60,
    fingerprint: str = "f" * 64, clusters: int | None = None, started: str = "2026-01-01T00:00:00+00:00",
) -> Path:  # fmt: skip
    """Write the run folder of a model whose true pairs are higher by `skill` standard deviations."""
    values = np.random.default_rng(seed).normal(size=(n, 2, 2)) + skill * np.eye(2)
    ids = tuple(f"{benchmark}-{k:03}" for k in range(n))
    names = tuple(f"c{k % clusters}" if clusters else ids[k] for k in range(n))
    tags = tuple({"type": ("colour", "place")[k % 2]} for k in range(n))
    scores = Scores(ids, np.float32(values), "similarity")
    (units,) = measure_pairs(ListedPairs(Outline(ids, (2, 2), names, tags)), Scored(scores))
    measured = tabulate_units([units])
    facts = {"title": f"Title of {benchmark}", "fingerprint": fingerprint, "shape": (2, 2), "kind": "similarity"}
    numbers = {name: getattr(measured, name) for name in ("metrics", "by", "macro", "curves")}
    record = BenchmarkResult(**facts, **numbers, origin="made")
    run = RunRecord(started=started, seed=0, command="tellapart run", versions={"numpy": "2"})
    about = ModelRecord(name=model, fingerprint=f"weights of {model}", kind="similarity")
    result = Result(run=run, model=about, benchmarks={benchmark: record})
    samples = [
        Sample(
            id=ids[k], cluster=names[k], tags=tags[k], images=(f"{k}_0.png", f"{k}_1.png"),
            texts=(f"a red cube on {k}", f"a blue cube on {k}"),
            scores=tuple(tuple(map(float, row)) for row in np.float32(values[k])),
            outcomes={metric.name: float(metric.strict[k]) for metric in units.values},
            tied=tuple(metric.name for metric in units.values if metric.ties[k]),
        )
        for k in range(n)
    ]  # fmt: skip
    write_samples(folder, benchmark, samples)
    write_result(folder, result)
    return folder


def change_run(folder: Path, number: Mapping[str, Any] | None = None, **facts: Any) -> None:
    """Write a run again with other facts of its benchmark `shapes`, or of its group score."""
    result = read_result(folder)
    shapes = result.benchmarks["shapes"]
    if number:
        score = shapes.metrics["group_score"].model_copy(update=number)
        facts["metrics"] = {**shapes.metrics, "group_score": score}
    write_result(folder, result.model_copy(update={"benchmarks": {"shapes": shapes.model_copy(update=facts)}}))
