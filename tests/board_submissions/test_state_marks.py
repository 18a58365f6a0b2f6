"""What was lost, replaced or damaged in the state stops the start in one line; backups hold all of it."""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from facts import check_facts, find_missing, raises
from sets import contents
from tellapart.board.submissions import administer
from tellapart.board.submissions.accounts import Account, find_losses
from tellapart.board.submissions.administer import back_up, check_backup, check_state
from tellapart.board.submissions.hidden import HiddenSettings, SubmissionSettings
from tellapart.board.submissions.prepared import read_truth
from tellapart.board.submissions.service import Submissions, open_submissions
from tellapart.cli.main import app
from tellapart.errors import DataError, StoreError, TellapartError

STATE_FILES = ("secret", "submissions.sqlite", "marker.json")
PREPARED = ("hidden/clocks/truth.json", "hidden/clocks/task.zip", "hidden/clocks/published.json")


class Ended:
    """A board with users, a file that was measured and one that waits, as it is after the server has ended."""

    def __init__(self, made, state: Path) -> None:
        made.measured(made.npz(made.right()))
        made.send(made.npz(made.right(0.5)))
        back_up(made.service.state.folder, state.with_name("whole"))
        self.whole, self.state = state.with_name("whole") / "state", state
        self.clock, self.tokens = made.clock, made.tokens
        elsewhere = made.settings.submissions.model_copy(update={"state": state})
        self.settings = made.settings.model_copy(update={"submissions": elsewhere})
        self.database, self.truth = state / "submissions.sqlite", state / "hidden" / "clocks" / "truth.json"
        self.restore()

    def restore(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(self.whole, self.state)

    def start(self, *, accept: bool = False) -> Submissions:
        service = Submissions(self.settings, clock=self.clock, accept=accept)
        service.results()
        return service


_MADE: list[Ended] = []


@pytest.fixture
def ended(request, tmp_path_factory) -> Ended:
    """The same board for each test, as it was."""
    if not _MADE:
        made = request.getfixturevalue("board")(8, limits={"daily": 9, "total": 9})
        _MADE.append(Ended(made, tmp_path_factory.mktemp("ended") / "state"))
    _MADE[0].restore()
    return _MADE[0]


def change_database(ended: Ended, script: str) -> None:
    with closing(sqlite3.connect(ended.database)) as rows:
        rows.executescript(script)


def swap_texts(ended: Ended) -> None:
    """Turn the labels of an item round."""
    content = json.loads(ended.truth.read_text())
    content["texts"][0].reverse()
    ended.truth.write_text(json.dumps(content))


LOSSES = {
    "a secret that is gone": (lambda ended: (ended.state / "secret").unlink(), ("secret", "token")),
    "a secret of another": (lambda ended: (ended.state / "secret").write_bytes(bytes(32)), ("secret", "database")),
    "a database that is gone": (lambda ended: ended.database.unlink(), ("submissions.sqlite", "gone")),
    "an empty database": (lambda ended: ended.database.write_bytes(b""), ("submissions.sqlite", "empty")),
    "a table that is gone": (lambda ended: change_database(ended, "DROP TABLE session"), "'session'"),
    "rows that are gone": (lambda ended: change_database(ended, "DELETE FROM submission"), ("marker.json", "2", "0")),
    "a marker that is none": (
        lambda ended: (ended.state / "marker.json").write_text('{"secret": 7}'),
        ("marker.json", "'secret'"),
    ),
    "labels of others": (swap_texts, ("truth.json", "file")),
}


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_state_that_lost_a_part_stops_the_start_until_it_is_accepted(ended, name):
    lose, said = LOSSES[name]
    lose(ended)
    with raises(StoreError, "state", "backup") as stopped:
        ended.start()
    assert "\n" not in str(stopped.value)
    check_facts(str(stopped.value), said)
    assert any(not find_missing(problem, said) for problem in check_state(ended.state))
    if name == "a table that is gone":
        return  # no state to go on with
    ended.start(accept=True)
    assert "clocks" in ended.start().prepared


def test_a_database_of_an_earlier_copy_is_noticed(ended):
    service = ended.start()
    service.close("clocks", by="root")
    service.state.note_counters()
    marker = (ended.state / "marker.json").read_bytes()
    del service
    ended.restore()
    (ended.state / "marker.json").write_bytes(marker)
    with raises(StoreError, "1", "0", "state"):
        ended.start()


@pytest.mark.slow
def test_an_upload_that_is_gone_costs_its_sender_nothing_and_holds_nobody_up(board):
    made = board(8, limits={"daily": 9, "total": 9})
    lost = made.send(made.npz(made.right(0.5)))
    for folder in made.queue.folder.glob("*/"):
        shutil.rmtree(folder)
    assert made.measured(made.npz(made.right()))["state"] == "done"
    seen = made.see(lost)
    assert seen["state"] == "failed"
    assert "the file is no longer on the server, and does not count; send it again" in seen["error"]


def broken(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    flipped = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    drawn = data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at + 20 :]
    return rng.choice((data[:at], flipped, drawn, data[: at // 2] + data[at:]))


NO_RECORDS = {"name": "n", "statements": [{"id": 1}]}
TRUTHS = {
    "an index out of range": lambda content: content["texts"].__setitem__(0, [0, 2]),
    "an index twice": lambda content: content["images"].__setitem__(0, [1, 1]),
    "no texts": lambda content: content.pop("texts"),
    "fewer orders": lambda content: content["images"].pop(),
    "no items": lambda content: content.update(items=[], texts=[], images=[], public=[]),
    "a split that is none": lambda content: content.update(public=[1] * len(content["public"])),
    "sources that are none": lambda content: content.update(sources=7),
    "items that are none": lambda content: content.update(items=7),
    "an unknown task": lambda content: content.update(task=["x"]),
    "a task of another name": lambda content: content.update(task="nlvr3"),
    "records that are none": lambda content: content.update(task="nlvr2", records=NO_RECORDS),
    "pixels that are none": lambda content: content.update(pixels={"0.png": 5}),
    "no pixels": lambda content: content.pop("pixels"),
    "an item's field that is unknown": lambda content: content["items"][0].update(extra=1),
    "a split of one item": lambda content: content.update(public=[True]),
}


@pytest.mark.parametrize("name", list(TRUTHS))
def test_a_truth_that_is_none_is_one_line_that_names_the_file(ended, name):
    truth, content = ended.truth, json.loads(ended.truth.read_text())
    TRUTHS[name](content)
    truth.write_text(json.dumps(content))
    with raises(DataError, str(truth), "benchmark", "backup") as raised:
        read_truth(truth)
    assert "\n" not in str(raised.value)
    with raises(TellapartError, "truth.json"):
        ended.start()


def test_labels_that_are_gone_are_restored_or_made_again_byte_for_byte(ended, tmp_path):
    folder, whole = ended.truth.parent, ended.truth.read_bytes()
    ended.truth.unlink()
    with raises(DataError, str(ended.truth), "gone", "backup", f"move {folder} away"):
        ended.start()
    folder.rename(tmp_path / "away")
    assert "clocks" in ended.start().prepared
    assert ended.truth.read_bytes() == whole


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 80), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*STATE_FILES, *PREPARED])
def test_no_damaged_file_of_the_state_is_a_traceback_or_another_number(ended, name, seeds):
    path, expected, started = ended.state / name, ended.start().content("clocks")["models"], 0
    for seed in seeds:
        ended.restore()
        path.write_bytes(broken(path.read_bytes(), random.Random(seed)))
        try:
            service = ended.start()
        except (TellapartError, sqlite3.Error) as error:  # the latter are a line of `open_submissions`
            assert "\n" not in str(error) and len(str(error)) < 1000
            assert path.name in str(error) or isinstance(error, sqlite3.Error) or "is damaged" in str(error)
            continue
        started += 1
        if name != "submissions.sqlite":  # whose cells have no checksums
            assert service.content("clocks")["models"] == expected
            assert service.accounts.of_token(ended.tokens["ann"]).user == "ann"
    assert started == len(seeds) if name.endswith("published.json") else started < len(seeds)


@pytest.fixture
def file(ended, tmp_path) -> Path:
    path = tmp_path / "board.toml"
    path.write_text(
        f'[submissions]\nstate = "{ended.state}"\n[[hidden]]\nname = "clocks"\npairs = "clocks"\n'
        'metrics = ["group_score"]\nlargest_share = 1000\n'
    )
    return path


def test_a_damaged_database_is_one_line_of_the_start(ended, file):
    change_database(ended, "UPDATE submission SET model = CAST(x'ff80' AS TEXT)")
    with raises(StoreError, "submissions.sqlite"), open_submissions(file):
        pass
    change_database(ended, "UPDATE submission SET model = 'm', public = '{' WHERE state = 'done'")
    with raises(StoreError, "submission", "board"), open_submissions(file):
        pass


@pytest.mark.slow
def test_a_backup_takes_the_place_of_the_state_and_is_checked(command, ended, file, tmp_path):
    told = command("board", "backup", tmp_path / "copy", "--board", file, "--json", code=0).json
    assert told["files"] == len([path for path in (tmp_path / "copy" / "state").rglob("*") if path.is_file()]) >= 8
    assert "everything is there" in command("board", "check", tmp_path / "copy", code=0).out
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    before = contents(tmp_path / "copy")
    command("board", "check", tmp_path / "copy", code=0)
    assert contents(tmp_path / "copy") == before
    with raises(DataError, "folder"):
        back_up(ended.state, tmp_path / "copy")
    shutil.rmtree(ended.state)
    shutil.copytree(tmp_path / "copy" / "state", ended.state)
    assert "everything is there" in command("board", "check", "--board", file, code=0).out
    service = ended.start()
    assert service.accounts.of_token(ended.tokens["ann"]).user == "ann"
    with service.queue.lock():
        assert service.queue.work_one()
    assert [one["state"] for one in service.sent(Account("ann", "submitter", ""))] == ["done", "done"]


def test_a_backup_that_was_changed_is_told_line_by_line(command, ended, file, tmp_path):
    command("board", "backup", tmp_path / "copy", "--board", file, code=0)
    state = tmp_path / "copy" / "state"
    (state / "hidden" / "clocks" / "task.zip").unlink()
    (state / "secret").write_bytes(bytes(32))
    (state / "more").touch()
    lines = command("board", "check", tmp_path / "copy", code=1).out.splitlines()
    assert [line.removeprefix(f"{state}/") for line in lines] == [
        "hidden/clocks/task.zip is gone",
        "more is not of this backup",
        "secret was changed: its SHA-256 is not the manifest's",
    ]
    (tmp_path / "copy" / "manifest.json").unlink()
    found = command("board", "check", tmp_path / "copy", code=1).out
    assert "no backup" in found and "manifest.json" in found and f"--board {tmp_path / 'copy' / 'board.toml'}" in found


def test_what_is_wrong_is_told_line_by_line_and_is_no_backup(command, ended, file, tmp_path):
    change_database(ended, "PRAGMA foreign_keys = OFF; DELETE FROM user WHERE name = 'rita'")
    (ended.state / "secret").write_bytes(bytes(32))
    for folder in (ended.state / "uploads").glob("*/"):
        shutil.rmtree(folder)
    problems = command("board", "check", "--board", file, "--json", code=1).json["problems"]
    said = (
        "not the one that", "its users were 4, and are 3", "refers to a user that is gone", "was not measured yet",
    )  # fmt: skip
    assert [part for part, problem in zip(said, problems, strict=True) if part not in problem] == []
    with raises(StoreError, "backup", "no"):
        back_up(ended.state, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert "is accepted: 3 users, 2 submissions" in command("board", "accept", "--board", file, code=0).out
    ended.start()


def test_what_is_asked_of_a_board_without_hidden_benchmarks_is_an_error(tmp_path):
    (tmp_path / "board.toml").write_text("[board]\n")
    for words in (("backup", tmp_path / "x", "--board", tmp_path / "board.toml"), ("check",)):
        assert isinstance(CliRunner().invoke(app, ["board", *map(str, words)]).exception, DataError)


def test_a_backup_of_a_busy_board_is_whole(board, tmp_path):
    made = board(8, limits={"daily": 9, "total": 9})
    over, files = threading.Event(), [made.npz(made.right(k / 8)) for k in range(9)]

    def be_busy() -> None:
        k = 0
        while not over.is_set():
            made.service.accounts.add(f"user{k}", "reader", by="test")
            if k < len(files):
                made.send(files[k], user="bob")
            made.service.state.note_counters()
            k += 1

    busy = threading.Thread(target=be_busy)
    busy.start()
    try:
        for k in range(4):
            back_up(made.service.state.folder, tmp_path / f"copy{k}")
            assert list(check_backup(tmp_path / f"copy{k}")) == []
    finally:
        over.set()
        busy.join()


def test_a_file_that_is_refused_while_it_is_copied_is_no_gap(board, tmp_path, monkeypatch):
    made, copied = board(8), []
    made.send(made.npz(made.right()))

    def end_it_first(uploads: Path, copy: Path) -> None:
        if not copied:
            made.queue._record_end(next(uploads.glob("*/")).name, "refused", "too late")
        copied.append(copy)
        copy_uploads(uploads, copy)

    copy_uploads = administer._copy_uploads
    monkeypatch.setattr(administer, "_copy_uploads", end_it_first)
    back_up(made.service.state.folder, tmp_path / "copy")
    assert len(copied) == 2 and list(check_backup(tmp_path / "copy")) == []


@pytest.fixture
def no_mask() -> Iterator[None]:
    """A process whose files everybody may read and write unless it says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def opened(state: Path) -> Submissions:
    return Submissions(HiddenSettings(submissions=SubmissionSettings(state=state), hidden=()))


def test_whatever_the_mask_others_get_at_nothing(no_mask, made):
    made.send(b"x")
    state = made.folder / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    for name in ("secret", "submissions.sqlite", "submissions.sqlite-wal"):
        assert (state / name).stat().st_mode & 0o777 == 0o600, name
    for folder in ("uploads", "hidden"):
        assert (state / folder).stat().st_mode & 0o777 == 0o700, folder


@pytest.mark.parametrize(("name", "mode"), [("secret", 0o640), ("secret", 0o604), (".", 0o720), (".", 0o702)])
def test_a_state_that_others_can_read_or_change_is_not_used(tmp_path, name, mode):
    opened(tmp_path / "state")
    (tmp_path / "state" / name).chmod(mode)
    with raises(StoreError, "700", "600"):
        opened(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
@pytest.mark.parametrize("name", ["secret", "."])
def test_a_state_of_another_user_is_not_used(tmp_path, name):
    opened(tmp_path / "state")
    os.chown(tmp_path / "state" / name, 65534, 65534)
    with raises(StoreError, "user", "belongs"):
        opened(tmp_path / "state")


def test_a_start_that_was_cut_off_does_not_keep_the_next_from_starting(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / f".secret-{os.getpid()}").write_bytes(b"half")  # in a container the number is the same each time
    opened(state)
    assert len((state / "secret").read_bytes()) == 32
    assert [path.name for path in state.glob(".secret-*")] == [f".secret-{os.getpid()}"]


def test_a_link_that_stands_where_the_secret_will_be_is_not_written_through(tmp_path):
    state, target = tmp_path / "state", tmp_path / "target"
    state.mkdir(mode=0o700)
    (state / "secret").symlink_to(target)
    with raises(StoreError, "server", "state"):
        opened(state)
    assert not target.exists()


def test_two_servers_that_start_at_once_have_one_secret(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        keys = {made.accounts.key for made in pool.map(opened, [tmp_path / "state"] * 8)}
    assert len(keys) == 1


def test_a_database_that_another_start_makes_meanwhile_is_no_loss(tmp_path, monkeypatch):
    def look_too_early(database: Path, **_: object) -> None:
        database.touch()
        raise FileNotFoundError(database)

    monkeypatch.setattr("tellapart.board.submissions.accounts.look_into", look_too_early)
    assert not list(find_losses(tmp_path))


@pytest.mark.slow
def test_a_state_of_an_older_version_gets_what_files_are_read_with_and_nothing_else_anew(board):
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


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_no_request_made_from_the_schema_breaks_the_server(board, schemathesis, user):
    often = {"requests_a_minute": 10**6, "sign_ins_a_minute": 10**6}
    made = board(4, limits={"daily": 10**4, "total": 10**4, "largest_share": 1e6}, settings=often)
    signed = made.of(user) if user in made.tokens else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schemathesis's own
        schema = schemathesis.openapi.from_asgi("/openapi.json", made.client.app)
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) == 14
        for operation in operations:

            @settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy())
            def ask(case) -> None:
                answer = case.call(headers={**(case.headers or {}), **signed})
                assert answer.status_code < 500, answer.text

            ask()


#: Root without the right to ignore modes.
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all"]


@pytest.fixture
def closed(tmp_path, board) -> Iterator[Path]:
    """Make a board of which nothing may be written."""
    if not os.geteuid() and shutil.which("setpriv") is None:
        pytest.skip("root ignores modes, and setpriv is not here to take that right away")
    made = board(24)
    made.measured(made.npz(made.right()))
    made.file(server="")
    every = [tmp_path, *tmp_path.rglob("*")]
    modes = {path: path.stat().st_mode for path in every}
    for path in every:
        path.chmod(modes[path] & ~0o222)
    yield tmp_path
    for path in every:
        if path.exists():
            path.chmod(modes[path])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "fact"),
    [
        (["user", "zed", "--board", "board.toml"], "submissions.sqlite"),
        (["backup", "copy", "--board", "board.toml"], "copy cannot be written"),
        (["new", "other", "--pairs", "clocks"], "other cannot be made"),
    ],
)
def test_a_command_that_may_not_write_says_so_in_a_line(closed, command, fact):
    before = contents(closed)
    line = [*([] if os.geteuid() else AS_ANYBODY), sys.executable, "-m", "tellapart", "board", *command]
    how = {"cwd": closed, "env": {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, "capture_output": True, "text": True}
    done = subprocess.run(line, check=False, **how)
    said = done.stdout + done.stderr
    assert (done.returncode, len(said.splitlines()), fact in said) == (2, 1, True), said
    assert contents(closed) == before
