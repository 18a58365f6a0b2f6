"""Administer a board with hidden benchmarks: its users, backups and checks of its state, and files that failed."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sqlite3
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from tellapart.board.records import as_board_file
from tellapart.board.submissions.accounts import (
    DATABASE,
    SECRET,
    SECRET_BYTES,
    UNDER_WAY,
    RefusedError,
    find_losses,
    look_into,
    read_counters,
    read_marks,
    write_marker,
)
from tellapart.board.submissions.hidden import (
    BENCHMARK_NAME,
    STEPS,
    HiddenBenchmark,
    HiddenSettings,
    fit_limits,
    in_points,
    read_hidden,
)
from tellapart.board.submissions.prepared import digest_of, fill_text, published_metrics, read_truth
from tellapart.board.submissions.service import Submissions, read_measured
from tellapart.data.arguments import PathGiven, as_names, as_path
from tellapart.data.atomic import atomic_folder
from tellapart.data.folder import read_pair_set
from tellapart.data.rows import read_object
from tellapart.data.validation import validate
from tellapart.errors import DataError, RunError, StoreError, TellapartError, quote
from tellapart.records.run_folder import write_text_file


def board_new(folder: PathGiven, pairs: PathGiven, *, name: str | None = None, title: str | None = None) -> Path:
    """Write a board file for a set of pairs whose labels are hidden, with limits that fit its size.

    Args:
        folder: of the board; made if it is missing.
        pairs: the pair set's folder.
        name: of the hidden benchmark; the set's if None.
        title: of the board; the name if None.

    Returns:
        The board file.

    Raises:
        DataError: the folder has a board file, the pairs cannot be read or are too few, or the name cannot be used.

    >>> import tellapart as ta
    >>> ta.board_new(getfixture("tmp_path") / "board", "examples/eqsim_ablation/smoke_scenes", name="scenes").name
    'board.toml'
    """
    folder, pairs = as_path(folder, "folder"), as_path(pairs, "pairs")
    file = folder / "board.toml"
    if file.exists():
        raise DataError(f"{file} is there already: name another folder, or edit it")
    pair_set = read_pair_set(pairs)
    slug = name or re.sub(r"[^a-z0-9]+", "-", pair_set.name.lower()).strip("-")
    if not re.match(BENCHMARK_NAME, slug):
        raise DataError(f"name={slug!r}: a benchmark's name has small letters, digits and hyphens; give name=")
    limits = fit_limits(len(pair_set), pair_set.shape)
    if limits is None:
        least = next(n for n in itertools.count(len(pair_set)) if fit_limits(n, pair_set.shape))
        raise DataError(
            f"{pairs}: {len(pair_set)} pairs are too few: one file's number, rounded to {in_points(STEPS[-1])}, could "
            f"reveal over half of the public labels; from {least} pairs on, a board can hide them"
        )
    published = published_metrics(HiddenBenchmark(name=slug, pairs=pairs), pair_set.shape, true=pair_set.true)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be made: {error.strerror}; name another folder") from error
    # The board file names pairs near its folder by a relative path, so that both can be moved together.
    target, base = pairs.expanduser().resolve(), folder.resolve()
    is_near = target.is_relative_to(base.parent) and not pairs.expanduser().is_absolute()
    text = fill_text(
        "board.toml",
        title=json.dumps(title or slug),
        name=slug,
        pairs=json.dumps(Path(os.path.relpath(target, base)).as_posix() if is_near else str(target)),
        metric=published[-1],
        points=in_points(limits["step"]),
        items=len(pair_set),
        **limits,
    )
    write_text_file(file, text)
    return file


# A backup is a folder with `state`, a copy of the state's folder that can replace it, and `manifest.json`, with size
# and SHA-256 of each file. The database is copied in one transaction before the uploads: files of its rows were on the
# disk by then. If one of them was refused and deleted meanwhile, database and uploads are copied again.

#: The list of a backup's files, and the most times that database and uploads are copied until they agree.
MANIFEST, _MOST_TIMES = "manifest.json", 10


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """The files of a backup."""

    made: float  # seconds since 1970
    files: dict[str, tuple[int, str]]  # path within `state` -> its bytes and SHA-256


def back_up(state: Path, target: Path) -> Manifest:
    """Copy a state into a new folder, which appears when it is complete."""
    if not (state / DATABASE).is_file():
        raise StoreError(f"{state} holds no database: this board was never served, or its state is gone")
    if problem := next(find_losses(state), None):
        raise StoreError(f"{problem}; no backup was made")
    with atomic_folder(target, 0o700) as draft:
        copy = draft / "state"
        copy.mkdir(mode=0o700)
        shutil.copy2(state / SECRET, copy / SECRET)
        if (state / "hidden").is_dir():
            shutil.copytree(state / "hidden", copy / "hidden", ignore=shutil.ignore_patterns(".*", "*.part"))
        for _ in range(_MOST_TIMES):
            try:
                (copy / DATABASE).touch(mode=0o600)
                with (
                    closing(sqlite3.connect(state / DATABASE, timeout=30)) as source,
                    closing(sqlite3.connect(copy / DATABASE)) as database,
                ):
                    source.backup(database)
                    database.execute("PRAGMA journal_mode = DELETE")  # without log files; a served board has them again
            except sqlite3.Error as error:
                raise StoreError(f"{state / DATABASE} cannot be copied: {error}") from error
            _copy_uploads(state / "uploads", copy / "uploads")
            with look_into(copy / DATABASE, at_rest=True) as rows:
                if not any(_find_lost_uploads(copy, rows)):
                    break
        with look_into(copy / DATABASE, at_rest=True) as rows:
            write_marker(copy, (copy / SECRET).read_bytes(), read_counters(rows))
        if problem := next(check_state(copy, at_rest=True), None):
            raise StoreError(f"{problem}; no backup was made")
        files = {
            path.relative_to(copy).as_posix(): (path.stat().st_size, digest_of(path))
            for path in sorted(copy.rglob("*"))
            if path.is_file()
        }
        manifest = Manifest(made=time.time(), files=files)
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return manifest


def _copy_uploads(uploads: Path, copy: Path) -> None:
    """Copy the submitted files, except those that are deleted meanwhile."""
    copy.mkdir(mode=0o700, exist_ok=True)
    for folder in uploads.glob("[!.]*/"):
        try:
            shutil.copytree(folder, copy / folder.name, dirs_exist_ok=True)
        except OSError:
            if folder.exists():
                raise
            shutil.rmtree(copy / folder.name, ignore_errors=True)


def check_backup(folder: Path) -> Iterator[str]:
    """Yield the faults of a backup, in a line each."""
    if not (folder / MANIFEST).exists():
        yield f"{folder} is no backup (no {MANIFEST}); check a board's state with --board {folder}/board.toml"
        return
    try:
        manifest = validate(Manifest, read_object(folder / MANIFEST), str(folder / MANIFEST))
    except TellapartError as error:
        yield str(error)
        return
    state, faults = folder / "state", []
    files = {path.relative_to(state).as_posix() for path in state.rglob("*") if path.is_file()}
    for name in sorted(files | manifest.files.keys()):
        if name not in manifest.files:
            faults.append(f"{state / name} is not of this backup")
        elif name not in files:
            faults.append(f"{state / name} is gone")
        elif digest_of(state / name) != manifest.files[name][1]:
            faults.append(f"{state / name} was changed: its SHA-256 is not the manifest's")
    yield from faults or check_state(state, at_rest=True)


def check_state(state: Path, *, at_rest: bool = False) -> Iterator[str]:
    """Yield the faults of a state, in a line each."""
    losses = list(find_losses(state, at_rest=at_rest))
    yield from losses
    if (state / SECRET).exists() and (state / SECRET).stat().st_size != SECRET_BYTES:
        yield f"{state / SECRET} is not a secret that this server made"
    marks: dict[str, str] = {}
    try:
        with look_into(state / DATABASE, at_rest=at_rest) as rows:
            marks = read_marks(rows)
            yield from _check_rows(state, rows)
    except (sqlite3.Error, OSError) as error:
        if not losses:
            yield f"{state / DATABASE} cannot be used as the board's database: {error}"
    marked = {state / "hidden" / name.partition("/")[0] for name in marks if "/" in name}
    for folder in sorted({*(state / "hidden").glob("[!.]*"), *marked}):
        yield from _check_prepared(folder, marks)


def _check_rows(state: Path, rows: sqlite3.Connection) -> Iterator[str]:
    for problem in rows.execute("PRAGMA integrity_check(20)").fetchall():
        if problem[0] != "ok":
            yield f"{state / DATABASE} is damaged: {problem[0]}"
    for broken in rows.execute("PRAGMA foreign_key_check").fetchall():
        yield f"{state / DATABASE} is damaged: row {broken[1]} of {broken[0]} refers to a {broken[2]} that is gone"
    for row in rows.execute("SELECT * FROM submission WHERE state = 'done'"):
        try:
            read_measured(row, private=True)
        except StoreError as error:
            yield str(error)
    yield from _find_lost_uploads(state, rows)


def _find_lost_uploads(state: Path, rows: sqlite3.Connection) -> Iterator[str]:
    for row in rows.execute("SELECT id, state FROM submission"):
        if row["state"] in UNDER_WAY and not any((state / "uploads" / row["id"]).glob("sent*")):
            state_now = rows.execute("SELECT state FROM submission WHERE id = ?", (row["id"],)).fetchone()[0]
            if state_now in UNDER_WAY:  # it has not ended meanwhile
                yield f"{state / 'uploads' / row['id']} is gone, and submission {row['id']} was not measured yet"


def _check_prepared(folder: Path, marks: dict[str, str]) -> Iterator[str]:
    """Yield the faults of a hidden benchmark's files."""
    for name in ("truth.json", "task.zip"):
        path, digest = folder / name, marks.get(f"{folder.name}/{name}")
        if not path.is_file():
            yield f"{path} is gone"
        elif digest not in (None, digest_of(path)):
            yield f"{path} is not the file that was prepared"
        else:
            continue
        return
    try:
        bare = read_truth(folder / "truth.json").bare_to_json()
        if (folder / "published.json").is_file() and read_object(folder / "published.json") != bare:
            yield f"{folder / 'published.json'} is not what the truth publishes; delete it, and it is made again"
        with zipfile.ZipFile(folder / "task.zip") as archive:
            if broken := archive.testzip():
                yield f"{folder / 'task.zip'} is damaged: {broken}"
    except TellapartError as error:
        yield str(error)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        yield f"{folder / 'task.zip'} is damaged: {error}"


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup of a board's hidden benchmarks: its folder, its files and their bytes."""

    to: Path
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckedState:
    """A state or a backup that was checked: its folder, and a line for each problem."""

    checked: Path
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AcceptedState:
    """A board's state that was accepted after a part of it was lost or replaced, with its counters (name -> number)."""

    state: Path
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class BoardToken:
    """A token of a board's user. The board keeps its hash alone."""

    user: str
    role: str
    token_id: str
    token: str


