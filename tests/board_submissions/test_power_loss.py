"""A power cut under a board at any sync: what was answered is there, tokens are good, each file has one result."""

import json
import os
import re
import sys

import pytest
from power_loss import build_library, images_of, restore

from scripts import run_python
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.service import Submissions

#: Makes a board's state, a user, and two results; notes on the disk, synced, what a user was told by then.
SERVER = r"""
import asyncio, io, json, os, sys
from pathlib import Path
import numpy as np
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.routes import write_upload
from tellapart.board.submissions.service import Submissions

told = Path(sys.argv[2])
told.mkdir()

def tell(what):
    with (told / what).open("x") as file:
        os.fsync(file.fileno())
    for folder in (told, told.parent):
        number = os.open(folder, os.O_RDONLY)
        os.fsync(number)

board = Submissions(read_hidden(Path(sys.argv[1])))
board.accounts.add("ann", "submitter", by="test")
_, token = board.accounts.issue("ann", days=9, by="test")
tell("token " + token)
account = board.accounts.of_token(token)
ids = [item["id"] for item in json.loads(board.prepared["clocks"].published.read_text())["items"]]
for side in (1, -1):
    stream = io.BytesIO()
    np.savez(stream, ids=np.array(ids), scores=side * np.broadcast_to(np.eye(2), (len(ids), 2, 2)))

    async def pieces():
        yield stream.getvalue()

    upload = asyncio.run(write_upload(pieces(), board.queue.folder / f"{side}.part", 1 << 20))
    file = board.queue.take(account, "clocks", "m", "s.npz", upload).id
    tell("file " + file)
    with board.queue.lock() as mine:
        assert mine and board.queue.work_one()
    row = board.database.one("SELECT state, public FROM submission WHERE id = ?", file)
    assert row["state"] == "done", dict(row)
    (Path(sys.argv[3]) / file).write_text(row["public"])
    tell("done " + file)
"""


@pytest.mark.slow
def test_what_a_board_answered_is_there_after_a_power_cut(made_set, tmp_path, tmp_path_factory):
    library = build_library(tmp_path_factory.mktemp("p"))
    root, results, file = tmp_path / "disk", tmp_path / "results", tmp_path / "board.toml"
    root.mkdir()
    results.mkdir()
    file.write_text(
        '[submissions]\nstate = "disk/state"\nspare_bytes = 0\n[[hidden]]\nname = "clocks"\n'
        f'pairs = "{made_set("clocks", n=8)}"\nmetrics = ["group_score"]\ntotal = 9\ndaily = 9\nlargest_share = 1e6\n'
    )
    command = [sys.executable, "-c", SERVER, *map(str, (file, root / "told", results))]
    images = images_of(command, root, library, OMP_NUM_THREADS="1")
    whole = {path.name: path.read_text() for path in results.iterdir()}
    assert len(images) > 40 and len(whole) == 2
    seen = 0
    for number, image in enumerate(images):
        # All around what is told, and every third of the others.
        told = [name.removeprefix("told/").split(" ") for name in image if name.startswith("told/")]
        if number % 3 and len(told) == seen:
            continue
        seen = len(told)
        restore(image, root)
        board = Submissions(read_hidden(file))
        rows = {row["id"]: row["state"] for row in board.database.all("SELECT id, state FROM submission")}
        for what, which in told:
            if what == "token":
                assert board.accounts.of_token(which).user == "ann", number
            else:
                assert which in rows and (what == "file" or rows[which] == "done"), (number, what)
        with board.queue.lock() as mine:
            assert mine
            board.queue.sweep()
            while board.queue.work_one():
                pass
        for row in board.database.all("SELECT id, state, public FROM submission"):
            assert (row["state"], row["public"]) == ("done", whole[row["id"]]), number
        assert board.database.one("PRAGMA integrity_check")[0] == "ok"
        assert json.loads(board.prepared["clocks"].published.read_text())["items"]


