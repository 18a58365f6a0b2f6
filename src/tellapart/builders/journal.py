"""The journal of a build: one SQLite file next to its output, with every candidate's outcome and the images of items.

A build that was stopped in any way reads its journal and continues. Each outcome is written atomically, under its
candidate's id. One process at a time opens the file, and a finished build removes it. Outcomes and images are stored
with their SHA-256: one that no longer fits its digest is made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tellapart.builders.builder import Failed, Made, Outcome, Rejected
from tellapart.data.item import Item
from tellapart.data.strict_json import parse_json
from tellapart.data.validation import describe_changes
from tellapart.errors import DataError, RunError, first_line, plain

_log = logging.getLogger(__name__)

#: Seconds between two commits: the most work that is lost when the process is killed.
_COMMIT_PERIOD = 0.5

# In the column `told`: the fields of an outcome as JSON (`_to_fields`).
_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcome (id TEXT PRIMARY KEY, kind TEXT NOT NULL, told TEXT NOT NULL, sha256 TEXT NOT NULL)
WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS image (reference TEXT PRIMARY KEY, sha256 TEXT NOT NULL, data BLOB NOT NULL);
"""

#: The ids of final outcomes. A failure is tried again, and so is a rejected video: its missing file may come later.
_DECIDED = """
SELECT id FROM outcome WHERE kind != 'failed' AND NOT (kind = 'rejected' AND told LIKE '{"step": "video",%')
"""

#: SQLite's errors of the disk and of the memory; other errors mean that the file is damaged.
_DISK_ERRORS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_DISK_ERRORS |= {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM}

#: The most characters of a refused text that are stored.
_MOST_CHARACTERS = 500


def journal_of(out: Path) -> Path:
    """Return the path of a build's journal: next to the folder or the file that the build writes."""
    folder = out.resolve()  # "." has no name
    return folder.with_name(f".{folder.name}.journal")


class Journal:
    """The outcomes of one recipe's candidates, on disk."""

    def __init__(self, path: Path, fingerprint: str, facts: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self._file = _open_database(path)
        begun = str(path.stat().st_mtime_ns)
        try:
            # EXCLUSIVE: a second process would do the work twice. FULL: a commit returns when it is on the disk.
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript("BEGIN EXCLUSIVE;" + _TABLES + "COMMIT;")
            if not self.decided_ids():  # no work would be lost: a corrected recipe may take the file over
                self._file.executescript("BEGIN; DELETE FROM outcome; DELETE FROM image; DELETE FROM about; COMMIT;")
            self._file.execute("INSERT OR IGNORE INTO about VALUES ('fingerprint', ?)", (fingerprint,))
            self._file.execute("INSERT OR IGNORE INTO about VALUES ('facts', ?)", (json.dumps(facts or {}),))
            self._file.execute("INSERT OR IGNORE INTO about VALUES ('begun', ?)", (begun,))
            about = dict(self._file.execute("SELECT key, value FROM about"))
            # `begun` is in nanoseconds, by the clock of the file system, which also dates the sources of items.
            owner, self.begun = about["fingerprint"], int(about["begun"])
        except (sqlite3.DatabaseError, ValueError) as error:
            self._file.close()
            if "locked" in str(error):
                fault = "is held by another build that is at work; wait for it, or name another out="
            else:
                fault = f"is no journal of a build ({error}); name another out= (or pairs=), or delete it"
            raise _disk_error(path, error, RunError(f"{path} {fault}")) from error
        if owner != fingerprint:
            self._file.close()
            then = parse_json(about["facts"], path, error=RunError)
            differing = describe_changes(then, facts or {}) or f"{owner}, now {fingerprint}"
            cause = f"another recipe, other inputs or another version ({differing})"
            fix = "name another out= (or pairs=), or delete it to begin again"
            raise RunError(f"{path} was begun with {cause}; {fix}")
        self._committed = time.monotonic()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit the recorded outcomes, and release the file."""
        if self._closed:
            return
        self._closed = True
        try:
            self.commit()
        finally:
            self._file.close()

    def commit(self) -> None:
        """Write the recorded outcomes to the disk."""
        if self._file.in_transaction:
            self._write_rows("COMMIT")
        self._committed = time.monotonic()

    def record(self, name: str, outcome: Outcome | dict[str, Any]) -> None:
        """Record a candidate's outcome, or a caption's row, in place of an earlier one."""
        if not self._file.in_transaction:
            self._write_rows("BEGIN")
        if isinstance(outcome, Made):
            for reference, data in outcome.images.items():
                self._record_image(name, reference, data)
        kind = type(outcome).__name__.lower()
        fields = json.dumps(_to_fields(outcome), ensure_ascii=False, allow_nan=False)
        digest = _digest_outcome(name, kind, fields)
        self._write_rows("INSERT OR REPLACE INTO outcome VALUES (?, ?, ?, ?)", name, kind, fields, digest)
        if time.monotonic() - self._committed >= _COMMIT_PERIOD:
            self.commit()

    def _record_image(self, name: str, reference: str, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        with _explain_errors(self.path):
            row = self._file.execute("SELECT sha256 FROM image WHERE reference = ?", (reference,)).fetchone()
        if row is None:
            self._write_rows("INSERT INTO image VALUES (?, ?, ?)", reference, digest, data)
        elif row[0] != digest:
            raise DataError(f"item {name!r}: another item has another image under {reference!r}; give them two names")

    def _write_rows(self, statement: str, *values: str | bytes) -> None:
        with _explain_errors(self.path):
            self._file.execute(statement, values)

    def drop_damaged(self) -> list[str]:
        """Delete outcomes that differ from their digests, or whose images do, with a warning; return the ids."""
        with _explain_errors(self.path):
            intact = set()
            changed_rows = []
            for row, reference, digest, data in self._file.execute("SELECT rowid, reference, sha256, data FROM image"):
                if isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == digest:
                    intact.add(reference)
                else:
                    changed_rows.append((row,))
            damaged = [
                name
                for name, kind, fields, digest in self._file.execute("SELECT id, kind, told, sha256 FROM outcome")
                if _digest_outcome(name, kind, fields) != digest or not _images_of(kind, fields) <= intact
            ]
            if damaged or changed_rows:
                self._file.execute("BEGIN")
                self._file.executemany("DELETE FROM outcome WHERE id = ?", [(name,) for name in damaged])
                self._file.executemany("DELETE FROM image WHERE rowid = ?", changed_rows)
                self._file.execute("COMMIT")
        if damaged:
            count, first = len(damaged), plain(str(damaged[0]))
            _log.warning("%s is damaged: %d outcomes, first %s's, are made again", plain(str(self.path)), count, first)
        return [str(name) for name in damaged]

    def decided_ids(self) -> set[str]:
        """Return the ids of candidates that became items or were rejected; others will be tried again."""
        with _explain_errors(self.path):
            return {name for (name,) in self._file.execute(_DECIDED)}

    def outcome(self, name: str) -> Any:
        """Return a candidate's outcome, or a caption's row; an item comes without its images' bytes."""
        with _explain_errors(self.path):
            row = self._file.execute("SELECT kind, told, sha256 FROM outcome WHERE id = ?", (name,)).fetchone()
        if row is None or _digest_outcome(name, *row[:2]) != row[2]:
            raise _damage_error(self.path, f"{'no' if row is None else 'the'} outcome of {name!r:.80}")
        kind, fields = row[0], json.loads(row[1])
        if kind == "made":
            return Made(Item.model_validate(fields["item"]), {}, tuple(fields["redrawn"]))
        return {"rejected": Rejected, "failed": Failed, "dict": dict}[kind](**fields)

    def images(self, references: set[str]) -> JournalImages:
        """Return some of the images, each read from the file when it is asked for."""
        return JournalImages(self.path, self._file, references)

    def remove(self) -> None:
        """Close the journal and delete its file."""
        self.close()
        self.path.unlink()


def count_decided(path: Path) -> int:
    """Return how many candidates a journal holds that became items or were rejected; 0 if the journal is missing."""
    if not path.is_file():
        return 0
    file = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        return len(file.execute(_DECIDED).fetchall())
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # held by another build, or no journal
        return 0
    finally:
        file.close()


class JournalImages(Mapping[str, bytes]):
    """Images of a journal by reference, as `write_pair_set` takes them; one at a time is in memory."""

    def __init__(self, path: Path, file: sqlite3.Connection, references: set[str]) -> None:
        self._path, self._file = path, file
        self._references = references

    def __getitem__(self, reference: str) -> bytes:
        if reference not in self._references:
            raise KeyError(reference)
        with _explain_errors(self._path):
            query = "SELECT sha256, data FROM image WHERE reference = ?"
            digest, data = self._file.execute(query, (reference,)).fetchone() or ("", b"")
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != digest:
            raise _damage_error(self._path, f"the image {reference!r:.80}")
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._references))

    def __len__(self) -> int:
        return len(self._references)