def board_user(name: str, board: PathGiven, *, role: str = "submitter", days: float = 365) -> BoardToken:
    """Add a user to a board with hidden benchmarks; an existing one gets another token.

    Args:
        name: letters, digits, dots, underscores and hyphens.
        board: the board file (TOML).
        role: reader, submitter or admin.
        days: until the token expires.

    Raises:
        TellapartError: the file has no hidden benchmarks, or the user has another role.

    >>> import tellapart as ta
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> ta.board_user("ann", board).role
    'submitter'
    """
    submissions = Submissions(_read_hidden(board))
    accounts = submissions.accounts
    try:
        accounts.add(name, role, by="command line")  # type: ignore[arg-type]  # checked there
    except RefusedError as refused:
        if refused.status != 409:
            raise
        if (current := accounts.role(name)) != role:  # the token would allow more, or less, than `role`
            why = f"{name} has the role {current}, not {role}"
            raise DataError(f"{why}; name role={current}, or another user") from refused
    token_id, token = accounts.issue(name, days=days, by="command line")
    submissions.state.note_counters()
    return BoardToken(name, role, token_id, token)


def board_backup(target: PathGiven, board: PathGiven) -> BackedUp:
    """Copy the state of a board's hidden benchmarks: accounts, files, truths, the secret. The board may be running.

    Args:
        target: the backup's folder: a new one, or an empty one.
        board: the board file (TOML).

    Raises:
        DataError: the file has no hidden benchmarks, or the folder holds something.

    >>> import tellapart as ta
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> _ = ta.board_user("ann", board)
    >>> ta.board_backup(board.parent / "backup", board).files > 0
    True
    """
    to = as_path(target, "target")
    files = back_up(_read_hidden(board).submissions.state, to).files
    return BackedUp(to, len(files), sum(size for size, _ in files.values()))