#: Takes and measures files in children that are killed: at each of their system calls in turn, then at random moments.
KILLED = r"""
import asyncio, json, os, random, signal, sys, time
from pathlib import Path
from tellapart.board.submissions import service
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.accounts import Account
from tellapart.board.submissions.service import Submissions
from tellapart.board.submissions.routes import write_upload

service.REFUSED_A_DAY = 1000  # files that wait are of these
board = Submissions(read_hidden(Path(sys.argv[1])))
data = Path(sys.argv[2]).read_bytes()
account = Account("ann", "submitter", board.accounts.issue("ann", days=1, by="test")[0])
STEPS = {"open", "os.mkdir", "os.rename", "sqlite3.connect", "subprocess.Popen", "shutil.rmtree", "os.remove"}

def take():
    async def pieces():
        yield data[:-2] + b"\x08\0" + os.urandom(8)  # an archive's comment: no two files are the same
    upload = asyncio.run(write_upload(pieces(), board.queue.folder / f"{random.random()}.part", 1 << 20))
    return board.queue.take(account, "clocks", "m", "s.npz", upload).id

def work():
    with board.queue.lock() as mine:
        while mine and board.queue.work_one():
            pass

def killed_at(step, do):
    # Whether the child was killed, and what it said that it had done.
    read, write = os.pipe()
    child = os.fork()
    if not child:
        left = [step]
        def hook(event, _):
            if event in STEPS:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        os.write(write, (do() or "").encode())
        os._exit(0)
    os.close(write)
    said = b"".join(iter(lambda: os.read(read, 100), b"")).decode()
    os.close(read)
    return os.waitpid(child, 0)[1] != 0, said

answered, kills, step = [], 0, 0
while True:  # of asyncio's own steps and then of every one of ours
    killed, id_ = killed_at(step, take)
    kills, step, answered = kills + killed, step + 1, answered + [id_] * bool(id_)
    if not killed:
        break
answered += [take() for _ in range(3)]
taken = [row["id"] for row in board.database.all("SELECT id FROM submission")]
for step in (0, 1, 2, 3, 5, 7):
    kills += killed_at(step, work)[0]
random.seed(5)
for _ in range(3):
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    time.sleep(random.uniform(0.05, 0.9))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
with board.queue.lock():
    board.queue.sweep()
work()
print(json.dumps({"kills": kills, "answered": answered, "taken": taken}))
"""


@pytest.mark.slow
def test_a_server_killed_at_any_step_loses_nothing_and_measures_everything_once(board, tmp_path):
    made = board(8)
    made.file("total = 100\ndaily = 100\nlargest_share = 1e6\n")
    (tmp_path / "scores.npz").write_bytes(made.npz(made.right()))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = run_python("-c", KILLED, tmp_path / "board.toml", tmp_path / "scores.npz", env=environment)
    report = json.loads(done.stdout)
    assert report["kills"] > 10
    assert set(report["answered"]) <= set(report["taken"])  # a file may be taken before its answer, never the reverse
    rows = {row["id"]: row for row in made.service.database.all("SELECT id, state, starts, public FROM submission")}
    assert sorted(rows) == sorted(report["taken"])
    # What was under way three times as the server died is given up, and given back; everything else was measured.
    given_up = {id_ for id_, row in rows.items() if row["starts"] >= 3 and row["state"] == "failed"}
    done_once = set(rows) - given_up
    assert {rows[id_]["state"] for id_ in done_once} == {"done"}
    assert {json.loads(rows[id_]["public"])["values"]["group_score"] for id_ in done_once} == {1.0}
    log = [entry for entry in made.service.log() if re.match("submission (?!.*again)", entry["what"])]
    ended = [(entry["about"]["submission"], entry["what"].removeprefix("submission ")) for entry in log]
    assert sorted(ended) == sorted((id_, what) for id_ in rows for what in ("received", rows[id_]["state"]))
    assert {path.name for path in made.queue.folder.iterdir()} == {".lock", *report["taken"]}
    assert made.service.database.one("PRAGMA integrity_check")[0] == "ok"