def _open_database(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()  # names the reason why it cannot be written, which SQLite does not
    except OSError as error:
        raise RunError(f"{path} cannot be written ({error.strerror}); name another out= (or pairs=)") from error
    return sqlite3.connect(path, timeout=0.2, isolation_level=None)


def _to_fields(outcome: Outcome | dict[str, Any]) -> dict[str, Any]:
    """Return an outcome as JSON types, without images."""
    if isinstance(outcome, Made):
        return {"item": outcome.item.model_dump(mode="json"), "redrawn": list(outcome.redrawn)}
    if isinstance(outcome, Rejected):
        text = {"text": outcome.text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()} if outcome.text else {}
        return {"step": outcome.step, "reason": outcome.reason, **text}
    return {"error": outcome.error} if isinstance(outcome, Failed) else outcome


def _digest_outcome(*columns: object) -> str:
    """Return the SHA-256 of an outcome's id, kind and fields; empty if one of them is not a text, which is damage."""
    texts = [column for column in columns if isinstance(column, str)]
    if len(texts) < len(columns):
        return ""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def _images_of(kind: str, fields: str) -> set[str]:
    """Return the references of an undamaged outcome's images."""
    if kind != "made":
        return set()
    item = Item.model_validate(json.loads(fields)["item"])
    return {*item.images, *item.masks}


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as a `RunError` that names the journal."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _disk_error(path, error, _damage_error(path, first_line(error))) from error


def _disk_error(path: Path, error: sqlite3.Error | ValueError, other: RunError) -> RunError:
    """Return an error that names the disk, such as a full one, if the disk is the cause; else the other error."""
    primary_code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bytes extend it
    if primary_code not in _DISK_ERRORS:
        return other
    why = first_line(error)
    return RunError(f"{path} cannot be written ({why}); its content is kept: make room, and run it again to go on")


def _damage_error(path: Path, what: str) -> RunError:
    return RunError(f"{path} is damaged ({what}); run it again, or delete it to begin again")
