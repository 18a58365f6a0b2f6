"""The watch never falls asleep: whatever a look raises, the next one tries again, and readers cannot disturb it."""

import ctypes
import signal
import threading
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from boards import labels, open_board, until, write_run
from scripts import run_python
from tellapart.board import records
from tellapart.board.app import create_app
from tellapart.board.records import Board, BoardSettings, _shorten_problem, signature, watch


@pytest.mark.few(2)
@pytest.mark.parametrize("error", [OSError("a disk"), KeyError("x"), RecursionError(), MemoryError(), SystemExit(3)])
@pytest.mark.parametrize("taken", [True, False])
def test_whatever_a_look_raises_the_next_tries_again(tmp_path, monkeypatch, error, taken):
    """Also where nobody takes the report."""
    board, said, failures = Board(BoardSettings(runs=(tmp_path,))), [], [error, error]
    look = board.read_in

    def fail(*arguments) -> int:
        if failures:
            raise failures.pop()
        return look(*arguments)

    def report(line: str) -> None:
        said.append(line)
        if not taken:
            raise BrokenPipeError

    monkeypatch.setattr(board, "read_in", fail)
    with watch(board, report, seconds=0.02):
        write_run(tmp_path / "a", "a", skill=1.0)
        until(lambda: labels(board) == ["a"])
    assert len(said) == 2 and all("the board could not be brought up to date" in line for line in said)


@pytest.mark.slow
def test_readers_cannot_undo_what_the_watch_reads_in(tmp_path):
    board, said, over = Board(BoardSettings(runs=(tmp_path,))), [], threading.Event()
    app = TestClient(create_app(board))

    def read() -> None:
        while not over.is_set():
            assert app.get("/").status_code == 200

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    try:
        with watch(board, said.append, seconds=0.02):
            for name in "abc":
                write_run(tmp_path / name, name, skill=1.0, seed=ord(name))
            until(lambda: labels(board) == ["a", "b", "c"])
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert ({row["title"] for row in app.get("/?format=json").json()["rows"]}, said) == ({"a", "b", "c"}, [])


def test_one_bad_run_hides_no_other_and_a_reason_holds_no_letter_that_cannot_be_shown(tmp_path):
    write_run(tmp_path / "a", "a", skill=1.0)
    bad = write_run(tmp_path / "b", "b", skill=1.0)
    (bad / "results.json").write_text("{" * 100_000)
    said: list[str] = []
    assert labels(open_board(tmp_path, said.append)[1]) == ["a"]
    assert len(said) == 1 and str(bad / "results.json") in said[0] and len(said[0]) < 1000
    path = Path("/srv/runs/a/results.json")
    said = _shorten_problem(f"{path}: 'x\0\udcff' in /home/ann/.cache/y.json", path)
    assert said == r"results.json: 'x\x00\udcff' in …/y.json"


def test_a_bad_run_is_shown_with_its_reason_until_it_is_mended(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs / "a", "a", skill=1.0)
    bad = write_run(runs / "deep" / "b", "b", skill=1.0)
    (samples,) = [path for path in bad.rglob("*") if path.is_file() and path.name != "results.json"]
    whole = samples.read_bytes()
    samples.unlink()
    (runs / "c").mkdir()
    (runs / "c" / "results.json").write_text('{"<script>": "' + 5000 * "x" + '"}')
    client, board = open_board(runs, lambda _: None)
    page, found = client.get("/"), client.get("/?format=json").json()
    assert [each["title"] for each in found["unread"]] == ["c/results.json", "deep/b/results.json"]
    assert samples.name in found["unread"][1]["reason"]
    assert all(0 < len(each["reason"]) <= 300 for each in found["unread"])
    assert "<summary>2 files could not be read</summary>" in page.text
    assert "<code>deep/b/results.json</code>: " in page.text and "<script>&" not in page.text
    for text in (page.text, client.get("/?format=json").text, client.get("/?format=csv").text):
        assert str(tmp_path) not in text
    assert "could not be read" not in client.get("/benchmarks/shapes").text
    samples.write_bytes(whole)
    (runs / "c" / "results.json").unlink()
    board.read_in(pytest.fail)
    assert (client.get("/?format=json").json()["unread"], labels(board)) == ([], ["a", "b"])


# What ends the thread may strike while it lists a folder, which then nobody closes.
@pytest.mark.filterwarnings("ignore:.*scandir:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("at", ["the look", "the wait"])
def test_a_watch_that_is_killed_goes_on(tmp_path, monkeypatch, at):
    board, said, looked = Board(BoardSettings(runs=(tmp_path,))), [], threading.Event()

    def be_slow(*arguments):
        looked.set()
        if at == "the look":
            time.sleep(0.01)
        return signature(*arguments)

    monkeypatch.setattr(records, "signature", be_slow)
    with watch(board, said.append, seconds=0.001 if at == "the look" else 0.2):
        (thread,) = [each for each in threading.enumerate() if each.name == "watch"]
        for _ in range(5):
            looked.clear()
            assert looked.wait(20) and thread.ident
            number = ctypes.c_ulong(thread.ident)
            assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))
        write_run(tmp_path / "a", "a", skill=1.0)
        until(lambda: labels(board) == ["a"])
        assert thread.is_alive()


def test_a_thread_that_ends_all_the_same_ends_its_process():
    script = """
import time
from threading import Event
from tellapart.board.records import tireless_thread

class Killed(Event):
    asked = 0
    def is_set(self):
        self.asked += 1
        if self.asked == 2:
            raise SystemExit
        return False
    def wait(self, _):
        raise SystemExit

tireless_thread("t", lambda: 0.05, Killed()).start()
time.sleep(60)
"""
    run_python("-c", script, status=-signal.SIGTERM, timeout=50)


def test_healthz_says_how_old_the_board_is():
    age = 3.14159
    app = TestClient(create_app(Board(BoardSettings()), age=lambda: age))
    well = app.get("/healthz")
    assert (well.status_code, well.json()) == (200, {"state": "ok", "seconds_since_last_sync": 3.1})
    age = 61.0
    late = app.get("/healthz")
    assert (late.status_code, late.json()["state"]) == (503, "stale")