def board_check(backup: PathGiven | None = None, *, board: PathGiven | None = None) -> CheckedState:
    """Check the state of a board's hidden benchmarks, or a backup of it.

    Args:
        backup: a backup's folder, instead of a board's state.
        board: the board file (TOML).

    Raises:
        DataError: neither or both are named, or the file has no hidden benchmarks.

    >>> import tellapart as ta
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> _ = ta.board_user("ann", board), ta.board_backup(board.parent / "backup", board)
    >>> ta.board_check(board.parent / "backup").problems, ta.board_check(board=board).problems
    ((), ())
    """
    if (backup is None) == (board is None):
        raise DataError("name either a backup's folder or board=FILE, to check one of them")
    if backup is not None:
        place = as_path(backup, "backup")
        return CheckedState(place, tuple(check_backup(place)))
    place = _read_hidden(board).submissions.state
    if not place.is_dir():
        return CheckedState(place, (f"there is no {place}: this board was never served",))
    return CheckedState(place, tuple(check_state(place)))


def board_accept(board: PathGiven) -> AcceptedState:
    """Take the state as it is after a part was lost or replaced, so that the board starts again.

    Raises:
        DataError: the board file has no hidden benchmarks.

    >>> import tellapart as ta
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> _ = ta.board_user("ann", board)
    >>> ta.board_accept(board).state.name
    'state'
    """
    submissions = Submissions(_read_hidden(board), accept=True)
    return AcceptedState(submissions.state.folder, dict(submissions.database.counters()))


def board_retry(board: PathGiven, files: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """Measure `failed` files again, during which the server died or had a fault; the board may be running.

    Args:
        board: a board file (TOML).
        files: ids of submissions; all that failed if None.

    Returns:
        The ids of the files that wait again.

    Raises:
        DataError: the board file has no hidden benchmarks.
        RunError: an id is not that of a failed file that is still on the server.

    >>> import tellapart as ta
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> ta.board_retry(board)
    ()
    """
    try:
        return tuple(Submissions(_read_hidden(board)).queue.retry(as_names(files, "files")))
    except RefusedError as error:
        raise RunError(f"files={quote(files)}: {error}") from error


def _read_hidden(board: PathGiven | None) -> HiddenSettings:
    path = as_board_file(board)
    settings = read_hidden(path)
    if settings is None:
        raise DataError(f"{path} has no hidden benchmarks; add a table [[hidden]] to it")
    return settings
