"""A board under attack: nothing is lost, and the first page is never older than half a minute (some six minutes).

    python bench/board_attack.py --seconds 20 --files 4 --readers 20 --locked 2   # the short form
    python bench/board_attack.py --clock                                          # two minutes, on an idle machine

Readers look at pages while runs are added and files measured; the database is locked, bad runs are dropped in, and the
measuring process and the server are killed. Exit status 1 if a goal is missed.

`--clock` sends files of which one label would decide how long they are measured. It tells how well the best split of
their times separates the labels, and how well that of drawn times would: 99 of 100 do no better than `by_chance`.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread

import httpx
import numpy as np
import psutil
from record import circumstances, run_bench, run_python, time_call

from board import free_port, make_hidden, open_client, read, send_scores, start_server
from tellapart.board.submissions.accounts import Database
from tellapart.board.submissions.prepared import HiddenRows, measure_sent
from tellapart.board.submissions.worker import MeasureResult, Process, pack
from tellapart.data.item import Item as Pair
from tellapart.data.scores import Scores
from tellapart.records.result import Result
from tellapart.records.run_folder import write_result

TARGETS = 24
ITEMS, RUN_EVERY = 1_000, 10.0
PAGES = ("/", "/ranks", "/compare", "/pareto/latency", "/?format=json", "/hidden/clocks", "/static/board.css")
BAD_RUNS = {"nested": "{" * 100_000, "cut": '{"format": 1, "run', "bytes": "\0\1\2" * 1000}
UNDER_WAY = ("received", "validated", "measuring")


@dataclass
class Attack:
    """The board's folder, its server, and what happened to it; `enough` ends the adding of runs, `over` all threads."""

    folder: Path
    port: int
    token: str
    server: subprocess.Popen[bytes]
    added: dict[str, float] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    accepted: list[str] = field(default_factory=list)
    oldest: float = 0.0
    killed: int = 0
    enough: Event = field(default_factory=Event)
    over: Event = field(default_factory=Event)
    runs: Lock = field(default_factory=Lock)

    def add_runs(self, every: float) -> None:
        """Add a run every few seconds, whole at once, as `tellapart run` ends."""
        template = json.loads((self.folder / "first" / "results.json").read_text())
        del template["sha256"]  # of the run that is copied
        for number in range(10_000):
            if self.enough.wait(every):
                return
            name = f"model{number}"
            template["model"] |= {"name": name, "fingerprint": name}
            draft = self.folder / f"draft{number}"
            shutil.copytree(self.folder / "first", draft)
            write_result(draft, Result.model_validate(template))
            with self.runs:
                draft.rename(self.folder / "runs" / name)
                self.added[name] = time.monotonic()

    def watch_first_page(self) -> None:
        """Look which runs are on the first page, and keep the longest time for which one was not."""
        while not self.over.wait(0.25):
            with suppress(httpx.HTTPError):
                page = httpx.get(f"http://127.0.0.1:{self.port}/?format=json", timeout=60)
                page.raise_for_status()
                found = page.json()
                self.note_shown({row["title"] for row in (*found["rows"], *found["references"])})
            self.note_shown(set())

    def note_shown(self, found: set[str]) -> None:
        """Note which runs are shown now, and how old that makes the page."""
        now = time.monotonic()
        with self.runs:
            self.shown |= found & self.added.keys()
            ages = [now - at for name, at in self.added.items() if name not in self.shown]
        self.oldest = max([self.oldest, *ages])

    def send_files(self, count: int, every: float) -> None:
        """Send files, and each again until it is acknowledged: the same bytes twice are one file."""
        client, ids = open_client(self.port, self.token)
        for number in range(count):
            while True:
                with suppress(httpx.HTTPError):
                    # The same numbers again, or a second try would be another file.
                    answer = send_scores(client, ids, f"sent {number}", np.random.default_rng(number))
                    self.accepted.append(answer.json()["at"].rpartition("/")[2])
                    break
                time.sleep(0.5)
            self.over.wait(every)

    def lock(self, seconds: float) -> None:
        """Hold the database locked, as another program's transaction does."""
        database = self.folder / "state" / "submissions.sqlite"
        with closing(sqlite3.connect(database, timeout=60, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            other.execute("ROLLBACK")

    def add_bad_runs(self) -> None:
        """Drop in runs that cannot be read."""
        for name, content in BAD_RUNS.items():
            (self.folder / "runs" / name).mkdir()
            (self.folder / "runs" / name / "results.json").write_text(content)

    def kill_measuring(self) -> None:
        """Kill the process that reads or measures a file; wait for one."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for child in psutil.Process(self.server.pid).children():
                with suppress(psutil.NoSuchProcess):
                    child.kill()
                    self.killed += 1
                    return
            time.sleep(0.005)

    def kill_server(self) -> None:
        """Kill the server, and start it again."""
        self.server.kill()
        self.server.wait()
        self.server = start_server(self.folder, self.port)


def act(attack: Attack, seconds: float, locked: float) -> None:
    """Do to the board what is done to it, over the whole time."""
    started = time.monotonic()
    steps: list[tuple[float, Callable[[], None]]] = [
        (0.10, lambda: attack.lock(locked)),
        (0.25, attack.kill_measuring),
        (0.35, attack.add_bad_runs),
        (0.45, lambda: attack.lock(locked)),
        (0.60, attack.kill_server),
        (0.70, attack.kill_measuring),
        (0.80, lambda: attack.lock(locked)),
    ]
    for share, step in steps:
        attack.over.wait(max(0.0, started + share * seconds - time.monotonic()))
        step()


def states_of(attack: Attack) -> dict[str, str]:
    """Return what became of each file, when none is under way any more."""
    database, end = Database(attack.folder / "state" / "submissions.sqlite"), time.monotonic() + 180
    while True:
        states = {row["id"]: row["state"] for row in database.all("SELECT id, state FROM submission")}
        if time.monotonic() > end or not {*states.values()} & {*UNDER_WAY}:
            return states
        time.sleep(0.5)


def attack_board(
    folder: Path, seconds: float, files: int, readers: int, locked: float, oldest: float
) -> dict[str, object]:
    """Attack a board, and return what was measured, with the goals that were missed."""
    run_python("-m", "tellapart", "run", "--out", folder / "first")
    shutil.copytree(folder / "first", folder / "runs" / "first")
    token, port = make_hidden(folder, ITEMS), free_port()
    attack = Attack(folder, port, token, start_server(folder, port))
    try:
        threads = [
            Thread(target=attack.add_runs, args=(min(RUN_EVERY, seconds / 6),)),
            Thread(target=attack.watch_first_page),
            Thread(target=act, args=(attack, seconds, locked)),
            Thread(target=attack.send_files, args=(files, 0.8 * seconds / files)),
        ]
        for thread in threads:
            thread.start()
        waits = read(port, [(readers, PAGES)], seconds, pause=0.5)
        for thread in threads[2:]:
            thread.join()
        states = states_of(attack)
        attack.enough.set()
        threads[0].join()
        end = time.monotonic() + oldest
        while attack.shown != attack.added.keys() and time.monotonic() < end:
            time.sleep(0.25)
        attack.over.set()
        for thread in threads:
            thread.join()
        page = httpx.get(f"http://127.0.0.1:{port}/?format=json", timeout=60).json()
        health = httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code
    finally:
        attack.server.terminate()
        attack.server.wait()
    command = [sys.executable, "-m", "tellapart", "board", "check", "--board", str(folder / "board.toml")]
    checked = subprocess.run(command, check=False, capture_output=True).returncode
    ended = Counter(states[id_] for id_ in attack.accepted if id_ in states)
    lost = len({*attack.accepted} - states.keys()) + sum(ended[state] for state in UNDER_WAY)
    explained = sum(bool(run["reason"]) for run in page["unread"])
    goals = {
        "every file is acknowledged": len(attack.accepted) == files,
        "no file is lost": lost == 0,
        "only files whose process was killed are not measured": ended["done"] >= files - attack.killed,
        "every run is shown": len(attack.shown) == len(attack.added),
        "every bad run is shown with its reason": explained == len(BAD_RUNS),
        f"the first page is never older than {oldest:g} s": attack.oldest <= oldest,
        "no answer is an error": waits["failed"] == 0,
        "the board is well": health == 200 and checked == 0,
    }
    return {
        "seconds": seconds,
        "databases_locked_for_seconds": locked,
        "servers_killed": 1,
        "measuring_processes_killed": attack.killed,
        "bad_runs": len(BAD_RUNS),
        "bad_runs_shown_with_reason": explained,
        "runs_added": len(attack.added),
        "runs_shown": len(attack.shown),
        "oldest_first_page_seconds": round(attack.oldest, 1),
        "files_acknowledged": len(attack.accepted),
        "files_lost": lost,
        "files_by_state": dict(ended),
        "healthz": health,
        "board_check": checked,
        "readers": waits,
        "missed": [name for name, reached in goals.items() if not reached],
    }


def best_split(times: list[float], labels: list[int]) -> float:
    """Return the share of labels that the best threshold on the times gets right."""
    seconds, right = np.array(times), np.array(labels, bool)
    return float(max(np.mean((seconds > cut) == (right == side)) for cut in times for side in (True, False)))


def time_labels(folder: Path, items: int) -> dict[str, object]:
    """Time files that each hang on one label, in this process and as the server waits for its measuring process."""
    rng = np.random.default_rng(items)
    orders = tuple((1, 0) if swapped else (0, 1) for swapped in rng.integers(0, 2, items).tolist())
    pairs = tuple(Pair(id=f"p{k}", images=(f"{k}0", f"{k}1"), texts=(f"{k} top", f"{k} bottom")) for k in range(items))
    hidden = HiddenRows(pairs, tuple(k % 2 == 0 for k in range(items)), {}, texts=orders, images=((0, 1),) * items)
    (folder / "truth.json").write_text(json.dumps(hidden.to_json()))
    job = {"truth": str(folder / "truth.json"), "metrics": ("group_score",), "step": 0.01, "task": "pairs"}
    times: dict[str, list[float]] = {"processor": [], "answer": []}
    targets = rng.choice(items, TARGETS, replace=False).tolist()
    for target in targets:
        scores = np.broadcast_to([[0, 0], [1, 1]], (items, 2, 2)).astype(np.float32)
        others = rng.permutation(items)
        scores[others[others != target][: items // 60]] = 0
        scores[target] = [[0, 3], [0, 3]]
        sent = Scores(tuple(map(str, range(items))), scores, "similarity")
        times["processor"].append(time_call(partial(measure_sent, sent, hidden, ("group_score",), 0.01))[2])
        started = time.monotonic()
        process = Process({**job, "seconds": 60, "memory_bytes": 2 << 30}, folder, 60, pack(sent, "pairs"))
        answer, _ = process.run(MeasureResult)
        times["answer"].append(time.monotonic() - started)
        assert answer.public is not None and answer.public.values == {"group_score": 0.0}
    labels = [int(orders[target] == (0, 1)) for target in targets]
    drawn = [best_split(list(range(TARGETS)), rng.permutation(labels).tolist()) for _ in range(2000)]
    return {
        "targets": TARGETS,
        "private": sum(not hidden.public[target] for target in targets),
        "by_chance": round(float(np.quantile(drawn, 0.99)), 3),
        **{f"best_split_{name}": round(best_split(seconds, labels), 3) for name, seconds in times.items()},
        **{f"{name}_seconds": [round(min(seconds), 4), round(max(seconds), 4)] for name, seconds in times.items()},
    }


def attack_clock(folder: Path) -> dict[str, object]:
    """Attack by the clock, with few pairs and with many; a goal is missed if a split is better than drawn times are."""
    sizes: dict[str, dict[str, object]] = {f"{items} pairs": time_labels(folder, items) for items in (300, 4000)}
    late = [
        f"{size}: {name} separates labels"
        for size, splits in sizes.items()
        for name in ("processor", "answer")
        if splits[f"best_split_{name}"] > splits["by_chance"]  # type: ignore[operator]
    ]
    return {**sizes, "missed": late}


def measure(
    seconds: float = 300.0,
    files: int = 50,
    readers: int = 200,
    locked: float = 20.0,
    oldest: float = 30.0,
    clock: bool = False,
) -> dict[str, object]:
    """Attack for so many seconds, or labels by the clock; the first page may be `oldest` seconds old."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = attack_clock(folder) if clock else attack_board(folder, seconds, files, readers, locked, oldest)
    return {**circumstances(), **found, "load_at_the_end": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    run_bench(measure, "board_clock" if "--clock" in sys.argv else "board_attack")
