"""Backups of the state of hidden benchmarks, made while a board runs, and checks of a state or of a backup.

A backup is a folder: `state`, which takes the place of a state's folder as it is, and `manifest.json` with the size and
SHA-256 of each of its files. The database is copied in one transaction, before the uploads: every file that a row of it
waits for was on the disk by then. If one of them was refused and deleted meanwhile, both are copied again.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tellapart.board.submissions.database import Database
from tellapart.board.submissions.prepared import read_truth
from tellapart.board.submissions.published import read_measured
from tellapart.board.submissions.state import (
    DATABASE,
    SECRET,
    SECRET_BYTES,
    digest_of,
    find_losses,
    look_into,
    write_marker,
)
from tellapart.data.atomic import atomic_folder
from tellapart.data.rows import read_object
from tellapart.data.validation import validate_table
from tellapart.errors import StoreError, TellapartError

MANIFEST = "manifest.json"
"""The list of a backup's files."""

#: How often the database and the uploads are copied until they agree.
_MOST_TIMES = 10

_UNDER_WAY = ("received", "validated", "measuring")


class Entry(BaseModel):
    """A file of a backup: its size in bytes, and its SHA-256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int
    sha256: str


class Manifest(BaseModel):
    """When a backup was made (seconds since 1970), and its files by their paths from `state`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    made: float
    files: dict[str, Entry]


def back_up(state: Path, target: Path) -> Manifest:
    """Copy a state into a new folder, which appears when it is complete."""
    if not (state / DATABASE).is_file():
        raise StoreError(f"{state} holds no database: this board was never served, or its state is gone")
    if problem := next(find_losses(state), None):
        raise StoreError(f"{problem}; no backup was made")
    with atomic_folder(target) as draft:
        draft.chmod(0o700)
        copy = draft / "state"
        copy.mkdir(mode=0o700)
        shutil.copy2(state / SECRET, copy / SECRET)
        if (state / "hidden").is_dir():
            shutil.copytree(state / "hidden", copy / "hidden", ignore=_ignore_drafts)
        for _ in range(_MOST_TIMES):
            _copy_database(state / DATABASE, copy / DATABASE)
            _copy_uploads(state / "uploads", copy / "uploads")
            with look_into(copy / DATABASE, at_rest=True) as rows:
                if not any(_find_lost_uploads(copy, rows)):
                    break
        with look_into(copy / DATABASE, at_rest=True) as rows:
            write_marker(copy, (copy / SECRET).read_bytes(), Database.read_counters(rows))
        if problem := next(check_state(copy, at_rest=True), None):
            raise StoreError(f"{problem}; no backup was made")
        files = {
            path.relative_to(copy).as_posix(): Entry(bytes=path.stat().st_size, sha256=digest_of(path))
            for path in sorted(copy.rglob("*"))
            if path.is_file()
        }
        manifest = Manifest(made=time.time(), files=files)
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    target.chmod(0o700)
    return manifest


def _copy_database(path: Path, copy: Path) -> None:
    copy.touch(mode=0o600)
    try:
        with closing(sqlite3.connect(path, timeout=30)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file: the board switches it back
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be copied: {error}") from error


def _copy_uploads(uploads: Path, copy: Path) -> None:
    """Copy the files that were sent, but for those that are deleted meanwhile."""
    copy.mkdir(mode=0o700, exist_ok=True)
    for folder in uploads.glob("[!.]*/"):
        try:
            shutil.copytree(folder, copy / folder.name, dirs_exist_ok=True)
        except OSError:
            if folder.exists():
                raise
            shutil.rmtree(copy / folder.name, ignore_errors=True)


def _ignore_drafts(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name.startswith(".") or name.endswith(".part")}


def check_backup(folder: Path) -> Iterator[str]:
    """Yield the faults of a backup, in a line each."""
    if not (folder / MANIFEST).exists():
        yield f"{folder} is no backup (no {MANIFEST}); check a board's state with --board {folder}/board.toml"
        return
    try:
        manifest = validate_table(Manifest, read_object(folder / MANIFEST), str(folder / MANIFEST))
    except TellapartError as error:
        yield str(error)
        return
    state, changed = folder / "state", False
    files = {path.relative_to(state).as_posix() for path in state.rglob("*") if path.is_file()}
    for name in sorted(files | manifest.files.keys()):
        if name not in manifest.files:
            yield f"{state / name} is not of this backup"
        elif name not in files:
            yield f"{state / name} is gone"
        elif digest_of(state / name) != manifest.files[name].sha256:
            yield f"{state / name} was changed: its SHA-256 is not the manifest's"
        else:
            continue
        changed = True
    if not changed:
        yield from check_state(state, at_rest=True)


def check_state(state: Path, *, at_rest: bool = False) -> Iterator[str]:
    """Yield the faults of a state, in a line each."""
    losses = list(find_losses(state, at_rest=at_rest))
    yield from losses
    if (state / SECRET).exists() and (state / SECRET).stat().st_size != SECRET_BYTES:
        yield f"{state / SECRET} is not a secret that this server made"
    marks: dict[str, str] = {}
    try:
        with look_into(state / DATABASE, at_rest=at_rest) as rows:
            marks = Database.read_marks(rows)
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
        if row["state"] in _UNDER_WAY and not any((state / "uploads" / row["id"]).glob("sent*")):
            again = "SELECT state FROM submission WHERE id = ?"
            if rows.execute(again, (row["id"],)).fetchone()[0] in _UNDER_WAY:  # not ended meanwhile
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
