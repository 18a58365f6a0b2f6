"""The folder of the server's secret and of submissions: private to the server's user, and made atomically."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.board.submissions.accounts import RefusedError
from tellapart.board.submissions.hidden import HiddenSettings, SubmissionSettings
from tellapart.board.submissions.service import Submissions
from tellapart.board.submissions.state import find_losses
from tellapart.cli.main import app
from tellapart.errors import DataError, StoreError

MakeBoard = Callable[..., Any]


@pytest.fixture
def no_mask() -> Iterator[None]:
    """A process whose files everybody may read and write unless it says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def opened(state: Path) -> Submissions:
    return Submissions(HiddenSettings(submissions=SubmissionSettings(state=state), hidden=()))


def test_whatever_the_mask_others_get_at_nothing(no_mask: None, board: MakeBoard) -> None:
    made = board(4)
    made.send(b"x")
    state = made.folder / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    for name in ("secret", "submissions.sqlite", "submissions.sqlite-wal"):
        assert (state / name).stat().st_mode & 0o777 == 0o600, name
    for folder in ("uploads", "hidden"):
        assert (state / folder).stat().st_mode & 0o777 == 0o700, folder


@pytest.mark.parametrize(("name", "mode"), [("secret", 0o640), ("secret", 0o604), (".", 0o720), (".", 0o702)])
def test_a_state_that_others_can_read_or_change_is_not_used(tmp_path: Path, name: str, mode: int) -> None:
    opened(tmp_path / "state")
    (tmp_path / "state" / name).chmod(mode)
    with raises(StoreError, "700", "600"):
        opened(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
@pytest.mark.parametrize("name", ["secret", "."])
def test_a_state_of_another_user_is_not_used(tmp_path: Path, name: str) -> None:
    opened(tmp_path / "state")
    os.chown(tmp_path / "state" / name, 65534, 65534)
    with raises(StoreError, "user", "belongs"):
        opened(tmp_path / "state")


def test_a_start_that_was_cut_off_does_not_keep_the_next_from_starting(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / f".secret-{os.getpid()}").write_bytes(b"half")  # in a container the number is the same each time
    opened(state)
    assert len((state / "secret").read_bytes()) == 32
    assert [path.name for path in state.glob(".secret-*")] == [f".secret-{os.getpid()}"]


def test_a_link_that_stands_where_the_secret_will_be_is_not_written_through(tmp_path: Path) -> None:
    state, target = tmp_path / "state", tmp_path / "target"
    state.mkdir(mode=0o700)
    (state / "secret").symlink_to(target)
    with raises(StoreError, "server", "state"):
        opened(state)
    assert not target.exists()


def test_two_servers_that_start_at_once_have_one_secret(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        keys = {made.accounts.key for made in pool.map(opened, [tmp_path / "state"] * 8)}
    assert len(keys) == 1


def test_a_database_that_another_start_makes_meanwhile_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_too_early(database: Path, **_: object) -> None:
        database.touch()
        raise FileNotFoundError(database)

    monkeypatch.setattr("tellapart.board.submissions.state.look_into", look_too_early)
    assert not list(find_losses(tmp_path))


def test_a_token_of_the_command_line_has_the_role_that_was_asked_for(
    tmp_path: Path, made_set: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    made_set("clocks", n=60)
    board = tmp_path / "board.toml"
    board.write_text('[[hidden]]\nname = "clocks"\npairs = "clocks"\nmetrics = ["group_score"]\ntotal = 1\n')
    words = ["board", "user", "root", "--board", str(board), "--days", "1", "--role"]
    app([*words, "admin"], standalone_mode=False)
    output = capsys.readouterr().out
    assert re.search(r"shown this once: tap_\w+", output)
    with raises(DataError, "role=", "user"):
        app([*words, "reader"], standalone_mode=False)
    assert "tap_" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["server", "Server"])
def test_nobody_is_called_as_the_log_calls_the_server(board: MakeBoard, name: str) -> None:
    with raises(RefusedError, "log", "server"):
        board(4).service.accounts.add(name, "admin", by="root")


@pytest.mark.slow
def test_a_state_of_an_older_version_gets_what_files_are_read_with_and_nothing_else_anew(board: MakeBoard) -> None:
    made = board(limits={"daily": 9, "total": 9})
    ready = made.service.prepared["clocks"]
    whole = {path.name: path.read_bytes() for path in ready.folder.iterdir()}
    assert set(whole) == {"published.json", "task.zip", "truth.json"}
    found = json.loads(whole["published.json"])
    assert [{key: row[key] for key in ("id", "images", "texts")} for row in found["items"]] == made.task()
    assert all((row["tags"], row["cluster"], row["provenance"]) == ({}, row["id"], {}) for row in found["items"])
    ready.published.unlink()
    made.open()
    assert {path.name: path.read_bytes() for path in ready.folder.iterdir()} == whole
    before = ready.published.stat()
    made.open()
    assert ready.published.stat().st_ino == before.st_ino  # and it is not written again and again
    assert made.measured(made.npz(made.right()))["public"]["values"] == {"group_score": 1.0}
