"""A power cut under a board at any sync: what was answered is there, tokens are good, each file has one result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from power_loss import build_library, images_of, restore

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
def test_what_a_board_answered_is_there_after_a_power_cut(
    made_set: Callable[..., Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = build_library(tmp_path_factory.mktemp("p"))
    if library is None:
        pytest.skip("no C compiler on this machine")
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
